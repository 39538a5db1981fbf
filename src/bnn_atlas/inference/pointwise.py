"""What every draw says of every row: log-likelihoods and replicated targets."""

from typing import NamedTuple

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.metrics.gathering.streaming import Predict
from bnn_atlas.metrics.gathering.terms import (
    CLASS_BYTES,
    REGRESSION_BYTES,
    Terms,
    classification_terms,
    regression_terms,
)
from bnn_atlas.traces.draws import Draws

MAX_BYTES = 256 * 2**20
"""Working memory, apart from the results."""
TOLERANCE = 1e-3
"""By how much log-likelihoods may differ from their recorded sum: in nats per row, or relative if that is more."""


class Pointwise(NamedTuple):
    """Values for C chains of S draws at n rows."""

    log_likelihood: np.ndarray
    """[C, S, n] log p(y_i | theta), untempered; NaN for draws that are not finite."""
    replicated: np.ndarray
    """[C, S, n] a target or label from each draw's predictive distribution; NaN or -1 for draws that are not finite."""


def pointwise(draws: Draws, predict: Predict, x: np.ndarray, y: np.ndarray, *, classes: int, seed: int) -> Pointwise:
    """Log-likelihoods and replicated targets of all draws at the rows x [n, ...] with targets y [n].

    `classes` is 0 for regression. The bits do not depend on the batches in which draws are read. Raises DataError if
    the draws lack parameters, or if the sum over the rows is not the log-likelihood that was recorded with a draw, in
    which case the draws are conditioned on other rows.
    """
    if draws.size != draws.layout.size:
        raise DataError(
            f"draws ({draws.path}) have {draws.size} of {draws.layout.size} parameters, and predictions need all: pass "
            "the whole pool"
        )
    shape = (draws.chains, draws.draws, len(y))
    found = Pointwise(np.empty(shape, draws.dtype), np.empty(shape, y.dtype))
    generator, width = np.random.default_rng(seed), draws.size * draws.dtype.itemsize
    together = MAX_BYTES // (2 * width + len(y) * max(REGRESSION_BYTES, CLASS_BYTES * classes))
    for chains, steps, theta in draws.batches(max(1, together) * width):
        prediction = predict(theta.reshape(-1, draws.size), x)
        terms = (classification_terms if classes else regression_terms)(prediction, y, len(y))
        assert terms.log_density is not None
        block = (*theta.shape[:2], len(y))
        log_density = np.where(terms.valid[:, None], terms.log_density, np.nan)
        found.log_likelihood[chains, steps] = log_density.reshape(block)
        found.replicated[chains, steps] = _replicated(terms, generator).reshape(block)
    _check_rows(draws, found.log_likelihood)
    return found


def _replicated(terms: Terms, generator: np.random.Generator) -> np.ndarray:
    """One target [b, n] of each draw's predictive distribution."""
    valid = terms.valid[:, None]
    if terms.probabilities is not None:
        chance = generator.random(terms.probabilities.shape[:2])
        above = chance[..., None] > terms.probabilities.cumsum(axis=2)[..., :-1]
        return np.where(valid, above.sum(axis=2), -1)
    assert terms.log_noise is not None
    noise = generator.standard_normal(terms.log_noise.shape)
    return np.where(valid, terms.functions[..., 0] + np.exp(terms.log_noise) * noise, np.nan)


def _check_rows(draws: Draws, log_likelihood: np.ndarray) -> None:
    """Compare with the log-likelihood of all rows together, where it was recorded."""
    if "log_likelihood" not in draws.statistics:
        return
    recorded, rows = draws.statistic("log_likelihood").astype(np.float64), log_likelihood.shape[2]
    total = log_likelihood.sum(axis=2, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        wrong = np.abs(total - recorded) > TOLERANCE * np.maximum(rows, np.abs(recorded))
    if wrong.any():
        chain, draw = (int(place) for place in np.argwhere(wrong)[0])
        raise DataError(
            f"draws ({draws.path}) are of other rows: at draw {draw} of chain {chain}, the log-likelihood of the "
            f"posterior's {rows} rows is {total[chain, draw]:.6g}, but {recorded[chain, draw]:.6g} was recorded. Build "
            "the posterior from the rows that the draws are conditioned on"
        )
