"""Measurements at the test rows for which the predictions keep every draw."""

import numpy as np

from bnn_atlas.metrics.formulas.averages import LOG_2PI, error_of_mean
from bnn_atlas.metrics.formulas.function_distances import wasserstein_1
from bnn_atlas.metrics.formulas.rhat_ess import diagnose
from bnn_atlas.metrics.gathering.chain_convergence import RESOLUTION
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError, joined
from bnn_atlas.traces.draws import evenly


def log_score_measurements(summary: PredictiveSummary, y: np.ndarray) -> list[Measurement]:
    """R-hat and bulk ESS of the log score log p(y_i | theta) over the draws, at the kept rows.

    Unlike function values, the log score is one number per row for every likelihood, and the LPPD is an average of log
    scores. Empty if no chain is left, if there are fewer than four draws, or for a likelihood of the user's own.
    """
    own = summary.task == "regression" and summary.log_noise_draws is None
    if own or not len(summary.kept) or summary.draws < 4:
        return []
    draws = _log_scores(summary, y)
    found, rows = diagnose(draws), draws.shape[2]
    measured = []
    for metric, column, reduce in (
        ("rhat_log_score_max", "rhat", np.max),
        ("rhat_log_score_median", "rhat", np.median),
        ("ess_bulk_log_score_min", "ess_bulk", np.min),
    ):
        values = getattr(found, column)
        defined = values[~np.isnan(values)]
        note = f"log score at {len(defined)} of {rows} test rows" + ("" if len(defined) else ": constant, or one chain")
        measured.append(Measurement(metric, float(reduce(defined)) if len(defined) else float("nan"), note=note))
    return measured


def wasserstein_to(own: PredictiveSummary, other: PredictiveSummary, reference: str, note: str = "") -> Measurement:
    """Mean W1 distance between the predictive distributions of two runs, over the rows that both keep.

    Raises PredictionError if they keep no row in common.
    """
    rows = np.intersect1d(_noise_rows(own), _noise_rows(other))
    if not len(rows):
        raise PredictionError(f"these predictions and those of '{reference}' keep no row in common; predict both again")
    distances = wasserstein_1(*_draws_at(own, rows), *_draws_at(other, rows))
    of_rows = f"mean over {len(rows)} test rows, evenly spread, noise included"
    text = joined(note, of_rows)
    return Measurement("wasserstein_1", float(distances.mean()), error_of_mean(distances), text, at=reference)


def _log_scores(summary: PredictiveSummary, y: np.ndarray) -> np.ndarray:
    """Log scores [C, S, r] of the chains that did not diverge; probabilities that hardly vary count as constant."""
    values = summary.function_draws[summary.kept].astype(np.float64)
    if summary.task == "classification":
        of_label = values[..., summary.function_classes == y[summary.function_rows]]
        still = np.ptp(of_label, axis=(0, 1)) < RESOLUTION
        smallest = float(np.finfo(np.float32).tiny)
        return np.log(np.maximum(np.where(still, of_label[:1, :1], of_label), smallest))
    rows = _noise_rows(summary)
    mean, log_scale = values[..., np.isin(summary.function_rows, rows)], _log_noise(summary)
    z = (y[rows] - mean) / np.exp(log_scale)
    return -0.5 * (LOG_2PI + z**2) - log_scale


def _draws_at(summary: PredictiveSummary, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and scales [C S, r] of all draws at `rows`, a subset of `_noise_rows`."""
    kept_rows = _noise_rows(summary)
    mean = summary.function_draws[summary.kept].astype(np.float64)[..., np.isin(summary.function_rows, rows)]
    scale = np.broadcast_to(np.exp(_log_noise(summary)), (*mean.shape[:2], len(kept_rows)))
    return mean.reshape(-1, len(rows)), scale[..., np.isin(kept_rows, rows)].reshape(-1, len(rows))


def _noise_rows(summary: PredictiveSummary) -> np.ndarray:
    """Rows [r] for which both mean and noise are kept; if there is one noise level, all rows with a mean."""
    assert summary.log_noise_draws is not None
    kept, noise = summary.function_rows, summary.log_noise_draws.shape[2]
    return kept if noise == 1 else kept[evenly(len(kept), noise)]


def _log_noise(summary: PredictiveSummary) -> np.ndarray:
    """Log sigma [C, S, r], or [C, S, 1] if there is one noise level."""
    assert summary.log_noise_draws is not None
    return summary.log_noise_draws[summary.kept].astype(np.float64)
