"""The figures of a study on its page: heading, picture, a sentence on what one sees, and a link to its numbers."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.gallery.captions import markdown
from bnn_atlas.gallery.escape import plain
from bnn_atlas.gallery.pictures import shrink
from bnn_atlas.gallery.tables import method_tables

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
    """Copy the files of the figures that are small enough, and return what the page shows of each figure.

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
    """Copy a CSV file that is small enough and return its name; for others return its number of rows and megabytes."""
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
