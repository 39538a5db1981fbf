"""How well single draws predict the validation rows."""

from collections.abc import Iterator

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.inference.predictor import Predictor
from bnn_atlas.inference.problem import Problem
from bnn_atlas.metrics.gathering.terms import CLASS_BYTES, REGRESSION_BYTES, classification_terms, regression_terms
from bnn_atlas.posterior.predictive import Predictive

LOT_BYTES = 256 * 2**20
"""Bytes for the densities, at all rows, of the draws that are computed together."""


class ValidationDensity:
    """log p(validation rows | theta) of parameter vectors.

    On a CPU the value for one vector depends neither on the others nor on the number of devices.
    """

    def __init__(self, problem: Problem) -> None:
        """Take the validation rows of a split.

        Raises:
            DataError: there are none, or the posterior is conditioned on them.
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

        NaN where something is not finite; -inf where the density of a row is 0.
        """
        draws = theta.reshape(-1, theta.shape[-1])
        return np.concatenate([rows.sum(axis=1) for rows in self._lots(draws)]).reshape(theta.shape[:-1])

    def of_average(self, members: np.ndarray) -> float:
        """Log density of the average of m predictive distributions: sum over rows of log mean_m p(y | members [m, P]).

        NaN where something is not finite; -inf where all members give a row the density 0.
        """
        rows = np.concatenate(list(self._lots(members)))
        return float((np.logaddexp.reduce(rows, axis=0) - np.log(len(members))).sum())

    def _lots(self, draws: np.ndarray) -> Iterator[np.ndarray]:
        """Log densities [b, n] of draws, some at a time."""
        size = min(len(draws), self._most)
        return (self._lot(draws[start : start + size], size) for start in range(0, len(draws), size))

    def _lot(self, draws: np.ndarray, size: int) -> np.ndarray:
        """Log densities [b, n] of draws [b, P], which are filled up to `size` with copies of the first."""
        filled = np.concatenate([draws, np.repeat(draws[:1], size - len(draws), axis=0)])
        prediction: Predictive = self._predictor(filled, self._x)
        terms_of = regression_terms if prediction.log_probs is None else classification_terms
        terms = terms_of(prediction, self._y, len(self._y))
        assert terms.log_density is not None
        valid = terms.valid & np.isfinite(filled).all(axis=1)
        return np.where(valid[:, None], terms.log_density, np.nan)[: len(draws)]
