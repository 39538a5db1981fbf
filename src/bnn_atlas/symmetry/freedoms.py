"""Signs and scales of units, which, like their order, can change without a change of the network's function."""

import numpy as np

from bnn_atlas.symmetry.groups import Freedom, Group, Place, Symmetry, SymmetryError
from bnn_atlas.symmetry.permutation import apply

SWEEPS = 1000
"""Most sweeps over the groups before `balanced` gives up."""
TOLERANCE = 1e-6
"""Largest relative change of a scale in the last sweep of `balanced`."""


def require(symmetry: Symmetry, freedom: Freedom) -> None:
    """Raise SymmetryError if no group of the network has this freedom."""
    if not any(freedom in group.freedoms for group in symmetry.groups):
        has, what = ("relu", "scales") if freedom == "scale" else ("tanh", "signs")
        raise SymmetryError(f"this network has no {what} to remove: only units of {has} have them; leave this out")


def transform(symmetry: Symmetry, theta: np.ndarray, units: np.ndarray, signs: np.ndarray | None = None) -> np.ndarray:
    """Parameters [..., P] with units in another order, then multiplied by the signs of their units [..., units]."""
    moved = apply(symmetry, theta, units)
    if signs is None:
        return moved
    flat = moved.reshape(-1, moved.shape[-1])
    every = np.broadcast_to(signs, (*moved.shape[:-1], symmetry.units)).reshape(-1, symmetry.units)
    for group, sign in zip(symmetry.groups, symmetry.split(every), strict=True):
        if "sign" in group.freedoms and (sign < 0).any():
            for place in group.places:
                _multiply(symmetry, place, flat, sign)
    return moved


def balanced(symmetry: Symmetry, theta: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """The parameters [m, P] with the scales of units that minimise their norm, in float64.

    `others` [m, P], such as standard deviations of these parameters, get the same scales.

    Every unit with the freedom `scale` then has incoming and outgoing parameters with equal norms, |in| = |out|:

        in <- in s,   out <- out / s,   s = sqrt(|out| / |in|),

    group by group until no s moves by more than `TOLERANCE`. Units with |in| = 0 or |out| = 0 keep their scale. Raises
    SymmetryError as `require`, and if the scales do not settle.
    """
    require(symmetry, "scale")
    result, *rest = (array.astype(np.float64) for array in (theta, *others))
    groups = [group for group in symmetry.groups if "scale" in group.freedoms]
    for _ in range(SWEEPS):
        largest = 0.0
        for group in groups:
            square = {way: _square(symmetry, group, result, way) for way in (True, False)}
            usable = (square[True] > 0) & (square[False] > 0)
            ratio = np.divide(square[False], square[True], out=np.ones_like(square[True]), where=usable)
            scale = ratio**0.25
            largest = max(largest, float(np.abs(scale - 1).max(initial=0.0)))
            for place in group.places:
                for array in (result, *rest):
                    _multiply(symmetry, place, array, scale if place.incoming else 1 / scale)
        if largest < TOLERANCE or not np.isfinite(largest):
            return result, *rest
    raise SymmetryError(f"scales of units did not settle in {SWEEPS} sweeps; the last one moved one by {largest:.1e}")


def _square(symmetry: Symmetry, group: Group, theta: np.ndarray, incoming: bool) -> np.ndarray:
    """Sums of squares [m, n] of each unit's incoming or outgoing parameters."""
    places = [place for place in group.places if place.incoming == incoming]
    rows = [rows_of(symmetry, place, group.size, theta) for place in places]
    return np.asarray(sum((part**2).sum(axis=-1) for part in rows))


def rows_of(symmetry: Symmetry, place: Place, size: int, theta: np.ndarray) -> np.ndarray:
    """The parameters of each unit at a place [m, n, k], from theta [m, P]."""
    view = view_of(symmetry, place, theta)
    part = view[:, place.start : place.start + place.blocks * size * place.inner]
    blocks = part.reshape(len(theta), place.blocks, size, place.inner, -1)
    return np.moveaxis(blocks, 2, 1).reshape(len(theta), size, -1)


def _multiply(symmetry: Symmetry, place: Place, theta: np.ndarray, factors: np.ndarray) -> None:
    """Multiply each unit's parameters at a place by its factor [m, n], in place."""
    view = view_of(symmetry, place, theta)
    by_index = np.tile(np.repeat(factors, place.inner, axis=1), (1, place.blocks)).astype(theta.dtype)
    end = place.start + by_index.shape[1]
    view[:, place.start : end] *= by_index.reshape(*by_index.shape, *(1,) * (view.ndim - 2))


def view_of(symmetry: Symmetry, place: Place, theta: np.ndarray) -> np.ndarray:
    """A view of the place's array in theta [m, P], with the place's axis second."""
    start = symmetry.layout.offset(place.array)
    shape = next(p.shape for p in symmetry.layout.parameters if p.name == place.array)
    array = theta[:, start : start + int(np.prod(shape))].reshape(len(theta), *shape)
    return np.moveaxis(array, place.axis + 1, 1)
