"""A network computed with rows along the last axis of its activations, which is faster on a CPU.

Products with narrow layers take about half as long if the long axis is contiguous, so [units, rows] instead of
[rows, units]. XLA does not choose this form by itself.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
from jax import Array
from jax import numpy as jnp
from jax.extend import core

from bnn_atlas.symmetry.programs import ELEMENTWISE, bind, evaluate

CALLS = ("jit", "pjit")
CUSTOM = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Functions with derivatives of their own, such as relu, and the parameter that holds their program."""


class Last(NamedTuple):
    """An array [rows, ...] whose first axis has become the last one."""

    array: Array


def rows_last(function: Callable[[Any, Array], Array]) -> Callable[[Any, Array], Array]:
    """The function with rows last: x [..., rows] -> outputs [..., rows].

    Products of activations [rows, i] with weights and functions of single numbers keep rows last. Before any other
    operation, rows become the first axis again. Values differ from what the function returns only by rounding.

    Args:
        function: (parameters, x [rows, ...]) -> outputs [rows, ...].
    """

    def turned(parameters: Any, x: Array) -> Array:
        example = jax.ShapeDtypeStruct((x.shape[-1], *x.shape[:-1]), x.dtype)
        program = jax.make_jaxpr(function)(parameters, example)
        inputs = [*jax.tree.leaves(parameters), Last(x)]
        ((outputs,), _) = evaluate(program.jaxpr, program.consts, inputs, _apply)
        return _last(outputs)

    return turned


def widths(program: Any, rows: int) -> list[int] | None:
    """Widths of the layers of a traced dense network; None if it has products or convolutions of another kind."""
    found = []
    for equation in _equations(program):
        name = equation.primitive.name
        if name.startswith("conv_") or name in ("scan", "while"):
            return None
        if name == "dot_general":
            shape = equation.outvars[0].aval.shape
            if len(shape) > 2 or shape[:1] != (rows,):
                return None
            found.append(shape[1] if len(shape) == 2 else 1)
    return found


def _equations(program: Any) -> Iterator[Any]:
    """All operations of a program and of the programs that it calls."""
    for equation in program.eqns:
        yield equation
        for inner in core.jaxprs_in_params(equation.params):
            yield from _equations(inner)


def _last(value: Any) -> Array:
    return value.array if isinstance(value, Last) else jnp.moveaxis(value, 0, -1)


def _first(value: Any) -> Any:
    return jnp.moveaxis(value.array, -1, 0) if isinstance(value, Last) else value


def _apply(equation: Any, inputs: list[Any]) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if not any(isinstance(value, Last) for value in inputs):
        return bind(equation, inputs)
    if name in CALLS:
        return evaluate(params["jaxpr"].jaxpr, params["jaxpr"].consts, inputs, _apply)[0]
    if name == "dot_general" and isinstance(inputs[0], Last) and not isinstance(inputs[1], Last):
        (of_rows, of_weights), (batch, _) = params["dimension_numbers"]
        x, weights = inputs[0].array, inputs[1]
        if x.ndim == 2 and tuple(of_rows) == (1,) and not batch:
            settings = {key: params[key] for key in ("precision", "preferred_element_type")}
            how: Callable[..., Array] = partial(jax.lax.dot_general, **settings)
            if weights.ndim == 2 and tuple(of_weights) == (0,):
                return [Last(_product(how, weights, x))]
            return [Last(how(weights, x, ((tuple(of_weights), (0,)), ((), ()))))]
    numbers = [variable.aval.ndim == 0 for variable in equation.invars]
    shape = equation.outvars[0].aval.shape
    one = len(equation.outvars) == 1
    if one and name in ELEMENTWISE and all(variable.aval.ndim in (0, len(shape)) for variable in equation.invars):
        last = [value if number else _last(value) for value, number in zip(inputs, numbers, strict=True)]
        return [Last(*bind(equation, last))]
    if name in CUSTOM and _is_elementwise(equation):
        # The program is for arrays [rows, ...], but does not look at places.
        last = [value if number else _last(value).reshape(shape) for value, number in zip(inputs, numbers, strict=True)]
        return [Last(output.reshape(*shape[1:], shape[0])) for output in bind(equation, last)]
    return bind(equation, [_first(value) for value in inputs])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _product(dot: Callable[..., Array], weights: Array, x: Array) -> Array:
    """Weights [i, units] and x [i, rows] -> [units, rows].

    XLA is faster with weights [units, i]. The weights are few, so they are transposed first, and the barrier keeps XLA
    from undoing that. The backward pass is faster with the weights as given.
    """
    return dot(jax.lax.optimization_barrier(weights.T), x, (((1,), (0,)), ((), ())))


@_product.defjvp
def _(dot: Callable[..., Array], primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    first = (((0,), (0,)), ((), ()))
    (weights, x), (of_weights, of_x) = primals, tangents
    return _product(dot, weights, x), dot(of_weights, x, first) + dot(weights, of_x, first)


def _is_elementwise(equation: Any) -> bool:
    """Whether the operation is on arrays of one shape and single numbers, place by place."""
    shapes = [variable.aval.shape for variable in (*equation.invars, *equation.outvars)]
    if len({shape for shape in shapes if shape}) != 1 or not all(v.aval.shape for v in equation.outvars):
        return False
    name = equation.primitive.name
    inner = equation.params.get("jaxpr" if name in CALLS else CUSTOM.get(name))
    return name in ELEMENTWISE if inner is None else all(map(_is_elementwise, inner.jaxpr.eqns))
