"""Matchings of pairs of draws, without a frame: how far labels move within and across chains, and along a detour."""

from typing import NamedTuple

import numpy as np

from bnn_atlas.symmetry.features import Features
from bnn_atlas.symmetry.matching import match
from bnn_atlas.symmetry.permutation import compose, transpositions
from bnn_atlas.traces.draws import Draws

PAIRING = 1
"""Distinguishes the random numbers of pairs from those of the scrambled control (`symmetry.alignment`)."""


class Pairs(NamedTuple):
    """Pairs of finite draws, each given by the places of its chains and draws [k, 2], and what matching them says."""

    chains: np.ndarray
    draws: np.ndarray
    transpositions: np.ndarray
    """NoT [k, groups] of the permutation that brings the second draw near the first."""
    consistency: np.ndarray
    """Of triples (a, b, c) of draws, of different chains as far as there are: the share of units [t, groups] for which
    P_ab P_bc = P_ac. It is 1 for permutations to a common frame."""

    @property
    def within(self) -> np.ndarray:
        """Which pairs [k] are of one chain."""
        return np.asarray(self.chains[:, 0] == self.chains[:, 1])


def match_pairs(
    draws: Draws, features: Features, finite: np.ndarray, count: int, seed: int, *, signed: bool = False
) -> Pairs:
    """Match up to `count` random pairs within chains, as many across, and a fifth as many triples."""
    generator = np.random.default_rng([PAIRING, seed])
    places = [np.flatnonzero(usable) for usable in finite]
    long, some = ([i for i, each in enumerate(places) if len(each) >= least] for least in (2, 1))
    chosen: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for _ in range(count if long else 0):
        chain = int(generator.choice(long))
        first, second = (int(n) for n in generator.choice(places[chain], size=2, replace=False))
        chosen.append(((chain, first), (chain, second)))
    for _ in range(count if len(some) > 1 else 0):
        one, other = (int(n) for n in generator.choice(some, size=2, replace=False))
        chosen.append(((one, int(generator.choice(places[one]))), (other, int(generator.choice(places[other])))))

    def matched(first: tuple[int, int], second: tuple[int, int]) -> list[np.ndarray]:
        rows = [features.of(draws.read([chain], [draw])[0])[0] for chain, draw in (first, second)]
        return features.symmetry.split(match(features.symmetry, rows[0], rows[1][None], signed=signed).units[0])

    found = [[int(transpositions(part)) for part in matched(*pair)] for pair in chosen]
    groups = len(features.symmetry.groups)
    shares = []
    every = np.argwhere(finite)
    for _ in range(max(1, count // 5) if len(every) > 2 else 0):
        if len(some) > 2:
            taken = [int(n) for n in generator.choice(some, size=3, replace=False)]
            a, b, c = ((chain, int(generator.choice(places[chain]))) for chain in taken)
        else:
            a, b, c = (
                (int(every[i][0]), int(every[i][1])) for i in generator.choice(len(every), size=3, replace=False)
            )
        detours = [compose(second, first) for first, second in zip(matched(a, b), matched(b, c), strict=True)]
        shares.append([float((x == y).mean()) for x, y in zip(detours, matched(a, c), strict=True)])
    ids = np.array(chosen, dtype=np.int64).reshape(-1, 2, 2)
    return Pairs(
        ids[..., 0], ids[..., 1], np.array(found, np.int64).reshape(-1, groups), np.array(shares).reshape(-1, groups)
    )
