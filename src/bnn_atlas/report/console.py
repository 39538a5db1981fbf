"""Verdicts and scores as lines on the console."""

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bnn_atlas.claims.rules import Verdict
from bnn_atlas.kept import Origin
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


class Checked(NamedTuple):
    """Claims that were checked, beside what the repository expects of them."""

    lines: list[str]
    number: int
    """How many of the claims there is a verdict to expect for, or that results made here do not answer."""
    lost: list[str]
    """Claims without the verdict that was expected, or that results made here do not answer."""
    machines: list[str]
    """Where the runs were made, and where those that came with the clone."""
    unexpected: int = 0
    """Claims that results made here answer, and of which nothing is expected."""


def checked(page: Path, kept: Path, claims: Collection[str], figures: Mapping[str, Collection[str]]) -> Checked:
    """Two lines for each of some claims: its verdict in words and as expected or not, its numbers, and its draws.

    Args:
        page: folder of the page of what was made here.
        kept: folder of the page that came with the clone, whose verdicts of the same scale are expected.
        claims: names of the claims.
        figures: figure -> the runs that it shows, for claims about its numbers.
    """
    rows = [row for row in read_rows(page / "claims.csv") if row["claim"] in claims]
    decided = [row for row in read_rows(kept / "claims.csv") if row["verdict"] != Verdict.TO_RUN]
    expected = {(row["claim"], row["scale"]): row["verdict"] for row in decided}
    made, published = (
        {(row["run"], row["split"]): row for row in read_rows(folder / "kept" / "runs.csv")} for folder in (page, kept)
    )
    lines, lost, used, unexpected = [], [], set(), 0
    for row in rows:
        verdict, wanted = row["verdict"], expected.get((row["claim"], row["scale"]), "")
        here = row["origin"] == Origin.HERE
        as_expected = not wanted or wanted == verdict
        if not (here and as_expected):
            lost.append(row["claim"])
        unexpected += here and not wanted
        runs = {one.split(": ")[1].split(" split ")[0] for one in row["rows"].split("; ") if one}
        runs = {run for name in runs for run in figures.get(name, [name])}
        places = [place for place in made if place[0] in runs]
        used |= set(places)
        words = "as expected" if wanted and as_expected else f"EXPECTED: {wanted}" if wanted else "nothing expected"
        identity = f" ({row['identity']})" if row["identity"] else ""
        lines.append(f"{verdict}{identity}, {words}: {row['statement']}")
        paper = f"paper {row['paper_text']}, " if row["paper_text"] else ""
        size = asked(row["relation"], float(row["size"]))
        facts = [f"{paper}here {row['here'] or '–'}, limit {size}", row["reason"], "" if here else row["origin"]]
        facts.append(_draws(places, made, published) if here else "")
        lines.append(f"    {row['claim']}: " + "; ".join(filter(None, facts)))
    lost += sorted({*claims} - {row["claim"] for row in rows})
    machines = [
        f"{where}: {', '.join(names)}"
        for where, of in (("made on", made), ("published draws", published))
        if (
            names := dict.fromkeys(
                _machine(of[place]) for place in sorted(used) if place in of and of[place]["machine"]
            )
        )
    ]
    return Checked(lines, len(claims) - unexpected, lost, machines, unexpected)


def _draws(
    places: Sequence[tuple[str, str]], made: Mapping[tuple[str, str], Row], published: Mapping[tuple[str, str], Row]
) -> str:
    """Whether the draws of these runs and splits are the published ones, by their SHA-256."""
    if not places:
        return "no draws"
    known = [place for place in places if place in published and published[place]["draws"]]
    same = sum(made[place]["draws"] == published[place]["draws"] for place in known)
    if not known:
        return "no SHA-256 is kept of the published draws"
    return f"draws: {same} of {len(known)} sets are the published ones (SHA-256)"


def _machine(row: Row) -> str:
    """Processor, and width of its vectors if that is known."""
    return row["machine"] + (f" ({row['vector_bits']}-bit vectors)" if row["vector_bits"] else "")


def checks(rows: Collection[Row], number: int) -> Checked:
    """How many of `number` claims, by their rows, agree or hold, and a line for each that does not."""
    lost = [row for row in rows if row["verdict"] not in (Verdict.AGREES, Verdict.HOLDS)]
    failed = [f"  {row['claim']}: {row['verdict']}{_after(row['reason'])}" for row in lost]
    good = len(rows) - len(lost)
    return Checked([f"{good} of {number} checks hold", *failed], number, [row["claim"] for row in lost], [])


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
