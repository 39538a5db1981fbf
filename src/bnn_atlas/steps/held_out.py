"""How well single draws predict the validation rows."""

import numpy as np

from bnn_atlas.data.errors import DataError
from bnn_atlas.metrics.predictive import CLASS_BYTES, REGRESSION_BYTES, classification_terms, regression_terms
from bnn_atlas.posterior.predictive import Predictive
from bnn_atlas.steps.predict import Predictor
from bnn_atlas.steps.problem import Problem

LOT_BYTES = 256 * 2**20
"""Of what the densities of some draws need at all rows."""


class ValidationDensity:
    """log p(validation rows | theta) of parameter vectors.

    On a CPU the value for one depends neither on those beside it nor on the number of devices.
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
        """Log densities [...] of theta [..., P], summed over rows in float64; NaN where something is not finite.

        A density of 0 at some row is -inf.
        """
        draws = theta.reshape(-1, theta.shape[-1])
        size = min(len(draws), self._most)
        parts = [self._lot(draws[start : start + size], size) for start in range(0, len(draws), size)]
        return np.concatenate(parts).reshape(theta.shape[:-1])

    def _lot(self, draws: np.ndarray, size: int) -> np.ndarray:
        """Log densities [b] of draws [b, P], predicted with copies of the first one up to `size` draws."""
        filled = np.concatenate([draws, np.repeat(draws[:1], size - len(draws), axis=0)])
        prediction: Predictive = self._predictor(filled, self._x)
        terms_of = regression_terms if prediction.log_probs is None else classification_terms
        terms = terms_of(prediction, self._y, len(self._y))
        assert terms.log_density is not None
        valid = terms.valid & np.isfinite(filled).all(axis=1)
        return np.where(valid, terms.log_density.sum(axis=1), np.nan)[: len(draws)]
