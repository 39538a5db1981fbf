"""Which unit of a network is which unit of another: exact assignments, group after group, until nothing changes.

Weight matching of git-re-basin (Ainsworth et al. 2023) for many draws at once: with r the reference, it increases

    <r, P w> = sum over all parameters of r (P w)

over permutations P, which decreases |r - P w|. Every criterion is this one on other numbers than the weights
(`symmetry.features`).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from bnn_atlas.symmetry.freedoms import rows_of, transform
from bnn_atlas.symmetry.groups import Group, Symmetry
from bnn_atlas.symmetry.permutation import compose

SWEEPS = 100
"""Most sweeps over the groups; as a rule a few are enough."""
ROUNDING = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-14}
"""Gain of an assignment, relative to |r| |w|, that rounding can feign."""


class Matched(NamedTuple):
    """Permutations and signs that bring draws near a reference."""

    units: np.ndarray
    """Permutations of all groups [m, units], 16 bits."""
    signs: np.ndarray
    """-1 or 1 for each unit [m, units], 8 bits; after the permutation. 1 everywhere unless signs are matched."""
    objective: np.ndarray
    """<r, P w> [m], in float64."""
    sweeps: int
    """Sweeps over the groups that it took for all draws."""

    @classmethod
    def unmoved(cls, symmetry: Symmetry, count: int) -> "Matched":
        """Identities for `count` draws."""
        units = np.tile(symmetry.identity, (count, 1))
        return cls(units, np.ones_like(units, dtype=np.int8), np.zeros(count), 0)


def match(
    symmetry: Symmetry, reference: np.ndarray, draws: np.ndarray, *, signed: bool = False, start: Matched | None = None
) -> Matched:
    """Bring draws [m, P] near a reference [P] by permutations, from `start` or from the identity on.

    In each group the assignment is exact, the others fixed, and it is taken only where the objective grows, so that the
    objective never decreases; a network of one group is done in one sweep. With `signed`, units with the freedom `sign`
    also get the better sign. Groups are visited from the input on, in every sweep the same way.
    """
    found = start or Matched.unmoved(symmetry, len(draws))
    units, signs = found.units.copy(), found.signs.copy()
    current = transform(symmetry, draws, units, signs if signed else None)
    rounding = ROUNDING[current.dtype] * float(np.linalg.norm(reference)) * np.linalg.norm(current, axis=1)
    parts, part_signs = symmetry.split(units), symmetry.split(signs)
    active, sweeps = np.arange(len(draws)), 0
    decoupled = _decoupled(symmetry)
    while len(active) and sweeps < SWEEPS:
        sweeps += 1
        moved = np.zeros(len(draws), dtype=bool)
        for number, group in enumerate(symmetry.groups):
            flips = signed and "sign" in group.freedoms
            best, turned, gains = _assign(symmetry, group, reference, current[active], flips)
            gained = gains > rounding[active]
            better = active[gained]
            if not len(better):
                continue
            orders, flipped = best[gained], turned[gained] if flips else None
            alone = replace(symmetry, groups=(group,))
            candidate = transform(alone, current[better], orders, flipped)
            if _recurrent(group):
                # The gain is that of a linear part of a quadratic objective.
                before, after = (_dots(reference, part) for part in (current[better], candidate))
                kept = after - before > rounding[better]
                better, candidate, orders = better[kept], candidate[kept], orders[kept]
                flipped = flipped[kept] if flipped is not None else None
            current[better] = candidate
            parts[number][better] = compose(parts[number][better], orders)
            if flipped is not None:
                part_signs[number][better] = compose(part_signs[number][better], orders) * flipped
            moved[better] = True
        active = np.flatnonzero(moved) if not decoupled else active[:0]
    return Matched(units, signs, _dots(reference, current), sweeps)


def _assign(
    symmetry: Symmetry, group: Group, reference: np.ndarray, current: np.ndarray, flips: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best order [m, n] of one group's units, their signs, and what it gains over the present one."""
    similarity = similarities(symmetry, group, reference, current)
    magnitude = np.abs(similarity) if flips else similarity
    orders = np.stack([linear_sum_assignment(each, maximize=True)[1] for each in magnitude])
    picked = np.take_along_axis(magnitude, orders[:, :, None], axis=2)[..., 0].astype(np.float64).sum(axis=1)
    present = np.trace(similarity, axis1=1, axis2=2, dtype=np.float64)
    values = np.take_along_axis(similarity, orders[:, :, None], axis=2)[..., 0]
    return orders, np.where(values < 0, -1, 1).astype(np.int8), picked - present


def similarities(symmetry: Symmetry, group: Group, reference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Products [m, n, n] of what unit i of the reference [P] and unit j of each draw [m, P] have at all places."""
    total = np.zeros((len(draws), group.size, group.size), np.result_type(reference, draws))
    for place in group.places:
        ours = rows_of(symmetry, place, group.size, reference[None])[0]
        theirs = rows_of(symmetry, place, group.size, draws)
        total += ours @ theirs.transpose(0, 2, 1)
    return total


def _decoupled(symmetry: Symmetry) -> bool:
    """Whether no array is indexed by two groups, or twice by one, so that one sweep is exact."""
    arrays = [place.array for group in symmetry.groups for place in group.places]
    return len(set(arrays)) == len(arrays)


def _recurrent(group: Group) -> bool:
    """Whether a group has two axes of one array, as the cells of an LSTM."""
    return len({place.array for place in group.places}) < len(group.places)


def _dots(reference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    return np.asarray(draws.astype(np.float64) @ reference.astype(np.float64))
