"""Scores of a sweep's runs, their errors and places along a field, and whether their chains have converged."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.config.parts.figures import setting
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.averages import extrapolation
from bnn_atlas.metrics.formulas.repetitions import Repetitions, over_repetitions, overlaps
from bnn_atlas.metrics.judgement.checks import Status
from bnn_atlas.metrics.judgement.trust import MOST_ABOVE, RHAT_LIMIT, Trust, trust, worst


class Field(NamedTuple):
    """What the x axis of a sweep is."""

    name: str
    """Dotted, as in a grid, such as `method.step_size`."""
    label: str
    """Text at the axis."""
    is_log: bool = True
    marks: tuple[float, ...] = ()
    """Values with a vertical line."""
    categories: Mapping[str, str] | None = None
    """For a field that is a word: value -> text at the axis, in this order; None for a number."""


COLUMNS = [
    "field", "label", "method", "x", "metric", "value", "error", "error_over", "repetitions", "converged",
    "rhat_share_above", "trust",
]  # fmt: skip
AT_INFINITY, BY_DRAWS = "lppd_at_infinity", "lppd_cumulative_draws"
"""The LPPD with infinitely many draws, and the metric from which it follows if a table does not have it
(`averages.extrapolation`)."""
MONTE_CARLO = "Monte Carlo"
FAILED = (Status.DISTRUST, Status.UNKNOWN)
"""Statuses of chains that are drawn open if the table has no R-hat."""
ABOVE = "rhat_function_share_above"


def sweep_table(
    shown: Sequence[Shown],
    field: Field,
    metrics: Sequence[str],
    *,
    levels: Collection[KindOfDraws] = (),
) -> pd.DataFrame:
    """A row per label, value of the field and metric: the columns of `COLUMNS`.

    `error` is one standard error: over seeds or splits if several runs share a label and a value, else the Monte Carlo
    error, else the table's own; `error_over` says which. `converged` is whether R-hat is within its limit for the share
    of function values that a reference needs (`judgement.trust`); it is true for a method without chains.
    `rhat_share_above` is the share above the limit, and `trust` is what all checks say about the chains. Methods whose
    draws are of a kind in `levels` have no place along the field: their x is NaN. A metric that a run lacks is left
    out, or NaN if all its chains are excluded; `AT_INFINITY` is left out for chains that have not converged, since more
    draws from elsewhere are missing there. Raises ValueError for a metric that no run has, other than
    `AT_INFINITY`.
    """
    is_level = [method(one.method).kind_of_draws in levels for one in shown]
    values = [np.nan if level else value_of(one, field) for one, level in zip(shown, is_level, strict=True)]
    rows = [
        {"field": field.name, "x": value, **row}
        for one, value in zip(shown, values, strict=True)
        for row in _of_run(one, metrics)
    ]
    found = pd.DataFrame(rows)
    missing = [name for name in metrics if found.empty or name not in {*found["metric"], AT_INFINITY}]
    if missing:
        raise ValueError(f"no run of the figure has {', '.join(missing)}; run their metrics again, or leave them out")
    order = ["field", "label", "method", "x", "metric"]
    groups = found.groupby(order, sort=False, dropna=False)
    pooled = [{**dict(zip(order, key, strict=True)), **_pooled(group)} for key, group in groups]
    table = pd.DataFrame(pooled)[COLUMNS]
    return table[table["converged"] | (table["metric"] != AT_INFINITY)].reset_index(drop=True)


def _of_run(one: Shown, metrics: Sequence[str]) -> list[dict[str, Any]]:
    own = one.table()
    source = own[~own["dataset"].str.contains("/")]  # test rows, no further sets
    shared = overlaps(own).get((one.run.rpartition("/")[2], one.split), float("nan"))
    common = {
        "label": line_name(one), "method": one.drawn_as, "split": one.split, "overlap": shared, "trusted": trust(own),
        "above": share_above(own),
    }  # fmt: skip
    rows = [
        {**common, "metric": metric, "value": row["value"], **_error(row)}
        for metric in metrics
        for row in source[source["metric"] == metric].to_dict("records")
        if not row["at"]
    ]
    curve = source[source["metric"] == BY_DRAWS].sort_values("draws")
    if AT_INFINITY in metrics and len(curve) and AT_INFINITY not in {row["metric"] for row in rows}:
        fit = extrapolation(curve["draws"].to_numpy(float), curve["value"].to_numpy(float))
        limit = np.nan if fit is None else curve["value"].iloc[-1] + fit.shift
        rows.append({**common, "metric": AT_INFINITY, "value": limit, "error": np.nan, "error_over": ""})
    if not _none_left(own):
        return rows
    lost = [metric for metric in metrics if metric not in {row["metric"] for row in rows}]
    nothing = {"value": np.nan, "error": np.nan, "error_over": ""}
    return [*rows, *({**common, "metric": metric, **nothing} for metric in lost)]


def share_above(own: pd.DataFrame) -> float:
    """Share of the function values of a run whose R-hat is above the limit of references; NaN if not known."""
    found = own.loc[(own["metric"] == ABOVE) & (own["at"] == RHAT_LIMIT), "value"]
    return float(found.iloc[0]) if len(found) else float("nan")


def _none_left(own: pd.DataFrame) -> bool:
    """Whether every chain of a run is excluded."""
    excluded = own[own["metric"] == "chains_excluded"]
    return bool((excluded["value"] == excluded["chains"]).any())


def line_name(one: Shown) -> str:
    """The name of a run's line: its label, or its entry if it has no label, so that the runs of a grid share a line."""
    return one.label if one.label != one.run else one.entry


def _error(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The error of a single run: the Monte Carlo error if known, else the table's own."""
    if pd.notna(row["monte_carlo_error"]):
        return {"error": float(row["monte_carlo_error"]), "error_over": MONTE_CARLO}
    if pd.notna(row["standard_error"]):
        return {"error": float(row["standard_error"]), "error_over": row["over"]}
    return {"error": np.nan, "error_over": ""}


def _pooled(group: pd.DataFrame) -> dict[str, Any]:
    """Mean, error and convergence over the repetitions of one setting."""
    first = group.iloc[0]
    found: dict[str, Any] = {"value": first["value"], "error": first["error"], "error_over": first["error_over"]}
    if len(group) > 1:
        pooled = over_repetitions(group["value"], Repetitions(group["split"], float(group["overlap"].mean())))
        found = {"value": pooled.mean, "error": pooled.standard_error, "error_over": pooled.over}
    judged: Trust = worst(list(group["trusted"]))
    above = float(group["above"].max())
    are_chain = method(str(first["method"])).kind_of_draws.are_chain
    mixed = judged.status not in FAILED if np.isnan(above) else above <= MOST_ABOVE
    more = {
        "repetitions": len(group),
        "converged": mixed or not are_chain,
        "rhat_share_above": above,
        "trust": judged.words,
    }
    return {**found, **more}


def value_of(one: Shown, field: Field) -> float | str:
    """The value of a field in a run."""
    value = setting(field.name, one.point, one.settings, one.prior_sd)
    return str(value) if field.categories else float(value)
