"""E-values of Markov chains against their warm starts on held-out rows."""

import math

import numpy as np


def log_e_values(log_e: np.ndarray, log_density: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Log E-values [c, s] of chains after each of s more draws, in float64.

    log E_k = sum_{t <= k} [ log p(held-out rows | theta_t) - log p(held-out rows | theta_0) ]

    with the draws theta_t of a chain and its own warm start theta_0 (eBNN, arXiv 2604.18089, which takes the first
    30 % of the test rows). eBNN writes the reference as log p(val | DE), and its code takes the chain's own member of
    the deep ensemble. Draws are added one after another, so that no bit depends on how many come at a time.
    A density of 0 makes every later E-value 0 (-inf). A density that is not a number or infinite, and a warm start
    whose density is not finite, make every later one NaN.

    Args:
        log_e: log E-values [c] after the draws before; zeros at the start.
        log_density: log densities [c, s] of all held-out rows together, of the next draws in order.
        reference: the same [c] of the warm starts.
    """
    defined = np.isfinite(reference)[:, None] & (log_density < np.inf)
    change = np.subtract(log_density, reference[:, None], out=np.full(log_density.shape, np.nan), where=defined)
    return np.cumsum(np.concatenate([log_e[:, None], change], axis=1), axis=1)[:, 1:]


def crossings(log_e: np.ndarray, alpha: float) -> np.ndarray:
    """How many draws each chain [c] had made when its E-value first reached 1 / alpha; 0 for those that never did.

    To have reached it is evidence at that draw that the draws so far predict better than the reference, and may be lost
    again with later ones.
    """
    reached = log_e >= -math.log(alpha)
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 0)
