"""Figures in the size of a web page."""

from pathlib import Path

from PIL import Image

from bnn_atlas.files import atomic

COLOURS = 256


def shrink(source: str | Path, destination: Path, width: int) -> None:
    """Write a PNG at most `width` pixels wide and with a palette of 256 colours: small, and its text stays legible."""
    with Image.open(source) as picture:
        small = picture.convert("RGB")
    if small.width > width:
        small = small.resize((width, round(small.height * width / small.width)), Image.Resampling.LANCZOS)
    with atomic(destination) as temporary:
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(temporary, format="PNG", optimize=True)
