"""Exchangeable units of any network, found in its traced program.

Every axis of every array in the program is a product of atoms, the outermost first: a flattened map of 7 x 7 positions
and 16 channels has an axis of three atoms (`axes`). Operations say which atoms are the same: in `a + b`, the atoms of a
and b, axis by axis; in a product of matrices, the atoms of the two axes that are summed over; in a reshape, the atoms
that are grouped differently. Atoms of rows, inputs, outputs, positions and constants are fixed. To permute an atom that
is not fixed, everywhere at once, only changes the order of the terms of sums: the places of the atom in the parameters
are a group of exchangeable units.

An operation that is not in the tables fixes the atoms that it touches. Each group is checked numerically.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import lgamma
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.symmetry.axes import (
    CONSTANTS,
    FIXED,
    INPUTS,
    OUTPUTS,
    POSITIONS,
    ROWS,
    UNUSED,
    Atom,
    Axis,
    fix,
    joined,
    leaves,
    meet,
    regroup,
    size_of,
    stretches,
    taken,
)
from bnn_atlas.symmetry.features import MOST_ROWS, Features, Statistic, _taken
from bnn_atlas.symmetry.groups import LARGEST_GROUP, Freedom, Group, InnerGroup, Part, Place, Symmetry, signs_of
from bnn_atlas.symmetry.permutation import _multiply as multiply
from bnn_atlas.symmetry.permutation import transform, uniform_units

Arrays = Mapping[str, Any]
Function = Callable[[Arrays, Any], Any]

_ONE_NUMBER = """
abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy copy_p cos cosh
digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log log1p logistic lt max min
mul ne neg nextafter not optimization_barrier or pow reduce_precision rem round rsqrt select_n sign sin sinh sqrt square
stop_gradient sub tan tanh xor
"""
ELEMENTWISE = frozenset(_ONE_NUMBER.split())
"""Operations on single numbers, by the names of their primitives in JAX."""
REDUCTIONS = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"}
WINDOWS = {"reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window"}
CUMULATIVE = {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"}
INLINED = {
    *("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
}


class Traced(NamedTuple):
    """What was found in a program."""

    symmetry: Symmetry
    undecided: dict[str, str]
    """`name, axis k` of a parameter -> why it could not be decided whether the entries of this axis are exchangeable;
    they are left alone."""
    values: Callable[[np.ndarray], Callable[[np.ndarray, Any], list[np.ndarray]]]
    """Rows, of which only shape and type count -> (parameters [P], such rows -> activations [n, samples] of each group,
    where the next layer reads them)."""


class _Use(NamedTuple):
    """An activation that the next layer sums over: where it is in the program, and its axes."""

    place: tuple[int, int]
    axes: list[Axis]
    summed: Axis


class _Reader:
    """Reads a program without calls, equation by equation."""

    def __init__(self, closed: ClosedJaxpr, names: Sequence[str]) -> None:
        self.closed, self.names = closed, names
        self.axes: dict[Any, list[Axis]] = {}
        self.origin: dict[Any, str] = {}
        """Variables that are a parameter with its axes rearranged."""
        self.data: dict[Any, tuple[int, int] | None] = {}
        """Variables that depend on the rows -> equation and result; None within a loop."""
        self.outgoing: list[tuple[str, Axis]] = []
        self.uses: list[_Use] = []
        self.reduced: list[_Use] = []
        jaxpr: Any = closed.jaxpr
        *parameters, rows = jaxpr.invars
        for name, var in zip(names, parameters, strict=True):
            self.axes[var], self.origin[var] = [self._new(size) for size in var.aval.shape], name
        self.axes[rows] = [self._new(size, INPUTS if k else ROWS) for k, size in enumerate(rows.aval.shape)]
        self.data[rows] = (-1, 0)
        self._constants(closed)
        for number, equation in enumerate(jaxpr.eqns):
            self._follow(equation, number)
        for var in jaxpr.outvars:
            fix(self._of(var), OUTPUTS)
        read = {var for equation in jaxpr.eqns for var in equation.invars if not isinstance(var, Literal)}
        for var in parameters:
            if var not in read:
                fix(self._of(var), UNUSED)

    def _constants(self, closed: ClosedJaxpr) -> None:
        for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            self.axes[var] = [self._of_constant(np.asarray(value), k) for k in range(np.ndim(value))]

    def _follow(self, equation: Any, number: int | None) -> None:
        """Read an equation; its number is None within a loop."""
        self._read(equation)
        if any(not isinstance(var, Literal) and var in self.data for var in equation.invars):
            places = [None if number is None else (number, k) for k in range(len(equation.outvars))]
            self.data.update(zip(equation.outvars, places, strict=True))

    def _new(self, size: int, fixed: str = "", *, uniform: bool = False) -> Axis:
        return [Atom(size, fixed, uniform)] if size > 1 else []

    def _of_constant(self, value: np.ndarray, axis: int) -> Axis:
        uniform = bool(value.size) and bool((value == value.take([0], axis)).all())
        return self._new(value.shape[axis], "" if uniform else CONSTANTS, uniform=uniform)

    def _of(self, var: Any) -> list[Axis]:
        """The axes of a variable; the axes of a literal, which is a number, are uniform."""
        if not isinstance(var, Literal):
            return self.axes[var]
        return [self._new(size, uniform=True) for size in np.shape(var.val)]

    def _read(self, equation: Any) -> None:
        name = equation.primitive.name
        if name in ELEMENTWISE:
            rule: Callable[[Any], list[list[Axis]]] | None = self._elementwise
        elif name in REDUCTIONS:
            rule = self._reduction
        elif name in WINDOWS:
            rule = self._window
        elif name in CUMULATIVE:
            rule = self._cumulative
        else:
            rule = getattr(self, f"_{name}", None)
        found = rule(equation) if rule is not None else self._unknown(equation)
        self.axes.update(zip(equation.outvars, found, strict=True))
        origins = [self.origin.get(var) for var in equation.invars if not isinstance(var, Literal)]
        if len(origins) == 1 and origins[0] and name in ("transpose", "reshape", "squeeze", "convert_element_type"):
            self.origin[equation.outvars[0]] = origins[0]

    def _unknown(self, equation: Any) -> list[list[Axis]]:
        reason = f"the operation {equation.primitive.name} is not one that is followed"
        for var in equation.invars:
            fix(self._of(var), reason)
        return [[self._new(size, reason) for size in var.aval.shape] for var in equation.outvars]

    def _kept(self, equation: Any, through: Callable[[int], bool], reason: str = POSITIONS) -> list[list[Axis]]:
        """Results with the axes of the first operand where `through`; the others are fixed."""
        axes = self._of(equation.invars[0])
        fix([axis for k, axis in enumerate(axes) if not through(k)], reason)
        return [
            [axes[k] if through(k) else self._new(size, reason) for k, size in enumerate(var.aval.shape)]
            for var in equation.outvars
        ]

    def _elementwise(self, equation: Any) -> list[list[Axis]]:
        name, shape = equation.primitive.name, equation.outvars[0].aval.shape
        if len(equation.outvars) > 1:
            return [self._of(var) for var in equation.invars]
        common: list[Axis] = [self._new(size, uniform=True) for size in shape]
        for var in equation.invars:
            if var.aval.shape:
                along = zip(common, self._of(var), var.aval.shape, strict=True)
                common = [a if size == 1 else meet(a, b, name) for a, b, size in along]
        return [common]

    def _reduction(self, equation: Any) -> list[list[Axis]]:
        (var,), gone = equation.invars, equation.params["axes"]
        axes = self._of(var)
        if place := self.data.get(var):
            self.reduced += [_Use(place, axes, axes[k]) for k in gone]
        return [[axis for k, axis in enumerate(axes) if k not in gone]]

    def _argmax(self, equation: Any) -> list[list[Axis]]:
        gone = equation.params["axes"]
        axes = self._of(equation.invars[0])
        fix([axes[k] for k in gone], POSITIONS)
        return [[axis for k, axis in enumerate(axes) if k not in gone]]

    _argmin = _argmax

    def _window(self, equation: Any) -> list[list[Axis]]:
        p = equation.params
        whole = [
            (size, stride, tuple(pad)) == (1, 1, (0, 0))
            for size, stride, pad in zip(p["window_dimensions"], p["window_strides"], p["padding"], strict=True)
        ]
        return self._kept(equation, lambda k: whole[k])

    def _cumulative(self, equation: Any) -> list[list[Axis]]:
        return self._kept(equation, lambda k: k != equation.params["axis"])

    def _transpose(self, equation: Any) -> list[list[Axis]]:
        axes = self._of(equation.invars[0])
        return [[axes[k] for k in equation.params["permutation"]]]

    def _reshape(self, equation: Any) -> list[list[Axis]]:
        return [regroup(self._of(equation.invars[0]), equation.outvars[0].aval.shape, "a reshape")]

    def _squeeze(self, equation: Any) -> list[list[Axis]]:
        gone = equation.params["dimensions"]
        return [[axis for k, axis in enumerate(self._of(equation.invars[0])) if k not in gone]]

    def _broadcast_in_dim(self, equation: Any) -> list[list[Axis]]:
        axes, given = self._of(equation.invars[0]), equation.invars[0].aval.shape
        shape = equation.outvars[0].aval.shape
        from_operand = {d: k for k, d in enumerate(equation.params["broadcast_dimensions"]) if given[k] == shape[d]}
        return [
            [
                axes[from_operand[d]] if d in from_operand else self._new(size, uniform=True)
                for d, size in enumerate(shape)
            ]
        ]

    def _iota(self, equation: Any) -> list[list[Axis]]:
        along, shape = equation.params["dimension"], equation.outvars[0].aval.shape
        return [
            [
                self._new(size, POSITIONS) if k == along else self._new(size, uniform=True)
                for k, size in enumerate(shape)
            ]
        ]

    def _pad(self, equation: Any) -> list[list[Axis]]:
        config = equation.params["padding_config"]
        return self._kept(equation, lambda k: tuple(config[k]) == (0, 0, 0))

    def _rev(self, equation: Any) -> list[list[Axis]]:
        return self._kept(equation, lambda k: k not in equation.params["dimensions"])

    def _slice(self, equation: Any) -> list[list[Axis]]:
        p, axes = equation.params, self._of(equation.invars[0])
        found = []
        for k, size in enumerate(equation.invars[0].aval.shape):
            start, stop, step = p["start_indices"][k], p["limit_indices"][k], (p["strides"] or [1] * len(axes))[k]
            part = (
                axes[k] if (start, stop, step) == (0, size, 1) else taken(axes[k], start, stop) if step == 1 else None
            )
            if part is None:
                reason = "a part of the axis is taken, across its factors or in steps (slice)"
                fix([axes[k]], reason)
                part = self._new(equation.outvars[0].aval.shape[k], reason)
            found.append(part)
        return [found]

    def _dynamic_slice(self, equation: Any) -> list[list[Axis]]:
        given, out = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
        return self._kept(equation, lambda k: given[k] == out[k], "a part of the axis is taken (dynamic_slice)")

    def _split(self, equation: Any) -> list[list[Axis]]:
        along, axes, start, found = equation.params["axis"], self._of(equation.invars[0]), 0, []
        for size in equation.params["sizes"]:
            part = taken(axes[along], start, start + size)
            if part is None:
                return self._kept(equation, lambda k: k != along, "the axis is split across its factors (split)")
            found.append([part if k == along else axis for k, axis in enumerate(axes)])
            start += size
        return found

    def _concatenate(self, equation: Any) -> list[list[Axis]]:
        along, shape = equation.params["dimension"], equation.outvars[0].aval.shape
        operands = [self._of(var) for var in equation.invars]
        common: list[Axis] = [self._new(size, uniform=True) for size in shape]
        for axes in operands:
            common = [axis if k == along else meet(axis, axes[k], "concatenate") for k, axis in enumerate(common)]
        common[along] = joined([axes[along] for axes in operands])
        return [common]

    def _scan(self, equation: Any) -> list[list[Axis]]:
        """The body of a loop: what is carried from step to step has the same axes at all steps."""
        p = equation.params
        fixed, carried = p["num_consts"], p["num_carry"]
        given = [self._of(var) for var in equation.invars]
        body = _inlined(p["jaxpr"])
        before = []
        for axes, var in zip(given[fixed:][:carried], equation.invars[fixed:][:carried], strict=True):
            fresh = [self._new(size) for size in var.aval.shape]
            before.append([meet(a, b, "a loop") for a, b in zip(fresh, axes, strict=True)])
        for axes in given[fixed + carried :]:
            fix(axes[:1], POSITIONS)
        inner: Any = body.jaxpr
        into = [*given[:fixed], *before, *(axes[1:] for axes in given[fixed + carried :])]
        self._constants(body)
        for var, axes, outer in zip(inner.invars, into, equation.invars, strict=True):
            self.axes[var] = axes
            if not isinstance(outer, Literal):
                if outer in self.origin and var.aval.shape == outer.aval.shape:
                    self.origin[var] = self.origin[outer]
                if outer in self.data:
                    self.data[var] = None
        for var in inner.invars[fixed : fixed + carried]:
            self.data[var] = None
        for each in inner.eqns:
            self._follow(each, None)
        after = [self._of(var) for var in inner.outvars]
        found = [
            [meet(a, b, "a loop") for a, b in zip(first, second, strict=True)]
            for first, second in zip(before, after, strict=False)
        ]
        return [*found, *([self._new(p["length"], POSITIONS), *axes] for axes in after[carried:])]

    def _gather(self, equation: Any) -> list[list[Axis]]:
        """Rows of a table, such as an embedding: axes that are taken whole stay."""
        operand, indices = equation.invars[:2]
        numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
        axes, shape = self._of(operand), operand.aval.shape
        gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
        there = [k for k in range(len(shape)) if k not in gone]
        whole = {k for k in there if sizes[k] == shape[k] and k not in numbers.start_index_map}
        fix([axis for k, axis in enumerate(axes) if k not in whole], POSITIONS)
        batch = iter(self._of(indices)[:-1])
        offsets = dict(zip(numbers.offset_dims, there, strict=True))
        out = equation.outvars[0].aval.shape
        found = [axes[offsets[d]] if offsets.get(d) in whole else None for d in range(len(out))]
        return [
            [
                axis if axis is not None else self._new(out[d], POSITIONS) if d in offsets else next(batch)
                for d, axis in enumerate(found)
            ]
        ]

    def _dot_general(self, equation: Any) -> list[list[Axis]]:
        (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
        left, right = (self._of(var) for var in equation.invars)
        batch = [meet(left[a], right[b], "a product") for a, b in zip(left_batch, right_batch, strict=True)]
        summed = [meet(left[a], right[b], "a product") for a, b in zip(left_sum, right_sum, strict=True)]
        self._used(equation.invars, summed)
        free = [axis for k, axis in enumerate(left) if k not in (*left_sum, *left_batch)]
        free += [axis for k, axis in enumerate(right) if k not in (*right_sum, *right_batch)]
        return [[*batch, *free]]

    def _conv_general_dilated(self, equation: Any) -> list[list[Axis]]:
        p, numbers = equation.params, equation.params["dimension_numbers"]
        if p["batch_group_count"] != 1:
            return self._unknown(equation)
        left, right = (self._of(var) for var in equation.invars)
        count = p["feature_group_count"]
        groups, outputs = self._new(count), self._new(size_of(right[numbers.rhs_spec[0]]) // count)
        summed = meet(left[numbers.lhs_spec[1]], [*groups, *right[numbers.rhs_spec[1]]], "a convolution")
        self._used(equation.invars, [summed])
        found: list[Axis] = [[]] * len(left)
        found[numbers.out_spec[0]] = left[numbers.lhs_spec[0]]
        found[numbers.out_spec[1]] = meet(right[numbers.rhs_spec[0]], [*groups, *outputs], "a convolution")
        for k, (a, b, c) in enumerate(
            zip(numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:], strict=True)
        ):
            shape = [var.aval.shape for var in equation.invars]
            still = shape[1][b] == p["window_strides"][k] == p["lhs_dilation"][k] == 1 and not any(p["padding"][k])
            found[c] = left[a] if still else self._new(equation.outvars[0].aval.shape[c], POSITIONS)
            if not still:
                fix([left[a], right[b]], POSITIONS)
        return [found]

    def _used(self, operands: Sequence[Any], summed: Sequence[Axis]) -> None:
        """Note where activations are summed over, and by which parameters."""
        for var, other in (tuple(operands), tuple(reversed(operands))):
            if isinstance(other, Literal) or other not in self.data:
                continue
            if place := self.data[other]:
                self.uses += [_Use(place, self.axes[other], axis) for axis in summed]
            if not isinstance(var, Literal) and var in self.origin:
                self.outgoing += [(self.origin[var], axis) for axis in summed]


def _run(closed: ClosedJaxpr, arguments: Sequence[Any], inline: bool = False) -> tuple[list[Any], dict[Any, Any]]:
    """Results of a program and the values of all its variables; calls within it are replaced by what they call."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *arguments), strict=True))

    def value(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else known[var]

    for equation in jaxpr.eqns:
        given = [value(var) for var in equation.invars]
        if inline and equation.primitive.name in INLINED:
            inner = next(equation.params[key] for key in ("call_jaxpr", "fun_jaxpr", "jaxpr") if key in equation.params)
            closed_inner = inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ())
            found, _ = _run(closed_inner, given, inline)
        else:
            found = equation.primitive.bind(*given, **equation.primitive.get_bind_params(equation.params))
            found = found if equation.primitive.multiple_results else [found]
        known.update(zip(equation.outvars, found, strict=True))
    return [value(var) for var in jaxpr.outvars], known


def program_of(function: Function, layout: Layout, rows: np.ndarray, dtype: Any) -> ClosedJaxpr:
    """The program of a network without calls: arguments are the parameters in the order of the layout, and rows."""

    def flat(*arguments: Any) -> Any:
        *arrays, x = arguments
        return function({p.name: array for p, array in zip(layout.parameters, arrays, strict=True)}, x)

    shapes = [jax.ShapeDtypeStruct(p.shape, dtype) for p in layout.parameters]
    shapes.append(jax.ShapeDtypeStruct(rows.shape, rows.dtype))
    closed = jax.make_jaxpr(flat)(*shapes)
    return _inlined(closed)


def _inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without calls."""
    return jax.make_jaxpr(lambda *arguments: _run(closed, arguments, inline=True)[0])(*closed.in_avals)


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
    reader = _Reader(program_of(function, layout, rows, dtype), [p.name for p in layout.parameters])
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
    checked = _Check(function, layout, rows, dtype, seed)
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
        groups.append(checked.with_freedoms(group))
        roots.append((atoms[key],))
        within = {inner: parts for inner, (outer, parts) in inside.items() if outer == key}
        for inner, alone in _named({inner: places[inner] for inner in within}, atoms, layout):
            part = InnerGroup(f"{alone.name}.units", group.size * alone.size, within[inner], inside=group.name)
            groups.append(checked.with_freedoms(part))
            roots.append((atoms[key], atoms[inner]))
    symmetry = Symmetry(layout, tuple(groups))
    outer_groups = {group.inside for group in groups if isinstance(group, InnerGroup)}
    wanted: list[list[tuple[_Use, tuple[Atom, ...]]]] = []
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
    places: dict[int, list[Place]], atoms: dict[int, Atom], checked: "_Check"
) -> dict[int, tuple[int, tuple[Place, ...]]]:
    """Atoms whose units can be exchanged within each unit of another atom -> that atom, and their places in it."""
    found: dict[int, tuple[int, tuple[Place, ...]]] = {}
    for key, outer in ((key, outer) for key in places for outer in places if outer != key):
        if key in found or outer in found or key in {taken for taken, _ in found.values()}:
            continue
        slots, size = atoms[outer].size, atoms[key].size
        if slots * size > LARGEST_GROUP:
            continue
        parts = tuple(part for place in places[key] if (part := _part(place, size, places[outer], slots)) is not None)
        if len(parts) == len(places[key]):
            whole = Group("outer", slots, tuple(places[outer]))
            if checked.permuted(whole, InnerGroup("inner", slots * size, parts, inside="outer")):
                found[key] = (outer, parts)
    return found


def _part(place: Place, size: int, outer: Sequence[Place], slots: int) -> Part | None:
    """A place of units inside the units of another atom, on the same axis or on another one of the same array."""
    for other in outer:
        if other.array != place.array:
            continue
        between, rest = divmod(place.blocks, slots * other.blocks)
        own = place.array, place.axis, place.incoming, place.start, other.blocks, place.inner, slots
        if other.axis == place.axis:
            if not rest and (other.start, other.inner) == (place.start, between * size * place.inner):
                return Part(*own, between)
        elif (other.start, other.blocks, other.inner) == (0, 1, 1):
            return Part(*own, place.blocks, other.axis)
    return None


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
    owners = {
        key: first(key)[2].replace("/", ".").rpartition(".")[0].replace(".", "/") or first(key)[2] for key in ordered
    }
    found: list[tuple[int, Group]] = []
    for owner, keys in groupby(ordered, key=lambda key: owners[key]):
        same = list(keys)
        for key in same:
            taken = {group.name for _, group in found}
            name = owner if len(same) == 1 and owner not in taken else f"{first(key)[2]}[{first(key)[1]}]"
            found.append((key, Group(name, atoms[key].size, tuple(places[key]))))
    return found


TOLERANCE = 1e-4
"""Largest relative change of the outputs, as the root of the mean square, that may be due to rounding."""
RESPONSE = 1e-2
"""Smallest relative change of the outputs after a random change of a group's parameters at which a check of the group
means something: all outputs can be 0 after a relu."""
LARGE = 32.0
"""Factor of incoming parameters for which signs and scales are checked again."""
ATTEMPTS = 20
"""Number of random parameters and rows that are tried until the outputs are finite and differ."""


class _Check:
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
        units = alone.identity
        while (units == alone.identity).all():
            units = uniform_units(alone, self.generator)
        return self._change(transform(alone, self.theta[None], units[None])[0]) <= TOLERANCE

    def with_freedoms(self, group: Group) -> Group:
        """The group with the signs and scales that leave the outputs unchanged; none if they are blind to the group.

        They also have to leave them unchanged where the units' incoming parameters are large, as activations can look
        homogeneous or odd near 0 (relu6). Factors are powers of 2, which round nothing.
        """
        if not self._responds(group):
            return group
        alone = Symmetry(self.layout, (group,))
        signs = self.generator.permutation(np.arange(group.size) % 2 * 2 - 1)
        starts = [self.theta, _multiplied(alone, self.theta, LARGE, 1.0)]
        tried: list[tuple[Freedom, np.ndarray]] = [("scale", 2.0**signs), ("sign", signs)]
        freedoms = [
            freedom
            for freedom, factors in tried
            if all(self._change(_multiplied(alone, at, factors, 1 / factors), at) <= TOLERANCE for at in starts)
        ]
        if isinstance(group, InnerGroup):
            signed = group.places if "sign" in freedoms else ()
            return replace(group, signs=signed, scales=(group.places,) if "scale" in freedoms else ())
        return replace(group, freedoms=tuple(freedoms))


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
    function: Function, layout: Layout, dtype: Any, wanted: list[list[tuple[_Use, tuple[Atom, ...]]]], x: np.ndarray
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
        _, known = _run(closed, [*(arrays[p.name] for p in layout.parameters), rows])
        found = []
        for uses, vars_of in zip(wanted, variables, strict=True):
            parts = []
            for (use, root), var in zip(uses, vars_of, strict=True):
                parts.append(_units_first(use.axes, root, known[var]))
            found.append(jax.numpy.concatenate(parts, axis=1) if parts else jax.numpy.zeros((0, 0)))
        return found

    compiled = jax.jit(compute)
    return lambda theta, rows: [np.asarray(part) for part in compiled(theta, rows)]
