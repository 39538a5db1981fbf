"""Layers of generators: dense layers for vectors, and layers that multiply matrices from both sides.

As in the published code, parameters start uniformly distributed like PyTorch's, with the bound 1 / sqrt(columns) for a
matrix.
"""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple, Protocol

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

Values = Mapping[str, Array]
"""Parameters of a layer by name."""


class Layer(Protocol):
    """A linear map with a bias, from arrays of one shape to arrays of another."""

    @property
    def input(self) -> tuple[int, ...]:
        """Shape of the input."""

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the output."""

    @property
    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Name of a parameter -> shape, and bound of the uniform initial distribution."""

    def apply(self, values: Values, x: Array) -> Array:
        """Output of the layer for an input x."""

    def squares(self, values: Values, used: int) -> tuple[Array, ...]:
        """Products of the parameters with each other, which are inputs of `gram`."""

    def gram(self, values: Values, squares: tuple[Array, ...], tangents: Array, used: int) -> Array:
        """Inner products [d, d] of the changes in the first `used` outputs for changes [d, ...] of x: J'J without J."""

    def divided(self, values: Values, scale: Array) -> Values:
        """Parameters with which `squares` and `gram` are those of outputs divided by `scale`: [] or one each."""

    def centred(self, values: Values, centre: Array) -> Values:
        """The parameters with the bias of the first outputs set to `centre` [used]."""

    def narrowed(self, values: Values, spread: float) -> Values:
        """The parameters with the weights multiplied by `spread`."""


class Dense(NamedTuple):
    """x -> W x + b, with W [fan_out, fan_in]."""

    fan_in: int
    fan_out: int

    @property
    def input(self) -> tuple[int, ...]:
        """[fan_in]."""
        return (self.fan_in,)

    @property
    def output(self) -> tuple[int, ...]:
        """[fan_out]."""
        return (self.fan_out,)

    @property
    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Uniform within 1 / sqrt(fan_in)."""
        bound = self.fan_in**-0.5
        return {"bias": ((self.fan_out,), bound), "weight": ((self.fan_out, self.fan_in), bound)}

    def apply(self, values: Values, x: Array) -> Array:
        """W x + b."""
        return values["weight"] @ x + values["bias"]

    def squares(self, values: Values, used: int) -> tuple[Array, ...]:
        """W'W if there are more outputs than inputs."""
        weight = values["weight"][:used]
        return (weight.T @ weight,) if used > self.fan_in else ()

    def gram(self, values: Values, squares: tuple[Array, ...], tangents: Array, used: int) -> Array:
        """T (W'W) T' with T [d, fan_in], or (T W')(T W')' if there are no more outputs than inputs."""
        if squares:
            return tangents @ squares[0] @ tangents.T
        changes = tangents @ values["weight"][:used].T
        return changes @ changes.T

    def divided(self, values: Values, scale: Array) -> Values:
        """The parameters with the rows of W divided by `scale`."""
        return {**values, "weight": values["weight"] / scale[..., None]}

    def centred(self, values: Values, centre: Array) -> Values:
        """The parameters with `centre` as the first entries of the bias."""
        return {**values, "bias": values["bias"].at[: len(centre)].set(centre)}

    def narrowed(self, values: Values, spread: float) -> Values:
        """The parameters with W multiplied by `spread`."""
        return {**values, "weight": values["weight"] * spread}


class Matrix(NamedTuple):
    """X -> (A X + C) W + B, with A [rows out, rows in], W [columns in, columns out], C [rows out, columns in].

    B [rows out, columns out] has the output's shape; with a rank r, B = left [rows out, r] @ right [r, columns out].
    """

    input: tuple[int, int]
    output: tuple[int, int]
    rank: int | None = None

    @property
    def bounds(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Uniform within 1 / sqrt(rows in) (A and C) and 1 / sqrt(columns out) (W and B)."""
        (rows, columns), (rows_out, columns_out) = self.input, self.output
        by_rows, by_columns = rows**-0.5, columns_out**-0.5
        if self.rank is None:
            bias = {"bias": ((rows_out, columns_out), by_columns)}
        else:
            # Entries of the product then have the same variance as entries of a full matrix.
            bound = (3 * by_columns**2 / self.rank) ** 0.25
            bias = {"left": ((rows_out, self.rank), bound), "right": ((self.rank, columns_out), bound)}
        return {
            **bias,
            "inner": ((rows_out, columns), by_rows),
            "rows": ((rows_out, rows), by_rows),
            "columns": ((columns, columns_out), by_columns),
        }

    def apply(self, values: Values, x: Array) -> Array:
        """(A x + C) W + B."""
        bias = values["bias"] if self.rank is None else values["left"] @ values["right"]
        return (values["rows"] @ x + values["inner"]) @ values["columns"] + bias

    def squares(self, values: Values, used: int) -> tuple[Array, ...]:
        """A'A over the rows of A that are used, and WW'."""
        rows, columns = values["rows"][: self._rows_of(used)], values["columns"]
        return rows.T @ rows, columns @ columns.T

    def gram(self, values: Values, squares: tuple[Array, ...], tangents: Array, used: int) -> Array:
        """M'(WW' (x) A'A) M with M the tangents [d, rows in, columns in], without entries beyond `used`.

        <A S W, A T W> = <S, A'A T WW'> for any two tangents S and T, so the changes of the output are never formed.
        """
        of_rows, of_columns = squares
        products = jnp.einsum("ab,dbc,ce->dae", of_rows, tangents, of_columns)
        count, columns_out, whole = len(tangents), self.output[1], self._rows_of(used)
        gram = tangents.reshape(count, -1) @ products.reshape(count, -1).T
        if beyond := whole * columns_out - used:
            last, columns = values["rows"][whole - 1], values["columns"]
            unused = jnp.einsum("b,dbc->dc", last, tangents) @ columns[:, columns_out - beyond :]
            gram = gram - unused @ unused.T
        return gram

    def _rows_of(self, used: int) -> int:
        """Rows of the output that hold its first `used` entries."""
        return -(-used // self.output[1])

    def divided(self, values: Values, scale: Array) -> Values:
        """The parameters with W divided by `scale`; ValueError for a scale of each output."""
        if scale.ndim:
            raise ValueError("J'J of matrix layers has no short form if each output has a scale of its own")
        return {**values, "columns": values["columns"] / scale}

    def centred(self, values: Values, centre: Array) -> Values:
        """The parameters with `centre` as the first entries of the bias, row by row."""
        if self.rank is not None:
            raise ValueError("a bias of low rank cannot start at given weights")
        bias = values["bias"]
        return {**values, "bias": bias.ravel().at[: len(centre)].set(centre).reshape(bias.shape)}

    def narrowed(self, values: Values, spread: float) -> Values:
        """The parameters with W multiplied by `spread`, which scales everything that varies with x."""
        return {**values, "columns": values["columns"] * spread}


def started(layers: tuple[Layer, ...], numbers: Array) -> tuple[Values, ...]:
    """Initial parameters of layers, cut from one long draw of numbers uniform on (-1, 1).

    Separate draws for each parameter would take longer to compile.
    """
    found, first = [], 0
    for layer in layers:
        values = {}
        for name, (shape, bound) in layer.bounds.items():
            values[name] = bound * numbers[first : first + prod(shape)].reshape(shape)
            first += prod(shape)
        found.append(values)
    return tuple(found)


def parameters(layer: Layer) -> int:
    """Number of parameters of a layer."""
    return sum(prod(shape) for shape, _ in layer.bounds.values())


@jax.custom_jvp
def elu(x: Array) -> Array:
    """The activation x if x > 0, else exp(x) - 1, accurate to rounding near 1; its slope is exp(min(x, 0))."""
    return jnp.maximum(x, 0) + (jnp.exp(jnp.minimum(x, 0)) - 1)


@elu.defjvp
def _elu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (change,) = primals, tangents
    slope = jnp.exp(jnp.minimum(x, 0))
    return jnp.maximum(x, 0) + (slope - 1), slope * change


def through(layers: tuple[Layer, ...], values: tuple[Values, ...], x: Array) -> Array:
    """Apply layers to x, with elu after each."""
    for layer, own in zip(layers, values, strict=True):
        x = elu(layer.apply(own, x))
    return x


def nearly_square(entries: int) -> tuple[int, int]:
    """Rows and columns of the matrix closest to a square with at least this many entries and no empty row."""
    columns = int(np.ceil(np.sqrt(entries)))
    return -(-entries // columns), columns
