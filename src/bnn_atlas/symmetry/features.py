"""Features for matching networks: values of each draw that are permuted in the same way as the network's units."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from flax import linen as nn
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.data.pixels import dead_inputs
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.models.mlp import ACTIVATIONS
from bnn_atlas.models.networks import Network, build_network
from bnn_atlas.symmetry.groups import (
    Freedom,
    FreeGroup,
    Group,
    InnerGroup,
    Place,
    Symmetry,
    SymmetryError,
    signs_of,
)
from bnn_atlas.symmetry.nested import families
from bnn_atlas.symmetry.permutation import balanced, rows_of
from bnn_atlas.traces.draws import evenly

Statistic = Literal["activations", "centred", "correlation"]
Criterion = Literal["weights", "cosine"] | Statistic
ROUNDING = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-14}
"""Largest change of an inner product, relative to the lengths of both vectors, that may be due to rounding."""
LARGEST_BYTES = 128 << 20
"""Largest size, in bytes, of the activations of one draw that are held together."""


class Products(NamedTuple):
    """Inner products between the features of a reference's units and of the units of draws."""

    similarity: dict[str, np.ndarray]
    """Group -> inner products [m, n, n] of unit i of the reference and unit j of each draw."""
    rounding: np.ndarray
    """Sums of these products [m] that differ by less may be equal up to rounding."""
    rest: np.ndarray
    """Inner products [m] of features that no unit moves."""


class Features(NamedTuple):
    """Features of draws: matching maximises the inner product of the features of the reference and of a draw."""

    symmetry: Symmetry
    """Positions of the units in a vector of features, with the network's groups."""
    of: Callable[[np.ndarray], np.ndarray]
    """Draws [m, P] -> features [m, F]."""
    products: Callable[[np.ndarray, np.ndarray], Products] | None = None
    """(reference [P], draws [m, P]) -> the same as from their features, which are never held whole; None for features
    that are no larger than the parameters."""
    basis: str = ""
    """What the features are made from, as text: two features with the same text are the same."""


def features_of(
    symmetry: Symmetry,
    model: ModelConfig,
    split: SplitData,
    criterion: Criterion,
    dtype: np.dtype,
    *,
    rows: int | None = None,
    masked: bool = False,
) -> Features:
    """The features by which the draws of a run are matched.

    Args:
        symmetry: symmetry of the run's network.
        model: settings of the network.
        split: data of the run; activations are taken at the rows that the posterior is conditioned on.
        criterion: `weights` (all parameters of a unit), `cosine` (first layer, as published), or `activations`, which
            can be `centred` or scaled to a `correlation`.
        dtype: type of the rows that the network takes.
        rows: largest number of rows, evenly spaced; None for all rows.
        masked: whether to leave out weights of inputs that never vary in these rows.

    Raises:
        SymmetryError: the criterion does not apply to this network.
    """
    dead = dead_inputs(split) if masked else None
    if criterion == "weights":
        return weight_features(symmetry, dead)
    if criterion == "cosine":
        return cosine_features(symmetry, dead)
    x = split.x_fit[evenly(len(split.x_fit), rows or len(split.x_fit))]
    sizes = {"outputs": output_width(symmetry), "vocabulary": split.vocabulary}
    return activation_features(model, symmetry, split.shape, np.asarray(x, dtype), criterion, **sizes)


def output_width(symmetry: Symmetry) -> int:
    """Number of outputs of a network."""
    return next(p.fan_out for p in reversed(symmetry.layout.parameters) if p.role == "weight")


def weight_features(symmetry: Symmetry, dead_inputs: np.ndarray | None = None) -> Features:
    """The parameters themselves; with `dead_inputs` [inputs], the first layer's weights of these inputs count as 0.

    Inputs that never vary in the data carry no information about a unit: their weights are draws from the prior. Raises
    SymmetryError if the first layer does not have one weight per input.
    """
    if dead_inputs is None:
        return Features(symmetry, lambda draws: draws, basis="weights")
    live = live_parameters(symmetry.layout, dead_inputs)
    if live is None:
        raise SymmetryError(
            f"dead inputs can be masked only if the first layer has a weight for each of {dead_inputs.size} inputs: "
            "keep them for this network"
        )
    return Features(symmetry, lambda draws: draws * live.astype(draws.dtype), basis=f"weights {_digest(live)}")


def cosine_features(symmetry: Symmetry, dead_inputs: np.ndarray | None = None) -> Features:
    """Incoming weights of the only hidden layer, without biases, normalised per unit: Xiao et al. 2023, rebasin.py.

    Units with zero incoming weights have features of 0. Raises SymmetryError for more than one hidden layer.
    """
    if len(symmetry.groups) != 1:
        raise SymmetryError(
            f"criterion cosine needs a network with one hidden layer, and this network has {len(symmetry.groups)} "
            "groups of units: match by weights or activations"
        )
    (group,) = symmetry.groups
    place = next(place for place in group.places if place.array.endswith(".weight") and place.incoming)
    masked = weight_features(symmetry, dead_inputs)

    def of(draws: np.ndarray) -> np.ndarray:
        rows = rows_of(symmetry, place, group.size, masked.of(draws))
        norm = np.sqrt((rows**2).sum(axis=-1, keepdims=True))
        return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 0).reshape(len(draws), -1)

    shape = next(p.shape for p in symmetry.layout.parameters if p.name == place.array)
    return Features(_by_groups(symmetry, [shape[1]]), of, basis=f"cosine {masked.basis}")


def activation_features(
    config: ModelConfig | Network,
    symmetry: Symmetry,
    shape: tuple[int, ...],
    x: np.ndarray,
    statistic: Statistic,
    **sizes: int,
) -> Features:
    """Activations of all units for the rows x: unchanged, centred, or centred and divided by their sds.

    The inner product of two units' activations is the criterion of git-re-basin's activation matching (and, for
    unchanged activations, of Xiao et al. 2023). Divided by the number of rows, the inner product is a covariance for
    centred activations, and a correlation for centred and scaled activations. In the latter case, a unit with a
    constant activation has features of 0.

    Args:
        config: the model, as settings or as functions (`models.networks.functional`).
        symmetry: symmetry of the network.
        shape: shape of one row.
        x: rows [n, ...] in the form that the network takes.
        statistic: how activations are used.
        sizes: `outputs` and `vocabulary` of the network.

    Matching to a network takes a few thousand rows at a time (`Features.products`). `Features.of` holds the activations
    of one draw at all rows, and raises SymmetryError if they need more than `LARGEST_BYTES`.
    """
    activations = activations_of(config, symmetry, shape, x, **sizes)
    ours = _by_groups(symmetry, activations.samples)

    def of(draws: np.ndarray) -> np.ndarray:
        require_room(ours, len(x))
        return np.stack([
            np.concatenate([_taken(part, statistic).ravel() for part in activations.whole(one)]) for one in draws
        ])  # fmt: skip

    def products(reference: np.ndarray, draws: np.ndarray) -> Products:
        names = [group.name for group in symmetry.groups]
        found = [_Cross(group.size, len(draws), statistic) for group in symmetry.groups]
        for part in range(activations.pieces):
            wanted = [_Piece.of(values, statistic) for values in activations.at(reference, part)]
            for number, one in enumerate(draws):
                for cross, first, values in zip(found, wanted, activations.at(one, part), strict=True):
                    cross.add(number, first, _Piece.of(values, statistic))
            for cross, first in zip(found, wanted, strict=True):
                cross.reference.add(first)
        ends = [cross.results() for cross in found]
        lengths = np.sum([length for _, length, _ in ends], axis=0)
        squares = np.sum([square for _, _, square in ends], axis=0)
        similarity = dict(zip(names, (similarity for similarity, _, _ in ends), strict=True))
        rounding = ROUNDING[np.dtype(np.float32)] * np.sqrt(lengths * squares)
        return Products(similarity, rounding, np.zeros(len(draws)))

    network = _known_by(config, x) if isinstance(config, Network) else config.model_dump_json()
    text = f"{statistic} {network} {shape} {sorted(sizes.items())} {x.dtype} {_digest(x)}"
    # Units inside others are matched by whole features, since their orders depend on each other.
    is_nested = any(isinstance(group, InnerGroup) for group in symmetry.groups)
    return Features(ours, of, None if is_nested else products, text)


def require_room(symmetry: Symmetry, rows: int | None = None) -> None:
    """Raise SymmetryError if the features of one draw need more than `LARGEST_BYTES`."""
    if (size := 4 * symmetry.layout.size) > LARGEST_BYTES:
        of_rows = "activations" if rows is None else f"activations of {rows:,} rows"
        raise SymmetryError(
            f"{of_rows} need {size / 2**20:,.0f} MiB per draw, more than {LARGEST_BYTES / 2**20:.0f}, and a barycentre "
            "holds those of its centre: lower the number of rows, or match to the first draw"
        )


def balanced_features(features: Features, symmetry: Symmetry) -> Features:
    """Features of the draws after balancing the scales of units."""

    def even(draws: np.ndarray) -> np.ndarray:
        return balanced(symmetry, draws)[0].astype(draws.dtype)

    products = features.products
    return Features(
        features.symmetry,
        lambda draws: features.of(even(draws)),
        None if products is None else lambda reference, draws: products(even(reference[None])[0], even(draws)),
        f"balanced {features.basis}",
    )


def _known_by(network: Network, x: np.ndarray) -> str:
    """Text that stands for a network's functions: its outputs for a row, at random parameters."""
    theta = np.random.default_rng(0).normal(size=network.layout.size).astype(np.float32)
    return _digest(np.asarray(network.apply(jnp.asarray(theta), network.arrange(jnp.asarray(x[:1])))))


def _digest(array: np.ndarray) -> str:
    return sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


class _Piece(NamedTuple):
    """Activations [n, k] of a group for a piece of the samples, and their moments."""

    values: np.ndarray
    """Minus their means, unless activations are used unchanged."""
    mean: np.ndarray
    """[n], 0 if activations are used unchanged."""
    squares: np.ndarray
    """Sums of squares of `values` [n]."""
    ends: np.ndarray
    """Smallest and largest activation [2, n], by which constant ones are known; 0 if they are used unchanged."""

    @classmethod
    def of(cls, values: np.ndarray, statistic: Statistic) -> "_Piece":
        mean = np.zeros(len(values))
        ends = np.zeros((2, len(values)))
        if statistic != "activations":
            ends = np.stack([values.min(axis=1), values.max(axis=1)])
            mean = values.mean(axis=1, dtype=np.float64)
            values = values - mean.astype(values.dtype)[:, None]
        return cls(values, mean, np.einsum("nk,nk->n", values, values, dtype=np.float64), ends)


class _Sums:
    """Moments of the activations of a group's units, over the pieces so far."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean, self.squares = np.zeros(size), np.zeros(size)
        self.ends = np.stack([np.full(size, np.inf), np.full(size, -np.inf)])

    def add(self, piece: _Piece) -> None:
        """Merge a piece (Chan, Golub and LeVeque 1979)."""
        count, total = piece.values.shape[1], self.count + piece.values.shape[1]
        shift = piece.mean - self.mean
        self.squares += piece.squares + shift**2 * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count = total
        self.ends = np.stack([np.minimum(self.ends[0], piece.ends[0]), np.maximum(self.ends[1], piece.ends[1])])


class _Cross:
    """Inner products between the units of a reference and those of draws, over pieces of the samples, in float64."""

    def __init__(self, size: int, draws: int, statistic: Statistic) -> None:
        self.statistic = statistic
        self.reference = _Sums(size)
        self.draws = [_Sums(size) for _ in range(draws)]
        self.products = np.zeros((draws, size, size))

    def add(self, number: int, first: _Piece, second: _Piece) -> None:
        """Add a piece of a draw, before the reference has the same piece."""
        before, ours = self.reference, self.draws[number]
        count, there = first.values.shape[1], before.count
        self.products[number] += first.values @ second.values.T
        if there:
            factor = there * count / (there + count)
            self.products[number] += factor * np.outer(first.mean - before.mean, second.mean - ours.mean)
        ours.add(second)

    def results(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inner products [m, n, n], and squared lengths of the reference's [m] and of the draws' features [m]."""
        lengths = []
        for each in (self.reference, *self.draws):
            constant = (each.ends[0] == each.ends[1]) & (self.statistic != "activations")
            lengths.append(np.where(constant, 0.0, each.squares))
        first, others = lengths[0], np.array(lengths[1:])
        found = self.products
        found *= (first > 0)[None, :, None] & (others > 0)[:, None, :]
        if self.statistic == "correlation":
            scale = np.sqrt(first[None, :, None] * others[:, None, :])
            np.divide(found, scale, out=found, where=scale > 0)
            first, others = (first > 0).astype(np.float64), (others > 0).astype(np.float64)
        else:
            found /= self.reference.count
            first, others = first / self.reference.count, others / self.reference.count
        return found, np.full(len(others), first.sum()), others.sum(axis=1)


def _taken(values: np.ndarray, statistic: Statistic) -> np.ndarray:
    """The statistic of activations [n, samples], divided by the square root of the number of samples."""
    if statistic == "activations":
        return values / np.float32(np.sqrt(values.shape[1]))
    centred = values - values.mean(axis=1, keepdims=True, dtype=np.float64).astype(values.dtype)
    centred[np.ptp(values, axis=1) == 0] = 0
    if statistic == "centred":
        return centred / np.float32(np.sqrt(values.shape[1]))
    norm = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    return np.divide(centred, norm, out=np.zeros_like(centred), where=norm > 0)


def _by_groups(symmetry: Symmetry, samples: list[int]) -> Symmetry:
    """A symmetry for vectors that hold an array [n, samples] for each group.

    A group with units inside has an array [outputs, samples] for each layer of its `values` instead, which the groups
    inside index as they index the outputs in the layer's weight. Further signs of the same units do not show in values.
    """
    arrays: list[Parameter] = []
    groups: list[Group] = []
    counts = iter(samples)
    for members in families(symmetry):
        outer, *inner = (symmetry.groups[number] for number in members)
        if _is_single(outer, inner):
            count = next(counts)
            arrays.append(Parameter(outer.name, (outer.size, count), "weight", len(arrays), count, outer.size))
            turned = not isinstance(outer, FreeGroup) or outer.turned
            signs: tuple[Freedom, ...] = ("sign",) if signs_of(outer) and turned else ()
            groups.append(Group(outer.name, outer.size, (Place(outer.name, 0, True),), signs))
            groups += [_of_values(group, {}) for group in inner]
            continue
        names = {}
        for value in outer.values:
            name, count = f"{outer.name}.{value.layer}", next(counts)
            width = next(p.shape[0] for p in symmetry.layout.parameters if p.name == f"{value.layer}.weight")
            arrays.append(Parameter(name, (width, count), "weight", len(arrays), count, width))
            names[f"{value.layer}.weight"] = name
        groups += [_of_values(group, names) for group in (outer, *inner)]
    order = {group.name: number for number, group in enumerate(symmetry.groups)}
    return Symmetry(Layout(tuple(arrays)), tuple(sorted(groups, key=lambda group: order[group.name])))


def _is_single(outer: Group, inner: Sequence[Group]) -> bool:
    """Whether values are those of the outer units: nothing is inside, or only further signs of the same units."""
    return all(group.size == outer.size for group in inner)


def _of_values(group: Group, names: dict[str, str]) -> Group:
    """A group of units that index the outputs of layers, given the name of the array of outputs of each weight."""

    def found(places: Iterable[Place]) -> tuple[Place, ...]:
        return tuple(replace(p, array=names[p.array]) for p in places if p.array in names and p.axis == 0)

    if isinstance(group, InnerGroup):
        return replace(group, places=found(group.places), signs=found(group.signs), scales=())
    return replace(group, places=found(group.places))


def live_parameters(layout: Layout, dead: np.ndarray) -> np.ndarray | None:
    """Which parameters [P] are not weights of dead inputs; None if the first layer does not have a weight per input."""
    first = min((p for p in layout.parameters if p.role == "weight"), key=lambda p: p.layer or 0)
    if len(first.shape) != 2 or first.shape[1] != dead.size:
        return None
    live = np.ones(layout.size, bool)
    start = layout.offset(first.name)
    live[start : start + first.size] = np.tile(~dead.ravel(), first.shape[0])
    return live


MOST_ROWS = 2048
"""Number of rows that are computed together if the network does not set a number."""


class Activations(NamedTuple):
    """Activations of all units for given rows, in pieces of these rows.

    The samples of a unit are its values for all rows, at all positions and in all layers that share the unit.
    """

    at: Callable[[np.ndarray, int], list[np.ndarray]]
    """(parameters [P], piece) -> activations [n, k] of each group for the rows of this piece; of a group with units
    inside, those of each layer of its `values`."""
    pieces: int
    samples: list[int]
    """Number of samples of each group over all rows."""

    def whole(self, theta: np.ndarray) -> list[np.ndarray]:
        """Parameters [P] -> activations [n, samples] of each group for all rows."""
        parts = [self.at(theta, number) for number in range(self.pieces)]
        return [np.concatenate(of_group, axis=1) for of_group in zip(*parts, strict=True)]


def activations_of(
    config: ModelConfig | Network,
    symmetry: Symmetry,
    shape: tuple[int, ...],
    x: np.ndarray,
    *,
    outputs: int = 0,
    vocabulary: int = 0,
) -> Activations:
    """The activations of a network's units at rows x [n, ...]; `config` as in `activation_features`."""
    network = config if isinstance(config, Network) else build_network(config, shape, outputs, vocabulary)
    together = [[symmetry.groups[number] for number in members] for members in families(symmetry)]
    at_once = network.piece or MOST_ROWS
    parts = (x[start : start + at_once] for start in range(0, len(x), at_once))
    pieces = [(network.arrange(jnp.asarray(part)), len(part)) for part in parts]

    def values(theta: Array, piece: Array, rows: int) -> list[Array]:
        found: dict[str, Array] = {}

        def watch(call: Callable[..., Any], args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
            result = call(*args, **kwargs)
            if context.method_name == "__call__":
                found[".".join(context.module.path)] = result
            return result

        with nn.intercept_methods(watch):
            network.apply(theta[: network.layout.size], piece)
        return [part for outer, *inner in together for part in _samples(outer, inner, found, rows)]

    compiled = jax.jit(values, static_argnums=2)

    def of_one_row(theta: Array) -> list[Array]:
        return values(theta, network.arrange(jnp.asarray(x[:1])), 1)

    shapes = jax.eval_shape(of_one_row, jnp.zeros(symmetry.layout.size, jnp.float32))
    return Activations(
        lambda theta, number: [np.asarray(part) for part in compiled(theta, *pieces[number])],
        len(pieces),
        [each.shape[1] * len(x) for each in shapes],
    )


def _samples(outer: Group, inner: Sequence[Group], found: dict[str, Array], rows: int) -> Iterator[Array]:
    """Values [n, positions rows] of a group in all its layers, for `rows` rows; later rows are padding.

    If units are inside, the values of each layer come by themselves.
    """
    parts = []
    for value in outer.values:
        output = ACTIVATIONS[value.activation](found[value.layer])
        if value.layer == "embedding":
            output = jnp.moveaxis(output, -1, 0)
        parts.append(output[..., :rows].reshape(len(output), -1))
    yield from [jnp.concatenate(parts, axis=1)] if _is_single(outer, inner) else parts
