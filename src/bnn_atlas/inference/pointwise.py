"""Quantities of single draws at single rows: validation densities, log-likelihoods, replicated targets."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bnn_atlas.data import DataError
from bnn_atlas.inference.problem import Predictor, Problem
from bnn_atlas.metrics.gathering.streaming import Predict
from bnn_atlas.metrics.gathering.summary import (
    CLASS_BYTES,
    REGRESSION_BYTES,
    Terms,
    classification_terms,
    regression_terms,
)
from bnn_atlas.posterior import Predictive
from bnn_atlas.traces.draws import Draws

LOT_BYTES = 256 * 2**20
"""Memory in bytes for the terms at all rows of the draws that are computed together."""


class ValidationDensity:
    """log p(validation rows | theta) of parameter vectors.

    On a CPU, the value for one vector depends neither on the other vectors nor on the number of devices.
    """

    def __init__(self, problem: Problem) -> None:
        """Take the validation rows of a split.

        Raises:
            DataError: there are no validation rows, or the posterior is conditioned on them.
        """
        split = problem.split
        if not len(split.split.validation):
            raise DataError("E-values need validation rows: set split.validation above 0")
        if split.validation_in_likelihood:
            raise DataError(
                "E-values need validation rows that the posterior is not conditioned on: set "
                "split.validation_in_likelihood: false"
            )
        self._x, self._y = split.x_validation, split.y_validation
        each = CLASS_BYTES * len(split.classes) if split.classes else REGRESSION_BYTES
        self._most = max(1, LOT_BYTES // (each * len(self._y)))
        self._predictor = Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Log densities [...] of theta [..., P], summed over rows in float64.

        NaN if a term is not finite; -inf if the density of a row is 0.
        """
        draws = theta.reshape(-1, theta.shape[-1])
        return np.concatenate([rows.sum(axis=1) for rows in self._lots(draws)]).reshape(theta.shape[:-1])

    def of_average(self, members: np.ndarray) -> float:
        """Log density of the average of m predictive distributions: sum over rows of log mean_m p(y | members [m, P]).

        NaN if a term is not finite; -inf if all members assign the density 0 to a row.
        """
        rows = np.concatenate(list(self._lots(members)))
        return float((np.logaddexp.reduce(rows, axis=0) - np.log(len(members))).sum())

    def _lots(self, draws: np.ndarray) -> Iterator[np.ndarray]:
        """Log densities [b, n] of draws, one batch at a time."""
        size = min(len(draws), self._most)
        return (self._lot(draws[start : start + size], size) for start in range(0, len(draws), size))

    def _lot(self, draws: np.ndarray, size: int) -> np.ndarray:
        """Log densities [b, n] of draws [b, P]; the batch is filled up to `size` with copies of the first draw."""
        filled = np.concatenate([draws, np.repeat(draws[:1], size - len(draws), axis=0)])
        prediction: Predictive = self._predictor(filled, self._x)
        terms_of = regression_terms if prediction.log_probs is None else classification_terms
        terms = terms_of(prediction, self._y, len(self._y))
        assert terms.log_density is not None
        valid = terms.valid & np.isfinite(filled).all(axis=1)
        return np.where(valid[:, None], terms.log_density, np.nan)[: len(draws)]


TOLERANCE = 1e-3
"""Largest difference of log-likelihoods from their recorded sum: in nats per row, or relative if that is larger."""


class Pointwise(NamedTuple):
    """Values for C chains of S draws at n rows."""

    log_likelihood: np.ndarray
    """[C, S, n] log p(y_i | theta), untempered; NaN for draws that are not finite."""
    replicated: np.ndarray
    """[C, S, n] a target or label from each draw's predictive distribution; NaN or -1 for draws that are not finite."""


def pointwise(draws: Draws, predict: Predict, x: np.ndarray, y: np.ndarray, *, classes: int, seed: int) -> Pointwise:
    """Log-likelihoods and replicated targets of all draws at the rows x [n, ...] with targets y [n].

    `classes` is 0 for regression. Results are bitwise independent of the batches in which draws are read. Raises
    DataError if the draws lack parameters, or if the sum over the rows differs from the log-likelihood recorded with a
    draw, which means that the draws are conditioned on other rows.
    """
    if draws.size != draws.layout.size:
        raise DataError(
            f"draws ({draws.path}) have {draws.size} of {draws.layout.size} parameters, and predictions need all: pass "
            "the whole pool"
        )
    shape = (draws.chains, draws.draws, len(y))
    found = Pointwise(np.empty(shape, draws.dtype), np.empty(shape, y.dtype))
    generator, width = np.random.default_rng(seed), draws.size * draws.dtype.itemsize
    together = LOT_BYTES // (2 * width + len(y) * max(REGRESSION_BYTES, CLASS_BYTES * classes))
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
    """Compare with the recorded log-likelihood of all rows together, if there is one."""
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
