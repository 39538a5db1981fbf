"""Permutations, sign flips and rescalings of units that leave the network function unchanged.

A permutation p [n] puts unit p[i] at place i: a layer's weight W becomes W[p], and the next layer's V becomes V[:, p].
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.metrics.gathering.virial import Rescaling
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.groups import (
    Group,
    InnerGroup,
    Part,
    Place,
    Symmetry,
    SymmetryError,
    scales_of,
    signs_of,
    symmetry_of,
)


def apply(symmetry: Symmetry, theta: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Parameters [..., P] with reordered units, which leaves the function of the network unchanged.

    With P_g the permutation of group g, every array W is indexed by P_g along each axis of group g:
    W <- W[P_g], W <- W[:, P_h], and so on.

    Args:
        symmetry: symmetry of the network.
        theta: parameters [..., P].
        units: permutations of all groups [..., units], with the same leading axes as theta or none.
    """
    lead = np.broadcast_shapes(theta.shape[:-1], units.shape[:-1])
    out = np.array(np.broadcast_to(theta, (*lead, theta.shape[-1]))).reshape(-1, theta.shape[-1])
    orders = np.broadcast_to(units, (*lead, symmetry.units)).reshape(-1, symmetry.units).astype(np.intp)
    at: dict[tuple[str, int], list[tuple[Place, np.ndarray]]] = {}
    for group, order in zip(symmetry.groups, symmetry.split(orders), strict=True):
        for place in group.places:
            at.setdefault((place.array, place.axis), []).append((place, order))
    shapes = {p.name: p.shape for p in symmetry.layout.parameters}
    for (name, axis), places in at.items():
        shape = shapes[name]
        start = symmetry.layout.offset(name)
        array = out[:, start : start + int(np.prod(shape))].reshape(-1, *shape)
        index = np.tile(np.arange(shape[axis]), (len(out), 1))
        for place, order in places:
            unmoved = place.indices(np.arange(order.shape[-1]))
            index[:, unmoved] = place.indices(order)
        array[...] = _take(array, index, axis + 1)
    return out.reshape(*lead, theta.shape[-1])


def _take(array: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """Select entries of an array [m, ...] along an axis by indices [m, length]; for axis 1 whole rows are copied."""
    if axis == 1:
        taken: np.ndarray = array[np.arange(len(array))[:, None], index]
        return taken
    lead = (len(array), *(1,) * (axis - 1), index.shape[1], *(1,) * (array.ndim - axis - 1))
    return np.take_along_axis(array, index.reshape(lead), axis)


def compose(first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """The permutation [..., n] that does `first`, then `then`: apply(then, apply(first, w))."""
    both = np.broadcast_arrays(first, then)
    return np.take_along_axis(both[0], both[1].astype(np.intp), axis=-1)


def invert(permutation: np.ndarray) -> np.ndarray:
    """The inverse [..., n] of a permutation."""
    inverse = np.empty_like(permutation)
    order = np.broadcast_to(np.arange(permutation.shape[-1], dtype=permutation.dtype), permutation.shape)
    np.put_along_axis(inverse, permutation.astype(np.intp), order, axis=-1)
    return inverse


def compose_units(symmetry: Symmetry, first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """`compose` of the permutations of all groups [..., units]."""
    return symmetry.join([compose(a, b) for a, b in zip(symmetry.split(first), symmetry.split(then), strict=True)])


def invert_units(symmetry: Symmetry, units: np.ndarray) -> np.ndarray:
    """`invert` of the permutations of all groups [..., units]."""
    return symmetry.join([invert(part) for part in symmetry.split(units)])


def transpositions(permutation: np.ndarray) -> np.ndarray:
    """Number of transpositions (NoT) of permutations [..., n]: n minus the number of cycles.

    NoT is the smallest number of exchanges of two units that produce the permutation; its parity is the sign of the
    permutation. Xiao et al. 2023, section 2.
    """
    step = permutation.astype(np.intp)
    order = np.broadcast_to(np.arange(step.shape[-1]), step.shape)
    smallest = order.copy()
    # Finds the smallest element of each cycle: after k rounds, the smallest of the next 2^k elements is known.
    for _ in range(max(1, step.shape[-1] - 1).bit_length()):
        smallest = np.minimum(smallest, np.take_along_axis(smallest, step, axis=-1))
        step = np.take_along_axis(step, step, axis=-1)
    return np.asarray(step.shape[-1] - (smallest == order).sum(axis=-1))


def ceiling(size: int) -> float:
    """Mean number of transpositions of uniformly random permutations of n units, n - (1 + 1/2 + ... + 1/n)."""
    return float(size - (1.0 / np.arange(1, size + 1)).sum())


def uniform_units(symmetry: Symmetry, generator: np.random.Generator) -> np.ndarray:
    """Uniformly random permutations [units], independent for each group and, inside other units, for each slot."""
    parts: dict[str, np.ndarray] = {}
    for group in symmetry.groups:
        if isinstance(group, InnerGroup):
            outer = parts[group.inside]
            count = group.size // len(outer)
            inner = [generator.permutation(count) if group.exchangeable else np.arange(count) for _ in outer]
            parts[group.name] = within(np.stack(inner), outer)
        else:
            parts[group.name] = generator.permutation(group.size)
    return symmetry.join(parts.values())


def within(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Permutations [..., slots n] of units inside slots.

    The slots get the order `outer` [..., slots], and then the n units of each slot the order `inner` [..., slots, n].
    """
    count = inner.shape[-1]
    total = outer[..., None].astype(np.intp) * count + inner
    return total.reshape(*total.shape[:-2], -1)


def with_transpositions(generator: np.random.Generator, size: int, count: int) -> np.ndarray:
    """A random permutation [n] of exactly `count` transpositions, drawn as in Xiao et al. 2023.

    Each of n - count cycles gets one random element, and each remaining element joins a uniformly random cycle. Raises
    SymmetryError for a count outside 0..n-1.
    """
    if not 0 <= count < size:
        raise SymmetryError(f"a permutation of {size} units has 0 to {size - 1} transpositions, not {count}")
    owners = np.concatenate([np.arange(size - count), generator.integers(size - count, size=count)])
    elements = generator.permutation(size)
    permutation = np.empty(size, dtype=np.int64)
    for cycle in range(size - count):
        members = elements[owners == cycle]
        permutation[members] = np.roll(members, -1)
    return permutation


SWEEPS = 1000
"""Largest number of sweeps over the groups in `balanced`."""
TOLERANCE = 1e-6
"""Largest relative change of a scale in the last sweep of `balanced`."""


def require(symmetry: Symmetry, kind: Literal["signs", "scales"]) -> None:
    """Raise SymmetryError if no group of the network has free `signs` or `scales`."""
    free = {"signs": signs_of, "scales": scales_of}[kind]
    if not any(free(group) for group in symmetry.groups):
        have = {
            "signs": "units of tanh, cells of an LSTM and filters before a norm",
            "scales": "units of relu and filters before a norm",
        }[kind]
        raise SymmetryError(f"this network has no {kind} to remove ({have} have {kind}); leave this out")


def transform(symmetry: Symmetry, theta: np.ndarray, units: np.ndarray, signs: np.ndarray | None = None) -> np.ndarray:
    """Parameters [..., P] with units reordered and then multiplied by the signs of the units [..., units].

    Units inside the units of another group are reordered after these. Raises SymmetryError if their permutation is not
    that of the outer group with other orders inside.
    """
    moved = _reordered(symmetry, theta, units)
    if signs is None:
        return moved
    flat = moved.reshape(-1, moved.shape[-1])
    every = np.broadcast_to(signs, (*moved.shape[:-1], symmetry.units)).reshape(-1, symmetry.units)
    for group, sign in zip(symmetry.groups, symmetry.split(every), strict=True):
        if (places := signs_of(group)) and (sign < 0).any():
            for place in places:
                _multiply(symmetry, place, flat, sign)
    return moved


def _reordered(symmetry: Symmetry, theta: np.ndarray, units: np.ndarray) -> np.ndarray:
    inside = [group for group in symmetry.groups if isinstance(group, InnerGroup)]
    if not inside:
        return apply(symmetry, theta, units)
    orders = {group.name: part for group, part in zip(symmetry.groups, symmetry.split(units), strict=True)}
    whole = replace(symmetry, groups=tuple(g for g in symmetry.groups if not isinstance(g, InnerGroup)))
    moved = apply(whole, theta, whole.join([orders[group.name] for group in whole.groups]))
    flat = moved.reshape(-1, moved.shape[-1])
    row = np.arange(len(flat))[:, None, None]
    for group in inside:
        outer = orders[group.inside].astype(np.intp)
        slots = outer.shape[-1]
        count = group.size // slots
        inner = orders[group.name].reshape(*outer.shape, count) - outer[..., None] * count
        if ((inner < 0) | (inner >= count)).any():
            raise SymmetryError(f"the permutation of {group.name} does not follow that of {group.inside}")
        inner = np.broadcast_to(inner, (*moved.shape[:-1], slots, count)).reshape(len(flat), slots, count)
        for place in group.places:
            view = parts_of(symmetry, place, group.size, flat)
            view[...] = view[row, np.arange(slots)[:, None], inner]
    return moved


def balanced(symmetry: Symmetry, theta: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """The parameters [m, P], with units rescaled to minimise the norm of the parameters, in float64.

    `others` [m, P], such as standard deviations of these parameters, are rescaled in the same way.

    Every unit that can be rescaled then has incoming and outgoing parameters with equal norms, |in| = |out|:

        in <- in s,   out <- out / s,   s = sqrt(|out| / |in|),

    set by set of `scales` until no s differs from 1 by more than `TOLERANCE`. Units with |in| = 0 or |out| = 0 keep
    their scale. Parameters that are normalised afterwards, which have no outgoing parameters, get |in| = 1. A filter
    response norm y = x / sqrt(nu^2 + e) changes with the scale s of x by (e / 2) |1 / nu^2 - 1 / (s nu)^2| relative to
    y; everything else is exact. Raises SymmetryError in the same cases as `require`, and if the scales do not converge.
    """
    require(symmetry, "scales")
    result, *rest = (array.astype(np.float64) for array in (theta, *others))
    free = [(group, places) for group in symmetry.groups for places in scales_of(group)]
    for _ in range(SWEEPS):
        largest = 0.0
        for group, places in free:
            square = _square(symmetry, group, places, result, incoming=True)
            target = _square(symmetry, group, places, result, incoming=False)
            if all(place.incoming for place in places):
                target = np.ones_like(square) / np.where(square > 0, square, 1.0)
            usable = (square > 0) & (target > 0)
            ratio = np.divide(target, square, out=np.ones_like(square), where=usable)
            scale = ratio**0.25
            largest = max(largest, float(np.abs(scale - 1).max(initial=0.0)))
            for place in places:
                for array in (result, *rest):
                    _multiply(symmetry, place, array, scale if place.incoming else 1 / scale)
        if largest < TOLERANCE or not np.isfinite(largest):
            return result, *rest
    raise SymmetryError(f"scales of units did not converge in {SWEEPS} sweeps: the last moved a scale by {largest:.1e}")


def rescalings(model: ModelConfig, layout: Layout) -> list[Rescaling]:
    """The parameters of each layer of hidden units that a factor leaves the function unchanged; none without units."""
    try:
        symmetry = symmetry_of(model, layout)
    except SymmetryError:
        return []
    positions, found = np.arange(layout.size)[None], []
    for group in symmetry.groups:
        for places in scales_of(group):
            sides = [
                [rows_of(symmetry, place, group.size, positions).ravel() for place in places if place.incoming == side]
                for side in (True, False)
            ]
            found.append(Rescaling(group.name, *(np.concatenate(side) for side in sides)))
    return found


def _square(
    symmetry: Symmetry, group: Group, places: tuple[Place, ...], theta: np.ndarray, *, incoming: bool
) -> np.ndarray:
    """Sums of squares [m, n] of each unit's incoming or outgoing parameters at these places."""
    rows = [rows_of(symmetry, place, group.size, theta) for place in places if place.incoming == incoming]
    return np.asarray(sum((part**2).sum(axis=-1) for part in rows))


def rows_of(symmetry: Symmetry, place: Place, size: int, theta: np.ndarray) -> np.ndarray:
    """The parameters [m, n, k] of each unit at one place (array and axis), from theta [m, P]."""
    if isinstance(place, Part):
        return parts_of(symmetry, place, size, theta).reshape(len(theta), size, -1)
    view = view_of(symmetry, place, theta)
    part = view[:, place.start : place.start + place.blocks * size * place.inner]
    blocks = part.reshape(len(theta), place.blocks, size, place.inner, -1)
    return np.moveaxis(blocks, 2, 1).reshape(len(theta), size, -1)


def parts_of(symmetry: Symmetry, place: Place, size: int, theta: np.ndarray) -> np.ndarray:
    """A view [m, slots, n, ...] of the parameters of each unit in each slot, from theta [m, P]; size is slots n."""
    assert isinstance(place, Part)
    view = view_of(symmetry, place, theta)
    count = size // place.slots
    if place.slot_axis is None:
        sizes = place.blocks, place.slots, place.between, count, place.inner
        view = view[:, place.start : place.start + int(np.prod(sizes))]
        return np.moveaxis(view.reshape(len(theta), *sizes, *view.shape[2:]), (2, 4), (1, 2))
    view = np.moveaxis(view, place.slot_axis + (2 if place.slot_axis < place.axis else 1), 1)
    view = view[:, :, place.start : place.start + count * place.between * place.inner]
    split = view.reshape(len(theta), place.slots, -1, place.between, count, place.inner, *view.shape[3:])
    return np.moveaxis(split, 4, 2)


def _multiply(symmetry: Symmetry, place: Place, theta: np.ndarray, factors: np.ndarray) -> None:
    """Multiply, in place, each unit's parameters at one place (array and axis) by the unit's factor [m, n]."""
    if isinstance(place, Part):
        parts = parts_of(symmetry, place, factors.shape[1], theta)
        parts *= factors.astype(theta.dtype).reshape(*parts.shape[:3], *(1,) * (parts.ndim - 3))
        return
    view = view_of(symmetry, place, theta)
    by_index = np.tile(np.repeat(factors, place.inner, axis=1), (1, place.blocks)).astype(theta.dtype)
    end = place.start + by_index.shape[1]
    view[:, place.start : end] *= by_index.reshape(*by_index.shape, *(1,) * (view.ndim - 2))


def averaged(symmetry: Symmetry, theta: np.ndarray, *, signed: bool = False) -> np.ndarray:
    """Parameters [P] averaged over the orders of all groups, axis by axis, and over the signs of free units (0).

    Of an array that a group indexes along two axes, the diagonal is averaged with the other entries.
    """
    found = np.array(theta)[None]
    for group in symmetry.groups:
        if not isinstance(group, InnerGroup) or group.exchangeable:
            for place in group.places:
                if isinstance(place, Part):
                    parts = parts_of(symmetry, place, group.size, found)
                    parts[...] = parts.mean(axis=2, keepdims=True)
                    continue
                view = view_of(symmetry, place, found)
                end = place.start + place.blocks * group.size * place.inner
                units = view[:, place.start : end].reshape(place.blocks, group.size, place.inner, *view.shape[2:])
                spread = np.broadcast_to(units.mean(axis=1, keepdims=True), units.shape)
                view[:, place.start : end] = spread.reshape(1, -1, *view.shape[2:])
        for place in signs_of(group) if signed else ():
            _multiply(symmetry, place, found, np.zeros((1, group.size)))
    return found[0]


def view_of(symmetry: Symmetry, place: Place, theta: np.ndarray) -> np.ndarray:
    """A view of the place's array in theta [m, P], with the place's axis second."""
    start = symmetry.layout.offset(place.array)
    shape = next(p.shape for p in symmetry.layout.parameters if p.name == place.array)
    array = theta[:, start : start + int(np.prod(shape))].reshape(len(theta), *shape)
    return np.moveaxis(array, place.axis + 1, 1)
