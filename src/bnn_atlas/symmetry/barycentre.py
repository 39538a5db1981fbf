"""A common frame of several networks: permutations that make their mean long, and so their spread small.

Sum_k w_k |P_k x_k - m|^2 with m their weighted mean is sum_k w_k |x_k|^2 - W |m|^2. Matching each network to m never
decreases sum_k w_k <m, P_k x_k>, nor then does the new mean decrease |m|^2: the objective grows to a fixed point.
"""

from typing import NamedTuple

import numpy as np

from bnn_atlas.symmetry.features import Features
from bnn_atlas.symmetry.freedoms import transform
from bnn_atlas.symmetry.matching import Matched, match

PASSES = 200
"""Most rounds before the iteration ends; the objective has no upper limit on their number short of all permutations."""


class Barycentre(NamedTuple):
    """A common frame."""

    matched: Matched
    centre: np.ndarray
    """Mean of the features in this frame [F], in float64."""
    objective: tuple[float, ...]
    """|m|^2 at the start and after each round."""
    fixed: bool
    """Whether the last round moved no unit."""


def barycentre(features: Features, rows: np.ndarray, weights: np.ndarray, *, signed: bool = False) -> Barycentre:
    """The common frame of features rows [m, F], each with its weight [m] > 0.

    Of two starts, the rows as they are and all matched to the first, the better end is taken, so that the frame is
    never worse than none.
    """
    as_they_are = Matched.unmoved(features.symmetry, len(rows))
    to_first = match(features.symmetry, rows[0], rows, signed=signed)
    ends = [_settled(features, rows, weights, start, signed) for start in (as_they_are, to_first)]
    return max(ends, key=lambda end: end.objective[-1])


def centre_of(features: Features, rows: np.ndarray, weights: np.ndarray, matched: Matched) -> np.ndarray:
    """Weighted mean [F] of features rows [m, F] in their frame, in float64."""
    moved = transform(features.symmetry, rows, matched.units, matched.signs)
    mean: np.ndarray = np.average(moved.astype(np.float64), axis=0, weights=weights)
    return mean


def _settled(features: Features, rows: np.ndarray, weights: np.ndarray, start: Matched, signed: bool) -> Barycentre:
    found, centre = start, centre_of(features, rows, weights, start)
    objective, fixed = [float(centre @ centre)], False
    while not fixed and len(objective) <= PASSES:
        after = match(features.symmetry, centre.astype(rows.dtype), rows, signed=signed, start=found)
        fixed = same(after, found)
        found = after
        if not fixed:
            centre = centre_of(features, rows, weights, found)
            objective.append(float(centre @ centre))
    return Barycentre(found, centre, tuple(objective), fixed)


def same(first: Matched, second: Matched) -> bool:
    """Whether two have the same permutations and signs."""
    return np.array_equal(first.units, second.units) and np.array_equal(first.signs, second.signs)
