"""The figures of a study as readers see them: heading, picture, what one sees, how to read it, and their numbers."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bnn_atlas.figures.hmc_posteriors.agreement import CEILING, TWO_VERSIONS
from bnn_atlas.figures.metadata import CHUNK, read_provenance
from bnn_atlas.figures.page import SIGN
from bnn_atlas.files import atomic
from bnn_atlas.provenance import Provenance
from bnn_atlas.report.scores import METRICS
from bnn_atlas.report.text import with_error

COLOURS = 256
MARKUP = (
    (r"\\\s", ""),  # an escaped space only separates markup from text
    (r":sub:`([^`]*)`", r"<sub>\1</sub>"),
    (r":sup:`([^`]*)`", r"<sup>\1</sup>"),
    (r"``([^`]*)``", r"`\1`"),
)
"""Patterns of reStructuredText in captions, and their replacement in Markdown."""
WIDTH = 1300
"""Largest width of a picture, in pixels."""
LARGEST = 500_000
"""Largest size of a CSV file in bytes; a larger one is left out, and the page says how many rows it has."""
BEST, DISTRUSTED = " *", f" {SIGN}"
KEY = {BEST: "* the best mean", DISTRUSTED: f"{SIGN} not to be trusted, for the reasons in the LaTeX file"}
"""Ending of a cell -> what it says."""
COLUMNS = {"metric", "method", "dataset", "mean", "sd", "mean_rank", "best", "distrusted"}
"""Columns of a CSV file that is shown as a table of methods by data sets."""
COMPARED = {"label", "metric", "value", "error", "published", "distrusted"}
"""Columns of one that is shown as a table of labels by metrics, next to published numbers."""


class Numbers(NamedTuple):
    """A CSV file of which a page has a copy, unless it is too large."""

    file: Path
    rows: int

    @property
    def small(self) -> bool:
        """Whether the page has a copy."""
        return self.file.stat().st_size <= LARGEST

    @property
    def megabytes(self) -> float:
        """Size of the file."""
        return round(self.file.stat().st_size / 1e6, 1)


class Table(NamedTuple):
    """Scores of methods by data set, or by metric."""

    metric: str
    header: list[str]
    rows: list[list[str]]
    """Cells end with `BEST` and `DISTRUSTED` where that applies."""


class Figure(NamedTuple):
    """One figure."""

    name: str
    title: str
    seen: str
    """The first paragraph of its caption, in Markdown."""
    text: str
    """What the study's file adds."""
    reading: str
    """The rest of the caption, the notes, and what the scale reduces, in Markdown."""
    picture: Path | None
    latex: Path | None
    numbers: Numbers | None
    tables: list[Table]
    provenance: Provenance | None
    """None for a picture that does not say where it comes from."""

    @property
    def key(self) -> str:
        """What the signs in the tables mean; empty without signs."""
        cells = {cell for table in self.tables for row in table.rows for cell in row}
        return "; ".join(text for sign, text in KEY.items() if any(sign in cell for cell in cells))


def figures(
    files: Sequence[str | Path], captions: Mapping[str, Mapping[str, str]], datasets: Mapping[str, str]
) -> list[Figure]:
    """Each figure that has files, in their order; `captions` and `datasets` are those of `view.study_view`."""
    by_name = {(Path(file).stem, Path(file).suffix): Path(file) for file in files}
    found = []
    for name in dict.fromkeys(stem for stem, _ in by_name):
        given = captions.get(name, {})
        caption, notes = (
            markdown(path) if part in given and (path := Path(given[part])).is_file() else ""
            for part in ("caption", "notes")
        )
        seen, _, definitions = caption.partition("\n\n")
        picture, data, latex = (by_name.get((name, ending)) for ending in (".png", ".csv", ".tex"))
        found.append(
            Figure(
                name=name,
                title=given.get("title") or name.replace("_", " "),
                seen=seen,
                text=given.get("text", ""),
                reading="\n\n".join(filter(None, (definitions, notes, _paragraph(given.get("reduced", ""))))),
                picture=picture,
                latex=latex,
                numbers=numbers(data) if data else None,
                tables=method_tables(data, datasets) if latex and data else [],
                provenance=_provenance(picture),
            )
        )
    return found


def numbers(file: Path) -> Numbers:
    """A CSV file with its number of rows."""
    with file.open("rb") as lines:
        return Numbers(file, sum(1 for _ in lines) - 1)


def markdown(path: str | Path) -> str:
    """The paragraphs of a caption or of notes as Markdown, without the paragraphs that Snakemake fills in."""
    paragraphs = Path(path).read_text(encoding="utf-8").strip().split("\n\n")
    return "\n\n".join(_paragraph(text) for text in paragraphs if not re.search(r"\{\{|\{%", text))


def shrink(source: str | Path, destination: Path, width: int = WIDTH) -> None:
    """Write a PNG at most `width` pixels wide with a palette of 256 colours: small, but legible.

    A picture that is already like that is copied. Text chunks, such as the provenance, are kept. The palette is
    spread over all colours of the picture, so that the few pixels of a mark keep theirs.
    """
    with Image.open(source) as picture:
        if picture.mode == "P" and picture.width <= width:
            shutil.copyfile(source, destination)
            return
        small, text = picture.convert("RGB"), picture.info.get(CHUNK)
    if small.width > width:
        small = small.resize((width, round(small.height * width / small.width)), Image.Resampling.LANCZOS)
    made = PngInfo()
    if text:
        made.add_text(CHUNK, text)
    with atomic(destination, flush=False) as temporary:
        reduced = small.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        reduced.save(temporary, format="PNG", optimize=True, pnginfo=made)


def method_tables(path: str | Path, titles: Mapping[str, str]) -> list[Table]:
    """One table per metric in a CSV file, with a row per method that ends with its mean rank.

    A file of labels by metrics is one table for each of its kinds of `rows`, with the published numbers beside.
    `titles` are those of the data sets. Empty if the file has other columns.
    """
    table = pd.read_csv(path)
    if set(table.columns) >= COMPARED:
        sets = table.groupby("rows", sort=False) if "rows" in table else [("", table)]
        return [_compared(part, str(rows)) for rows, part in sets]
    if not set(table.columns) >= COLUMNS:
        return []
    datasets = list(dict.fromkeys(table["dataset"]))
    header = ["method", *(titles.get(name, name) for name in datasets), "mean rank"]
    return [
        Table(METRICS.get(str(metric), f"`{metric}`"), header, _rows(part, datasets))
        for metric, part in table.groupby("metric", sort=False)
    ]


def _compared(table: pd.DataFrame, rows_of: str) -> Table:
    names = list(dict.fromkeys(table["metric"]))
    titles = [METRICS.get(name, name.replace("_", " ")) for name in names]
    rows = []
    for label, part in table.groupby("label", sort=False):
        of = part.set_index("metric").reindex(names)
        ours = [with_error(value, error, 3) for value, error in of[["value", "error"]].itertuples(index=False)]
        of_chains = "group" in part and (part["group"] == CEILING).all() and label != TWO_VERSIONS
        name = f"{label}{', single chains' if of_chains else ''}{DISTRUSTED if part['distrusted'].any() else ''}"
        rows.append([name, *ours, *(with_error(value, None, 4) for value in of["published"])])
    title = "Here, and as published" + (f": {rows_of} rows" if rows_of else "")
    return Table(title, ["", *titles, *(f"published {title}" for title in titles)], rows)


def _rows(part: pd.DataFrame, datasets: list[str]) -> list[list[str]]:
    rows = []
    for method, of_method in part.groupby("method", sort=False):
        given = zip(*(of_method[column] for column in ("dataset", "mean", "sd", "best", "distrusted")), strict=True)
        values = {
            name: with_error(mean, sd, 3) + (BEST if best else "") + (DISTRUSTED if distrusted else "")
            for name, mean, sd, best, distrusted in given
        }
        rank = with_error(of_method["mean_rank"].iloc[0], None, 2)
        rows.append([str(method), *(values.get(name, "") for name in datasets), rank])
    return rows


def _paragraph(text: str) -> str:
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text)
    return re.sub(r"\s+", " ", text.strip())


def _provenance(picture: Path | None) -> Provenance | None:
    try:
        return read_provenance(picture) if picture else None
    except ValueError:
        return None
