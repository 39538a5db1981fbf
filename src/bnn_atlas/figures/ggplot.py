"""Figures drawn by R's ggplot2 from data that Python passes in memory."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import matplotlib as mpl
import pandas as pd

from bnn_atlas.figures import page
from bnn_atlas.figures.metadata import pdf_info, png_text, stamp_pdf, stamp_png
from bnn_atlas.figures.r_setup import RCODE, available, r_files
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import atomic
from bnn_atlas.provenance import Provenance


class RError(RuntimeError):
    """R could not draw a figure; the message names the function, its file and what R said."""


class RWarning(UserWarning):
    """R drew a figure and warned."""


def to_r(frame: pd.DataFrame) -> Any:
    """An R data.frame: text becomes character, categories become factors in their order, missing numbers NA or NaN."""
    robjects, converter = _bridge()
    with converter.context():
        return robjects.conversion.get_conversion().py2rpy(frame.reset_index(drop=True))


def from_r(frame: Any) -> pd.DataFrame:
    """The data frame of an R data.frame; missing whole numbers and text are missing here too."""
    robjects, converter = _bridge()
    with converter.context():
        result = robjects.conversion.get_conversion().rpy2py(frame)
    for name, column in result.items():
        if column.dtype.kind == "i":
            # R marks a missing integer by the smallest one.
            result[name] = column.astype("Int64").mask(column == robjects.NA_Integer)
        elif column.dtype.kind not in "fb":
            result[name] = column.mask([value is robjects.NA_Character for value in column])
    return result.reset_index(drop=True)


class RDrawing(NamedTuple):
    """What a kind of figure that R draws returns: the name of the R function, and the data and settings it takes.

    Settings are text, numbers, booleans, None, or sequences of one of these. The function returns what Rcode/draw.R
    describes.
    """

    function: str
    data: pd.DataFrame
    settings: Mapping[str, Any] = MappingProxyType({})
    folder: Path = RCODE
    """The folder with the file named after the function and the files that it includes, such as Rcode/draw.R."""

    def write(self, outputs: Iterable[str | Path], shown: Sequence[Shown], provenance: Provenance) -> None:
        """Let R draw the figure, and write it as PDF, PNG and CSV with its provenance.

        The files are the same bytes on every run; all three appear together at the end. Runs that should not be trusted
        are named above the panels. A warning of R becomes an RWarning. Raises RError.
        """
        pdf_file, png_file, csv_file = page.FigureOutputs.of(outputs)
        robjects, _ = _bridge()
        scope = robjects.baseenv["new.env"](parent=robjects.globalenv)
        files = r_files(self.function, self.folder)
        for file in files:
            _source(file, scope, robjects)
        where = f"the R function '{self.function}' ({files[-1].name})"
        for name in (self.function, "draw_figure"):
            if name not in scope:
                raise RError(f"{where}: no function '{name}' in {', '.join(file.name for file in files)}")
        title = pdf_file.stem
        with atomic(pdf_file) as pdf, atomic(png_file) as png, atomic(csv_file) as csv:
            result = scope["draw_figure"](
                scope[self.function],
                to_r(self.data),
                _r_list(self.settings, robjects),
                png=str(png),
                pdf=str(pdf),
                title=title,
                note=page.scale_note(provenance),
                head=page.sign_text(page.trusted(shown), signed=False),
                fonts=_r_list(_fonts(), robjects),
            )
            parts = dict(zip(result.names, result, strict=True))
            if "error" in parts:
                raise RError(f"{where}: {parts['error'][0]} (in {parts['call'][0]})")
            for message in parts["warnings"]:
                warnings.warn(f"{where}: {message}", RWarning, stacklevel=2)
            page.write_csv(csv, from_r(parts["data"]))
            stamp_png(png, png_text(title, provenance))
            stamp_pdf(pdf, pdf_info(title, provenance))


def _bridge() -> tuple[Any, Any]:
    """R in this process, started at the first use, and the converter for data frames."""
    if missing := available():
        raise RError(str(missing))
    os.environ.setdefault("RPY2_CFFI_MODE", "ABI")
    before = os.environ.get("LD_LIBRARY_PATH")
    from rpy2 import robjects
    from rpy2.robjects import pandas2ri

    # R adds the system's library folders when it starts, which would mislead programs that are started from here.
    if before is None:
        os.environ.pop("LD_LIBRARY_PATH", None)
    else:
        os.environ["LD_LIBRARY_PATH"] = before
    return robjects, robjects.default_converter + pandas2ri.converter


def _source(file: Path, scope: Any, robjects: Any) -> None:
    """Load an R file into an environment."""
    from rpy2.rinterface_lib.embedded import RRuntimeError

    try:
        robjects.baseenv["sys.source"](str(file), scope)
    except RRuntimeError as error:
        raise RError(f"{file.name}: R cannot load it: {str(error).strip()}") from None


def _r_list(values: Mapping[str, Any], robjects: Any) -> Any:
    """A named R list; None becomes NULL, a sequence a vector."""
    vectors: dict[type, Any] = {
        bool: robjects.BoolVector,
        int: robjects.IntVector,
        float: robjects.FloatVector,
        str: robjects.StrVector,
    }
    entries: dict[str, Any] = {}
    for key, value in values.items():
        items = list(value) if isinstance(value, list | tuple) else [value]
        kinds = {type(item) for item in items}
        if value is None:
            entries[key] = robjects.NULL
        elif len(kinds) == 1 and (kind := kinds.pop()) in vectors:
            entries[key] = vectors[kind](items)
        else:
            raise TypeError(
                f"setting '{key}' = {value!r}: R takes text, numbers, booleans, None, or a list of one kind"
            )
    return robjects.ListVector(entries)


def _fonts() -> dict[str, str]:
    """The font files that matplotlib ships, so that both kinds of figure look alike on every machine."""
    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    faces = {"plain": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf", "italic": "DejaVuSans-Oblique.ttf"}
    return {face: str(folder / file) for face, file in faces.items()}
