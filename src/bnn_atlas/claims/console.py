"""Verdicts as text on the console."""

import csv
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from bnn_atlas.claims.rules import Verdict

HEADER = ("claim", "paper", "ours", "verdict")

Row = Mapping[str, str]
"""A row of the claims.csv of a study's page."""


def read_rows(path: str | Path) -> list[Row]:
    """The claims of a study in order; empty if the file does not exist."""
    if not Path(path).is_file():
        return []
    with Path(path).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def verdict_lines(rows: Collection[Row], claims: Collection[str]) -> list[str]:
    """A table of some claims with the columns name, paper's number or limit, measured number, and verdict."""
    chosen = [_cells(row) for row in rows if row["claim"] in claims]
    widths = [max(len(line[column]) for line in (HEADER, *chosen)) for column in range(len(HEADER) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]])
        for line in (HEADER, *chosen)
    ]


def count_line(rows: Collection[Row]) -> str:
    """The number of claims with each verdict."""
    counted = Counter(row["verdict"] for row in rows)
    return ", ".join(f"{counted[verdict]} {verdict}" for verdict in map(str, Verdict) if counted[verdict])


def _cells(row: Row) -> tuple[str, str, str, str]:
    reason = f": {row['reason']}" if row["reason"] else ""
    return row["claim"], row["paper_text"] or row["relation"].replace("_", " "), row["here"], row["verdict"] + reason
