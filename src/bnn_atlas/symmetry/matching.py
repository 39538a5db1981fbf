"""Matching the units of networks by exact assignments, one group at a time, until nothing changes.

Weight matching of git-re-basin (Ainsworth et al. 2023) for many draws at once: with r the reference, it increases

    <r, P w> = sum over all parameters of r (P w)

over permutations P, which decreases |r - P w|. All criteria have this form, with features that may differ from the
weights (`symmetry.features`).

The common frame of several networks is their barycentre: permutations that make the mean of the networks long, and so
the spread around the mean small. With m the weighted mean, sum_k w_k |P_k x_k - m|^2 = sum_k w_k |x_k|^2 - W |m|^2.
Matching each network to m never decreases sum_k w_k <m, P_k x_k>, and the new mean then never decreases |m|^2: the
objective grows until it reaches a fixed point.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from bnn_atlas.symmetry.features import ROUNDING, Features, Products
from bnn_atlas.symmetry.groups import FreeGroup, Group, InnerGroup, Symmetry, signs_of
from bnn_atlas.symmetry.moments import touched
from bnn_atlas.symmetry.nested import assign_family, families, unshared
from bnn_atlas.symmetry.permutation import compose, rows_of, transform, transpositions
from bnn_atlas.traces.draws import Draws

SWEEPS = 100
"""Largest number of sweeps over the groups; usually a few are enough."""


class Matched(NamedTuple):
    """Permutations and signs that bring draws near a reference."""

    units: np.ndarray
    """Permutations of all groups [m, units], 16 bits."""
    signs: np.ndarray
    """-1 or 1 for each unit after the permutation [m, units], 8 bits; 1 everywhere unless signs are matched."""
    objective: np.ndarray
    """<r, P w> [m], in float64."""
    sweeps: int
    """Number of sweeps over the groups, for all draws; of the first order, if there are several."""
    tried: np.ndarray | None = None
    """Objective [m, orders] at the end of each order of the groups; `objective` is the largest."""

    @classmethod
    def unmoved(cls, symmetry: Symmetry, count: int) -> "Matched":
        """Identity permutations for `count` draws."""
        units = np.tile(symmetry.identity, (count, 1))
        return cls(units, np.ones_like(units, dtype=np.int8), np.zeros(count), 0)


def match(
    symmetry: Symmetry,
    reference: np.ndarray,
    draws: np.ndarray,
    *,
    signed: bool = False,
    start: Matched | None = None,
    orders: int = 1,
    seed: int = 0,
) -> Matched:
    """Bring draws [m, P] near a reference [P] by permutations, starting with `start` or the identity.

    With the other groups fixed, the assignment of a group is exact. An assignment is accepted only if the objective
    grows, so the objective never decreases. With `signed`, units whose sign is free also get the better
    sign. Groups with units inside are matched together with them (`symmetry.nested`).

    The descent is run `orders` times, and each draw keeps the best end: first with the groups in their own order,
    starting at the input, then in random orders, which are drawn anew for every sweep (Ainsworth et al. 2023, algorithm
    1). The order of the first sweep matters most, so each descent starts with a different one until all have been used.
    If no array is indexed by two groups, one sweep is exact and is run once. With units inside others, the
    descent is also run from the assignment by the arrays that only one group indexes.
    """
    if decoupled(symmetry):
        return _matched(symmetry, _products(symmetry, reference, draws), signed, start, orders)
    best = _descended(symmetry, reference, draws, signed, start)
    together = families(symmetry)
    if len(together) < len(symmetry.groups):
        early = _descended(unshared(symmetry), reference, draws, signed, start)
        _improve(best, _descended(symmetry, reference, draws, signed, early))
    tried = [best.objective.copy()]
    for number, first in enumerate(_first_orders(len(together), orders, seed)):
        later = np.random.default_rng([ORDERS, seed, number])
        found = _descended(symmetry, reference, draws, signed, start, first, later)
        _improve(best, found)
        tried.append(found.objective)
    return best._replace(tried=np.stack(tried, axis=1))


def _improve(best: Matched, found: Matched) -> None:
    """Replace draws of `best` by draws of `found` whose objective is larger."""
    better = found.objective > best.objective
    for name in ("units", "signs", "objective"):
        getattr(best, name)[better] = getattr(found, name)[better]


ORDERS = 3
"""Keeps the random numbers of orders of groups apart from the random numbers of pairs and of scrambling."""


def _first_orders(groups: int, orders: int, seed: int) -> list[np.ndarray]:
    """Random orders of the groups, one fewer than `orders`, that differ from each other and from the network's own."""
    generator = np.random.default_rng([ORDERS, seed])
    seen, found = {tuple(range(groups))}, list[np.ndarray]()
    while len(found) < orders - 1:
        order = generator.permutation(groups)
        if tuple(order.tolist()) not in seen or len(seen) >= math.factorial(min(groups, 20)):
            seen.add(tuple(order.tolist()))
            found.append(order)
    return found


def match_networks(
    features: Features,
    reference: np.ndarray,
    draws: np.ndarray,
    *,
    signed: bool = False,
    start: Matched | None = None,
    orders: int = 1,
    seed: int = 0,
) -> Matched:
    """Bring draws [m, P] near a reference [P] by their features; other arguments as in `match`."""
    if decoupled(features.symmetry):
        return _matched(features.symmetry, products(features, reference, draws), signed, start, orders)
    (wanted,) = features.of(reference[None])
    return match(
        features.symmetry, wanted, features.of(draws), signed=signed, start=start, orders=orders, seed=seed
    )  # fmt: skip


def products(features: Features, reference: np.ndarray, draws: np.ndarray) -> Products:
    """Inner products between the features of a reference [P] and of draws [m, P], unit by unit."""
    if features.products is not None:
        return features.products(reference, draws)
    return _products(features.symmetry, features.of(reference[None])[0], features.of(draws))


def _products(symmetry: Symmetry, reference: np.ndarray, draws: np.ndarray) -> Products:
    similarity = {group.name: similarities(symmetry, group, reference, draws) for group in symmetry.groups}
    lengths = np.sqrt(np.einsum("mp,mp->m", draws, draws))
    rounding = ROUNDING[draws.dtype] * float(np.linalg.norm(reference)) * lengths
    unmoved = np.flatnonzero(~touched(symmetry, smallest=1))
    return Products(similarity, rounding, _dots(reference[unmoved], draws[:, unmoved]))


def _matched(symmetry: Symmetry, found: Products, signed: bool, start: Matched | None, orders: int) -> Matched:
    """The exact assignment of every group, which any order of the groups finds."""
    matched = assign(symmetry, found.similarity, found.rounding, signed=signed, start=start)
    objective = matched.objective + found.rest
    return matched._replace(objective=objective, tried=np.repeat(objective[:, None], orders, axis=1))


def _descended(
    symmetry: Symmetry,
    reference: np.ndarray,
    draws: np.ndarray,
    signed: bool,
    start: Matched | None,
    first: np.ndarray | None = None,
    later: np.random.Generator | None = None,
) -> Matched:
    """Coordinate descent over the groups: in their own order, or with a `first` order and random `later` ones."""
    found = start or Matched.unmoved(symmetry, len(draws))
    units, signs = found.units.copy(), found.signs.copy()
    current = transform(symmetry, draws, units, signs if signed else None)
    rounding = ROUNDING[current.dtype] * float(np.linalg.norm(reference)) * np.linalg.norm(current, axis=1)
    parts, part_signs = symmetry.split(units), symmetry.split(signs)
    active, sweeps, together = np.arange(len(draws)), 0, families(symmetry)
    while len(active) and sweeps < SWEEPS:
        visited = np.arange(len(together)) if first is None else first
        if sweeps and later is not None:
            visited = later.permutation(len(together))
        sweeps += 1
        moved = np.zeros(len(draws), dtype=bool)
        for number in visited:
            alone = replace(symmetry, groups=tuple(symmetry.groups[member] for member in together[number]))
            flips = signed and any(map(signs_of, alone.groups))
            if len(alone.groups) == 1:
                best, turned, gains = _assigned(symmetry, alone.groups[0], reference, current[active], flips)
            else:
                best, turned, gains = assign_family(alone, reference, current[active], flips, rounding[active])
            gained = gains > rounding[active]
            better = active[gained]
            if not len(better):
                continue
            orders, flipped = best[gained], turned[gained] if flips else None
            candidate = transform(alone, current[better], orders, flipped)
            if any(map(_recurrent, alone.groups)):
                # The gain is only the linear part of a quadratic objective.
                before, after = (_dots(reference, part) for part in (current[better], candidate))
                kept = after - before > rounding[better]
                better, candidate, orders = better[kept], candidate[kept], orders[kept]
                flipped = flipped[kept] if flipped is not None else None
            current[better] = candidate
            for place, member in enumerate(together[number]):
                order = alone.split(orders)[place]
                parts[member][better] = compose(parts[member][better], order)
                if flipped is not None:
                    turns = alone.split(flipped)[place]
                    part_signs[member][better] = compose(part_signs[member][better], order) * turns
            moved[better] = True
        active = np.flatnonzero(moved)
    return Matched(units, signs, _dots(reference, current), sweeps)


def assign(
    symmetry: Symmetry,
    similarity: Mapping[str, np.ndarray],
    rounding: np.ndarray,
    *,
    signed: bool = False,
    start: Matched | None = None,
) -> Matched:
    """The exact assignment of each group, if none depends on another.

    Args:
        symmetry: the groups.
        similarity: group -> inner products [m, n, n] of unit i of the reference and unit j of each draw.
        rounding: gains over `start` [m] up to these may be due to rounding, and the group then stays.
        signed: whether units whose sign can be flipped get the better sign.
        start: permutations and signs to start with; the identity if None.
    """
    (first, *_) = similarity.values()
    found = start or Matched.unmoved(symmetry, len(first))
    units, signs = found.units.copy(), found.signs.copy()
    objective = np.zeros(len(units))
    for group, order, sign in zip(symmetry.groups, symmetry.split(units), symmetry.split(signs), strict=True):
        ours = similarity[group.name]
        flips = signed and bool(signs_of(group))
        best, turned, picked = _best(ours, ours if flips else None)
        present = (_picked(ours, order) * sign).astype(np.float64).sum(axis=1)
        gained = picked - present > rounding
        order[gained] = best[gained]
        if flips:
            sign[gained] = turned[gained]
        objective += np.where(gained, picked, present)
    return Matched(units, signs, objective, 1)


def _assigned(
    symmetry: Symmetry, group: Group, reference: np.ndarray, current: np.ndarray, flips: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best order [m, n] of one group's units, their signs, and the gain over the present order."""
    similarity = similarities(symmetry, group, reference, current)
    turning = similarity if flips else None
    if flips and signs_of(group) != group.places:
        turning = similarities(symmetry, replace(group, places=signs_of(group)), reference, current)
    orders, turned, picked = _best(similarity, turning)
    return orders, turned, picked - np.trace(similarity, axis1=1, axis2=2, dtype=np.float64)


def _best(similarity: np.ndarray, turning: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best order [m, n] of units, their signs, and the sum of the inner products that it picks.

    `turning` is the part of the inner products that changes sign with a unit; None if signs stay.
    """
    magnitude = similarity
    if turning is not None:
        magnitude = np.abs(similarity) if turning is similarity else similarity - turning + np.abs(turning)
    orders = np.stack([linear_sum_assignment(each, maximize=True)[1] for each in magnitude])
    picked = _picked(magnitude, orders).astype(np.float64).sum(axis=1)
    signs = np.ones(orders.shape) if turning is None else np.where(_picked(turning, orders) < 0, -1, 1)
    return orders, signs.astype(np.int8), picked


def _picked(similarity: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """The entries [m, n] of inner products [m, n, n] in the columns `orders` [m, n]."""
    return np.take_along_axis(similarity, orders[:, :, None].astype(np.intp), axis=2)[..., 0]


def similarities(symmetry: Symmetry, group: Group, reference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Inner products [m, n, n] of unit i of the reference [P] and unit j of each draw [m, P], over all places."""
    total = np.zeros((len(draws), group.size, group.size), np.result_type(reference, draws))
    for place in group.places:
        ours = rows_of(symmetry, place, group.size, reference[None])[0]
        theirs = rows_of(symmetry, place, group.size, draws)
        total += ours @ theirs.transpose(0, 2, 1)
    return total


def decoupled(symmetry: Symmetry) -> bool:
    """Whether no array is indexed by two groups, or twice by one group, so that one sweep is exact.

    Not where units are inside others, or signs change a part of a unit.
    """
    if any(isinstance(g, InnerGroup) or (isinstance(g, FreeGroup) and g.signs != g.places) for g in symmetry.groups):
        return False
    arrays = [place.array for group in symmetry.groups for place in group.places]
    return len(set(arrays)) == len(arrays)


def _recurrent(group: Group) -> bool:
    """Whether a group indexes two axes of one array, like the cells of an LSTM."""
    return len({place.array for place in group.places}) < len(group.places)


def _dots(reference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    return np.asarray(draws.astype(np.float64) @ reference.astype(np.float64))


PASSES = 200
"""Largest number of rounds of the iteration."""


class Barycentre(NamedTuple):
    """A common frame."""

    matched: Matched
    centre: np.ndarray
    """[F] mean of the features in this frame, in float64."""
    objective: tuple[float, ...]
    """|m|^2 at the start and after each round."""
    fixed: bool
    """Whether the last round moved no unit."""


def barycentre(
    features: Features,
    rows: np.ndarray,
    weights: np.ndarray,
    *,
    signed: bool = False,
    orders: int = 1,
    seed: int = 0,
    gain: float = 0.0,
) -> Barycentre:
    """The common frame of rows of features [m, F] with weights [m] > 0.

    The iteration is run from the unchanged rows, and from all rows matched to one of them: to the first row, and with
    more than one of `orders` also to the next `orders` - 1 rows, each by the best of as many orders of the groups. Up
    to `FEW` rows are then also matched one by one to the mean of the others, until no unit moves either way. The best
    result is used, so the frame is never worse than no alignment. The iteration ends when no unit moves, or when a
    round adds no more than the share `gain` to the objective.
    """
    starts = [Matched.unmoved(features.symmetry, len(rows))]
    for row in rows[:orders]:
        starts.append(match(features.symmetry, row, rows, signed=signed, orders=orders, seed=seed))
    ends = [_settled(features, rows, weights, start, signed, gain) for start in starts]
    return max(ends, key=lambda end: end.objective[-1])


def centre_of(features: Features, rows: np.ndarray, weights: np.ndarray, matched: Matched) -> np.ndarray:
    """Weighted mean [F] of rows of features [m, F] in their frame, in float64."""
    moved = transform(features.symmetry, rows, matched.units, matched.signs)
    mean: np.ndarray = np.average(moved.astype(np.float64), axis=0, weights=weights)
    return mean


def _settled(
    features: Features, rows: np.ndarray, weights: np.ndarray, start: Matched, signed: bool, gain: float
) -> Barycentre:
    found, centre = start, centre_of(features, rows, weights, start)
    objective, fixed, all_at_once = [float(centre @ centre)], False, True
    while not fixed and len(objective) <= PASSES and not settled(objective, gain):
        if all_at_once:
            after = match(features.symmetry, centre.astype(rows.dtype), rows, signed=signed, start=found)
        else:
            after = _one_by_one(features, rows, weights, found, centre, signed)
        still = same(after, found)
        fixed = still and (not all_at_once or len(rows) > FEW)
        all_at_once = not still
        found = after
        if not still:
            centre = centre_of(features, rows, weights, found)
            objective.append(float(centre @ centre))
    return Barycentre(found, centre, tuple(objective), fixed)


FEW = 100
"""Largest number of rows that are also matched one by one to the mean of the others."""


def _one_by_one(
    features: Features, rows: np.ndarray, weights: np.ndarray, start: Matched, centre: np.ndarray, signed: bool
) -> Matched:
    """Match each row to the mean of the others, one after the other.

    A row that is part of the mean holds on to its own order: with x the row in the frame, w its share of the weights
    and m the mean, <m, P x> has the term w <x, P x>. Without it, |m|^2 = w^2 |x|^2 + 2 w <m - w x, P x> + ... still
    never decreases, and more units move (algorithm 3 of Ainsworth et al. 2023).
    """
    units, signs = start.units.copy(), start.signs.copy()
    mean, shares = centre.copy(), weights / weights.sum()
    for number, (row, share) in enumerate(zip(rows, shares, strict=True)):
        mine = Matched(units[number : number + 1], signs[number : number + 1], np.zeros(1), 0)
        mean -= share * centre_of(features, row[None], np.ones(1), mine)
        after = match(features.symmetry, mean.astype(rows.dtype), row[None], signed=signed, start=mine)
        units[number], signs[number] = after.units[0], after.signs[0]
        mean += share * centre_of(features, row[None], np.ones(1), after)
    return Matched(units, signs, start.objective, 1)


def settled(objective: Sequence[float], gain: float) -> bool:
    """Whether the last round added no more than a share `gain` > 0 to the objective."""
    return gain > 0 and len(objective) > 1 and objective[-1] - objective[-2] <= gain * abs(objective[-1])


def same(first: Matched, second: Matched) -> bool:
    """Whether two matchings have the same permutations and signs."""
    return np.array_equal(first.units, second.units) and np.array_equal(first.signs, second.signs)


PAIRING = 1
"""Keeps the random numbers of pairs separate from those of the scrambled control (`alignment.SCRAMBLING`)."""


class Pairs(NamedTuple):
    """Pairs of finite draws, given by the positions of their chains and draws [k, 2], and results of matching them."""

    chains: np.ndarray
    draws: np.ndarray
    transpositions: np.ndarray
    """Number of transpositions [k, groups] of the permutation that brings the second draw near the first."""
    consistency: np.ndarray
    """For triples (a, b, c) of draws, from different chains if possible: the fraction of units [t, groups] with P_ab
    P_bc = P_ac. The fraction is 1 for permutations to a common frame."""

    @property
    def within(self) -> np.ndarray:
        """Which pairs [k] belong to one chain."""
        return np.asarray(self.chains[:, 0] == self.chains[:, 1])


def match_pairs(
    draws: Draws, features: Features, finite: np.ndarray, count: int, seed: int, *, signed: bool = False
) -> Pairs:
    """Match up to `count` random pairs within chains, as many across chains, and a fifth as many triples."""
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
        one, other = (draws.read([chain], [draw])[0] for chain, draw in (first, second))
        return features.symmetry.split(match_networks(features, one[0], other, signed=signed).units[0])

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
