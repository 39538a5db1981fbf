"""How close two predictive distributions are, for example a method's and full-batch HMC's.

Izmailov et al. 2021, What Are Bayesian Neural Network Posteriors Really Like?, section 9.1. Probabilities are [n, k];
row i of both is the same test row. They are checked (`classification.as_pair`).
"""

from typing import NamedTuple

import numpy as np

from bnn_atlas.metrics.formulas.averages import error_of_mean
from bnn_atlas.metrics.formulas.classification import as_pair, as_probabilities
from bnn_atlas.metrics.tables.measurement import PredictionError


class Comparison(NamedTuple):
    """Agreement and total variation, each with the standard error of its mean (None for a single value)."""

    agreement: float
    agreement_error: float | None
    total_variation: float
    total_variation_error: float | None


def agreement_rows(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """1[argmax_j p_j = argmax_j q_j] of each row [n] float64; ties go to the lowest class number in both."""
    p, q = as_pair(p, q)
    return (p.argmax(axis=1) == q.argmax(axis=1)).astype(np.float64)


def total_variation_rows(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(1/2) sum_j |p_j - q_j| of each row [n], from 0 to 1."""
    p, q = as_pair(p, q)
    return 0.5 * np.abs(p - q).sum(axis=1)


def compare(p: np.ndarray, q: np.ndarray) -> Comparison:
    """Mean over rows of agreement and total variation between two sets of probabilities; 1 and 0 for equal sets."""
    return _means(agreement_rows(p, q), total_variation_rows(p, q))


class Ceiling(NamedTuple):
    """How close a single chain comes to the others. An average over many chains can come closer to a reference."""

    agreement: np.ndarray
    """[C] of each chain."""
    total_variation: np.ndarray
    """[C]."""

    @property
    def comparison(self) -> Comparison:
        """Means over chains, with standard errors as if the comparisons were independent; two chains have none."""
        found = _means(self.agreement, self.total_variation)
        if len(self.agreement) > 2:
            return found
        return found._replace(agreement_error=None, total_variation_error=None)


def ceiling(chains: np.ndarray) -> Ceiling:
    """Each chain's averaged probabilities against the mean over all other chains, from [C, n, k].

    The column `HMC (reference)` of the paper's table in section 9.1. PredictionError for fewer than two chains.
    """
    chains = np.asarray(chains)
    if chains.ndim != 3 or len(chains) < 2:
        raise PredictionError(
            f"probabilities by chain have shape {list(chains.shape)}; expected [chains, rows, classes] with at least "
            "two chains"
        )
    checked = [as_probabilities(chain, f"probabilities of chain {number}") for number, chain in enumerate(chains)]
    total = np.sum(checked, axis=0)
    found = [compare(chain, (total - chain) / (len(checked) - 1)) for chain in checked]
    return Ceiling(np.array([c.agreement for c in found]), np.array([c.total_variation for c in found]))


def _means(agreement: np.ndarray, variation: np.ndarray) -> Comparison:
    return Comparison(
        float(agreement.mean()), error_of_mean(agreement), float(variation.mean()), error_of_mean(variation)
    )
