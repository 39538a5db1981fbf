"""Alignment of draws of any network: exchangeable units in one order, for means, variances and comparisons."""

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from bnn_atlas.config.language.base import plural
from bnn_atlas.data import DataError
from bnn_atlas.library.posteriors import NetworkPosterior
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.symmetry.groups import (
    LARGEST_GROUP,
    FreeGroup,
    Group,
    InnerGroup,
    Part,
    Place,
    SymmetryError,
    scales_of,
    signs_of,
)
from bnn_atlas.symmetry.groups import Symmetry as Groups
from bnn_atlas.symmetry.layers import free_symmetry
from bnn_atlas.traces.draws import ArrayDraws, Draws, Index, positions

if TYPE_CHECKING:
    import pandas
    from numpy.typing import ArrayLike

    from bnn_atlas.symmetry.alignment import Aligned, Plan
    from bnn_atlas.symmetry.features import Features, Statistic
    from bnn_atlas.symmetry.frame import Frame
    from bnn_atlas.symmetry.matching import Pairs

By = Literal["weights", "activations", "centred", "correlation"]
Entry = str | tuple[str | int, ...] | None
FeaturesOf = Callable[[Groups, np.ndarray, "Statistic"], "Features"]


class Symmetry:
    """Which units of a network can be exchanged, and where they index the parameters.

    Written by hand in the notation of git-re-basin (Ainsworth et al. 2023), for each array the group of units that
    indexes each axis, or None:

        Symmetry({"fc1.weight": ("h", None), "fc1.bias": ("h",), "fc2.weight": (None, "h"), "fc2.bias": (None,)})

    An axis that is a product, such as that of a flattened map, is a tuple of sizes and one group, the outermost first:
    `(49, "c")` for 49 positions with the channels c innermost, `("c", 49)` for channels outermost as in PyTorch.
    `Symmetry.of` finds groups automatically.
    """

    def __init__(
        self,
        axes: Mapping[str, Sequence[Entry]],
        *,
        signs: Collection[str] = (),
        scales: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """A symmetry by hand; sizes are checked when it meets parameters.

        Args:
            axes: name of an array -> one entry for each of its axes. Every array with axes has to be named.
            signs: groups whose units can change sign (tanh): incoming and outgoing parameters times -1.
            scales: groups whose units can be rescaled (relu) -> names or patterns of their incoming arrays, which are
                multiplied by a factor; their other arrays are divided by it.

        Raises:
            DataError: the notation is wrong, or a group indexes only one axis.
        """
        self.undecided: dict[str, str] = {}
        """`name, axis k` -> why it could not be decided whether its entries are exchangeable; they are left alone."""
        self._found: Groups | None = None
        self._features: FeaturesOf | None = None
        self._tree: Callable[[Any], Any] | None = None
        self._axes = _notation(axes)
        where: dict[str, list[str]] = {}
        for name, entries in self._axes.items():
            for axis, (group, _, _) in enumerate(entries):
                if group:
                    where.setdefault(group, []).append(f"{name}, axis {axis}")
        if not where:
            raise DataError("axes names no group of units: write its name where it indexes an axis, as in ('h', None)")
        for group, places in where.items():
            if len(places) == 1:
                raise DataError(
                    f"axes: the group '{group}' indexes {places[0]} alone, and exchanging its units there would change "
                    "the network: name it also where the units are read"
                )
        self._signs, self._scales = tuple(signs), dict(scales or {})
        if isinstance(signs, str) or not isinstance(scales or {}, Mapping):
            raise DataError(
                "signs is a list of groups, and scales names the incoming arrays of groups: {'h': ['fc1.*']}"
            )
        for what, names in (("signs", self._signs), ("scales", self._scales)):
            for name in names:
                if name not in where:
                    raise DataError(f"{what}: there is no group '{name}'; there are {', '.join(where)}")
        self._names = tuple(where)

    @classmethod
    def of(
        cls,
        network: Any,
        x: "ArrayLike | None" = None,
        start: Any = None,
        *,
        classes: int = 0,
        vocabulary: int = 0,
        seed: int = 0,
    ) -> "Symmetry":
        """The symmetry of a network, found automatically.

        For a posterior of this library, or settings of its network, it is known. For Flax modules and functions, the
        program of the network is traced: units that can be exchanged are found through products, convolutions, sums,
        functions of single numbers, norms, reshapes and reductions. What cannot be decided is left alone and named in
        `undecided`. Every group is verified at random parameters and rows: the outputs stay the same to rounding.

        Args:
            network: what `build_posterior` or `posterior_of` returns; settings as for `build_posterior`; a Flax module
                (linen or nnx); or a function of parameters and rows.
            x: rows [n, ...]; not needed for a posterior.
            start: parameters, needed for a function.
            classes: number of classes, for settings with a categorical likelihood.
            vocabulary: number of token ids, for sequences.
            seed: seed of the verification.

        Raises:
            DataError: an argument is missing or of the wrong kind.
            ShapeError: the network does not accept rows of this shape.
            SymmetryError: no units can be exchanged.
        """
        from bnn_atlas import arrays
        from bnn_atlas.config.language.base import MOST, WIDEST, validated
        from bnn_atlas.config.parts.posterior import PosteriorConfig
        from bnn_atlas.library.networks import user_network
        from bnn_atlas.library.posteriors import _density, section

        seed = arrays.seed(seed)
        if isinstance(network, NetworkPosterior):
            layout = network.density.layout
            if network.user is None:
                shape = tuple(network.data.x.shape[1:])
                return cls._of_model(network.config.model, layout, shape, network.vocabulary)
            if not len(network.rows[1]):
                raise DataError("network is the posterior of a density alone: write its symmetry, Symmetry({...})")
            return cls._of_user(network.user, layout, np.asarray(network.rows[0]), seed)
        if x is None:
            raise DataError("x is missing: pass some rows that the network takes")
        vocabulary = arrays.count(vocabulary, "vocabulary", 0, MOST)
        rows = arrays.rows(x, np.float32, vocabulary=vocabulary)
        if isinstance(network, Mapping):
            config = validated(PosteriorConfig, section(network), "network")
            classes = arrays.count(classes, "classes", 0, WIDEST)
            posterior, _ = _density(config, rows, classes, vocabulary)
            return cls._of_model(config.model, posterior.layout, rows.shape[1:], vocabulary)
        user = user_network(network, rows[:2], start)
        return cls._of_user(user, user.network.layout, rows, seed)

    @classmethod
    def _of_model(cls, model: Any, layout: Layout, shape: tuple[int, ...], vocabulary: int) -> "Symmetry":
        """The symmetry of a network of this library."""
        made = cls._made(free_symmetry(model, layout))
        outputs = next(p.fan_out for p in reversed(layout.parameters) if p.role == "weight")

        def features(symmetry: Groups, x: np.ndarray, statistic: "Statistic") -> "Features":
            from bnn_atlas.symmetry.features import activation_features

            return activation_features(model, symmetry, shape, x, statistic, outputs=outputs, vocabulary=vocabulary)

        made._features = features
        return made

    @classmethod
    def _of_user(cls, user: Any, layout: Layout, rows: np.ndarray, seed: int) -> "Symmetry":
        """The symmetry of a user's network, from its program."""
        from bnn_atlas.symmetry.tracing import program_features, traced_symmetry

        few = rows[:MOST_CHECKED].astype(np.int32 if rows.dtype.kind in "iu" else user.dtype)
        found = traced_symmetry(user.of_arrays, user.network.layout, few, user.dtype, seed)
        if not found.symmetry.groups:
            told = "".join(f"; {place}: {why}" for place, why in found.undecided.items())
            raise SymmetryError(f"{user.name} has no units that are known to be exchangeable{told}")
        made = cls._made(Groups(layout, found.symmetry.groups))
        made.undecided, made._tree = found.undecided, user.tree

        def features(symmetry: Groups, x: np.ndarray, statistic: "Statistic") -> "Features":
            wanted = np.int32 if x.dtype.kind in "iu" else user.dtype
            return program_features(found, symmetry, x.astype(wanted), statistic)

        made._features = features
        return made

    @classmethod
    def _made(cls, found: Groups) -> "Symmetry":
        made = cls.__new__(cls)
        made._found, made._features, made._tree, made.undecided = found, None, None, {}
        made._names = tuple(group.name for group in found.groups)
        return made

    @property
    def groups(self) -> dict[str, int | None]:
        """Group -> number of units; None for a symmetry by hand, which learns them from parameters."""
        found = () if self._found is None else self._found.groups
        return dict.fromkeys(self._names) | {group.name: group.size for group in found}

    @property
    def names(self) -> set[str]:
        """Names of the arrays."""
        return set(self._axes) if self._found is None else {p.name for p in self._found.layout.parameters}

    def __repr__(self) -> str:
        """The groups with their places, and what was left alone."""
        lines = [f"Symmetry of {plural(len(self._names), 'group')} of units"]
        if self._found is None:
            for name in self._names:
                lines.append(f"  {name}: {', '.join(_places_by_hand(self._axes, name))}")
        else:
            for group in self._found.groups:
                kinds = [name for name, of in (("scale", scales_of), ("sign", signs_of)) if of(group)]
                free = "".join(f", {name} free" for name in kinds)
                if isinstance(group, InnerGroup):
                    free = f", inside {group.inside}{free}"
                places = ", ".join(f"{place.array} axis {place.axis}" for place in group.places)
                lines.append(f"  {group.name}, {plural(group.size, 'unit')}{free}: {places}")
        lines += [f"  undecided, left alone: {place} ({why})" for place, why in self.undecided.items()]
        return "\n".join(lines)

    def apply(self, parameters: Any, permutations: Mapping[str, "ArrayLike"]) -> Any:
        """A pytree of parameters with its units reordered: unit `p[i]` of a group is put at place i.

        Args:
            parameters: a pytree with the names of this symmetry.
            permutations: group -> permutation [n]; groups that are left out keep their order. Units inside others, such
                as those of attention heads, are numbered through all of these, and follow their outer units.

        Raises:
            DataError: the parameters do not fit, or a group is unknown.
            SymmetryError: an array is not a permutation.
        """
        from bnn_atlas.symmetry.permutation import transform, within

        given = _Trees([[parameters]], None if self._found is None else self._found.layout)
        symmetry = self.bound(given.layout)
        if unknown := [name for name in permutations if name not in self._names]:
            raise DataError(f"permutations: there is no group '{unknown[0]}'; there are {', '.join(self._names)}")
        parts: dict[str, np.ndarray] = {}
        for group in symmetry.groups:
            usual = np.arange(group.size)
            if isinstance(group, InnerGroup):
                outer = parts[group.inside]
                usual = within(usual.reshape(len(outer), -1) % (group.size // len(outer)), outer)
            part = parts[group.name] = np.asarray(permutations.get(group.name, usual))
            if not np.array_equal(np.sort(part, axis=None), np.arange(group.size)):
                raise SymmetryError(f"permutations['{group.name}'] is not a permutation of 0 to {group.size - 1}")
        units = symmetry.join(parts.values())
        return given.tree(transform(symmetry, given.read()[0], units[None])[0])

    def bound(self, layout: Layout) -> Groups:
        """The groups for parameters with this layout; DataError if names, numbers of axes or sizes do not fit."""
        shapes = {p.name: p.shape for p in layout.parameters}
        if self._found is not None:
            ours = {p.name: p.shape for p in self._found.layout.parameters}
            if ours != shapes:
                raise DataError(f"draws are not of the network of this symmetry: {_difference(shapes, ours)}")
            return Groups(layout, self._found.groups)
        for name in self._axes:
            if name not in shapes:
                close = get_close_matches(name, shapes, n=1) or list(shapes)[:5]
                raise DataError(f"axes: there is no parameter '{name}'; there is {', '.join(close)}")
        for name, shape in shapes.items():
            if name not in self._axes and shape:
                raise DataError(
                    f"axes does not name '{name}' {list(shape)}: say what indexes it; "
                    f"({', '.join(['None'] * len(shape))}{',' * (len(shape) == 1)}) if nothing does"
                )
        found = tuple(self._group(name, shapes) for name in self._names)
        for group in found:
            if group.size > LARGEST_GROUP:
                raise SymmetryError(f"{group.name} has {group.size:,} units; at most {LARGEST_GROUP:,} are possible")
        return Groups(layout, found)

    def _group(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> Group:
        """A group written by hand, at arrays of these shapes."""
        patterns = self._scales.get(name, ())
        for pattern in patterns:
            if not any(fnmatchcase(array, pattern) for array in self._axes):
                raise DataError(f"scales['{name}']: no array matches '{pattern}'; there are {', '.join(self._axes)}")
        places, size, first = [], 0, ""
        for array, entries in self._axes.items():
            shape = shapes[array]
            if len(shape) != len(entries):
                raise DataError(
                    f"axes['{array}'] has {len(entries)} of {len(shape)} entries, one for each axis of the array "
                    f"{list(shape)}"
                )
            for axis, (group, blocks, inner) in enumerate(entries):
                if group != name:
                    continue
                count, rest = divmod(shape[axis], blocks * inner)
                here = f"{array}, axis {axis}"
                if rest:
                    raise DataError(
                        f"axes: {here} has {shape[axis]} entries, which are not a multiple of {blocks * inner}"
                    )
                if size not in (0, count):
                    raise DataError(f"axes: the group '{name}' has {size} units in {first}, and {count} in {here}")
                size, first = count, first or here
                incoming = any(fnmatchcase(array, pattern) for pattern in patterns)
                places.append(Place(array, axis, incoming, 0, blocks, inner))
        freedoms = (("scale",) if patterns else ()) + (("sign",) if name in self._signs else ())
        return Group(name, size, tuple(places), cast(Any, freedoms))


MOST_CHECKED = 8
"""Number of rows at which symmetries are verified."""


def _notation(axes: Any) -> dict[str, list[tuple[str, int, int]]]:
    """Array -> for each axis the group ('' for none), and how many blocks and inner positions there are."""
    if not isinstance(axes, Mapping) or not axes:
        raise DataError("axes maps names of arrays to groups, such as {'fc1.weight': ('h', None), ...}")
    found: dict[str, list[tuple[str, int, int]]] = {}
    for name, entries in axes.items():
        if isinstance(entries, str) or not isinstance(entries, Sequence):
            raise DataError(
                f"axes['{name}'] is {entries!r:.40}: write a tuple with one entry for each axis, as in ('h',)"
            )
        found[name] = [_entry(name, entry) for entry in entries]
    return found


def _entry(name: str, entry: Any) -> tuple[str, int, int]:
    if entry is None:
        return "", 1, 1
    if isinstance(entry, str) and entry:
        return entry, 1, 1
    parts = list(entry) if isinstance(entry, tuple) else []
    named = [k for k, part in enumerate(parts) if isinstance(part, str) and part]
    sizes = [part for part in parts if isinstance(part, int) and not isinstance(part, bool) and part > 0]
    if len(named) != 1 or len(sizes) != len(parts) - 1:
        raise DataError(
            f"axes['{name}'] has the entry {entry!r:.40}: write the name of a group, None, or a tuple of sizes and one "
            "name, such as (49, 'c')"
        )
    at = named[0]
    return parts[at], prod(parts[:at]), prod(parts[at + 1 :])


def _places_by_hand(axes: Mapping[str, list[tuple[str, int, int]]], group: str) -> Iterator[str]:
    for array, entries in axes.items():
        for axis, (name, _, _) in enumerate(entries):
            if name == group:
                yield f"{array} axis {axis}"


def _difference(given: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> str:
    """The first difference between two sets of arrays."""
    for name, shape in wanted.items():
        if name not in given:
            return f"there is no array '{name}'"
        if given[name] != shape:
            return f"'{name}' has the shape {list(given[name])}, and {list(shape)} is expected"
    extra = next((name for name in given if name not in wanted), None)
    return f"there is an array '{extra}' too many" if extra else "arrays are in another order"


class _OneByOne(Draws):
    """Draws that are made one at a time when they are read, and have no statistics."""

    chains_per_chunk = draws_per_chunk = 1

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The scalars, in order."""
        return tuple(self.layout.names())

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p]; see `Draws.read`."""
        chain_idx, draw_idx = self._places(chains, draws)
        columns = positions(parameters, self.size, "parameter")
        out = np.empty((len(chain_idx), len(draw_idx), len(columns)), self.dtype)
        for i, chain in enumerate(chain_idx.tolist()):
            for j, draw in enumerate(draw_idx.tolist()):
                out[i, j] = self._vector(chain, draw)[columns]
        return out

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """Raises KeyError: these draws have no statistics."""
        raise KeyError(f"draws have no statistic '{name}'")

    @abstractmethod
    def _vector(self, chain: int, draw: int) -> np.ndarray:
        """The parameters [P] of a draw."""


class _Trees(_OneByOne):
    """Chains of pytrees as draws; a vector is only made when it is read."""

    def __init__(self, chains: Sequence[Sequence[Any]], layout: Layout | None) -> None:
        from bnn_atlas.library.networks import layout_of, named_leaves

        self._chains = chains
        leaves, self._structure = named_leaves(chains[0][0], "draws[0]")
        arrays = {name: _leaf(leaf, f"draws[0]['{name}']") for name, leaf in leaves.items()}
        self._names = tuple(arrays)
        self._shapes = {name: array.shape for name, array in arrays.items()}
        self.layout = layout or layout_of(self._shapes)
        wanted = {p.name: p.shape for p in self.layout.parameters}
        if wanted != self._shapes:
            raise DataError(f"draws[0] is not of the network of this symmetry: {_difference(self._shapes, wanted)}")
        self.path, self.size = Path("draws"), self.layout.size
        self.chain_ids, self.draw_ids = np.arange(len(chains)), np.arange(len(chains[0]))
        double = any(array.dtype == np.float64 for array in arrays.values())
        self.dtype = np.dtype(np.float64 if double else np.float32)
        self.statistics, self.attributes = {}, {}
        for chain, draws in enumerate(chains):
            for draw in range(len(draws)):
                self._vector(chain, draw)

    def tree(self, vector: np.ndarray) -> Any:
        """Parameters [P] as a pytree like the first."""
        import jax

        arrays = self.layout.unflatten(cast(Any, vector))
        return jax.tree_util.tree_unflatten(self._structure, [arrays[name] for name in self._names])

    def named(self, chain: int, draw: int) -> str:
        """What the user calls a draw."""
        return f"draws[{draw}]" if len(self._chains) == 1 else f"draws[{chain}][{draw}]"

    def _vector(self, chain: int, draw: int) -> np.ndarray:
        """The parameters [P] of a draw; DataError if it is not like the first."""
        from bnn_atlas.library.networks import named_leaves

        where = self.named(chain, draw)
        leaves, _ = named_leaves(self._chains[chain][draw], where)
        arrays = {name: _leaf(leaf, f"{where}['{name}']") for name, leaf in leaves.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != self._shapes:
            raise DataError(f"{where} is not like the first: {_difference(shapes, self._shapes)}")
        return np.concatenate([arrays[p.name].ravel() for p in self.layout.parameters], dtype=self.dtype)


def _leaf(leaf: Any, where: str) -> np.ndarray:
    """One parameter as an array of floats (tensors of PyTorch, too)."""
    try:
        array = np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} is not an array of numbers: {error}") from None
    if array.dtype.kind == "V" and np.can_cast(array.dtype, np.float32):
        array = array.astype(np.float32)  # short floats of JAX
    if array.dtype.kind != "f":
        what = "whole numbers" if array.dtype.kind in "iub" else f"{array.dtype}"
        raise DataError(f"{where} has {what}: parameters are real numbers, so leave out all other arrays")
    if not array.size:
        raise DataError(f"{where} is empty")
    return array


class _InFrame(Draws):
    """Draws after their permutations, signs and scales; nothing is copied until it is read."""

    def __init__(self, source: Draws, symmetry: Groups, frame: "Frame", plan: "Plan") -> None:
        self._source, self._symmetry, self._frame, self._plan = source, symmetry, frame, plan
        for name in ("path", "layout", "size", "chain_ids", "draw_ids", "dtype", "statistics", "attributes"):
            setattr(self, name, getattr(source, name))
        self.chains_per_chunk, self.draws_per_chunk = source.chains_per_chunk, source.draws_per_chunk

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The scalars, in order."""
        return self._source.parameter_names

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p] in the frame; see `Draws.read`. Draws that are not finite stay as they are."""
        from bnn_atlas.symmetry.permutation import balanced, transform

        chain_idx, draw_idx = self._places(chains, draws)
        columns = positions(parameters, self.size, "parameter")
        at = np.ix_(chain_idx, draw_idx)
        frame, units = self._frame, self._symmetry.units
        theta = self._source.read(chain_idx, draw_idx).reshape(-1, self.size)
        usable = frame.finite[at].ravel()
        kept = theta[usable]
        if self._plan.scales and len(kept):
            kept = balanced(self._symmetry, kept)[0].astype(theta.dtype)
        signs = frame.signs[at].reshape(-1, units)[usable] if self._plan.signs else None
        theta[usable] = transform(self._symmetry, kept, frame.units[at].reshape(-1, units)[usable], signs)
        return theta[:, columns].reshape(len(chain_idx), len(draw_idx), len(columns))

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        return self._source.statistic(name, chains, draws)


NOISE = 3
"""Keeps the random numbers of the control `aligned_noise` separate from those of scrambling and of pairs."""


class _Noise(_OneByOne):
    """Independent normal numbers with these means and standard deviations [P], in the shape of other draws.

    A draw depends only on the seed and on the numbers of its chain and draw.
    """

    def __init__(self, like: Draws, mean: np.ndarray, sd: np.ndarray, seed: int) -> None:
        self._mean, self._sd, self._seed = mean, sd, seed
        for name in ("path", "layout", "size", "chain_ids", "draw_ids", "dtype"):
            setattr(self, name, getattr(like, name))
        self.statistics, self.attributes = {}, {}

    def _vector(self, chain: int, draw: int) -> np.ndarray:
        numbers = np.random.default_rng([NOISE, self._seed, chain, draw]).standard_normal(self.size)
        return self._mean + self._sd * numbers


@dataclass(frozen=True, repr=False)
class AlignmentReport:
    """What an alignment has done, compared with its controls; `print` shows it."""

    table: "pandas.DataFrame"
    """Columns `metric`, `at` (`sampled`, `aligned`, `scrambled`, `chain_wise`, `aligned_noise`, or empty), `value`,
    `standard_error`, `note`; docs/metrics.md explains the metrics."""
    text: str

    def __repr__(self) -> str:
        """The report in words and numbers."""
        return self.text


class Alignment:
    """Draws in a common frame; see `align`."""

    def __init__(
        self,
        source: Draws,
        symmetry: Groups,
        features: "Features",
        plan: "Plan",
        pairs: int,
        form: "_Form",
        by: str,
    ) -> None:
        """Align the draws."""
        from bnn_atlas.symmetry.features import balanced_features
        from bnn_atlas.symmetry.matching import match_pairs

        self._source, self._symmetry, self._features, self._plan = source, symmetry, features, plan
        self._form, self._by = form, by
        self._aligned = self._run(source)
        paired = balanced_features(features, symmetry) if plan.scales else features
        self._pairs: Pairs = match_pairs(
            source, paired, self._aligned.frame.finite, pairs, plan.seed, signed=plan.signs
        )

    def _run(self, draws: Draws) -> "Aligned":
        from bnn_atlas.symmetry.alignment import Aligner, Checkpoint

        nowhere = Checkpoint(Path("no checkpoint"), "", math.inf)
        return Aligner(draws, self._symmetry, self._features, self._plan, nowhere).run()

    @property
    def frame(self) -> "Frame":
        """Permutations, moments and target as arrays over the flat vector (`bnn_atlas.symmetry.frame`)."""
        return self._aligned.frame

    @property
    def draws(self) -> Any:
        """The aligned draws in the form in which they were passed.

        Draws on disk stay there and are moved when they are read; an array is made whole, and pytrees one by one.
        """
        return self._form.draws(_InFrame(self._source, self._symmetry, self.frame, self._plan))

    @property
    def permutations(self) -> dict[str, np.ndarray]:
        """Group -> permutations [chain, draw, n] ([draw, n] for a list of pytrees): unit `p[i]` was put at place i."""
        return self._by_group(self.frame.units)

    @property
    def signs(self) -> dict[str, np.ndarray]:
        """Group -> -1 or 1 for each unit after its permutation; empty unless `signs` was chosen."""
        free = {group.name for group in self._symmetry.groups if signs_of(group)}
        found = self._by_group(self.frame.signs) if self._plan.signs else {}
        return {name: signs for name, signs in found.items() if name in free}

    @property
    def scales(self) -> dict[str, np.ndarray]:
        """Group -> factor of the incoming parameters of each unit after its permutation; empty unless `scales`.

        A group with several sets of parameters that can be rescaled, such as the layers of a residual stream, has one
        entry for each set: `name[0]`, `name[1]`, ... Computed when it is asked for, which reads all draws.
        """
        if not self._plan.scales:
            return {}
        found, orders = {}, {}
        for group, part in zip(self._symmetry.groups, self._symmetry.split(self.frame.units), strict=True):
            for name in _scale_names(group):
                found[name], orders[name] = np.ones(part.shape), part
        for chains, draws, theta in self._source.batches(LOT_BYTES):
            usable = self.frame.finite[chains, draws]
            for name, factors in _unit_scales(self._symmetry, theta[usable]).items():
                order = orders[name][chains, draws][usable].astype(np.intp)
                found[name][chains, draws][usable] = np.take_along_axis(factors, order, axis=1)
        return {name: self._form.shaped(factors) for name, factors in found.items()}

    @property
    def transpositions(self) -> dict[str, np.ndarray]:
        """Group -> number of transpositions [chain, draw] of each permutation to the frame."""
        from bnn_atlas.symmetry.permutation import transpositions

        return {name: transpositions(part) for name, part in self.permutations.items()}

    @property
    def mean(self) -> Any:
        """Mean of the aligned draws, as a pytree."""
        return self._form.tree(self.frame.mean)

    @property
    def sd(self) -> Any:
        """Standard deviations of the aligned draws, as a pytree."""
        return self._form.tree(self.frame.moment("aligned", "sd"))

    def __repr__(self) -> str:
        """Sizes, criterion and reference."""
        sizes = zip(self._source.shape, ("chain", "draw", "parameter"), strict=True)
        state = "" if self.frame.fixed else ", not settled"
        return f"Alignment({' x '.join(plural(*size) for size in sizes)}, by {self._by}{state})"

    def report(self) -> AlignmentReport:
        """Variances and R-hat of the aligned draws, compared with controls, and numbers of transpositions.

        Alignment lowers variances and R-hat even where there is nothing to find, so these are compared with:

        - `scrambled`: the units of every draw in a random order, which hides that chains differ and brings R-hat to 1;
        - `chain_wise`: one permutation for each chain;
        - `aligned_noise`: independent normal numbers with the means and variances of the scrambled draws, aligned in
          the same way. What this gains in variance is due to choosing the best of many orders.

        The control of noise is another alignment, and takes as long as the first; its result is kept.
        """
        return self._report

    @cached_property
    def _report(self) -> AlignmentReport:
        import pandas as pd

        from bnn_atlas.metrics.tables.measurement import RunIdentity
        from bnn_atlas.symmetry.aligned_draws import alignment_rows
        from bnn_atlas.symmetry.alignment import kept_draws

        frame = self.frame
        mean, sd = frame.moment("scrambled", "mean"), frame.moment("scrambled", "sd")
        noise = self._run(_Noise(self._source, mean, sd, self._plan.seed))
        identity = RunIdentity("", "", "", 0, "", "", "")
        ours, theirs = (
            pd.DataFrame(alignment_rows(identity, "-", kept_draws(found, self._pairs, self._symmetry)))
            for found in (self._aligned, noise)
        )
        control = theirs[theirs["at"] == "-/aligned"].assign(at="-/aligned_noise")
        table = pd.concat([ours, control], ignore_index=True)
        table["at"] = table["at"].str.removeprefix("-").str.removeprefix("/")
        table = table[["metric", "at", "value", "standard_error", "note"]]
        return AlignmentReport(table, _in_words(table, self))

    def _by_group(self, values: np.ndarray) -> dict[str, np.ndarray]:
        parts = self._symmetry.split(self._form.shaped(values))
        return {group.name: part for group, part in zip(self._symmetry.groups, parts, strict=True)}


VARIANTS = {
    "sampled": "as sampled",
    "aligned": "aligned",
    "chain_wise": "one order per chain",
    "scrambled": "units in random order",
    "aligned_noise": "noise, aligned",
}
COLUMNS = {
    "aligned_variance": "variance",
    "aligned_variance_within": "within chains",
    "aligned_rhat_median": "R-hat, median",
    "aligned_rhat_q95": "R-hat, 95 %",
}


def _in_words(table: "pandas.DataFrame", found: Alignment) -> str:
    """The report as text."""
    places = zip(table["metric"].tolist(), table["at"].tolist(), strict=True)
    value: dict[tuple[str, str], float] = dict(zip(places, table["value"].tolist(), strict=True))
    lines = [
        repr(found),
        f"{'mean over parameters that can move':<36}" + "".join(f"{name:>16}" for name in COLUMNS.values()),
    ]
    for variant, title in VARIANTS.items():
        numbers = [value.get((metric, variant)) for metric in COLUMNS]
        lines.append(f"  {title:<34}" + "".join(f"{'-' if n is None else f'{n:.4g}':>16}" for n in numbers))
    ceiling, to_frame = (value["transpositions_ceiling", ""], value["transpositions_to_frame", ""])
    lines.append(f"transpositions to the frame: {to_frame:.1f} of {ceiling:.1f} in random orders")
    pairs = [(where, value.get((f"transpositions_{where}", ""))) for where in ("within", "across")]
    if told := [f"{number:.1f} {where} chains" for where, number in pairs if number is not None]:
        lines.append(f"transpositions between pairs of draws: {', '.join(told)}")
    before, after = value["aligned_variance", "sampled"], value["aligned_variance", "aligned"]
    random, noise = value["aligned_variance", "scrambled"], value["aligned_variance", "aligned_noise"]
    if random > 0:
        lines.append(
            f"against a random order, the variance is {1 - after / random:.0%} lower; for noise alone, "
            f"{1 - noise / random:.0%}"
        )
    if after > before:
        lines.append("the variance is higher than as sampled: this reference does not help these draws")
    if lost := value["draws_not_finite", ""]:
        lines.append(f"{plural(int(lost), 'draw')} not finite and left out")
    return "\n".join(lines)


LOT_BYTES = 32 << 20
"""Bytes of draws that are read together."""


def _scale_names(group: Group) -> list[str]:
    """Names of the scales of a group, one for each set of its parameters that can be rescaled."""
    count = len(scales_of(group))
    return [group.name] if count == 1 else [f"{group.name}[{number}]" for number in range(count)]


def _unit_scales(symmetry: Groups, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Name of a scale -> factors [m, n] by which `balanced` multiplies the incoming parameters of the units.

    Every set of places gets one more array [n], with incoming parameters of 0, which changes no norm: the factors are
    what such an array of ones becomes. theta is [m, P].
    """
    from bnn_atlas.symmetry.permutation import balanced

    sizes = {group.name: group.size for group in symmetry.groups}
    extra: dict[str, Parameter] = {}
    groups: list[Group] = []
    for group in symmetry.groups:
        added: list[Place] = []
        for name in _scale_names(group):
            array = f"scales of {name}"
            extra[name] = Parameter(array, (group.size,), "gain", None, 1, 1)
            if isinstance(group, InnerGroup):
                added.append(Part(array, 0, True, slots=sizes[group.inside]))
            else:
                added.append(Place(array, 0, True))
        if isinstance(group, FreeGroup):
            pairs = zip(group.scales, added, strict=True)
            groups.append(replace(group, scales=tuple((*places, more) for places, more in pairs)))
        else:
            groups.append(replace(group, places=(*group.places, *added)))
    layout = Layout((*symmetry.layout.parameters, *extra.values()))
    zeros = np.zeros((len(theta), layout.size - symmetry.layout.size), theta.dtype)
    _, factors = balanced(
        Groups(layout, tuple(groups)),
        np.concatenate([theta, zeros], axis=1),
        np.ones((len(theta), layout.size)),
    )
    found = layout.unflatten(cast(Any, factors))
    return {name: np.asarray(found[parameter.name]) for name, parameter in extra.items()}


class _Form(NamedTuple):
    """How draws were passed."""

    draws: Callable[[Draws], Any]
    tree: Callable[[np.ndarray], Any]
    shaped: Callable[[np.ndarray], np.ndarray]
    """Values [chain, draw, ...] for each draw -> without the chains if draws have none."""
    named: Callable[[int, int], str]
    """Position of a chain and of a draw -> what the user calls this draw."""


def align(
    draws: Any,
    symmetry: Symmetry | Mapping[str, Sequence[Entry]] | None = None,
    *,
    posterior: NetworkPosterior | None = None,
    by: By = "weights",
    x: "ArrayLike | None" = None,
    reference: Literal["barycentre", "first", "last", "mean"] = "barycentre",
    unit: Literal["draw", "chain"] = "draw",
    signs: bool = False,
    scales: bool = False,
    passes: int = 200,
    pairs: int = 50,
    seed: int = 0,
) -> Alignment:
    """Bring draws of any sampler into a common frame, by exchanging units that can be exchanged.

    Finds permutations P_k for draws w_k that maximise <r, P_k w_k> for a reference r, or the length of the mean of
    P_k w_k for the barycentre, which is never worse than one permutation per chain. Draws are read in pieces, so that
    only their permutations stay in memory (2 to 3 bytes for each unit).

    Args:
        draws: draws of `sample` or `open_pool`; an array [chain, draw, P] or [draw, P] in the order of the posterior or
            the symmetry; or a list of networks, each a pytree of parameters such as a mapping by name (or a list of
            such lists, one for each chain). NaN and infinity are refused, except where the statistic `divergent` of
            the draws marks this or an earlier step of the chain: such draws are left out and counted.
        symmetry: which units can be exchanged, or its notation; None to find it from the posterior or from what the
            draws record.
        posterior: the posterior of the draws, for its symmetry and rows.
        by: `weights`, all parameters of a unit; `activations` at rows x, unchanged, `centred`, or scaled to a
            `correlation`.
        x: rows [n, ...] for activations; None for the rows of the posterior.
        reference: what the draws are matched to.
        unit: a permutation for each draw, or one for each chain.
        signs: also match the signs of units that are free.
        scales: first rescale units that are free so that the norm of the parameters is least.
        passes: largest number of passes over the draws to a barycentre.
        pairs: number of random pairs of draws, within and across chains, whose transpositions are counted.
        seed: seed of pairs and controls.

    Raises:
        DataError: an argument is not valid, or draws and symmetry do not fit; the message says where.
        SymmetryError: there are no units to exchange, signs or scales are not free, or fewer than two draws are finite.
    """
    from bnn_atlas import arrays
    from bnn_atlas.library.posteriors import check_posterior
    from bnn_atlas.symmetry.alignment import Plan
    from bnn_atlas.symmetry.features import weight_features

    posterior = getattr(draws, "posterior", None) if posterior is None else posterior
    if posterior is not None:
        check_posterior(posterior)
    for name, value, allowed in (("by", by, BY), ("reference", reference, REFERENCES), ("unit", unit, UNITS)):
        if not isinstance(value, str) or value not in allowed:
            raise DataError(f"{name} is {value!r:.40}: choose {', '.join(allowed)}")
    if isinstance(symmetry, Mapping):
        symmetry = Symmetry(symmetry)
    if symmetry is None:
        symmetry = _symmetry_for(draws, posterior)
    elif not isinstance(symmetry, Symmetry):
        raise DataError(f"symmetry is a {type(symmetry).__name__}: pass a Symmetry, or its notation")
    source, form = _source(draws, symmetry, posterior)
    bound = symmetry.bound(source.layout)
    _check_finite(source, form)
    if by == "weights":
        if x is not None:
            raise DataError(
                "x is of no use when units are matched by weights: leave it out, or choose by='activations'"
            )
        features = weight_features(bound)
    else:
        features = _activations(symmetry, bound, posterior, x, by)
    plan = Plan(
        reference=reference,
        unit=unit,
        passes=arrays.count(passes, "passes", 1, 10**6),
        signs=bool(arrays.switch(signs, "signs")),
        scales=bool(arrays.switch(scales, "scales")),
        seed=arrays.seed(seed),
    )
    return Alignment(source, bound, features, plan, arrays.count(pairs, "pairs", 0, 10**6), form, by)


def _check_finite(draws: Draws, form: _Form) -> None:
    """Raise DataError for draws with NaN or infinity that `divergent` does not mark."""
    from bnn_atlas.symmetry.alignment import finite_draws

    lost = np.zeros(draws.shape[:2], bool)
    for chains, places, theta in draws.batches(LOT_BYTES):
        lost[chains, places] = ~finite_draws(theta)
    if "divergent" in draws.statistics and lost.any():
        lost &= np.cumsum(draws.statistic("divergent") > 0, axis=1) == 0
    if not lost.any():
        return
    chain, draw = (int(place) for place in np.argwhere(lost)[0])
    first = int(np.flatnonzero(~np.isfinite(draws.read([chain], [draw])[0, 0]))[0])
    more = f", as {lost.sum():,} of {plural(lost.size, 'draw')} have" if lost.sum() > 1 else ""
    raise DataError(
        f"{form.named(chain, draw)} has NaN or infinity in '{draws.arrays[first].name}'{more}: leave such draws or "
        "their chains out (the statistic `divergent` of draws from `sample` excuses steps that it marks)"
    )


BY = ("weights", "activations", "centred", "correlation")
REFERENCES = ("barycentre", "first", "last", "mean")
UNITS = ("draw", "chain")


def _symmetry_for(draws: Any, posterior: NetworkPosterior | None) -> Symmetry:
    """The symmetry of the posterior, or of the network that draws record."""
    from bnn_atlas.config.language.base import ConfigError, validated
    from bnn_atlas.config.parts.posterior import PosteriorConfig

    if posterior is not None:
        return Symmetry.of(posterior)
    recorded = None
    if isinstance(draws, Draws):
        recorded = draws.attributes.get("provenance", {}).get("settings", {}).get("posterior")
    if recorded is not None:
        try:
            config = validated(PosteriorConfig, recorded, "posterior")
        except ConfigError:
            config = None
        if config is not None:
            return Symmetry._made(free_symmetry(config.model, cast(Draws, draws).layout))
    raise DataError("symmetry is missing: pass one, `Symmetry.of(network, x)` or Symmetry({...}), or the posterior")


def _source(draws: Any, symmetry: Symmetry, posterior: NetworkPosterior | None) -> tuple[Draws, _Form]:
    """The draws as `Draws`, and the form in which they were passed."""
    from bnn_atlas.library.draws import PosteriorDraws

    if isinstance(draws, Draws):
        if draws.size != draws.layout.size:
            raise DataError(f"draws ({draws.path}) are a selection of parameters: pass all of them")
        again = PosteriorDraws if isinstance(draws, PosteriorDraws) else lambda moved, _: moved
        tree = _tree_of(draws.layout, symmetry, posterior)

        def named(chain: int, draw: int) -> str:
            return f"{draws.path}: draw {draws.draw_ids[draw]} of chain {draws.chain_ids[chain]}"

        return draws, _Form(lambda moved: again(moved, posterior), tree, lambda values: values, named)
    if isinstance(draws, list | tuple) and len(draws) and not _is_numbers(draws[0]):
        return _of_trees(draws, symmetry)
    try:
        array = draws if isinstance(draws, np.ndarray) else np.asarray(draws)
    except (TypeError, ValueError):  # rows of unequal lengths
        array = np.array(None)
    if array.dtype.kind == "O":
        raise DataError(
            f"draws is a {type(draws).__name__} and not an array of numbers: pass draws of `sample`, an array "
            "[chain, draw, P], or a list of networks"
        )
    layout = symmetry._found.layout if symmetry._found is not None else None
    layout = posterior.density.layout if posterior is not None else layout
    if layout is None:
        raise DataError("draws is an array, whose order a symmetry by hand does not know: pass posterior, or pytrees")
    if array.dtype.kind != "f":
        raise DataError(f"draws is an array of {array.dtype}: pass real numbers")
    if array.ndim not in (2, 3) or array.shape[-1] != layout.size or not array.size:
        raise DataError(
            f"draws has the shape {list(array.shape)}, but [chain, draw, {layout.size}] or [draw, {layout.size}] is "
            "needed"
        )
    flat = array.ndim == 2
    whole = array[None] if flat else array
    whole = whole if whole.dtype == np.float64 else whole.astype(np.float32, copy=False)
    source = ArrayDraws(Path("draws"), layout, whole, {}, np.arange(whole.shape[0]), np.arange(whole.shape[1]), {})

    def shaped(values: np.ndarray) -> np.ndarray:
        return values[0] if flat else values

    return source, _Form(
        lambda moved: shaped(moved.read()),
        _tree_of(layout, symmetry, posterior),
        shaped,
        lambda chain, draw: f"draws[{draw}]" if flat else f"draws[{chain}, {draw}]",
    )


def _is_numbers(first: Any) -> bool:
    """Whether the first element of a list is a number or a part of an array."""
    while isinstance(first, list | tuple) and len(first) and not hasattr(first, "_fields"):
        first = first[0]
        if hasattr(first, "shape"):
            return not first.shape
    return isinstance(first, int | float) or hasattr(first, "shape")


def _of_trees(draws: Sequence[Any], symmetry: Symmetry) -> tuple[Draws, _Form]:
    """Pytrees, or chains of pytrees if the first element does not have the names of the symmetry and its first has."""
    from bnn_atlas.library.networks import named_leaves

    def is_network(tree: Any) -> bool:
        return symmetry.names <= set(named_leaves(tree, "draws[0]")[0])

    chained = isinstance(draws[0], list | tuple) and len(draws[0]) > 0 and not is_network(draws[0])
    chained = chained and is_network(draws[0][0])
    chains = [[*chain] for chain in draws] if chained else [[*draws]]
    if len(lengths := {len(chain) for chain in chains}) > 1:
        raise DataError(f"draws has chains of {min(lengths)} to {max(lengths)} draws: pass equally many of each chain")
    source = _Trees(chains, None if symmetry._found is None else symmetry._found.layout)

    def given(moved: Draws) -> Any:
        found = [[source.tree(moved.read([c], [s])[0, 0]) for s in range(moved.draws)] for c in range(moved.chains)]
        return found if chained else found[0]

    return source, _Form(given, source.tree, lambda values: values if chained else values[0], source.named)


def _tree_of(layout: Layout, symmetry: Symmetry, posterior: NetworkPosterior | None) -> Callable[[np.ndarray], Any]:
    """Vectors [P] -> the user's pytree, or arrays by name, nested where names have a slash."""
    if posterior is not None:
        return posterior.as_pytree
    if symmetry._tree is not None and symmetry._found is not None and symmetry._found.layout == layout:
        return symmetry._tree

    def nested(vector: np.ndarray) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for name, array in layout.unflatten(cast(Any, vector)).items():
            *folders, last = name.split("/")
            place = tree
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = array
        return tree

    return nested


def _activations(symmetry: Symmetry, bound: Groups, posterior: NetworkPosterior | None, x: Any, by: By) -> "Features":
    from bnn_atlas import arrays
    from bnn_atlas.library.posteriors import rows_like

    if symmetry._features is None:
        raise DataError(
            f"by='{by}' needs the network, which this symmetry does not have: pass Symmetry.of(network, x), or the "
            "posterior without a symmetry"
        )
    if x is None and posterior is None:
        raise DataError(f"x is missing: by='{by}' needs rows")
    if posterior is not None:
        rows = np.asarray(posterior.rows[0]) if x is None else rows_like(posterior, x)
    else:
        array = np.asarray(x)
        rows = arrays.rows(x, np.float32, vocabulary=2**31 - 1 if array.dtype.kind in "iu" else 0)
    if rows.dtype.kind == "f":
        rows = rows.astype(np.float32 if posterior is None else posterior.dtype)
    return symmetry._features(bound, rows, cast(Any, by))
