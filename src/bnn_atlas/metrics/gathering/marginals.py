"""Marginals of the weights: their distance to the prior, and the weights of inputs that never vary in the data."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtr

from bnn_atlas.metrics.formulas.repetitions import GROUPS, jackknife
from bnn_atlas.metrics.formulas.rhat_ess import error_of_chain_mean
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.traces.draws import Draws, evenly

BINS = 2000
"""Number of equally probable intervals of the prior in which draws are counted; distances are accurate to 1 / BINS."""
CIRCLE = -2 * math.log(0.05)
"""Squared radius of the circle with 95 % of the probability of two independent N(0, 1) variables."""
MOST_DRAWS = 500
"""Largest number of draws of a chain that are counted; they are evenly spread."""
OF_MARGINALS = (
    "marginal_sd", "prior_circle_share", "prior_distance", "smaller_sign_share", "weight_sd_dead_inputs",
    "weight_sd_live_inputs",
)  # fmt: skip
"""Metrics of this module; all have errors from a jackknife over chains."""


def marginal_measurements(
    pool: Draws, kept: np.ndarray, prior_sd: float | None, max_bytes: int, tally: "Tally | None" = None
) -> list[Measurement]:
    """Standard deviation of each array's draws, and their distance to the prior N(0, prior_sd^2).

    The distance is the Kolmogorov-Smirnov distance max_x |F(x) - Phi(x / prior_sd)|, with F the distribution of the
    draws of all scalars of the array over all chains `kept`: 0 for the prior itself, at most 1. Hidden units can be
    exchanged, so all scalars between two hidden layers have the same marginal, and pooling these scalars has the effect
    of more chains. `smaller_sign_share` is the fraction of these draws on the side of 0 with fewer draws. For a network
    with one input, one hidden layer and one output, the fraction of the units' pairs of weights inside the circle that
    holds 95 % of the prior is also measured. If `prior_sd` is None, there is no such prior, and distance and circle are
    left out. Monte Carlo errors come from a jackknife over chains; a single chain has no errors. A `tally` of the
    chains `kept` takes the place of their draws.
    """
    if not len(kept) or pool.draws < 2:
        return []
    if tally is None:
        tally = tally_of(pool, groups_of(pool.chains, kept), prior_sd, max_bytes)
    names = [array.name for array in pool.layout.parameters]
    whole = Tally(*(array.sum(axis=0) for array in tally))
    groups = np.flatnonzero(tally.number.any(axis=1))
    left_out = [
        _values(Tally(*(every - array[group] for every, array in zip(whole, tally, strict=True))), names)
        for group in (groups if len(groups) > 1 else ())
    ]
    scalars = {
        array.name: f"{array.size:,} scalars of {len(kept):,} chains together" for array in pool.layout.parameters
    }
    return [
        Measurement(
            metric,
            value,
            note=scalars.get(at, f"{int(whole.pairs):,} pairs of weights"),
            at=at,
            monte_carlo_error=jackknife(np.array([one[metric, at] for one in left_out])) if left_out else None,
        )
        for (metric, at), value in _values(whole, names).items()
    ]


def groups_of(chains: int, kept: np.ndarray) -> np.ndarray:
    """The group [chains] of each of the chains `kept`, at most `GROUPS` of neighbours; -1 for the others."""
    groups = np.full(chains, -1)
    for group, members in enumerate(np.array_split(kept, min(GROUPS, len(kept)))):
        groups[members] = group
    return groups


def tally_of(
    pool: Draws, groups: np.ndarray, prior_sd: float | None, max_bytes: int, count: int | None = None
) -> "Tally":
    """The tally of a pool's draws for chains in `groups` [chain]; -1 is left out. `count` groups, if there are more."""
    arrays = pool.layout.parameters
    units = _paired_weights(pool) if prior_sd is not None else None
    tally = Tally.empty(count or groups.max() + 1, len(arrays), BINS if prior_sd is not None else 0)
    for group, part in _counted(pool, groups, max_bytes):
        if units is not None and prior_sd is not None:
            first, second = part[..., units[0]].astype(np.float64), part[..., units[1]].astype(np.float64)
            tally.pairs[group] += first.size
            tally.inside[group] += (first**2 + second**2 <= CIRCLE * prior_sd**2).sum()
        start = 0
        for number, array in enumerate(arrays):
            values = part[..., start : start + array.size].astype(np.float64).ravel()
            start += array.size
            tally.number[group, number] += values.size
            tally.sums[group, number] += values.sum()
            tally.squares[group, number] += np.square(values).sum()
            tally.positive[group, number] += (values > 0).sum()
            if prior_sd is not None:
                place = np.minimum((ndtr(values / prior_sd) * BINS).astype(np.int64), BINS - 1)
                tally.counts[group, number] += np.bincount(place, minlength=BINS)
    return tally


class Tally(NamedTuple):
    """Counts and sums over draws, by group of chains (first axis) and array."""

    number: np.ndarray
    sums: np.ndarray
    squares: np.ndarray
    positive: np.ndarray
    counts: np.ndarray
    """[..., arrays, bins] number of draws in equally probable intervals of the prior; no bins without such a prior."""
    pairs: np.ndarray
    inside: np.ndarray

    @classmethod
    def empty(cls, groups: int, arrays: int, bins: int) -> Self:
        """A tally without draws."""
        shapes = [(groups, arrays)] * 4 + [(groups, arrays, bins), (groups,), (groups,)]
        return cls(*(np.zeros(shape) for shape in shapes))


def _values(tally: Tally, names: Sequence[str]) -> dict[tuple[str, str], float]:
    """(Metric, array) -> value, from a tally without the axis of groups."""
    mean, share = tally.sums / tally.number, tally.positive / tally.number
    sds = np.sqrt(np.maximum(tally.squares / tally.number - mean**2, 0.0))
    bins = tally.counts.shape[-1]
    found = {}
    for number, name in enumerate(names):
        found["marginal_sd", name] = float(sds[number])
        found["smaller_sign_share", name] = float(min(share[number], 1 - share[number]))
        if bins:
            below = np.cumsum(tally.counts[number]) / tally.number[number]
            found["prior_distance", name] = float(np.abs(below - np.arange(1, bins + 1) / bins).max())
    if tally.pairs:
        found["prior_circle_share", ""] = float(tally.inside / tally.pairs)
    return found


def _counted(pool: Draws, groups: np.ndarray, max_bytes: int) -> Iterator[tuple[int, np.ndarray]]:
    """Those draws [c, s, P] that are counted, by group of chains (-1 is left out), in batches."""
    taken = np.zeros(pool.draws, dtype=bool)
    taken[evenly(pool.draws, MOST_DRAWS)] = True
    for chains, draws, batch in pool.batches(max_bytes=max_bytes):
        for group in np.unique(groups[chains][groups[chains] >= 0]):
            yield int(group), batch[groups[chains] == group][:, taken[draws]]


def _paired_weights(pool: Draws) -> tuple[slice, slice] | None:
    """Positions of the hidden units' incoming and outgoing weights, for one input, one hidden layer and one output."""
    weights = [array for array in pool.layout.parameters if array.role == "weight"]
    if len(weights) != 2 or weights[0].size != weights[1].size:
        return None
    starts = [pool.layout.offset(array.name) for array in weights]
    first, second = (slice(start, start + weights[0].size) for start in starts)
    return first, second


def dead_input_measurements(
    pool: Draws, kept: np.ndarray, dead: np.ndarray | None, max_bytes: int, tally: "InputTally | None" = None
) -> list[Measurement]:
    """Standard deviation about 0 of the first layer's weights at dead and live inputs, over all draws together.

    At dead inputs, a sampled posterior has the prior's standard deviation, and a maximum of the posterior has standard
    deviation 0. `dead` [inputs] marks the inputs that never vary (`bnn_atlas.data.pixels.dead_inputs`); None if
    unknown. Empty unless there are dead and live inputs and the first layer is dense. Monte Carlo errors and `tally` as
    in `marginal_measurements`.
    """
    if dead is None or not len(kept) or (array := _of_inputs(pool, dead)) is None:
        return []
    inputs = dead.ravel()
    if tally is None:
        tally = input_tally_of(pool, groups_of(pool.chains, kept), dead, max_bytes)
    present = tally.number[:, 0] > 0
    squares, count = tally.squares[present], tally.number[present]
    groups = zip(squares, count, strict=True) if len(count) > 1 else ()
    left_out = [(squares.sum(axis=0) - one) / (count.sum() - number) for one, number in groups]
    return [
        Measurement(
            f"weight_sd_{name}_inputs",
            float(np.sqrt((squares.sum(axis=0) / count.sum())[which].mean())),
            note=f"{array.name}: {int(which.sum()):,} of {len(inputs):,} inputs",
            monte_carlo_error=jackknife(np.sqrt([one[which].mean() for one in left_out])) if left_out else None,
        )
        for name, which in (("dead", inputs), ("live", ~inputs))
    ]


def dense_first_layer(layout: Layout, inputs: int) -> Parameter | None:
    """The only array of weights of the first layer, if it is dense over this number of inputs; otherwise None."""
    weights = [array for array in layout.parameters if array.role == "weight" and array.layer == 0]
    if len(weights) != 1 or len(weights[0].shape) != 2 or weights[0].shape[1] != inputs:
        return None
    return weights[0]


MOST_INPUTS = 4096
"""Most inputs whose second moments are computed."""
NULL = 1e-10
"""Eigenvalues of the inputs' second moments up to this fraction of the largest are 0: rounding of single precision."""


def direction_measurements(
    pool: Draws,
    kept: np.ndarray,
    moments: np.ndarray | None,
    prior_sd: float | None,
    max_bytes: int,
    temperature: float = 1.0,
    squares: np.ndarray | None = None,
) -> list[Measurement]:
    """First-layer weights squared over the prior variance, in the directions that the inputs reach, and in the others.

    With W [H, D] the first layer's weights, S = (1/n) sum_i x_i x_i' of the inputs in the likelihood, k the dimension
    of the null space of S and N [D, k] an orthonormal basis of it, the prior N(0, s^2) and the temperature T,

        determined    tr(W S W') / (H s^2 tr S),     undetermined    |W N|^2 / (H k s^2).

    Both are T for draws of the prior, and both stay as they are if inputs and weights are rotated. The first is theta^2
    as much as the inputs multiply it: the mean square of the units' sums over inputs, relative to the prior. The
    second is T for draws of every posterior, since no row depends on W N: a value that is off by more than its error
    shows that the chains are not draws of it. For a linear regression with the posterior N(m, C), the first is
    (m' S m + tr S C) / (s^2 tr S).

    Args:
        pool: the draws.
        kept: indices of the chains that are not excluded.
        moments: S; None if unknown.
        prior_sd: s of the prior of all parameters; None for other priors.
        max_bytes: working memory.
        temperature: T of the posterior.
        squares: `direction_squares` of all chains, in the place of their draws; None to compute them.

    Returns `prior_shell_determined` and, if k > 0, `prior_shell_undetermined`, over at most `MOST_DRAWS` draws of each
    chain, with Monte Carlo errors. Empty for other priors, and unless the first layer is dense.
    """
    if moments is None or prior_sd is None or not len(kept):
        return []
    if squares is None:
        squares = direction_squares(pool, moments, max_bytes)
    if not squares.size:
        return []
    null = _null(np.linalg.eigvalsh(moments))
    directions, count = f"of {len(moments):,} directions of the inputs", int(null.sum())
    notes = {
        "determined": f"{len(moments) - count:,} {directions}; draws from the prior have {temperature:g}",
        "undetermined": f"{count:,} {directions}; draws from the posterior have {temperature:g}",
    }
    found = []
    for (name, note), values in zip(notes.items(), squares[:, kept] / prior_sd**2, strict=True):
        if name == "determined" or count:
            error = error_of_chain_mean(values)
            known = error if error > 0 else None
            found.append(Measurement(f"prior_shell_{name}", float(values.mean()), note=note, monte_carlo_error=known))
    return found


def direction_squares(pool: Draws, moments: np.ndarray | None, max_bytes: int) -> np.ndarray:
    """tr(W S W') / (H tr S) and |W N|^2 / (H k) [2, C, s] at evenly spread draws of each chain.

    Names as in `direction_measurements`; 0 without directions N. Empty unless the first layer is dense and inputs vary.
    """
    array = None if moments is None else dense_first_layer(pool.layout, len(moments))
    if array is None or moments is None or not np.trace(moments):
        return np.empty((2, 0, 0))
    values, vectors = np.linalg.eigh(moments)
    null = _null(values)
    each, start = evenly(pool.draws, MOST_DRAWS), pool.layout.offset(array.name)
    columns = slice(start, start + array.size)
    found = np.empty((2, pool.chains, len(each)))
    together = max(1, max_bytes // (16 * array.size))
    for chain in range(pool.chains):
        for first in range(0, len(each), together):
            part = slice(first, min(first + together, len(each)))
            weights = pool.read(slice(chain, chain + 1), each[part], columns)[0].astype(np.float64)
            weights = weights.reshape(-1, *array.shape)
            along = np.square(weights @ vectors).sum(axis=1) / array.shape[0]
            found[0, chain, part] = along @ values / values.sum()
            found[1, chain, part] = along[:, null].sum(axis=1) / max(1, null.sum())
    return found


def _null(eigenvalues: np.ndarray) -> np.ndarray:
    return np.asarray(eigenvalues <= NULL * eigenvalues[-1])


class InputTally(NamedTuple):
    """Sums over draws, by group of chains and input; one empty group if the network has no weights of dead inputs."""

    squares: np.ndarray
    """[groups, inputs]"""
    number: np.ndarray
    """[groups, 1] number of weights in each of these sums."""


def input_tally_of(
    pool: Draws, groups: np.ndarray, dead: np.ndarray | None, max_bytes: int, count: int | None = None
) -> InputTally:
    """The sum of squares of the first layer's weights at each input; arguments as in `tally_of`."""
    array = None if dead is None else _of_inputs(pool, dead)
    if dead is None or array is None:
        return InputTally(np.zeros((1, 0)), np.zeros((1, 1)))
    size, start = count or groups.max() + 1, pool.layout.offset(array.name)
    tally = InputTally(np.zeros((size, dead.size)), np.zeros((size, 1)))
    for group, part in _counted(pool, groups, max_bytes):
        weights = part[..., start : start + array.size].reshape(-1, *array.shape)
        tally.squares[group] += np.square(weights, dtype=np.float64).sum(axis=(0, 1))
        tally.number[group] += len(weights) * array.shape[0]
    return tally


def _of_inputs(pool: Draws, dead: np.ndarray) -> Parameter | None:
    """The first layer's weights, if it is dense and some but not all inputs are dead."""
    return None if dead.all() or not dead.any() else dense_first_layer(pool.layout, dead.size)
