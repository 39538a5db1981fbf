"""Metric tables with the scores that comparisons plot."""

from pathlib import Path
from typing import Any

from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.files import write_table
from bnn_atlas.metrics.tables.measurement import Row
from tests.figures.shown import shown


def scored(folder: Path, run: str, lppd: float, error: float, **changes: Any) -> Shown:
    """A run with its LPPD and its RMSE or accuracy."""
    split = changes.get("split", 0)
    file = folder / f"{run}-{split}.parquet"
    one = shown(run, {"table": file}, **changes)
    common: dict[str, Any] = {
        "study": "s", "run": run, "scale": "demo", "split": split, "dataset": one.dataset, "model": one.model,
        "method": one.method, "chains": 4, "draws": 100,
    }  # fmt: skip
    name = "rmse" if one.task == "regression" else "accuracy"
    rows = [("lppd", lppd, 0.04), ("lppd_chain_mean", lppd - 1, 0.01), (name, error, None)]
    rows.append((f"{name}_original_units", 3 * error, None))
    write_table(file, [Row(**common, metric=metric, value=value, standard_error=se) for metric, value, se in rows])
    return one
