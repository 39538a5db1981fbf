"""Traced programs: reading which axes of their arrays are the same, and evaluating them.

Every axis of every array in a program is a product of atoms, the outermost first: a flattened map of 7 x 7 positions
and 16 channels has an axis of three atoms (`axes`). Operations say which atoms are the same: in `a + b`, the atoms of a
and b, axis by axis; in a product of matrices, the atoms of the two axes that are summed over; in a reshape, the atoms
that are grouped differently. Atoms of rows, inputs, outputs, positions and constants are fixed. An operation that is
not in the tables fixes the atoms that it touches.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.axes import (
    CONSTANTS,
    INPUTS,
    OUTPUTS,
    POSITIONS,
    ROWS,
    UNUSED,
    Atom,
    Axis,
    fix,
    joined,
    meet,
    regroup,
    size_of,
    taken,
)

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


class Use(NamedTuple):
    """An activation that the next layer sums over: where it is in the program, and its axes."""

    place: tuple[int, int]
    axes: list[Axis]
    summed: Axis


class Reader:
    """Reads a program without calls, equation by equation."""

    def __init__(self, closed: ClosedJaxpr, names: Sequence[str]) -> None:
        self.closed, self.names = closed, names
        self.axes: dict[Any, list[Axis]] = {}
        self.origin: dict[Any, str] = {}
        """Variables that are a parameter with its axes rearranged."""
        self.data: dict[Any, tuple[int, int] | None] = {}
        """Variables that depend on the rows -> equation and result; None within a loop."""
        self.outgoing: list[tuple[str, Axis]] = []
        self.uses: list[Use] = []
        self.reduced: list[Use] = []
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
            self.reduced += [Use(place, axes, axes[k]) for k in gone]
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
                self.uses += [Use(place, self.axes[other], axis) for axis in summed]
            if not isinstance(var, Literal) and var in self.origin:
                self.outgoing += [(self.origin[var], axis) for axis in summed]


def evaluate(
    program: Any, constants: Sequence[Any], inputs: Sequence[Any], apply: Callable[[Any, list[Any]], list[Any]]
) -> tuple[list[Any], dict[Any, Any]]:
    """Results of a program and the values of all its variables.

    `apply` computes the outputs of an operation from its inputs; `bind` does what the operation says.
    """
    known: dict[Any, Any] = dict(zip((*program.constvars, *program.invars), (*constants, *inputs), strict=True))

    def value(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else known[var]

    for equation in program.eqns:
        outputs = apply(equation, [value(var) for var in equation.invars])
        known.update(zip(equation.outvars, outputs, strict=True))
    return [value(var) for var in program.outvars], known


def bind(equation: Any, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of an operation."""
    found = equation.primitive.get_bind_params(equation.params)
    functions, params = found if isinstance(found, tuple) else ((), found)
    outputs = equation.primitive.bind(*functions, *inputs, **params)
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def _inline(equation: Any, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of an operation; what a call calls is evaluated."""
    if equation.primitive.name not in INLINED:
        return bind(equation, inputs)
    inner = next(equation.params[key] for key in ("call_jaxpr", "fun_jaxpr", "jaxpr") if key in equation.params)
    closed = inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ())
    return evaluate(closed.jaxpr, closed.consts, inputs, _inline)[0]


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
    return jax.make_jaxpr(lambda *inputs: evaluate(closed.jaxpr, closed.consts, inputs, _inline)[0])(*closed.in_avals)
