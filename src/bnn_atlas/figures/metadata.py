"""Provenance inside figure files: a tEXt chunk in a PNG, the keywords in a PDF."""

import re
from collections.abc import Mapping
from pathlib import Path

from PIL import Image, UnidentifiedImageError
from PIL.PdfParser import PdfFormatError, PdfParser
from PIL.PngImagePlugin import PngInfo

from bnn_atlas.provenance import Provenance

CHUNK = "Provenance"
"""Key of the PNG text chunk."""

_PDF_DATE = re.compile(rb"(/(?:CreationDate|ModDate) \(D:)(\d{14})")
_EPOCH = b"19700101000000"


def png_text(title: str, provenance: Provenance) -> dict[str, str]:
    """The text chunks of a PNG."""
    return {"Title": title, CHUNK: provenance.to_json()}


def pdf_info(title: str, provenance: Provenance) -> dict[str, str]:
    """The document information of a PDF; `Keywords` is the field that every PDF tool shows and keeps."""
    return {"Title": title, "Creator": f"BNN Atlas {provenance.version}", "Keywords": provenance.to_json()}


def stamp_png(path: Path, text: Mapping[str, str]) -> None:
    """Add text chunks to the PNG at `path`, in place; its pixels and resolution do not change."""
    info = PngInfo()
    for key, value in text.items():
        info.add_text(key, value)
    with Image.open(path) as image:
        image.load()
        image.save(path, format="PNG", pnginfo=info, dpi=image.info.get("dpi"), optimize=True)


def stamp_pdf(path: Path, info: Mapping[str, str]) -> None:
    """Set document information of the PDF at `path`, in place, and make its dates 1970 so that reruns agree.

    The file keeps what it has and gets one more section (an incremental update, PDF 32000-1:2008, 7.5.6). Its version
    must be below 1.5, as written by R's `pdf` device and matplotlib, since later versions may have dates in packed
    objects.
    """
    path.write_bytes(_PDF_DATE.sub(rb"\g<1>" + _EPOCH, path.read_bytes()))
    with PdfParser(str(path), mode="r+b") as pdf:
        pdf.start_writing()
        for key, value in info.items():
            pdf.info[key.encode("ascii")] = value.encode("ascii")
        pdf.write_xref_and_trailer()


def read_provenance(path: str | Path) -> Provenance:
    """Provenance in the PNG or PDF at `path`; ValueError if there is none."""
    file = Path(path)
    try:
        if file.suffix == ".png":
            with Image.open(file) as image:
                text = image.info.get(CHUNK)
        elif file.suffix == ".pdf":
            with PdfParser(str(file)) as pdf:
                text = pdf.info.Keywords if b"Keywords" in pdf.info else None
        else:
            raise ValueError(f"{file}: provenance is kept in .png and .pdf files, not in '{file.suffix}'")
    except (UnidentifiedImageError, PdfFormatError) as error:
        raise ValueError(f"{file}: not a readable figure ({error})") from None
    if text is None:
        raise ValueError(f"{file}: holds no provenance; it was not written by this pipeline")
    return Provenance.from_json(str(text))
