"""Features for matching networks: values of each draw that are permuted in the same way as the network's units."""

from collections.abc import Callable, Iterator
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
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.groups import Group, Place, Symmetry, SymmetryError
from bnn_atlas.symmetry.permutation import balanced, rows_of
from bnn_atlas.traces.draws import evenly

Statistic = Literal["activations", "centred", "correlation"]
Criterion = Literal["weights", "cosine"] | Statistic
LARGEST_BYTES = 128 << 20
"""Largest size of the activations of one draw in bytes."""


class Features(NamedTuple):
    """Features of draws: matching maximises the inner product of the features of the reference and of a draw."""

    symmetry: Symmetry
    """Positions of the units in a vector of features, with the network's groups."""
    of: Callable[[np.ndarray], np.ndarray]
    """Draws [m, P] -> features [m, F]."""


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
    outputs = next(p.fan_out for p in reversed(symmetry.layout.parameters) if p.role == "weight")
    sizes = {"outputs": outputs, "vocabulary": split.vocabulary}
    return activation_features(model, symmetry, split.shape, np.asarray(x, dtype), criterion, **sizes)


def weight_features(symmetry: Symmetry, dead_inputs: np.ndarray | None = None) -> Features:
    """The parameters themselves; with `dead_inputs` [inputs], the first layer's weights of these inputs count as 0.

    Inputs that never vary in the data carry no information about a unit: their weights are draws from the prior. Raises
    SymmetryError if the first layer does not have one weight per input.
    """
    if dead_inputs is None:
        return Features(symmetry, lambda draws: draws)
    live = live_parameters(symmetry.layout, dead_inputs)
    if live is None:
        raise SymmetryError(
            f"dead inputs can be masked only if the first layer has a weight for each of {dead_inputs.size} inputs: "
            "keep them for this network"
        )
    return Features(symmetry, lambda draws: draws * live.astype(draws.dtype))


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
    return Features(_by_groups(symmetry, [shape[1]]), of)


def activation_features(
    config: ModelConfig, symmetry: Symmetry, shape: tuple[int, ...], x: np.ndarray, statistic: Statistic, **sizes: int
) -> Features:
    """Activations of all units for the rows x: unchanged, centred, or centred and divided by their sds.

    The inner product of two units' activations is the criterion of git-re-basin's activation matching (and, for
    unchanged activations, of Xiao et al. 2023). Divided by the number of rows, the inner product is a covariance for
    centred activations, and a correlation for centred and scaled activations. In the latter case, a unit with a
    constant activation has features of 0.

    Args:
        config: the model.
        symmetry: symmetry of the network.
        shape: shape of one row.
        x: rows [n, ...] in the form that the network takes.
        statistic: how activations are used.
        sizes: `outputs` and `vocabulary` of the network.

    Raises:
        SymmetryError: the activations of a draw need too much memory.
    """
    forward, samples = activation_function(config, symmetry, shape, x, **sizes)
    ours = _by_groups(symmetry, samples)
    if (size := 4 * ours.layout.size) > LARGEST_BYTES:
        raise SymmetryError(
            f"activations of {len(x):,} rows need {size / 2**20:,.0f} MiB per draw, more than "
            f"{LARGEST_BYTES / 2**20:.0f}: lower the number of rows"
        )

    def of(draws: np.ndarray) -> np.ndarray:
        return np.stack([np.concatenate([_taken(part, statistic).ravel() for part in forward(one)]) for one in draws])

    return Features(ours, of)


def balanced_features(features: Features, symmetry: Symmetry) -> Features:
    """Features of the draws after balancing the scales of units."""
    return Features(features.symmetry, lambda draws: features.of(balanced(symmetry, draws)[0].astype(draws.dtype)))


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
    """A symmetry for vectors that hold an array [n, samples] for each group."""
    arrays, groups = [], []
    for number, (group, count) in enumerate(zip(symmetry.groups, samples, strict=True)):
        arrays.append(Parameter(group.name, (group.size, count), "weight", number, count, group.size))
        signs = tuple(freedom for freedom in group.freedoms if freedom == "sign")
        groups.append(Group(group.name, group.size, (Place(group.name, 0, True),), signs))
    return Symmetry(Layout(tuple(arrays)), tuple(groups))


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


def activation_function(
    config: ModelConfig, symmetry: Symmetry, shape: tuple[int, ...], x: np.ndarray, *, outputs: int, vocabulary: int = 0
) -> tuple[Callable[[np.ndarray], list[np.ndarray]], list[int]]:
    """A function from parameters [P] to the activations [n, samples] of each group, and the numbers of samples.

    The samples of a unit are its values for all rows x, at all positions and in all layers that share the unit.
    """
    network = build_network(config, shape, outputs, vocabulary)
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
        return [jnp.concatenate(list(_samples(group, found, rows)), axis=1) for group in symmetry.groups]

    compiled = jax.jit(values, static_argnums=2)

    def forward(theta: np.ndarray) -> list[np.ndarray]:
        parts = [compiled(theta, piece, rows) for piece, rows in pieces]
        return [
            np.concatenate([np.asarray(part) for part in of_group], axis=1) for of_group in zip(*parts, strict=True)
        ]

    def of_one_row(theta: Array) -> list[Array]:
        return values(theta, network.arrange(jnp.asarray(x[:1])), 1)

    shapes = jax.eval_shape(of_one_row, jnp.zeros(symmetry.layout.size, jnp.float32))
    return forward, [each.shape[1] * len(x) for each in shapes]


def _samples(group: Group, found: dict[str, Array], rows: int) -> Iterator[Array]:
    """Values [n, positions rows] of a group in each of its layers, for `rows` rows; later rows are padding."""
    for value in group.values:
        output = ACTIVATIONS[value.activation](found[value.layer])
        if value.layer == "embedding":
            output = jnp.moveaxis(output, -1, 0)
        yield output[..., :rows].reshape(group.size, -1)
