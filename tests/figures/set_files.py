"""Metric tables of a run on its test rows, on further sets and against references, as figures read them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import write_table
from tests.figures.shown import shown

Values = Mapping[str, float | tuple[float, float | None]]
"""Metric, with `@` and its parameter where it has one -> value, or value and standard error."""
CONVERGED = {
    "chains_excluded": 0, "rhat_function_max": 1.02, "rhat_function_median": 1.001, "ess_bulk_function_min": 510,
    "ess_tail_function_min": 480, "acceptance_mean": 0.85, "acceptance_chain_min": 0.84,
}  # fmt: skip
"""Diagnostics of chains that can be trusted."""
UNCONVERGED = {**CONVERGED, "rhat_function_max": 1.8, "rhat_function_median": 1.3, "ess_bulk_function_min": 6}


def written(
    folder: Path,
    run: str,
    own: Values,
    sets: Mapping[str, Values] | None = None,
    against: Mapping[str, Mapping[str, Values]] | None = None,
    note: str = "",
    **changes: Any,
) -> Shown:
    """A classification on MNIST with its tables; `against` has for each reference a set (`test`, ...) -> its values.

    `note` is that of the rows against references.
    """
    one = shown(run, **{"dataset": "mnist", "task": "classification", "label": run, "method": "sgld", **changes})
    stem = folder / f"{run}-{one.split}"
    table = Path(f"{stem}.parquet")
    write_table(table, _rows(one, own, one.dataset))
    files, parts = {"table": table}, {"against": dict[str, Path]()}
    if sets:
        files["sets"] = Path(f"{stem}-sets.parquet")
        of_sets = [_rows(one, values, f"{one.dataset}/{name}") for name, values in sets.items()]
        write_table(files["sets"], [row for rows in of_sets for row in rows])
    for reference, by_set in (against or {}).items():
        parts["against"][reference] = Path(f"{stem}-against-{reference}.parquet")
        rows = []
        for name, values in by_set.items():
            dataset = one.dataset if name == "test" else f"{one.dataset}/{name}"
            rows += _rows(one, {f"{metric}@{reference}": value for metric, value in values.items()}, dataset, note)
        write_table(parts["against"][reference], rows)
    return one._replace(files=files, parts=parts)


def _rows(one: Shown, values: Values, dataset: str, note: str = "") -> Sequence[Row]:
    found = []
    for name, given in values.items():
        metric, _, at = name.partition("@")
        value, error = given if isinstance(given, tuple) else (given, None)
        over = "rows" if error is not None else ""
        found.append(
            Row(
                one.study, one.run, "demo", one.split, dataset, one.model, one.method, one.chains, 100, metric, value,
                error, note, at, over,
            )
        )  # fmt: skip
    return found


def scored(folder: Path, run: str, lppd: float, error: float, **changes: Any) -> Shown:
    """A run with its LPPD and its RMSE or accuracy."""
    fields = {"dataset": "airfoil", "task": "regression", "method": "mclmc", **changes}
    name = "rmse" if fields["task"] == "regression" else "accuracy"
    values = {"lppd": (lppd, 0.04), "lppd_chain_mean": (lppd - 1, 0.01), name: error}
    return written(folder, run, {**values, f"{name}_original_units": 3 * error}, **fields)
