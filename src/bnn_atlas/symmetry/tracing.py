"""Exchangeable units of any network, found in its traced program.

`programs` says which axes of the arrays in a program have the same atoms. To permute an atom that is not fixed,
everywhere at once, only changes the order of the terms of sums: the places of the atom in the parameters are a group of
exchangeable units. Each group is checked numerically.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import lgamma
from typing import Any, NamedTuple

import jax
import numpy as np

from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.symmetry.axes import (
    FIXED,
    Atom,
    Axis,
    leaves,
    size_of,
    stretches,
)
from bnn_atlas.symmetry.features import MOST_ROWS, Features, Statistic, _taken
from bnn_atlas.symmetry.groups import (
    LARGEST_GROUP,
    Freedom,
    FreeGroup,
    Group,
    InnerGroup,
    Part,
    Place,
    Symmetry,
    part_of,
    scales_of,
    signs_of,
)
from bnn_atlas.symmetry.permutation import _multiply as multiply
from bnn_atlas.symmetry.permutation import transform, uniform_units
from bnn_atlas.symmetry.programs import Function, Reader, Use, bind, evaluate, program_of


class Traced(NamedTuple):
    """What was found in a program."""

    symmetry: Symmetry
    undecided: dict[str, str]
    """`name, axis k` of a parameter -> why it could not be decided whether the entries of this axis are exchangeable;
    they are left alone."""
    values: Callable[[np.ndarray], Callable[[np.ndarray, Any], list[np.ndarray]]]
    """Rows, of which only shape and type count -> (parameters [P], such rows -> activations [n, samples] of each group,
    where the next layer reads them)."""


def traced_symmetry(
    function: Function, layout: Layout, rows: np.ndarray, dtype: Any = np.float32, seed: int = 0
) -> Traced:
    """Find the exchangeable units of a network.

    A group that is found is checked at random parameters and rows: the outputs of f(g w) and f(w) must differ by less
    than `TOLERANCE` of their size. Signs and scales are tried in the same way, and are free if they pass and the
    outputs respond to the group's parameters at all.

    Args:
        function: (arrays by name, rows [n, ...]) -> outputs [n, ...].
        layout: names and shapes of the arrays.
        rows: some rows, at least two; floats give only their shape and type.
        dtype: type of the parameters.
        seed: seed of the check.
    """
    reader = Reader(program_of(function, layout, rows, dtype), [p.name for p in layout.parameters])
    variables = dict(zip(reader.names, reader.closed.jaxpr.invars[:-1], strict=True))
    undecided: dict[str, str] = {}
    places: dict[int, list[Place]] = {}
    atoms: dict[int, Atom] = {}
    outgoing = {(name, id(each.atom)) for name, axis in reader.outgoing for each in stretches(axis)}
    found = {p.name: [stretches(axis) for axis in reader.axes[variables[p.name]]] for p in layout.parameters}
    for parameter in layout.parameters:
        for axis, parts in enumerate(found[parameter.name]):
            for atom, start, blocks, inner in parts:
                if atom.fixed and atom.fixed not in FIXED:
                    undecided[f"{parameter.name}, axis {axis}"] = atom.fixed
                if not atom.fixed and not atom.uniform:
                    incoming = (parameter.name, id(atom)) not in outgoing
                    place = Place(parameter.name, axis, incoming, start, blocks, inner)
                    places.setdefault(id(atom), []).append(place)
                    atoms[id(atom)] = atom
    checked = Check(function, layout, rows, dtype, seed)
    inside = _inside(places, atoms, checked)
    kept = _without_nesting({key: found for key, found in places.items() if key not in inside}, atoms, layout)
    for place in (place for key, found in places.items() if key not in inside and key not in kept for place in found):
        undecided[f"{place.array}, axis {place.axis}"] = "its units are in blocks of which only one level is exchanged"
    groups: list[Group] = []
    roots: list[tuple[Atom, ...]] = []
    for key, group in _named(kept, atoms, layout):
        if group.size > LARGEST_GROUP:
            for place in group.places:
                undecided[f"{place.array}, axis {place.axis}"] = f"more than {LARGEST_GROUP:,} units are not permuted"
            continue
        if not checked.permuted(group):
            for place in group.places:
                undecided[f"{place.array}, axis {place.axis}"] = "exchanging its entries changes the outputs"
            continue
        within = {inner: parts for inner, (outer, parts) in inside.items() if outer == key}
        groups.append(checked.with_freedoms(group, () if within else _one_layer(group)))
        roots.append((atoms[key],))
        for inner, alone in _named({inner: places[inner] for inner in within}, atoms, layout):
            part = InnerGroup(f"{alone.name}.units", group.size * alone.size, within[inner], inside=group.name)
            groups.append(checked.with_freedoms(part, _one_layer(part)))
            roots.append((atoms[key], atoms[inner]))
    symmetry = Symmetry(layout, tuple(groups))
    outer_groups = {group.inside for group in groups if isinstance(group, InnerGroup)}
    wanted: list[list[tuple[Use, tuple[Atom, ...]]]] = []
    for group, root in zip(groups, roots, strict=True):
        summed, reduced = (
            {use.place: (use, root) for use in uses if any(each.atom is root[-1] for each in stretches(use.summed))}
            for uses in (reader.uses, reader.reduced)
        )
        # The units inside are used instead of outer units, whose values would depend on the inner order.
        wanted.append([] if group.name in outer_groups else [*(summed or reduced).values()])

    def values(x: np.ndarray) -> Callable[[np.ndarray, Any], list[np.ndarray]]:
        return _values(function, layout, dtype, wanted, x)

    return Traced(symmetry, undecided, values)


def program_features(found: Traced, symmetry: Symmetry, x: np.ndarray, statistic: Statistic) -> Features:
    """Activations of a traced network at rows x [n, ...] where they are summed over; see `activation_features`.

    `symmetry` has the groups that were found, and a layout that begins with the parameters of the program.
    """
    parts = [x[start : start + MOST_ROWS] for start in range(0, len(x), MOST_ROWS)]
    values = {len(part): found.values(part) for part in (parts[0], parts[-1])}
    size = found.symmetry.layout.size

    def forward(theta: np.ndarray) -> list[np.ndarray]:
        pieces = [values[len(part)](theta[:size], part) for part in parts]
        return [np.concatenate(of_group, axis=1) for of_group in zip(*pieces, strict=True)]

    shapes = [part.shape for part in forward(np.zeros(size, np.float32))]
    ours = _of_values(symmetry, [samples for _, samples in shapes])

    def of(draws: np.ndarray) -> np.ndarray:
        parts = ([part for part in forward(one) if part.size] for one in draws)
        return np.stack([np.concatenate([_taken(part, statistic).ravel() for part in each]) for each in parts])

    return Features(ours, of)


def _of_values(symmetry: Symmetry, samples: list[int]) -> Symmetry:
    """A symmetry for vectors that hold an array [n, samples] for each group; outer units index the arrays inside."""
    arrays: list[Parameter] = []
    groups: list[Group] = []
    inside: dict[str, list[Group]] = {}
    for group in symmetry.groups:
        if isinstance(group, InnerGroup):
            inside.setdefault(group.inside, []).append(group)
    sizes = {group.name: group.size for group in symmetry.groups}
    for group, count in zip(symmetry.groups, samples, strict=True):
        if count:
            arrays.append(Parameter(group.name, (group.size, count), "weight", len(arrays), count, group.size))
        if isinstance(group, InnerGroup):
            part = (Part(group.name, 0, True, slots=sizes[group.inside]),)
            groups.append(replace(group, places=part, signs=part if group.signs else (), scales=()))
            continue
        places = [Place(each.name, 0, True, inner=each.size // group.size) for each in inside.get(group.name, [])]
        signs: tuple[Freedom, ...] = ("sign",) if signs_of(group) and not places else ()
        own = [Place(group.name, 0, True)] if count else []
        groups.append(Group(group.name, group.size, (*own, *places), signs))
    return Symmetry(Layout(tuple(arrays)), tuple(groups))


def _inside(
    places: dict[int, list[Place]], atoms: dict[int, Atom], checked: "Check"
) -> dict[int, tuple[int, tuple[Place, ...]]]:
    """Atoms whose units can be exchanged within each unit of another atom -> that atom, and their places in it."""
    found: dict[int, tuple[int, tuple[Place, ...]]] = {}
    for key, outer in ((key, outer) for key in places for outer in places if outer != key):
        if key in found or outer in found or key in {taken for taken, _ in found.values()}:
            continue
        slots, size = atoms[outer].size, atoms[key].size
        if slots * size > LARGEST_GROUP:
            continue
        parts = tuple(part for place in places[key] if (part := part_of(place, size, places[outer], slots)) is not None)
        if len(parts) == len(places[key]):
            whole = Group("outer", slots, tuple(places[outer]))
            if checked.permuted(whole, InnerGroup("inner", slots * size, parts, inside="outer")):
                found[key] = (outer, parts)
    return found


def _without_nesting(places: dict[int, list[Place]], atoms: dict[int, Atom], layout: Layout) -> dict[int, list[Place]]:
    """Leave out groups that index the same entries of an axis as another group; the one with more orders is kept."""
    kept: dict[int, list[Place]] = {}
    shapes = {p.name: p.shape for p in layout.parameters}
    free = {(name, axis): np.ones(size, bool) for name, shape in shapes.items() for axis, size in enumerate(shape)}
    order = list(places)
    for key in sorted(order, key=lambda key: (-lgamma(atoms[key].size + 1), order.index(key))):
        units = np.arange(atoms[key].size)
        where = [(free[place.array, place.axis], place.indices(units)) for place in places[key]]
        if all(left[indices].all() for left, indices in where):
            kept[key] = places[key]
            for left, indices in where:
                left[indices] = False
    return {key: kept[key] for key in order if key in kept}


def _named(places: dict[int, list[Place]], atoms: dict[int, Atom], layout: Layout) -> list[tuple[int, Group]]:
    """Groups in the order of their first incoming place, named after the layer that has it."""
    rank = {p.name: k for k, p in enumerate(layout.parameters)}

    def first(key: int) -> tuple[Any, ...]:
        best = min(places[key], key=lambda place: (not place.incoming, rank[place.array], place.axis))
        return (rank[best.array], best.axis, best.array)

    ordered = sorted(places, key=first)
    owners = {key: _owner(first(key)[2]) for key in ordered}
    found: list[tuple[int, Group]] = []
    for owner, keys in groupby(ordered, key=lambda key: owners[key]):
        same = list(keys)
        for key in same:
            taken = {group.name for _, group in found}
            name = owner if len(same) == 1 and owner not in taken else f"{first(key)[2]}[{first(key)[1]}]"
            found.append((key, Group(name, atoms[key].size, tuple(places[key]))))
    return found


def _owner(array: str) -> str:
    """The layer of an array: its name without the last part, or its name."""
    return array.replace("/", ".").rpartition(".")[0].replace(".", "/") or array


TOLERANCE = 1e-4
"""Largest relative change of the outputs, as the root of the mean square, that may be due to rounding."""
RESPONSE = 1e-2
"""Smallest relative change of the outputs after a random change of a group's parameters at which a check of the group
means something: all outputs can be 0 after a relu."""
LARGE = 32.0
"""Factor of incoming parameters for which signs and scales are checked again."""
ATTEMPTS = 20
"""Number of random parameters and rows that are tried until the outputs are finite and differ."""


class Check:
    """Compares outputs at random parameters and rows before and after a change of the parameters."""

    def __init__(self, function: Function, layout: Layout, rows: np.ndarray, dtype: Any, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.layout, self.generator, self.rows = layout, generator, rows
        compiled = jax.jit(lambda theta, x: function(layout.unflatten(theta), x))
        self.outputs = lambda theta: np.asarray(compiled(theta, self.rows), np.float64)
        for _ in range(ATTEMPTS):
            if rows.dtype.kind == "f":
                self.rows = generator.normal(size=rows.shape).astype(rows.dtype)
            self.theta = np.concatenate([self._random(p).ravel() for p in layout.parameters]).astype(dtype)
            self.before = self.outputs(self.theta)
            if np.isfinite(self.before).all() and np.ptp(self.before) > 0:
                break

    def _random(self, parameter: Parameter) -> np.ndarray:
        scale = 1.5 / np.sqrt(max(1, parameter.fan_in)) if parameter.role == "weight" else 0.3
        return float(parameter.role == "gain") + scale * self.generator.normal(size=parameter.shape)

    def _change(self, theta: np.ndarray, start: np.ndarray | None = None) -> float:
        """Relative change of the outputs from those at `start`, by default the random parameters."""
        before = self.before if start is None else self.outputs(start)
        size = float(np.sqrt(np.mean(before**2))) or 1.0
        return float(np.sqrt(np.mean((self.outputs(theta) - before) ** 2))) / size

    def _responds(self, group: Group) -> bool:
        """Whether the outputs change with the parameters of a group, each multiplied by a number of its own."""
        marked = _multiplied(Symmetry(self.layout, (group,)), np.ones(self.layout.size), 2.0, 2.0)
        factors = np.where(marked > 1, self.generator.normal(size=self.layout.size), 1.0)
        return self._change((self.theta * factors).astype(self.theta.dtype)) > RESPONSE

    def permuted(self, *groups: Group) -> bool:
        """Whether a random order of the groups' units, moved by at least one place, leaves the outputs unchanged."""
        alone = Symmetry(self.layout, groups)
        units, can = alone.identity, any(g.size > 1 and getattr(g, "exchangeable", True) for g in groups)
        while can and (units == alone.identity).all():
            units = uniform_units(alone, self.generator)
        return self._change(transform(alone, self.theta[None], units[None])[0]) <= TOLERANCE

    def with_freedoms(self, group: Group, parts: Iterable[tuple[Place, ...]]) -> Group:
        """The group with the signs and scales that leave the outputs unchanged; none if these ignore the group.

        They are tried at all places of the group, and at each of the parts.

        The outputs also have to stay unchanged where the units' incoming parameters are large, since activations can
        look homogeneous or odd near 0 (relu6). Factors are powers of 2, which round nothing.
        """
        if not self._responds(group):
            return group
        sets = [group.places, *parts]
        signs = self.generator.permutation(np.arange(group.size) % 2 * 2 - 1)
        turned = next((places for places in sets if self._free(group, places, signs)), ())
        scaled = [places for places in sets if self._free(group, places, 2.0**signs)]
        if group.places in scaled:
            scaled = [group.places]
        if isinstance(group, InnerGroup):
            return replace(group, signs=turned, scales=tuple(scaled))
        if turned in ((), group.places) and scaled in ([], [group.places]):
            freedoms: tuple[tuple[Freedom, Any], ...] = (("scale", scaled), ("sign", turned))
            return replace(group, freedoms=tuple(name for name, free in freedoms if free))
        return FreeGroup(group.name, group.size, group.places, signs=turned, scales=tuple(scaled))

    def _each_large(self, group: Group) -> Iterator[np.ndarray]:
        """The parameters with each array of a group large in turn, where the outputs are finite."""
        for array in dict.fromkeys(place.array for place in group.places):
            large = {p.name: LARGE if p.name == array else 1.0 for p in self.layout.parameters}
            theta = (self.theta * self.layout.per_scalar(large)).astype(self.theta.dtype)
            if np.isfinite(self.outputs(theta)).all():
                yield theta

    def _free(
        self, group: Group, places: tuple[Place, ...], factors: np.ndarray, large: Iterable[np.ndarray] | None = None
    ) -> bool:
        """Whether factors of the units at these places leave the outputs unchanged, also at large parameters.

        `large` has such parameters; by default, those with all incoming ones of the places large.
        """
        alone = Symmetry(self.layout, (replace(group, places=places),))
        large = [_multiplied(alone, self.theta, LARGE, 1.0)] if large is None else large
        starts = [self.theta, *large]
        return all(self._change(_multiplied(alone, at, factors, 1 / factors), at) <= TOLERANCE for at in starts)

    def unseen(self, symmetry: Symmetry) -> Iterator[str]:
        """Reasons why groups cannot be verified: the outputs are not finite, or do not depend on a group."""
        if not np.isfinite(self.before).all():
            yield "the outputs are not finite at random parameters and rows, so no group can be verified"
        for group in symmetry.groups:
            if not self._responds(group):
                yield (
                    f"the outputs at random parameters depend on group '{group.name}' by less than {RESPONSE:.0%} of "
                    "their size, so it cannot be verified: try another seed"
                )

    def broken(self, symmetry: Symmetry) -> Iterator[tuple[str, str]]:
        """Groups with an order, signs or a scale that changes the outputs, and which of these it is."""
        outer = {group.name: group for group in symmetry.groups}
        for group in symmetry.groups:
            inner = isinstance(group, InnerGroup)
            together = (outer[group.inside], group) if isinstance(group, InnerGroup) else (group,)
            if not self.permuted(*together):
                yield group.name, "another order of its units" + (", with their outer units," if inner else "")
            signs = self.generator.permutation(np.arange(group.size) % 2 * 2 - 1)
            large = list(self._each_large(group)) if signs_of(group) or scales_of(group) else []
            if signs_of(group) and not self._free(group, signs_of(group), signs, large):
                yield group.name, f"another sign of its units in {_arrays(signs_of(group))}"
            for places in scales_of(group):
                if not self._free(group, places, 2.0**signs, large):
                    yield group.name, f"another scale of its units in {_arrays(places)}"


def _arrays(places: Sequence[Place]) -> str:
    return ", ".join(dict.fromkeys(place.array for place in places))


def _one_layer(group: Group) -> Iterator[tuple[Place, ...]]:
    """Sets of places whose sign or scale may be free although that of all places is not.

    If several layers compute the units, as in down (act(gate x) * up x): each of them, with the layers that read the
    units. If two compute them and none reads them, as with queries and keys, which are multiplied: the first layer
    against the second.
    """
    layers: dict[str, list[Place]] = {}
    for place in group.places:
        if place.incoming:
            layers.setdefault(_owner(place.array), []).append(place)
    leaving = [place for place in group.places if not place.incoming]
    if len(layers) == 2 and not leaving:
        first, other = layers.values()
        yield (*first, *(replace(place, incoming=False) for place in other))
    elif len(layers) > 1:
        for own in layers.values():
            yield (*own, *leaving)


def _multiplied(
    alone: Symmetry, theta: np.ndarray, incoming: np.ndarray | float, outgoing: np.ndarray | float
) -> np.ndarray:
    """Parameters [P], in which the parameters of the only group are multiplied by factors of its units."""
    (group,), found = alone.groups, theta[None].copy()
    for place in group.places:
        factors = np.broadcast_to(incoming if place.incoming else outgoing, (1, group.size))
        multiply(alone, place, found, factors)
    return np.asarray(found[0])


def _units_first(axes: list[Axis], root: tuple[Atom, ...], value: Any) -> Any:
    """An array as [units, samples]; `root` is the atom of the units, after the atom that they are inside, if any."""
    *outer, (axis, stretch) = (
        next((number, each) for number, axis in enumerate(axes) for each in stretches(axis) if each.atom is atom)
        for atom in root
    )
    slots, size = root[0].size if outer else 1, stretch.atom.size
    end = stretch.start + stretch.blocks * size * stretch.inner
    whole = end == size_of(leaves(axes[axis]))  # rows may then be blocks of this axis
    part = slice(stretch.start, None if whole else end)
    if outer and outer[0][0] != axis:
        value = jax.numpy.moveaxis(value, (outer[0][0], axis), (0, 1))[:, part]
        value = value.reshape(slots, -1, size, stretch.inner, *value.shape[2:])
        return jax.numpy.moveaxis(value, 2, 1).reshape(slots * size, -1)
    value = jax.numpy.moveaxis(value, axis, 0)[part]
    between = stretch.blocks // (slots * outer[0][1].blocks) if outer else 1
    value = value.reshape(-1, slots, between, size, stretch.inner, *value.shape[1:])
    return jax.numpy.moveaxis(value, (1, 3), (0, 1)).reshape(slots * size, -1)


def _values(
    function: Function, layout: Layout, dtype: Any, wanted: list[list[tuple[Use, tuple[Atom, ...]]]], x: np.ndarray
) -> Callable[[np.ndarray, Any], list[np.ndarray]]:
    """Activations [n, samples] of each group at rows like x."""
    closed = program_of(function, layout, x, dtype)
    first = closed.jaxpr.invars[-1]
    equations = closed.jaxpr.eqns
    variables = [
        [equations[use.place[0]].outvars[use.place[1]] if use.place[0] >= 0 else first for use, _ in uses]
        for uses in wanted
    ]

    def compute(theta: Any, rows: Any) -> list[Any]:
        arrays = layout.unflatten(theta)
        inputs = [*(arrays[p.name] for p in layout.parameters), rows]
        _, known = evaluate(closed.jaxpr, closed.consts, inputs, bind)
        found = []
        for uses, vars_of in zip(wanted, variables, strict=True):
            parts = []
            for (use, root), var in zip(uses, vars_of, strict=True):
                parts.append(_units_first(use.axes, root, known[var]))
            found.append(jax.numpy.concatenate(parts, axis=1) if parts else jax.numpy.zeros((0, 0)))
        return found

    compiled = jax.jit(compute)
    return lambda theta, rows: [np.asarray(part) for part in compiled(theta, rows)]
