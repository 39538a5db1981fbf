"""Studies, tables and claims made from a few numbers."""

from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.verdict import Judgement, judge
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import read_table, write_table

CLAIM: dict[str, Any] = {
    "read_in": "table",
    "place": "Table 1",
    "statement": "The error is 0.5",
    "metric": "rmse",
    "runs": ["mile"],
    "relation": "equals",
    "published": {"value": 0.5, "text": "0.5"},
    "size": 0.25,
    "basis": "half",
}


def printed(value: float, **errors: float) -> dict[str, Any]:
    """A published number."""
    return {"value": value, "text": str(value), **errors}


COMPARISON = {"published": None, "size": None, "relation": "below", "than": {"runs": ["ensemble"]}}
ALIKE = COMPARISON | {"relation": "alike", "size": 0.1}


def planned(entry: str, point: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    plan = {"entry": entry, "point": point or {}, "problem": "as_published", "dataset": "airfoil", "splits": 1}
    return plan | {"chains": 10, "reductions": []} | changes


RUNS = {
    **{f"mile-seed{seed}": planned("mile", {"seed": seed}) for seed in (1, 2, 3)},
    **{f"ensemble-seed{seed}": planned("ensemble", {"seed": seed}) for seed in (1, 2, 3)},
    "single": planned("single"),
}


MILE = ("mile", "mile-seed1", "mile-seed2", "mile-seed3")


def claimed(*claims: dict[str, Any], runs: dict[str, Any] | None = None, **changes: Any) -> ClaimedStudy:
    """A study with claims `c0`, `c1`, ..., each `CLAIM` apart from its changes."""
    full = {f"c{i}": CLAIM | claim for i, claim in enumerate(claims)}
    plain = {
        "name": "small",
        "title": "A study",
        "scale": "laptop",
        "claims": {"paper": "Nobody, 2000", "claims": full},
        "runs": RUNS if runs is None else runs,
        "scales": {name: {"laptop": 10, "paper": 1000} for name in MILE}
        | {name: {"paper": 10} for name in ("gone", "gone-seed1")},
    }
    return ClaimedStudy.model_validate(plain | changes)


def row(run: str, value: float, **changes: Any) -> Row:
    fields: dict[str, Any] = {
        "study": "small", "run": run, "scale": "laptop", "split": 0, "dataset": "airfoil", "model": "mlp",
        "method": "mclmc", "chains": 10, "draws": 100, "metric": "rmse", "value": value,
    }  # fmt: skip
    return Row(**{**fields, **changes})


def seeds(entry: str, *values: float, **changes: Any) -> list[Row]:
    return [row(f"{entry}-seed{seed}", value, **changes) for seed, value in enumerate(values, 1)]


def table(folder: Path, rows: list[Row]) -> pd.DataFrame:
    """The rows as a table that was written and read again."""
    write_table(folder / "small.parquet", rows)
    return read_table(folder / "small.parquet")


def judged(folder: Path, rows: list[Row], study: ClaimedStudy) -> Judgement:
    """The study's first claim."""
    return judge("c0", study, table(folder, rows))
