"""The Laplace approximation with the generalised Gauss-Newton curvature, as a method of the runner.

MacKay 1992 (A Practical Bayesian Framework for Backpropagation Networks); structures as in Daxberger et al. 2021
(Laplace Redux). The noise comes from the likelihood: `sigma` is always a standard deviation, a learned log sigma is one
more parameter with Fisher information 2 per row, and predictions never add the noise a second time.
"""

import logging
import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.gaussian import LaplaceConfig
from bnn_atlas.methods.contract import Method, Phase, Statistic, with_steps
from bnn_atlas.methods.independent import Draw, draw_at, next_draw
from bnn_atlas.methods.laplace import lbfgs
from bnn_atlas.methods.laplace.structure import (
    Form,
    apply_root,
    chosen,
    compute_curvature,
    factorise,
    named_arrays,
    separable,
)
from bnn_atlas.posterior.density import Posterior, PosteriorData, Target

log = logging.getLogger(__name__)

FLAT = 1e-3
"""Curvature of a prior, in units of 1 / scale^2, below which 1 / scale^2 replaces it."""


class LaplaceState(NamedTuple):
    """A fit and the last draw from it."""

    search: lbfgs.LBFGSState
    """State of the search, which is at the maximum after the first phase."""
    draw: Draw
    prior_sd: Array
    """Inverse root [P] of the prior's precision at the maximum: -d^2 log p / d theta^2, or 1 / scale^2 where this
    derivative is almost 0 or negative; infinite for flat biases."""
    form: Form
    """The curvature until the phase "curvature" ends, then a root of the inverse precision."""
    log_evidence: Array
    newton_decrement: Array


def build_laplace(config: LaplaceConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Search for a maximum of the log posterior, compute the curvature there, then draw.

        theta ~ N(theta_MAP, T H^-1),    H = sum_i J_i^T Lambda_i J_i + diag(-d^2 log p(theta) / d theta^2)

    The temperature T multiplies the covariance and does not move the maximum. `last_layer` draws only the last layer's
    scalars (and a learned log sigma), from the conditional of the full approximation with all other scalars at the
    maximum.

    Statistics, all about the fit: `gradient_norm`, the length of the gradient g of the untempered log posterior at the
    maximum (on the kinks of relu it need not vanish); `newton_decrement` = sqrt(g^T H^-1 g), roughly the distance, in
    posterior standard deviations (at T = 1), to the point where the gradient vanishes; `log_evidence`, Laplace's
    estimate of the log of the integral of (likelihood x prior)^(1 / T) over the scalars that are drawn (flat biases
    have density 1, so only models with the same number of flat biases can be compared); `divergent`, 1 if the density
    of a draw was not finite, in which case the previous draw is repeated.

    The fit is `location` [P], `indices` [p] of the scalars that are drawn, and the arrays of the root S with
    S S^T = H^-1 (`structure.named_arrays`); a draw is location + sqrt(T) S z with z ~ N(0, I).

    Raises:
        ValueError: a matrix is too large, or the structure does not suit the network or the prior; at the end of the
            phase "curvature", if flat biases are undetermined.
    """
    layout, temperature = posterior.layout, posterior.temperature
    select = chosen(posterior, config.structure)
    _check_prior(config, posterior, data)

    def init(key: Array, position: Array, target: Target) -> LaplaceState:
        zero = jnp.zeros((), position.dtype)
        shapes = jax.eval_shape(
            lambda theta: compute_curvature(posterior, target.data, theta, config.structure), position
        )
        return LaplaceState(
            lbfgs.start(position, target),
            draw_at(position, target),
            jnp.zeros_like(position),
            jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes),
            zero,
            zero,
        )

    def ascend(
        key: Array, index: Array, state: LaplaceState, target: Target, settings: Any
    ) -> tuple[LaplaceState, dict[str, Array]]:
        state = state._replace(search=lbfgs.step(state.search, target, config.map_tolerance))
        return state, _statistics(state, jnp.bool_(False))

    def add_curvature(
        key: Array, index: Array, state: LaplaceState, target: Target, settings: Any
    ) -> tuple[LaplaceState, dict[str, Array]]:
        centre = state.search.position
        state = state._replace(
            draw=draw_at(centre, target),
            prior_sd=_prior_sd(centre, target),
            form=compute_curvature(posterior, target.data, centre, config.structure),
        )
        return state, _statistics(state, jnp.bool_(False))

    def invert(state: LaplaceState, kept: np.ndarray | None) -> LaplaceState:
        return _invert(state, select, posterior)

    def sample(
        key: Array, index: Array, state: LaplaceState, target: Target, settings: Any
    ) -> tuple[LaplaceState, dict[str, Array]]:
        noise = jax.random.normal(key, (len(select),), state.prior_sd.dtype)
        change = math.sqrt(temperature) * apply_root(state.form, noise, layout)
        draw, divergent = next_draw(state.search.position.at[select].add(change), target, state.draw)
        state = state._replace(draw=draw)
        return state, _statistics(state, divergent)

    def fit(state: LaplaceState) -> dict[str, Array]:
        indices = jnp.asarray(select, jnp.int32)
        return {"location": state.search.position, "indices": indices, **named_arrays(state.form, layout)}

    return Method(
        init=init,
        phases=with_steps(
            Phase("to the maximum", config.map_steps, ascend),
            Phase("curvature", 1, add_curvature, finish=invert),
            Phase("sampling", config.steps, sample, keep=True, thinning=config.thinning),
        ),
        statistics={
            "gradient_norm": Statistic("last"),
            "newton_decrement": Statistic("last"),
            "log_evidence": Statistic("last"),
            "divergent": Statistic("sum", "int32"),
        },
        position=lambda state: state.draw.position,
        density=lambda state: state.draw.density,
        gradients_per_step=None,
        fit=fit,
    )


def _statistics(state: LaplaceState, divergent: Array) -> dict[str, Array]:
    return {
        "gradient_norm": jnp.linalg.norm(state.search.gradient),
        "newton_decrement": state.newton_decrement,
        "log_evidence": state.log_evidence,
        "divergent": divergent,
    }


def _prior_sd(centre: Array, target: Target) -> Array:
    values = target.data.prior
    gradient = jax.grad(lambda theta: target.posterior.log_prior(theta, values))
    curvature = -jax.jvp(gradient, (centre,), (jnp.ones_like(centre),))[1]
    unit = values.scale**-2
    return jnp.where(curvature > FLAT * unit, curvature, unit) ** -0.5


def _invert(state: LaplaceState, select: np.ndarray, posterior: Posterior) -> LaplaceState:
    """Turn the curvature into a root of the inverse precision, and add evidence and decrement; called on the host."""
    layout, temperature = posterior.layout, posterior.temperature
    dtype = state.prior_sd.dtype
    root, log_determinant = factorise(state.form, np.asarray(state.prior_sd)[select], layout)
    joint = (float(state.draw.density.log_likelihood) + float(state.draw.density.log_prior)) / temperature
    volume = 0.5 * len(select) * math.log(2 * math.pi * temperature) - 0.5 * log_determinant
    root = jax.tree.map(lambda leaf: np.asarray(leaf, dtype), root)
    transposed = jax.linear_transpose(lambda z: apply_root(root, z, layout), jnp.zeros(len(select), dtype))
    decrement = float(jnp.linalg.norm(transposed(jnp.asarray(state.search.gradient[select]))[0]))
    if not decrement <= 1:
        log.warning(
            "a Laplace approximation is %.3g posterior standard deviations away from the point where the gradient "
            "vanishes (its norm is %.3g): %s",
            decrement,
            np.linalg.norm(state.search.gradient),
            "the search found nothing higher, as on a kink of relu; a smooth activation or float64: true may help"
            if state.search.stalls >= lbfgs.LAST_STALL
            else "raise map_steps",
        )
    return state._replace(
        form=root,
        log_evidence=jnp.asarray(joint + volume, dtype),
        newton_decrement=jnp.asarray(decrement, dtype),
    )


def _check_prior(config: LaplaceConfig, posterior: Posterior, data: PosteriorData) -> None:
    """Raise ValueError for priors whose precision the approximation cannot represent."""
    if posterior.family.name == "empirical_covariance":
        raise ValueError(
            "a Laplace approximation needs a prior of independent parameters, and prior.kind empirical_covariance "
            "correlates them: choose another method, or prior.kind normal"
        )
    if config.structure != "kronecker":
        return
    if posterior.family.name != "normal":
        raise ValueError(
            f"structure kronecker needs a normal prior, and this prior belongs to the family {posterior.family.name}: "
            "choose full, last_layer or diagonal"
        )
    if np.isinf(data.prior.scale).any():
        raise ValueError(
            "structure kronecker needs a proper prior, and this prior is flat for the biases: choose full, last_layer "
            "or diagonal"
        )
    if not separable(posterior.layout, np.asarray(data.prior.scale)):
        raise ValueError(
            "structure kronecker needs prior standard deviations that are, in each layer, a product of one number per "
            "row and one per column, and this prior's are not: choose full, last_layer or diagonal"
        )
