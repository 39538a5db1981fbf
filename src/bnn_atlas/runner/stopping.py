"""E-values of chains against their warm starts on held-out rows, and a rule that uses them to stop a block early."""

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np


def log_e_values(log_e: np.ndarray, log_density: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Log E-values [c, s] of chains after each of s further draws, in float64.

    log E_k = sum_{t <= k} [ log p(held-out rows | theta_t) - log p(held-out rows | theta_0) ]

    with the draws theta_t of a chain and its own warm start theta_0 (eBNN, arXiv 2604.18089, which holds out the first
    30 % of the test rows). eBNN writes the reference as log p(val | DE); its code takes the chain's own member of the
    deep ensemble. Draws are added one at a time, so the result does not depend (even in rounding) on how many are
    passed at a time. A density of 0 makes every later E-value 0 (log E-value -inf). A density that is infinite or NaN,
    or a warm start without a finite density, makes every later E-value NaN.

    Args:
        log_e: log E-values [c] after the previous draws; zeros at the start.
        log_density: log density [c, s] of all held-out rows together under each of the next draws, in order.
        reference: log density [c] of all held-out rows together under the warm starts.
    """
    defined = np.isfinite(reference)[:, None] & (log_density < np.inf)
    change = np.subtract(log_density, reference[:, None], out=np.full(log_density.shape, np.nan), where=defined)
    return np.cumsum(np.concatenate([log_e[:, None], change], axis=1), axis=1)[:, 1:]


def crossings(log_e: np.ndarray, alpha: float) -> np.ndarray:
    """Number of draws [c] after which each chain's E-value first reached 1 / alpha; 0 if it never did.

    At that draw there is evidence that the draws so far predict better than the reference; later draws can reverse this
    evidence.
    """
    reached = log_e >= -math.log(alpha)
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 0)


log = logging.getLogger(__name__)


class StoppingRule:
    """Ends a block at the first draw by which the E-value of every chain has reached 1 / alpha.

    E-values (`log_e_values`) use rows that the posterior is not conditioned on. A chain whose E-value has once reached
    1 / alpha counts as having reached this level, whatever follows. Suppose that draws predict the held-out rows no
    better than the warm start, in the sense that E exp(log p(rows | draw) - log p(rows | warm start)) is at most 1
    given the previous draws: then the probability that a chain ever reaches 1 / alpha is at most alpha (Ville 1939).
    """

    def __init__(
        self,
        alpha: float,
        log_density: Callable[[np.ndarray], np.ndarray],
        starts: np.ndarray,
        chain_ids: np.ndarray,
    ) -> None:
        """Watch chains.

        Args:
            alpha: level, between 0 and 1.
            log_density: parameters [..., P] -> log density [...] of the held-out rows, float64; the value for one
                parameter vector must not depend on other parameter vectors.
            starts: warm starts [chain, P].
            chain_ids: indices of the chains, for messages.
        """
        self.alpha = alpha
        self._log_density, self._starts, self._chain_ids = log_density, starts, chain_ids
        self._reference: np.ndarray | None = None
        self._log_e = np.zeros(len(starts))
        self._seen = 0
        self._crossed = np.zeros(len(starts), np.int64)

    @property
    def end(self) -> int | None:
        """Draws per chain at the end of the block; None while the E-value of some chain is below 1 / alpha."""
        return int(self._crossed.max()) if self._crossed.all() else None

    def update(self, draws: np.ndarray) -> int | None:
        """Take the next draws [chain, s, P] of all chains into account; return the end of the block, if reached."""
        if self.end is not None:
            return self.end
        if self._reference is None:
            self._reference = self._of_starts()
        values = log_e_values(self._log_e, self._log_density(draws), self._reference)
        crossed = crossings(values, self.alpha)
        self._crossed = np.where((self._crossed == 0) & (crossed > 0), self._seen + crossed, self._crossed)
        self._log_e, self._seen = values[:, -1], self._seen + draws.shape[1]
        return self.end

    @property
    def crossed(self) -> dict[str, int | None]:
        """Chain index -> number of draws when the chain's E-value first reached 1 / alpha; None if it did not."""
        return {str(chain): int(draw) or None for chain, draw in zip(self._chain_ids, self._crossed, strict=True)}

    def report(self, planned: int) -> dict[str, Any]:
        """The rule's report for the trace, as JSON values: level, planned draws, and where each chain crossed."""
        return {
            "alpha": self.alpha,
            "planned_draws": planned,
            "stopped": self.end is not None and self.end < planned,
            "crossed": self.crossed,
        }

    def _of_starts(self) -> np.ndarray:
        reference = self._log_density(self._starts)
        for chain in self._chain_ids[~np.isfinite(reference)]:
            log.warning("held-out rows have no finite density at the warm start of chain %d: no early stop", chain)
        return reference
