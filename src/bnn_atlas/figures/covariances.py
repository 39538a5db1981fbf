"""Covariance of parameters over draws, pooled and within chains, from a table that need not fit in memory."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.figures.subsets import states

LARGEST = 1500
"""Parameters at most: a matrix has their square."""


class Covariances(NamedTuple):
    """Covariance matrices [p, p] of the parameters `names`.

    `pooled` is that of all N draws of C chains together, scatter about the common mean / (N - 1); `within` the mean of
    the chains' own covariances, weighted by their length: scatter about the chains' means / (N - C).
    """

    names: tuple[str, ...]
    pooled: np.ndarray
    within: np.ndarray
    chains: int
    draws: int
    """Draws of all chains."""
    left_out: int
    """Chains with a value that is not finite; they enter nothing."""


def covariances(path: str | Path) -> Covariances:
    """Both covariances of a subset table, in two passes over it.

    Raises ValueError for a table without draws or finite chains, with one draw per chain, or too many parameters.
    """
    bad, seen, names = _survey(path)
    kept = sorted(seen - bad)
    if not kept:
        why = "every chain holds values that are not finite" if seen else "there are no draws"
        raise ValueError(f"{path}: {why}; look at the run's diagnostics")
    if len(names) > LARGEST:
        raise ValueError(f"{path}: {len(names)} parameters; a covariance is drawn of at most {LARGEST}, choose fewer")
    row = {chain: i for i, chain in enumerate(kept)}
    counts, sums = np.zeros(len(kept)), np.zeros((len(kept), len(names)))
    products = np.zeros((len(names), len(names)))
    origin: np.ndarray | None = None
    for part in states(path):
        good = np.isin(part.chain, kept)
        values = part.values[good].astype(np.float64)
        if not len(values):
            continue
        # Products about a place among the draws lose no digits to a mean far from 0.
        origin = values[0] if origin is None else origin
        centred = values - origin
        place = np.array([row[int(chain)] for chain in part.chain[good]], dtype=int)
        np.add.at(sums, place, centred)
        counts += np.bincount(place, minlength=len(kept))
        products += centred.T @ centred
    total = counts.sum()
    if total == len(kept):
        raise ValueError(f"{path}: one draw per chain has no covariance; a subset needs at least 2")
    mean = sums.sum(axis=0)
    pooled = (products - np.outer(mean, mean) / total) / (total - 1)
    within = (products - (sums / counts[:, None]).T @ sums) / (total - len(kept))
    return Covariances(names, pooled, within, len(kept), int(total), len(bad))


def correlations(covariance: np.ndarray) -> np.ndarray:
    """Correlation matrix of a covariance matrix; NaN in the rows and columns of parameters that do not vary."""
    deviation = np.sqrt(np.clip(np.diag(covariance), 0, None))
    # Rounding leaves a parameter that never moved with some 1e-16 of its scale.
    deviation = np.where(deviation > 1e-7 * np.nanmax(deviation, initial=0.0), deviation, np.nan)
    return np.clip(covariance / np.outer(deviation, deviation), -1, 1)


def _survey(path: str | Path) -> tuple[set[int], set[int], tuple[str, ...]]:
    """Chains with a value that is not finite, all chains, and the parameters."""
    bad: set[int] = set()
    seen: set[int] = set()
    names: tuple[str, ...] = ()
    for part in states(path):
        names = part.names
        seen |= set(np.unique(part.chain).tolist())
        bad |= set(np.unique(part.chain[~np.isfinite(part.values).all(axis=1)]).tolist())
    return bad, seen, names
