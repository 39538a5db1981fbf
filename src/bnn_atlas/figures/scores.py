"""Scores of the runs of a figure, with their repetitions."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pandas as pd

from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement import pooled

ERROR = {"regression": "rmse", "classification": "accuracy"}
"""Task -> the score shown next to the LPPD."""
LABELS = {
    ("regression", "lppd"): "LPPD per test row,\nstandardised target",
    ("regression", "rmse"): "RMSE,\nstandardised target",
    ("classification", "lppd"): "LPPD per test row",
    ("classification", "accuracy"): "accuracy",
}
"""Task and metric -> text at an axis."""
ENSEMBLE = "deep_ensemble"
NEAR_STARTS = 0.5
"""Share of the prior's theta^2 (`prior_shell`) below which chains have not left their starts behind."""


def read_scores(
    shown: Sequence[Shown], metrics: Sequence[str] = (), *, at: Mapping[str, str] = MappingProxyType({})
) -> pd.DataFrame:
    """A row for each of these metrics (by default LPPD, and RMSE or accuracy) of every run and split.

    Columns: run, entry, dataset, task, model, hidden, method, likelihood, prior_sd, split, metric, value,
    standard_error (over test rows; NaN where the table has none). For a metric with a parameter, `at` says which of its
    values is meant, as in the table's column `at`: {"coverage": "0.9"}. Raises ValueError for a table that lacks a
    metric or has several values of it.
    """
    rows = []
    for run in shown:
        mine = run.table()
        for metric in metrics or ("lppd", ERROR[run.task]):
            found = mine[mine["metric"] == metric]
            if metric in at:
                found = found[found["at"] == at[metric]]
            if len(found) != 1:
                raise ValueError(_not_one(mine.loc[mine["metric"] == metric, "at"], metric, run, at.get(metric)))
            fields = {name: getattr(run, name) for name in FIELDS}
            rows.append({**fields, "metric": metric, **found.iloc[0][["value", "standard_error"]].astype(float)})
    return pd.DataFrame(rows)


def _not_one(at: pd.Series, metric: str, run: Shown, chosen: str | None) -> str:
    """Why a metric of a run is not one number, and what to do; `at` has the table's entries in the column `at`."""
    where = f"{run.files['table']}: {metric} of run {run.run}, split {run.split},"
    if at.empty:
        return f"{where} is not there; run its metrics again, or leave {metric} out of the figure"
    places = ", ".join(dict.fromkeys(at))
    if chosen is not None:
        return f"{where} has no value at {chosen}; choose one of {places}"
    if at.nunique() > 1:
        return f'{where} has a value at each of {places}; choose one: at={{"{metric}": "{at.iloc[0]}"}}'
    return f"{where} is there {len(at)} times, not once; run its metrics again"


FIELDS = (
    "run", "entry", "dataset", "dataset_title", "task", "model", "hidden", "method", "likelihood", "prior_sd", "split"
)  # fmt: skip
"""Fields of `Shown` that go with a score."""


def over_repetitions(values: pd.Series) -> pd.Series:
    """Mean, sd (n - 1), low, high and number of the scores of seeds and splits.

    NaN and infinite scores are not left out: the mean is then NaN or infinite, and there is no sd.
    """
    found = pooled.over_repetitions(values)._asdict()
    return pd.Series({**{name: found[name] for name in ("mean", "sd", "low", "high")}, "repetitions": found["n"]})
