"""The claims of a study in its gallery."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.claims.page import decimals, limit_text, number
from bnn_atlas.claims.verdict import Verdict
from bnn_atlas.config.marks import DEPENDENT
from bnn_atlas.config.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.gallery.escape import cell
from bnn_atlas.metrics.judgement.trust import UNCONVERGED, reference_word

DASH = "–"
MARK = r" \*"
"""Beside what a run with a mark (`config.marks`) has given."""


def read_claims(study: str, table: str | Path) -> pd.DataFrame:
    """The rows of a study in the table of claims."""
    judged = pd.read_parquet(table)
    return judged[judged["study"] == study].reset_index(drop=True)


def write_csv(judged: pd.DataFrame, path: Path) -> None:
    """The claims as CSV, nested columns as text."""
    flat = judged.assign(
        reductions=["; ".join(texts) for texts in judged["reductions"]],
        rows=["; ".join(_row_text(row) for row in rows) for rows in judged["rows"]],
    )
    flat.to_csv(path, index=False, lineterminator="\n", float_format="%.6g")


def claim_cells(row: pd.Series, figures: Collection[str]) -> dict[str, str]:
    """What the page shows of one claim, which links to its figure if that is among `figures`.

    `paper` and `ours` of a claim about the difference of two values are the differences, and say so.
    """
    compares = bool(row["compares"])
    value, spread = (row["difference"], row["difference_sd"]) if compares else (row["value"], row["sd"])
    if row["repetitions"] == 1 and not compares:
        spread = row["standard_error"]
    given = {name: None if pd.isna(row[name]) else float(row[name]) for name in ("paper_value", "tolerance", "bound")}
    was_run = row["verdict"] != str(Verdict.NOT_RUN)
    cells = {
        "statement": row["statement"],
        "section": row["section"],
        "paper": _value(given["paper_value"], None, compares, max(4, decimals(given["paper_value"]))),
        "limit": limit_text(row["relation"], given["tolerance"], given["bound"], compares),
        "ours": _value(value, spread, compares),
        "reduced": _reduced(row["reductions"]) if was_run else "",
        "verdict": ": ".join(filter(None, (row["verdict"], row["reason"], "" if was_run else row["needed"]))),
        "trust": row["trust"],
    }
    cells = {key: cell(text) for key, text in cells.items()}
    cells["ours"] += f" ({UNCONVERGED})" if any(reference_word(one["note"]) for one in row["rows"]) else ""
    cells["ours"] += MARK if _marked(row["rows"]) else ""
    link = f", [figure](#{row['figure']})" if row["figure"] in figures else ""
    return cells | {"section": cells["section"] + link}


def counts(judged: pd.DataFrame) -> str:
    """How often each verdict was given."""
    if judged.empty:
        return ""
    counted = judged["verdict"].value_counts()
    return ", ".join(f"{counted[verdict]} {verdict}" for verdict in map(str, Verdict) if verdict in counted)


def with_sd(value: float | None, sd: float | None, digits: int = 4) -> str:
    """`0.1234 ± 0.0012`; a dash where there is no value."""
    if pd.isna(value):
        return DASH
    return number(value, digits) + ("" if pd.isna(sd) else f" ± {number(sd, digits)}")


def _value(value: float | None, sd: float | None, compares: bool, digits: int = 4) -> str:
    text = with_sd(value, sd, digits)
    return f"difference {text}" if compares and text != DASH else text


def _marked(rows: Collection[Mapping[str, Any]]) -> bool:
    """Whether a row that answered is of a run with a mark."""
    return any(mark in row["note"] for row in rows for mark in (SCALED_WITH_TEST_ROWS, DEPENDENT))


def _reduced(reductions: Collection[str]) -> str:
    """`chains 1000 → 100; ...` from `entry: field: 1000 -> 100`; what several entries share is given once."""
    short = []
    for text in reductions:
        _, field, change = text.split(": ", 2)
        short.append(f"{field.rpartition('.')[2]} {change.replace('->', '→')}")
    return "; ".join(dict.fromkeys(short))


def _row_text(row: Mapping[str, Any]) -> str:
    excluded = f" ({row['excluded']} excluded)" if row["excluded"] else ""
    return (
        f"{row['side']}: {row['run']} split {row['split']} {row['dataset']} {row['metric']}, {row['chains']} chains"
        f"{excluded}, {row['draws']} draws = {row['value']:.6g}"
    )
