"""The page of a study in Markdown: README.md, and pages with all claims, figures, scores and machines."""

import shutil
from pathlib import Path

from bnn_atlas.claims.plan import IDENTITIES
from bnn_atlas.report.pictures import shrink
from bnn_atlas.report.text import READ_IN, counted, in_order, write
from bnn_atlas.report.view import REACH, StudyView

PAGES = {"page": "README.md", "claims": "claims.md", "figures": "figures.md", "scores": "scores.md",
         "machines": "machines.md"}  # fmt: skip
"""Template -> file."""
MOST_OPEN = 15
"""Largest number of claims in each table of the first page."""


def write_page(folder: Path, view: StudyView, shrunk: bool = True) -> None:
    """Write the pages of a study into a folder, with its tables and its pictures, `shrunk` or as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(view.run_table, folder / "runs.csv")
    if view.judged is not None:
        flat = view.judged.assign(
            reductions=["; ".join(texts) for texts in view.judged["reductions"]],
            rows=["; ".join(claim.rows) for claim in view.claims],
            origin=[claim.origin for claim in view.claims],
        )
        flat.to_csv(folder / "claims.csv", index=False, lineterminator="\n", float_format="%.6g")
    if view.summary.small:
        shutil.copyfile(view.summary.file, folder / "summary.csv")
    for figure in view.figures:
        if figure.picture:
            (shrink if shrunk else shutil.copyfile)(figure.picture, folder / f"{figure.name}.png")
        small = figure.numbers.file if figure.numbers and figure.numbers.small else None
        for copied in filter(None, (figure.latex, small)):
            shutil.copyfile(copied, folder / copied.name)
    if view.forest:
        write(
            folder / "forest.svg",
            "forest.svg.j2",
            forest=view.forest,
            reach=REACH,
            words=READ_IN,
            counted=counted,
            of=in_order,
        )
    known = {"view": view, "identities": IDENTITIES, "counted": counted, "read_in": READ_IN, "most": MOST_OPEN}
    for template, file in PAGES.items():
        write(folder / file, f"{template}.md.j2", **known)
