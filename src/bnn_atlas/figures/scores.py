"""Scores of the runs of a figure, with their repetitions."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pandas as pd

from bnn_atlas.figures.page import check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement import pooled

ERROR = {"regression": "rmse", "classification": "accuracy"}
"""Task -> the score shown beside the LPPD."""
LABELS = {
    ("regression", "lppd"): "LPPD per test row,\nstandardised target",
    ("regression", "rmse"): "RMSE,\nstandardised target",
    ("classification", "lppd"): "LPPD per test row",
    ("classification", "accuracy"): "accuracy",
}
"""Task and metric -> text at an axis."""
ENSEMBLE = "deep_ensemble"


def read_scores(
    shown: Sequence[Shown], metrics: Sequence[str] = (), *, at: Mapping[str, str] = MappingProxyType({})
) -> pd.DataFrame:
    """These metrics of every run and split, LPPD and RMSE or accuracy by default: a row each, after fields of `Shown`.

    Columns: run, entry, dataset, task, model, hidden, method, likelihood, prior_sd, split, metric, value,
    standard_error (over test rows; NaN where the table has none). `at` says of a metric with a parameter which of its
    values is meant, as the table's column `at` has it: {"coverage": "0.9"}. Raises ValueError for a table that lacks
    one of them, and for a metric with several values in it.
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
    check_fits(len(rows))
    return pd.DataFrame(rows)


def _not_one(at: pd.Series, metric: str, run: Shown, chosen: str | None) -> str:
    """Why a metric of a run is not one number, and what to do; `at` is where its table has it."""
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
