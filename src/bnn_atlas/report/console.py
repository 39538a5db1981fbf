"""Verdicts and scores as lines on the console."""

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bnn_atlas.report.text import asked, counted, in_order

SCORES = {"lppd": "LPPD", "rmse_original_units": "RMSE in the target's units", "accuracy": "accuracy"}
"""Metrics that are printed for a study without claims, and what they are called."""
SHOWN = 10
"""Runs of such a study that are printed."""
Row = Mapping[str, str]
"""A row of the claims.csv of a study's page, or of a summary."""


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a CSV file in order; empty if the file does not exist."""
    if not Path(path).is_file():
        return []
    with Path(path).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def verdict_lines(rows: Collection[Row], claims: Collection[str]) -> list[str]:
    """A table of some claims: name, published number or else what is asked, measured number, and verdict."""
    cells = [
        (
            row["claim"],
            row["paper_text"] or asked(row["relation"], float(row["size"])),
            row["here"],
            row["verdict"] + (f" ({row['identity']})" if row["identity"] else "") + _after(row["reason"]),
        )
        for row in rows
        if row["claim"] in claims
    ]
    return columns([("claim", "paper", "here", "verdict"), *cells])


def count_line(rows: Collection[Row]) -> str:
    """The number of claims with each verdict."""
    return counted(in_order(row["verdict"] for row in rows))


def score_lines(summary: str | Path) -> list[str]:
    """The scores of a study's runs, and whether to trust them: at most 10 lines below the names of the columns."""
    runs: dict[str, dict[str, Row]] = {}
    for row in read_rows(summary):
        if row["metric"] in SCORES:
            runs.setdefault(" ".join(filter(None, (row["entry"], row["point"]))), {})[row["metric"]] = row
    metrics = [metric for metric in SCORES if any(metric in scores for scores in runs.values())]
    cells = [("run", *(SCORES[metric] for metric in metrics), "trust")]
    for run, scores in list(runs.items())[:SHOWN]:
        shown = (_score(scores[metric]) if metric in scores else "" for metric in metrics)
        cells.append((run, *shown, next(iter(scores.values()))["trust"]))
    more = [f"{len(runs) - SHOWN} more in {Path(summary).as_posix()}"] if len(runs) > SHOWN else []
    return columns(cells) + more if runs else []


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the cells of each column below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _score(row: Row) -> str:
    """A mean with its standard error, if it has one."""
    error = f" ± {float(row['standard_error']):.2g}" if row["standard_error"] else ""
    return f"{float(row['mean']):.4g}{error}"


def _after(reason: str) -> str:
    return f": {reason}" if reason else ""
