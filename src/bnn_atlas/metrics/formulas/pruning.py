"""Orders in which parameters are pruned, and pruned networks."""

from collections.abc import Sequence

import numpy as np


def pruned(theta: np.ndarray, rank: np.ndarray, kept: Sequence[float]) -> np.ndarray:
    """Networks [k, P] that keep the parameters of theta [P] with the smallest `rank` [P]; the others are 0.

    Of P parameters int(P kept / 100) stay, as in the published code. Ties are broken by the place in theta. Each
    network is made of theta afresh. Raises ValueError for ranks that are not finite.
    """
    if not np.isfinite(rank).all():
        raise ValueError(f"{(~np.isfinite(rank)).sum():,} of {rank.size:,} parameters have no rank")
    order = np.argsort(rank, kind="stable")
    networks = np.zeros((len(kept), theta.size), theta.dtype)
    for network, percent in zip(networks, kept, strict=True):
        stays = order[: int(theta.size * percent / 100)]
        network[stays] = theta[stays]
    return networks


def by_sd(sd: np.ndarray) -> np.ndarray:
    """The largest standard deviation goes first (Xiao et al. 2023)."""
    return sd


def by_signal_to_noise(theta: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """The smallest |theta| / sd goes first (Graves 2011; Blundell et al. 2015); what has no spread goes last."""
    last = np.full(theta.shape, np.finfo(np.float64).max)
    return -np.divide(np.abs(theta), sd, out=last, where=sd > 0, dtype=np.float64)


def by_magnitude(theta: np.ndarray) -> np.ndarray:
    """The smallest |theta| goes first."""
    return -np.abs(theta)


def by_chance(generator: np.random.Generator, size: int) -> np.ndarray:
    """A uniformly random order."""
    return generator.permutation(size).astype(np.float64)


def by_prior_sd(generator: np.random.Generator, size: int, draws: int) -> np.ndarray:
    """The order of the sds s of draws from one normal prior, which say nothing: s^2 (n - 1) ~ chi^2_(n - 1)."""
    return np.sqrt(generator.chisquare(draws - 1, size))
