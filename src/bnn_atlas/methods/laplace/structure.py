"""A normal approximation's precision in one of four structures, and a root of its covariance, which is used to draw.

The devices compute the curvature (`compute_curvature`). The host turns it, in double precision, into a root S
(`factorise`): S S^T = H^-1, with H = curvature + diag(prior precision). The devices apply the root (`apply_root`).
Multiplied by the prior's standard deviations s from both sides, H becomes diag(s) curvature diag(s) + I, with
eigenvalues of at least 1 whatever the rounding of the curvature. Where the prior is flat, s is infinite: 1 is used in
place of s, and the entry of I is 0, so the curvature alone must determine the scalar.
"""

import logging
import threading
from typing import Any, Literal, NamedTuple

import numpy as np
from jax import Array
from jax import numpy as jnp
from scipy import linalg
from threadpoolctl import threadpool_limits

from bnn_atlas.methods.laplace.curvature import (
    dense_layers,
    gauss_newton,
    gauss_newton_diagonal,
    kronecker,
)
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.density import Posterior, PosteriorData
from bnn_atlas.rounding import norm

log = logging.getLogger(__name__)

Structure = Literal["full", "last_layer", "diagonal", "kronecker"]

_factorising = threading.Lock()

LARGEST = 20_000
"""Number of rows of the largest matrix that is factorised."""
UNDETERMINED = (
    "a Laplace approximation has no covariance: the data do not determine a combination of parameters at the maximum "
    "(to rounding; float64: true is more accurate), and the prior is flat along it; give the biases a proper prior, or "
    "use a method that samples"
)


class Dense(NamedTuple):
    """[p, p] over the chosen scalars: the curvature, then the root."""

    matrix: Any


class Diagonal(NamedTuple):
    """[P]: the curvature, then the root."""

    values: Any


class LayerFactors(NamedTuple):
    """One dense layer, in the notation of `curvature.Factors`: the factors, then a root.

    With eigenvectors U and V of the factors, scaled by the prior to `outputs` = diag(rows) U and `inputs` =
    diag(columns) V, the root gives W = outputs (U^T noise V * spread) inputs^T for noise [fan_out, columns]. With U^T
    and V^T, the root does not depend on the signs, or the basis for equal eigenvalues, that a machine's LAPACK chooses.
    """

    inputs: Any
    outputs: Any
    spread: Any


class Kronecker(NamedTuple):
    """Factors by layer, and an array [e] for the likelihood's own parameters (None if there are none)."""

    layers: tuple[LayerFactors, ...]
    extra: Any


Form = Dense | Diagonal | Kronecker


class Root(NamedTuple):
    """A root of the inverse precision, and the log determinant of the precision."""

    form: Form
    log_determinant: float


def chosen(posterior: Posterior, structure: Structure) -> np.ndarray:
    """Indices [p] of the scalars that the approximation covers; ValueError if the matrix is too large to factorise."""
    layout = posterior.layout
    select = np.arange(layout.size)
    if structure == "last_layer":
        last = max(p.layer for p in layout.parameters if p.layer is not None)
        select = np.concatenate(
            [layout.select(layers=[last]), np.arange(posterior.network.layout.size, layout.size)]
        ).astype(int)
    if structure in ("full", "last_layer") and len(select) > LARGEST:
        raise ValueError(
            f"structure {structure} would factorise a matrix over {len(select):,} scalars, more than {LARGEST:,}: "
            "choose kronecker, diagonal" + (" or last_layer" if structure == "full" else "")
        )
    return select


def compute_curvature(
    posterior: Posterior, data: PosteriorData, theta: Array, structure: Structure, piece: int | None = None
) -> Form:
    """Curvature of the log-likelihood at theta [P] in a structure, `piece` rows at a time (None: as many as fit)."""
    match structure:
        case "full" | "last_layer":
            return Dense(gauss_newton(posterior, data, theta, chosen(posterior, structure), piece))
        case "diagonal":
            return Diagonal(gauss_newton_diagonal(posterior, data, theta, piece))
        case "kronecker":
            factors = kronecker(posterior, data, theta, piece)
            layers = tuple(
                LayerFactors(f.inputs, f.outputs, jnp.zeros((len(f.outputs), len(f.inputs)), theta.dtype))
                for f in factors.layers
            )
            return Kronecker(layers, factors.extra if len(factors.extra) else None)


def factorise(form: Form, prior_sd: np.ndarray, layout: Layout) -> Root:
    """Root of (curvature + diag(prior_sd^-2))^-1 in double precision.

    Args:
        form: the curvature.
        prior_sd: inverse root of the prior's precision [p], for the scalars that the form covers. For a Kronecker form,
            it must be finite and, in every layer, a product of one number per row and one per column (`separable`).
        layout: layout of the network with the likelihood's parameters.

    Raises:
        ValueError: a scalar with a flat prior is not determined by the curvature.
    """
    # The last bits of LAPACK's results depend on the number of threads, which can only be set for a whole process.
    with _factorising, threadpool_limits(1):
        return _factorise(form, np.asarray(prior_sd, np.float64), layout)


def _factorise(form: Form, sd: np.ndarray, layout: Layout) -> Root:
    match form:
        case Dense(matrix):
            proper = np.isfinite(sd)
            scale = np.where(proper, sd, 1.0)
            rounding = 10 * float(np.finfo(np.asarray(matrix).dtype).eps)
            whitened = scale[:, None] * np.asarray(matrix, np.float64) * scale
            root, log_determinant = _dense_root(whitened, proper, rounding)
            return Root(Dense(scale[:, None] * root), log_determinant - 2 * np.log(scale).sum())
        case Diagonal(values):
            precision = np.asarray(values, np.float64) + sd**-2
            if not precision.all():
                raise ValueError(UNDETERMINED)
            return Root(Diagonal(precision**-0.5), np.log(precision).sum())
        case Kronecker(layers, extra):
            total, roots = 0.0, []
            for number, factors in zip(dense_layers(_network(layout)), layers, strict=True):
                scale = _matrix(layout, number, sd)
                columns, rows = scale[0], scale[:, 0] / scale[0, 0]
                inputs, along_inputs = _eigen(columns[:, None] * np.asarray(factors.inputs, np.float64) * columns)
                outputs, along_outputs = _eigen(rows[:, None] * np.asarray(factors.outputs, np.float64) * rows)
                precision = 1 + along_outputs[:, None] * along_inputs
                total += np.log(precision).sum() - 2 * np.log(scale).sum()
                roots.append(LayerFactors(columns[:, None] * inputs, rows[:, None] * outputs, precision**-0.5))
            if extra is None:
                return Root(Kronecker(tuple(roots), None), total)
            precision = np.asarray(extra, np.float64) + sd[_network(layout).size :] ** -2
            return Root(Kronecker(tuple(roots), precision**-0.5), total + np.log(precision).sum())


def apply_root(form: Form, noise: Array, layout: Layout) -> Array:
    """S noise [p] for noise [p] ~ N(0, I): a draw from N(0, H^-1)."""
    match form:
        case Dense(root):
            return root @ noise
        case Diagonal(root):
            return root * noise
        case Kronecker(layers, extra):
            arrays = layout.unflatten(noise)
            moved = dict(arrays)
            for number, root in zip(dense_layers(_network(layout)), layers, strict=True):
                weight, bias = f"layer{number}.weight", f"layer{number}.bias"
                z = arrays[weight]
                if bias in arrays:
                    z = jnp.concatenate([z, arrays[bias][:, None]], axis=1)
                turned = _rows_of_one(root.outputs).T @ z @ _rows_of_one(root.inputs)
                w = root.outputs @ (turned * root.spread) @ root.inputs.T
                moved[weight] = w[:, : arrays[weight].shape[1]]
                if bias in arrays:
                    moved[bias] = w[:, -1]
            flat = layout.flatten(moved)
            size = _network(layout).size
            return flat if extra is None else jnp.concatenate([flat[:size], extra * noise[size:]])


def _rows_of_one(scaled: Array) -> Array:
    """The orthogonal matrix Q from diag(s) Q with s > 0."""
    return scaled / norm(scaled, axis=1, keepdims=True)


def named_arrays(form: Form, layout: Layout) -> dict[str, Any]:
    """The arrays of a form by name: `root`, or `layer0.inputs`, `layer0.outputs`, `layer0.spread`, ... and `extra`."""
    match form:
        case Dense(root) | Diagonal(root):
            return {"root": root}
        case Kronecker(layers, extra):
            named = {} if extra is None else {"extra": extra}
            for number, factors in zip(dense_layers(_network(layout)), layers, strict=True):
                named |= {f"layer{number}.{name}": array for name, array in factors._asdict().items()}
            return named


def separable(layout: Layout, prior_sd: np.ndarray) -> bool:
    """Whether prior standard deviations in dense layers are products of one number per row and one per column."""
    for number in dense_layers(_network(layout)):
        logs = np.log(_matrix(layout, number, np.asarray(prior_sd, np.float64)))
        if not np.allclose(logs - logs[:1] - logs[:, :1] + logs[0, 0], 0, atol=1e-5):
            return False
    return True


def _dense_root(whitened: np.ndarray, proper: np.ndarray, rounding: float) -> tuple[np.ndarray, float]:
    """Root of (A + D)^-1 and log det(A + D), for A positive semi-definite up to rounding and D = diag(proper)."""
    identity = np.eye(len(whitened))
    precision = whitened + np.diag(proper.astype(np.float64))
    try:
        lower = linalg.cholesky(precision, lower=True)
        # The precision of a scalar that remains, given the scalars before it.
        if not proper.all() and np.any(np.diag(lower) ** 2 <= rounding * np.diag(precision)):
            raise ValueError(UNDETERMINED)
    except linalg.LinAlgError:
        if not proper.all():
            raise ValueError(UNDETERMINED) from None
        log.warning("rounding has made a curvature indefinite: its negative part is left out; float64: true avoids it")
        vectors, values = _eigen(whitened)
        return (vectors * (1 + values) ** -0.5) @ vectors.T, float(np.log1p(values).sum())
    root = linalg.solve_triangular(lower, identity, lower=True, trans="T")
    return root, 2 * float(np.log(np.diag(lower)).sum())


def _eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors and eigenvalues of a positive semi-definite matrix, with negative rounding errors set to 0."""
    values, vectors = linalg.eigh(matrix)
    return vectors, np.maximum(values, 0)


def _network(layout: Layout) -> Layout:
    """The layout without the likelihood's own parameters."""
    return Layout(tuple(p for p in layout.parameters if p.layer is not None))


def _matrix(layout: Layout, number: int, vector: np.ndarray) -> np.ndarray:
    """A layer's part of a vector [P] as [fan_out, fan_in (+ 1)], with the bias as the last column."""
    by_name = {p.name: p for p in layout.parameters}

    def part(name: str) -> np.ndarray:
        start = layout.offset(name)
        return vector[start : start + by_name[name].size].reshape(by_name[name].shape)

    weight, bias = part(f"layer{number}.weight"), f"layer{number}.bias"
    return np.concatenate([weight, part(bias)[:, None]], axis=1) if bias in by_name else weight
