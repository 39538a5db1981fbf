"""LPPD of the first draws, of an ensemble and of each of its chains."""

from typing import NamedTuple

import numpy as np

from bnn_atlas.metrics.errors import PredictionError
from bnn_atlas.metrics.formulas.scores import lppd_over_draws
from bnn_atlas.metrics.gathering.summary import PredictiveSummary


class RunningLppd(NamedTuple):
    """LPPD per row of the first k draws of each chain."""

    counts: np.ndarray
    """[g] numbers of draws k."""
    ensemble: np.ndarray
    """[g] of all chains that are not divergent together."""
    chains: np.ndarray
    """[C, g] of each chain alone; NaN for a divergent chain."""


def running_lppd(summary: PredictiveSummary) -> RunningLppd:
    """LPPD of the first k draws at the summary's numbers of draws, of the ensemble and of each chain.

    ensemble_k = mean_i log (1/k) sum_{s<=k} (1/C) sum_c p(y_i | theta_cs). A density of 0 at a row gives -inf.
    NaN throughout where no chain is left. Raises PredictionError for predictions without targets.
    """
    if summary.log_density_by_draw is None or summary.running_lppd is None:
        raise PredictionError("these predictions have no targets; take the rows of the test set")
    if not len(summary.kept):
        return RunningLppd(summary.running_draws, np.full(len(summary.running_draws), np.nan), summary.running_lppd)
    ensemble = lppd_over_draws(summary.log_density_by_draw, summary.running_draws).value
    return RunningLppd(summary.running_draws, ensemble, summary.running_lppd)
