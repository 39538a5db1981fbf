"""E-values of Markov chains against their warm starts on held-out rows."""

import math

import numpy as np


def log_e_values(log_e: np.ndarray, log_density: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Log E-values [c, s] of chains after each of s further draws, in float64.

    log E_k = sum_{t <= k} [ log p(held-out rows | theta_t) - log p(held-out rows | theta_0) ]

    with the draws theta_t of a chain and its own warm start theta_0 (eBNN, arXiv 2604.18089, which holds out the first
    30 % of the test rows). eBNN writes the reference as log p(val | DE); its code takes the chain's own member of the
    deep ensemble. Draws are added one after another, so no bit depends on how many come at a time.
    A density of 0 makes every later E-value 0 (-inf here). A density that is infinite or not a number makes every later
    E-value NaN, and so does a warm start without a finite density.

    Args:
        log_e: log E-values [c] after the previous draws; zeros at the start.
        log_density: log density [c, s] of all held-out rows together under each of the next draws, in order.
        reference: the same density under the warm starts [c].
    """
    defined = np.isfinite(reference)[:, None] & (log_density < np.inf)
    change = np.subtract(log_density, reference[:, None], out=np.full(log_density.shape, np.nan), where=defined)
    return np.cumsum(np.concatenate([log_e[:, None], change], axis=1), axis=1)[:, 1:]


def crossings(log_e: np.ndarray, alpha: float) -> np.ndarray:
    """Number of draws after which each chain's E-value first reached 1 / alpha [c]; 0 if it never did.

    At that draw there is evidence that the draws so far predict better than the reference; later draws can undo it.
    """
    reached = log_e >= -math.log(alpha)
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 0)
