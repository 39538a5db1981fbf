"""Which units of a network can be exchanged: written by hand as in git-re-basin, or found."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bnn_atlas.config.language.base import plural
from bnn_atlas.data import DataError
from bnn_atlas.library.given import Trees, difference
from bnn_atlas.library.posteriors import NetworkPosterior
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.groups import (
    LARGEST_GROUP,
    FreeGroup,
    Group,
    InnerGroup,
    Place,
    SymmetryError,
    part_of,
    scales_of,
    signs_of,
)
from bnn_atlas.symmetry.groups import Symmetry as Groups
from bnn_atlas.symmetry.layers import free_symmetry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bnn_atlas.symmetry.features import Features, Statistic

Entry = str | tuple[str | int, ...] | None
FeaturesOf = Callable[[Groups, np.ndarray, "Statistic"], "Features"]


class Symmetry:
    """Which units of a network can be exchanged, and where they index the parameters.

    Written by hand in the notation of git-re-basin (Ainsworth et al. 2023), for each array the group of units that
    indexes each axis, or None:

        Symmetry({"fc1.weight": ("h", None), "fc1.bias": ("h",), "fc2.weight": (None, "h"), "fc2.bias": (None,)})

    An axis that is a product, such as that of a flattened map, is a tuple of sizes and one group, the outermost first:
    `(49, "c")` for 49 positions with the channels c innermost, `("c", 49)` for channels outermost as in PyTorch.
    `Symmetry.of` finds groups automatically; `check` verifies them with the outputs of a network.
    """

    def __init__(
        self,
        axes: Mapping[str, Sequence[Entry]],
        *,
        signs: Collection[str] | Mapping[str, Collection[str]] = (),
        scales: Mapping[str, Collection[str] | Mapping[str, int]] | None = None,
        inside: Mapping[str, tuple[str, int]] | None = None,
        ordered: Collection[str] = (),
    ) -> None:
        """A symmetry by hand; sizes are checked when it meets parameters.

        Args:
            axes: name of an array -> one entry for each of its axes. Every array with axes has to be named.
            signs: groups whose units can change sign (tanh): incoming and outgoing parameters times -1. If the sign
                acts only on some arrays of a group: group -> names or patterns of those arrays,
                `{"h": ["up.*", "down.*"]}`.
            scales: groups whose units can be rescaled (relu) -> names or patterns of their incoming arrays, which are
                multiplied by a factor; their other arrays are divided by it. Or patterns -> 1 for arrays that are
                multiplied and -1 for those that are divided, `{"h": {"up.*": 1, "down.*": -1}}`; other arrays are left
                alone, and no array may match both.
            inside: groups whose units are inside the units of another group, as inside attention heads -> that other
                group and its size, `{"qk": ("heads", 4)}`. An axis that names `qk` has the heads outermost, and
                `(3, "qk")` has three blocks in each head; in an array with another axis for `heads`, `qk` names the
                axis of one head.
            ordered: groups inside others whose units keep their order, so that only signs and scales can be free.

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
        self._inside = _inside(inside, where)
        for group, places in where.items():
            if len(places) == 1 and not any(outer == group for outer, _ in self._inside.values()):
                raise DataError(
                    f"axes: the group '{group}' indexes {places[0]} alone, and exchanging its units there would change "
                    "the network: name it also where the units are read"
                )
        outer = [name for name, _ in self._inside.values() if name not in where]
        names = dict.fromkeys((*(name for name in where if name not in self._inside), *outer, *self._inside))
        if not _is_names(signs):
            raise DataError(
                f"signs is {signs!r:.40}: write a list of groups, ['h'], or map groups to arrays, {{'h': ['up.*']}}"
            )
        if not isinstance(scales, Mapping | None):
            raise DataError(f"scales is {scales!r:.40}: map groups to their incoming arrays, {{'h': ['fc1.*']}}")
        for what, groups in (("signs", signs), ("scales", scales or ())):
            for name in groups:
                if name not in names:
                    raise DataError(f"{what}: there is no group '{name}'; there are {', '.join(names)}")
        self._names = tuple(names)
        given = signs if isinstance(signs, Mapping) else dict.fromkeys(signs, ("*",))
        self._signs = {group: self._turned(group, patterns) for group, patterns in given.items()}
        """Group -> arrays on which a sign acts."""
        self._scales = {group: self._powers(group, patterns) for group, patterns in (scales or {}).items()}
        """Group -> array -> 1 if it is multiplied by a scale, -1 if it is divided."""
        if not _is_names(ordered):
            raise DataError(f"ordered is {ordered!r:.40}: write a list of groups, such as ['qk']")
        self._ordered = frozenset(ordered)
        if unknown := sorted(self._ordered - set(self._inside)):
            raise DataError(
                f"ordered: '{unknown[0]}' is not a group inside another one; "
                f"there are {', '.join(self._inside) or 'none'}"
            )

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
                lines.append(self._line(name))
        else:
            for group in self._found.groups:
                every = _arrays(group.places)
                sets = [("scale", _arrays(found)) for found in scales_of(group)] + [("sign", _arrays(signs_of(group)))]
                free = "".join(f", {kind} free{_of_some(every, some)}" for kind, some in sets if some)
                if isinstance(group, InnerGroup):
                    free = f", inside {group.inside}{free}"
                places = ", ".join(f"{place.array} axis {place.axis}" for place in group.places)
                lines.append(f"  {group.name}, {plural(group.size, 'unit')}{free}: {places}")
        lines += [f"  undecided, left alone: {place} ({why})" for place, why in self.undecided.items()]
        return "\n".join(lines)

    def _line(self, name: str) -> str:
        """The line of a group written by hand: its places, and the groups inside it."""
        inner = [key for key, (outer, _) in self._inside.items() if outer == name]
        size = f", {plural(self._inside[inner[0]][1], 'unit')}" if inner else ""
        within = f", inside {self._inside[name][0]}" if name in self._inside else ""
        order = ", in fixed order" if name in self._ordered else ""
        sets = (("scale", self._scales.get(name)), ("sign", self._signs.get(name)))
        free = "".join(f", {kind} free{_of_some(self._arrays_of(name), some)}" for kind, some in sets if some)
        places = [*_places_by_hand(self._axes, name), *(f"around units of {key}" for key in inner)]
        return f"  {name}{size}{within}{order}{free}: {', '.join(places)}"

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

        given = Trees([[parameters]], None if self._found is None else self._found.layout)
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

    def check(
        self, network: Any, x: "ArrayLike | None" = None, start: Any = None, *, vocabulary: int = 0, seed: int = 0
    ) -> None:
        """Verify a symmetry written by hand: the outputs f of a network have to satisfy f(g w) = f(w).

        Other orders, signs and scales of each group are tried at random parameters and rows. The outputs may change by
        10^-4 of their size, which allows for rounding. Arguments are as for `Symmetry.of`; networks described by
        settings are refused, since their symmetry is known.

        Raises:
            DataError: there are no outputs to compare, or an argument is missing or of the wrong kind.
            SymmetryError: the outputs change (the message names the group and what was changed), do not depend on a
                group, or are not finite.
        """
        from bnn_atlas import arrays
        from bnn_atlas.config.language.base import MOST
        from bnn_atlas.library.networks import user_network
        from bnn_atlas.symmetry.tracing import Check

        if isinstance(network, Mapping) or (isinstance(network, NetworkPosterior) and network.user is None):
            raise DataError("network has settings: its symmetry is known, and Symmetry.of gives it")
        if isinstance(network, NetworkPosterior):
            if not len(network.rows[1]):
                raise DataError("network is the posterior of a density alone, which has no outputs to compare")
            user, rows = cast(Any, network.user), np.asarray(network.rows[0])
        elif x is None:
            raise DataError("x is missing: pass some rows that the network takes")
        else:
            rows = arrays.rows(x, np.float32, vocabulary=arrays.count(vocabulary, "vocabulary", 0, MOST))
            user = user_network(network, rows[:2], start)
        few = rows[:MOST_CHECKED].astype(np.int32 if rows.dtype.kind in "iu" else user.dtype)
        layout = user.network.layout
        checked = Check(user.of_arrays, layout, few, user.dtype, arrays.seed(seed))
        symmetry = self.bound(layout)
        for why in checked.unseen(symmetry):
            raise SymmetryError(f"{user.name}: {why}")
        for group, what in checked.broken(symmetry):
            raise SymmetryError(
                f"{group}: {what} changes the outputs of {user.name}: correct the axes, or name the arrays on which a "
                "sign or scale acts"
            )

    def bound(self, layout: Layout) -> Groups:
        """The groups for parameters with this layout; DataError if names, numbers of axes or sizes do not fit."""
        shapes = {p.name: p.shape for p in layout.parameters}
        if self._found is not None:
            ours = {p.name: p.shape for p in self._found.layout.parameters}
            if ours != shapes:
                raise DataError(f"draws are not of the network of this symmetry: {difference(shapes, ours)}")
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
        found: dict[str, Group] = {}
        for name in self._names:
            found[name] = self._group(name, shapes, found)
            if found[name].size > LARGEST_GROUP:
                size = found[name].size
                raise SymmetryError(f"{name} has {size:,} units; at most {LARGEST_GROUP:,} are possible")
        return Groups(layout, tuple(found.values()))

    def _group(self, name: str, shapes: Mapping[str, tuple[int, ...]], found: Mapping[str, Group]) -> Group:
        """A group written by hand, at arrays of these shapes; `found` has the groups before it."""
        size, places = self._places(name, shapes)
        for inner in (key for key, (outer, _) in self._inside.items() if outer == name):
            count, units = self._places(inner, shapes)
            if size not in (0, slots := self._inside[inner][1]):
                raise DataError(f"inside['{inner}'] says that '{name}' has {slots} units, but axes gives it {size}")
            size = slots
            combined = [place for place in units if not self._beside(inner, place.array)]
            places += [replace(p, blocks=1, inner=p.blocks // slots * count * p.inner) for p in combined]
        power = self._scales.get(name, {})
        kept: list[Place] = [replace(place, incoming=power.get(place.array, 0) > 0) for place in places]
        if name in self._inside:
            outer, slots = self._inside[name]
            parts = [part_of(place, size, found[outer].places, slots) for place in kept]
            kept = [part for part in parts if part is not None]
            if len(kept) < len(parts):
                raise DataError(f"axes: units of '{name}' are not inside units of '{outer}' in {places[0].array}")
        signs = tuple(place for place in kept if place.array in self._signs.get(name, ()))
        scaled = tuple(place for place in kept if place.array in power)
        scales = (scaled,) if scaled else ()
        if name in self._inside:
            free: dict[str, Any] = {"inside": outer, "exchangeable": name not in self._ordered}
            return InnerGroup(name, slots * size, tuple(kept), signs=signs, scales=scales, **free)
        if signs in ((), tuple(kept)) and scaled in ((), tuple(kept)):
            freedoms = (("scale",) if scaled else ()) + (("sign",) if signs else ())
            return Group(name, size, tuple(kept), cast(Any, freedoms))
        return FreeGroup(name, size, tuple(kept), signs=signs, scales=scales)

    def _arrays_of(self, name: str) -> list[str]:
        """The arrays indexed by the units of a group, or by units inside them."""
        own = {name, *(key for key, (outer, _) in self._inside.items() if outer == name)}
        return [array for array, entries in self._axes.items() if any(group in own for group, _, _ in entries)]

    def _turned(self, name: str, patterns: Any) -> list[str]:
        """The arrays of a group on which its signs act."""
        if not _is_names(patterns):
            raise DataError(
                f"signs['{name}'] is {patterns!r:.40}: write a list of names or patterns of arrays, ['up.*']"
            )
        return list(self._matched("signs", name, patterns))

    def _powers(self, name: str, patterns: Any) -> dict[str, int]:
        """Array of a group -> 1 if a scale multiplies it, -1 if a scale divides it."""
        if not _is_names(patterns):
            raise DataError(
                f"scales['{name}'] is {patterns!r:.40}: write a list of names or patterns of the incoming arrays, "
                "['fc1.*'], or map patterns to 1 or -1"
            )
        matched = self._matched("scales", name, patterns)
        if not isinstance(patterns, Mapping):
            return {array: 1 if array in matched else -1 for array in self._arrays_of(name)}
        for pattern, power in patterns.items():
            if isinstance(power, bool) or power not in (1, -1):
                raise DataError(f"scales['{name}']['{pattern}'] is {power!r:.40}: write 1 (multiplied) or -1 (divided)")
        for array, found in matched.items():
            if len({patterns[pattern] for pattern in found}) > 1:
                raise DataError(
                    f"scales['{name}'] multiplies and divides {array}, which matches {' and '.join(map(repr, found))}: "
                    "let each array match only 1 or only -1"
                )
        return {array: patterns[found[0]] for array, found in matched.items()}

    def _matched(self, what: str, name: str, patterns: Collection[str]) -> dict[str, list[str]]:
        """Array of a group -> the patterns that it matches, if any."""
        arrays = self._arrays_of(name)
        matched = {array: [pattern for pattern in patterns if fnmatchcase(array, pattern)] for array in arrays}
        for pattern in patterns:
            if not any(pattern in found for found in matched.values()):
                raise DataError(
                    f"{what}['{name}']: no array of the group matches '{pattern}'; there are {', '.join(arrays)}"
                )
        return {array: found for array, found in matched.items() if found}

    def _beside(self, name: str, array: str) -> bool:
        """Whether an array has a separate axis for the units around those of a group."""
        return any(group == self._inside[name][0] for group, _, _ in self._axes[array])

    def _places(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, list[Place]]:
        """The number of units of a group (in one unit of the group around it, if there is one), and their places."""
        places, size, first = list[Place](), 0, ""
        for array, entries in self._axes.items():
            shape = shapes[array]
            if len(shape) != len(entries):
                raise DataError(
                    f"axes['{array}']: the array {list(shape)} needs one entry for each axis, so the number of entries "
                    f"is {len(shape)} and not {len(entries)}"
                )
            for axis, (group, blocks, inner) in enumerate(entries):
                if group != name:
                    continue
                said = ""
                if name in self._inside and not self._beside(name, array):
                    outer, slots = self._inside[name]
                    blocks, said = blocks * slots, f" (inside says {slots} units of '{outer}')"
                count, rest = divmod(shape[axis], blocks * inner)
                here = f"{array}, axis {axis}"
                if rest or not count:
                    raise DataError(
                        f"axes: {here} has {shape[axis]} entries, which are not a multiple of {blocks * inner}{said}"
                    )
                if size not in (0, count):
                    raise DataError(f"axes: the group '{name}' has {size} units in {first}, and {count} in {here}")
                size, first = count, first or here
                places.append(Place(array, axis, False, 0, blocks, inner))
        return size, places


MOST_CHECKED = 8
"""Number of rows at which symmetries are verified."""


def _notation(axes: Any) -> dict[str, list[tuple[str, int, int]]]:
    """Array -> for each axis the group ('' for none), and how many blocks and inner positions there are."""
    if not isinstance(axes, Mapping) or not axes:
        raise DataError("axes maps names of arrays to groups, such as {'fc1.weight': ('h', None), ...}")
    found: dict[str, list[tuple[str, int, int]]] = {}
    for name, entries in axes.items():
        if not isinstance(name, str):
            raise DataError(f"axes has the key {name!r:.40}: write the name of an array, such as 'fc1.weight'")
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


def _is_names(given: Any) -> bool:
    """Whether this is a collection of names or patterns, or a mapping from them."""
    return isinstance(given, Collection) and not isinstance(given, str) and all(isinstance(one, str) for one in given)


def _inside(inside: Any, where: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Group -> the group around it, and the size of that group."""
    if inside is not None and not isinstance(inside, Mapping):
        raise DataError("inside maps groups to the group around them and its size: {'qk': ('heads', 4)}")
    found: dict[str, tuple[str, int]] = {}
    for name, given in (inside or {}).items():
        match given:
            case (str(outer), int(size)) if size > 0 and not isinstance(size, bool):
                found[name] = outer, size
            case _:
                raise DataError(f"inside['{name}'] is {given!r:.40}: write a group and its size, ('heads', 4)")
        if name not in where:
            raise DataError(f"inside: there is no group '{name}' in axes; there are {', '.join(where)}")
    for name, (outer, _) in found.items():
        if outer in found:
            raise DataError(
                f"inside: '{name}' is inside '{outer}', which is itself inside a group: only one level is possible"
            )
    return found


def _arrays(places: Sequence[Place]) -> list[str]:
    return list(dict.fromkeys(place.array for place in places))


def _of_some(every: Collection[str], some: Collection[str]) -> str:
    """The arrays on which a sign or scale acts, unless these are all arrays of the group."""
    return "" if set(some) == set(every) else f" ({', '.join(some)})"


def _places_by_hand(axes: Mapping[str, list[tuple[str, int, int]]], group: str) -> Iterator[str]:
    for array, entries in axes.items():
        for axis, (name, _, _) in enumerate(entries):
            if name == group:
                yield f"{array} axis {axis}"
