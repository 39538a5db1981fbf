"""Runs of a sweep with the metric tables that its figures read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.trust import UNCONVERGED
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import write_table
from tests.figures.shown import shown

SCORES = {"accuracy": 0.9, "lppd": -0.3, "ece": 0.02}


def swept(
    folder: Path,
    run: str,
    values: Mapping[str, float] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    converged: bool = True,
    loss: float = 0.0,
    **changes: Any,
) -> Shown:
    """A classification by HMC with these scores (Monte Carlo error 0.01), whose LPPD lacks `loss` / draws.

    `converged` decides R-hat.
    """
    file = folder / f"{run}-{changes.get('split', 0)}.parquet"
    fixed = {"task": "classification", "method": "hmc", "entry": "sweep", "label": "HMC", "settings": settings or {}}
    one = shown(run, {"table": file}, **{**fixed, **changes})
    rhat = 1.01 if converged else 1.6
    diagnostics = {
        "chains_excluded": 0.0, "rhat_function_max": rhat, "rhat_function_median": 1.001,
        "ess_bulk_function_min": 500.0, "ess_tail_function_min": 450.0, "ess_bulk_function_median": 900.0,
        "acceptance_chain_min": 0.7,
    }  # fmt: skip
    own = [_row(one, metric, value, monte_carlo_error=0.01) for metric, value in {**SCORES, **(values or {})}.items()]
    fit = _row(
        one, "reference_fit", float(converged), note="reference converged: x" if converged else f"{UNCONVERGED}: x"
    )
    others = [fit, _row(one, "rhat_function_share_above", 0.0 if converged else 0.2, at="1.1")]
    others += [_row(one, metric, value) for metric, value in diagnostics.items() if metric not in (values or {})]
    lppd = (values or SCORES).get("lppd", SCORES["lppd"])
    curve = [
        _row(one, "lppd_cumulative_draws", lppd - loss * (1 / (3 * draws) - 1 / 300), draws=draws)
        for draws in (25, 50, 75, 100)
    ]
    write_table(file, [*own, *others, *curve])
    return one


def _row(one: Shown, metric: str, value: float, **more: Any) -> Row:
    identity = (one.study, one.run, "demo", one.split, one.dataset, one.model, one.method)
    return Row(
        *identity,
        **{"chains": 3, "draws": 100, "metric": metric, "value": value, **more},
    )
