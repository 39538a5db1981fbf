"""The figures of a study on its page: heading, picture, a sentence on what one sees, and a link to its numbers."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from bnn_atlas.files import atomic
from bnn_atlas.gallery.escape import cell, plain
from bnn_atlas.gallery.numbers import METRICS, with_sd

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


def figure_parts(
    folder: Path,
    files: Sequence[str | Path],
    captions: Mapping[str, Mapping[str, str]],
    datasets: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Copy those files that are small enough, and return what the page shows of each figure.

    These are `name`, `title`, `seen` (the first paragraph of the caption), its own `text`, `reading` (the rest of the
    caption and the notes), and `picture`, `latex`, `tables` and `data`, None if missing. `captions` and `datasets` are
    as in `write_gallery`.
    """
    shown = []
    by_name = {(Path(file).stem, Path(file).suffix): Path(file) for file in files}
    for name in dict.fromkeys(stem for stem, _ in by_name):
        figure: dict[str, Any] = dict.fromkeys(("picture", "latex", "tables"), None)
        figure |= {"name": name, **_texts(name, captions.get(name, {}))}
        if picture := by_name.get((name, ".png")):
            shrink(picture, folder / picture.name, WIDTH)
            figure["picture"] = picture.name
        data = by_name.get((name, ".csv"))
        if table := by_name.get((name, ".tex")):
            shutil.copyfile(table, folder / table.name)
            figure |= {"latex": table.name, "tables": method_tables(data, datasets) if data else []}
        shown.append(figure | {"data": copied(data, folder / data.name) if data else {"file": None, "rows": ""}})
    return shown


def copied(data: Path, destination: Path) -> dict[str, Any]:
    """Copy a CSV file that is small enough and return its name; for a larger one, return its rows and megabytes."""
    size = data.stat().st_size
    if size <= LARGEST:
        shutil.copyfile(data, destination)
        return {"file": destination.name}
    with data.open(encoding="utf-8") as lines:
        rows = sum(1 for _ in lines) - 1
    return {"file": None, "rows": f"{rows:,}", "megabytes": round(size / 1e6, 1)}


def _texts(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Heading and texts of a figure in Markdown; missing texts are empty."""
    caption, notes = (
        markdown(path) if part in given and (path := Path(given[part])).is_file() else ""
        for part in ("caption", "notes")
    )
    seen, _, definitions = caption.partition("\n\n")
    return {
        "title": plain(given.get("title") or name.replace("_", " ")),
        "seen": seen,
        "text": plain(given.get("text", "")),
        "reading": "\n\n".join(filter(None, (definitions, notes))),
    }


def markdown(path: str | Path) -> str:
    """The paragraphs of a caption or of notes as Markdown, without the paragraphs that Snakemake fills in."""
    paragraphs = Path(path).read_text(encoding="utf-8").strip().split("\n\n")
    return "\n\n".join(_paragraph(text) for text in paragraphs if not re.search(r"\{\{|\{%", text))


def _paragraph(text: str) -> str:
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text)
    return re.sub(r"\s+", " ", text.strip())


def shrink(source: str | Path, destination: Path, width: int) -> None:
    """Write a PNG at most `width` pixels wide, with a palette of 256 colours: small, with legible text.

    A picture that is already like that is copied unchanged.
    """
    with Image.open(source) as picture:
        if picture.mode == "P" and picture.width <= width:
            shutil.copyfile(source, destination)
            return
        small = picture.convert("RGB")
    if small.width > width:
        small = small.resize((width, round(small.height * width / small.width)), Image.Resampling.LANCZOS)
    with atomic(destination) as temporary:
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(temporary, format="PNG", optimize=True)


COLUMNS = {"metric", "method", "dataset", "mean", "sd", "mean_rank", "best"}
"""Columns of a CSV file with such a table."""


def method_tables(path: str | Path, titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """One table per metric in a CSV file: name, header, and one row per method with the mean rank at the end.

    The best mean of each data set is bold. `titles` are the titles of the data sets. Empty if the file has other
    columns.
    """
    table = pd.read_csv(path)
    if not set(table.columns) >= COLUMNS:
        return []
    datasets = list(dict.fromkeys(table["dataset"]))
    header = ["method", *(cell(titles.get(name, name)) for name in datasets), "mean rank"]
    return [
        {"metric": METRICS.get(str(metric), f"`{metric}`"), "header": header, "rows": _rows(part, datasets)}
        for metric, part in table.groupby("metric", sort=False)
    ]


def _rows(part: pd.DataFrame, datasets: list[str]) -> list[list[str]]:
    rows = []
    for method, of_method in part.groupby("method", sort=False):
        given = zip(*(of_method[column] for column in ("dataset", "mean", "sd", "best")), strict=True)
        values = {
            dataset: f"**{with_sd(mean, sd, 3)}**" if best else with_sd(mean, sd, 3)
            for dataset, mean, sd, best in given
        }
        rank = of_method["mean_rank"].iloc[0]
        rows.append([cell(str(method)), *(values.get(name, "") for name in datasets), with_sd(rank, None, 2)])
    return rows
