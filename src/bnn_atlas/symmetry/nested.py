"""Assignments of units that have units inside, such as attention heads: both levels together.

The best order of the units inside depends on which outer unit of a draw goes to which of the reference. So every outer
unit of a draw is tried at every place of the reference, with the orders inside by coordinate descent over the inner
groups, and the outer assignment takes the sum that is largest. All K^2 pairs of K outer units need K passes, since a
rotation of the outer units tries K pairs at a time.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from bnn_atlas.symmetry.groups import FreeGroup, Group, InnerGroup, Place, Symmetry, signs_of
from bnn_atlas.symmetry.permutation import parts_of, rows_of, transform, within

SWEEPS = 20
"""Largest number of sweeps over the inner groups."""


def families(symmetry: Symmetry) -> list[list[int]]:
    """Positions of groups that are matched together: each group with the groups inside it."""
    outer = [n for n, group in enumerate(symmetry.groups) if not isinstance(group, InnerGroup)]
    inside = [(n, group.inside) for n, group in enumerate(symmetry.groups) if isinstance(group, InnerGroup)]
    return [[n, *(m for m, name in inside if name == symmetry.groups[n].name)] for n in outer]


def unshared(symmetry: Symmetry) -> Symmetry:
    """The symmetry without the places in arrays that two families index.

    What is left says something about the units of a family before the orders of the others are known.
    """
    indexed: dict[str, set[int]] = {}
    together = families(symmetry)
    for family, members in enumerate(together):
        for number in members:
            for place in symmetry.groups[number].places:
                indexed.setdefault(place.array, set()).add(family)

    def left(places: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple(place for place in places if len(indexed[place.array]) == 1)

    groups: list[Group] = []
    for group in symmetry.groups:
        if isinstance(group, FreeGroup):
            groups.append(replace(group, places=left(group.places), signs=left(group.signs), scales=()))
        else:
            groups.append(replace(group, places=left(group.places)))
    return replace(symmetry, groups=tuple(groups))


class _Inner(NamedTuple):
    """Orders and signs [m, slots, n] of the units of each slot, for one inner group."""

    orders: np.ndarray
    signs: np.ndarray


def assign_family(
    family: Symmetry, reference: np.ndarray, current: np.ndarray, signed: bool, rounding: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best order [m, units] of a group and of the groups inside it, their signs, and the gain over no change.

    The outer assignment is exact for the inner orders found, and everything is exact if there is one inner unit per
    outer unit, which only has a sign. Outer units with several units inside have no signs of their own. The outer group
    has each parameter of the inner groups, once. `rounding` [m] is the smallest gain inside a slot that counts.
    """
    outer, *inner = family.groups
    if all(group.size == outer.size for group in inner):
        return _assign_tied(family, reference, current, signed)
    slots, every = outer.size, np.arange(outer.size)
    scores = np.empty((len(current), slots, slots))
    found: list[list[_Inner]] = []
    for shift in range(slots):
        turned = np.roll(every, -shift)
        unmoved = [within(np.tile(np.arange(group.size // slots), (slots, 1)), turned) for group in inner]
        moved = transform(family, current, family.join([turned, *unmoved]))
        before = _of_slots(family, outer, reference, moved)
        orders = _settle(family, reference, moved, signed, rounding)
        after = _of_slots(family, outer, reference, moved)
        # The first visit to a group may lose; a slot where all visits together lost stays as it was.
        worse = after < before
        after[worse] = before[worse]
        for each in orders:
            each.orders[worse], each.signs[worse] = np.arange(each.orders.shape[-1]), 1
        if shift == 0:
            present = before.sum(axis=1)
        scores[:, every, turned] = after
        found.append(orders)
    chosen = np.stack([linear_sum_assignment(each, maximize=True)[1] for each in scores])
    picked = np.take_along_axis(scores, chosen[:, :, None], axis=2)[..., 0].sum(axis=1)
    shifts = (chosen - every) % slots
    draws = np.arange(len(current))[:, None]
    parts, signs = [chosen], [np.ones_like(chosen)]
    for number in range(len(inner)):
        every_order = np.stack([each[number].orders for each in found])
        every_sign = np.stack([each[number].signs for each in found])
        parts.append(within(every_order[shifts, draws, every], chosen))
        signs.append(every_sign[shifts, draws, every].reshape(len(current), -1))
    return family.join(parts), np.concatenate(signs, axis=1).astype(np.int8), picked - present


def _assign_tied(
    family: Symmetry, reference: np.ndarray, current: np.ndarray, signed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`assign_family` for inner groups of one unit per outer unit, which have signs of their own and no order."""
    outer = family.groups[0]

    def similarity(group: Group, places: tuple[Place, ...]) -> np.ndarray:
        total = np.zeros((len(current), outer.size, outer.size))
        for place in places:
            ours, theirs = (rows_of(family, place, group.size, theta) for theta in (reference[None], current))
            total += ours @ theirs.transpose(0, 2, 1)
        return total

    total = similarity(outer, outer.places)
    turning = [similarity(group, signs_of(group) if signed else ()) for group in family.groups]
    magnitude = total + sum(np.abs(each) - each for each in turning)
    chosen = np.stack([linear_sum_assignment(each, maximize=True)[1] for each in magnitude])
    picked, *taken = (np.take_along_axis(each, chosen[:, :, None], axis=2)[..., 0] for each in (magnitude, *turning))
    signs = np.concatenate([np.where(each < 0, -1, 1) for each in taken], axis=1).astype(np.int8)
    gain = picked.sum(axis=1) - np.trace(total, axis1=1, axis2=2)
    return family.join([chosen] * len(family.groups)), signs, gain


def _settle(
    family: Symmetry, reference: np.ndarray, moved: np.ndarray, signed: bool, rounding: np.ndarray
) -> list[_Inner]:
    """Match the units inside each slot to the reference's units, and change `moved` [m, P] accordingly.

    The first visit to a group looks at arrays that no other inner group indexes, if there are any, since the orders of
    the other groups are not yet known. Later visits look at all arrays, and gain in each slot or leave it.
    """
    outer, *inner = family.groups
    slots = outer.size
    alone = [_alone(group, inner) for group in inner]
    order = sorted((n for n, group in enumerate(inner) if group.places), key=lambda number: not alone[number])
    found = []
    for group in inner:
        shape = (len(moved), slots, group.size // slots)
        found.append(_Inner(np.tile(np.arange(shape[2]), (*shape[:2], 1)), np.ones(shape, np.int8)))
    for sweep in range(SWEEPS):
        gained = False
        for number in order:
            group = inner[number]
            assert isinstance(group, InnerGroup)
            first = sweep == 0
            places = alone[number] or group.places if first else group.places
            best, turns, gains = _assign_slots(family, group, places, reference, moved, signed)
            better = gains > (-np.inf if first else rounding[:, None])
            best[~better], turns[~better] = np.arange(best.shape[-1]), 1
            if not ((best != np.arange(best.shape[-1])).any() or (turns < 0).any()):
                continue
            gained = True
            _change(family, group, moved, best, turns)
            orders, signs = found[number]
            orders[...] = np.take_along_axis(orders, best, axis=2)
            signs[...] = np.take_along_axis(signs, best, axis=2) * turns
        if not gained:
            break
    return found


def _alone(group: Group, inner: list[Group]) -> tuple[Place, ...]:
    """The places of a group in arrays that no other inner group indexes."""
    others = {place.array for other in inner if other is not group for place in other.places}
    return tuple(place for place in group.places if place.array not in others)


def _assign_slots(
    family: Symmetry,
    group: InnerGroup,
    places: tuple[Place, ...],
    reference: np.ndarray,
    moved: np.ndarray,
    signed: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best order [m, slots, n] of the units of each slot, their signs, and the gain [m, slots]."""
    # Signs act on all places of an inner group, or on none.
    flips = signed and bool(group.signs)
    similarity = np.asarray(sum(_similarities(family, place, group.size, reference, moved) for place in places))
    magnitude = np.abs(similarity) if flips else similarity
    best = np.tile(np.arange(similarity.shape[-1]), (*similarity.shape[:2], 1))
    if group.exchangeable:
        for at in np.ndindex(*similarity.shape[:2]):
            best[at] = linear_sum_assignment(magnitude[at], maximize=True)[1]
    taken = np.take_along_axis(similarity, best[..., None], axis=3)[..., 0]
    turns = np.where(taken < 0, -1, 1).astype(np.int8) if flips else np.ones_like(best, np.int8)
    present = np.einsum("...ii->...", similarity, dtype=np.float64)
    return best, turns, (taken * turns).sum(axis=-1, dtype=np.float64) - present


def _similarities(family: Symmetry, place: Place, size: int, reference: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Inner products [m, slots, n, n] of units of the reference and of each draw in the same slot."""
    ours, theirs = (_units(family, place, size, theta) for theta in (reference[None], moved))
    return np.asarray(ours @ theirs.transpose(0, 1, 3, 2))


def _units(family: Symmetry, place: Place, size: int, theta: np.ndarray) -> np.ndarray:
    parts = parts_of(family, place, size, theta)
    return parts.reshape(*parts.shape[:3], -1)


def _of_slots(family: Symmetry, outer: Group, reference: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Inner products [m, slots] of the outer units of the reference with those of each draw at the same place."""
    total = np.zeros((len(moved), outer.size))
    for place in outer.places:
        ours, theirs = (rows_of(family, place, outer.size, theta) for theta in (reference[None], moved))
        total += np.einsum("snk,mnk->mn", ours, theirs, dtype=np.float64)
    return total


def _change(family: Symmetry, group: InnerGroup, moved: np.ndarray, orders: np.ndarray, signs: np.ndarray) -> None:
    row, slot = np.arange(len(moved))[:, None, None], np.arange(orders.shape[1])[:, None]
    for place in group.places:
        view = parts_of(family, place, group.size, moved)
        view[...] = view[row, slot, orders]
    for place in signs_of(group):
        view = parts_of(family, place, group.size, moved)
        view *= signs.astype(moved.dtype).reshape(*signs.shape, *(1,) * (view.ndim - 3))
