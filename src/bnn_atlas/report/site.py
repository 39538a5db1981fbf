"""The site of all studies: a start page and, for each study, pages of its claims, figures and runs."""

import json
from pathlib import Path

from bnn_atlas.claims.plan import IDENTITIES
from bnn_atlas.report.pictures import shrink
from bnn_atlas.report.text import KINDS, READ_IN, counted, write
from bnn_atlas.report.view import OUTCOMES, Card, StudyView

MOST_UNFOLDED = 10
"""Largest number of claims in each table of a study's page that are shown without a click."""
ENTRY = "start.json"
"""File in the folder of a study with what the start page says about it."""


def write_site(folder: Path, view: StudyView) -> None:
    """Write the HTML pages of a study into the folder of its page (`page.write_page`), whose pictures they show."""
    known = {
        "view": view,
        "identities": IDENTITIES,
        "kinds": KINDS,
        "outcomes": OUTCOMES,
        "read_in": READ_IN,
        "counted": counted,
        "most": MOST_UNFOLDED,
        "root": "../",
    }
    write(folder / "index.html", "study.html.j2", **known)
    write(folder / "claims.html", "claims.html.j2", **known)
    for figure in view.figures:
        write(folder / f"figure-{figure.name}.html", "figure.html.j2", figure=figure, **known)
    for run in view.runs:
        for split, picture in run.diagnostics.items():
            shrink(picture, folder / f"diagnostics-{run.name}-split{split}.png")
        write(folder / f"run-{run.name}.html", "run.html.j2", run=run, **known)
    entry = {
        "name": view.name,
        "title": view.title,
        "paper": view.paper,
        "scale": view.scale,
        "counts": [
            {"title": one.title, "total": one.total, "reduced": one.reduced, "parts": one.parts} for one in view.counts
        ],
        "findings": {title: [_told(card) for card in view.cards if card.outcome == title] for title in OUTCOMES},
        "elsewhere": [
            {"outcome": card.outcome, "statement": card.statement, "claim": {"mark": card.claim.mark}}
            for card in view.elsewhere
        ],
        "answers": (view.answers or view.sentence) if view.count_here else "",
        "extent": view.extent,
    }
    (folder / ENTRY).write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")


def write_start(folder: Path) -> None:
    """Write the start page for the studies whose pages are in a folder, and the style sheet of all pages."""
    files = sorted(folder.glob(f"*/{ENTRY}"))
    entries = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    known = {"kinds": KINDS, "outcomes": OUTCOMES, "counted": counted, "root": ""}
    write(folder / "index.html", "start.html.j2", studies=entries, **known)
    write(folder / "style.css", "style.css.j2")


def _told(card: Card) -> str:
    """A finding on the start page, after its outcome: its claims, and of which problem its main claim speaks."""
    behind = f" ({card.behind})" if len(card.verdicts) > 1 else ""
    identity = f" ({card.claim.identity})" if card.claim.identity else ""
    return f"{behind}: {card.statement}{identity}"
