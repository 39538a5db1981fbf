"""Mean-field variational inference: a normal with independent parameters, fitted by reparameterised gradients.

Blundell et al. 2015 (Weight Uncertainty in Neural Networks); for Bayesian neural networks as in Izmailov et al. 2021,
with the temperature applied once, to the posterior (the published code applied it twice, to the likelihood and to the
divergence from the prior).
"""

import logging
import math
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.mean_field import MeanFieldConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.base import Method, Phase, Statistic
from bnn_atlas.methods.independent import Draw, draw_at, next_draw
from bnn_atlas.methods.optimise import build_optimiser, update
from bnn_atlas.posterior.density import Evaluate, Evaluation, LogDensity, Posterior, PosteriorData, Target
from bnn_atlas.posterior.priors import PriorValues

log = logging.getLogger(__name__)

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class MeanField(NamedTuple):
    """q(theta) = N(mean, diag(softplus(rho)^2)), both [P]."""

    mean: Array
    rho: Array

    @property
    def sigma(self) -> Array:
        """Standard deviations [P]."""
        return jax.nn.softplus(self.rho)

    def log_density(self, noise: Array) -> Array:
        """Log density of q at mean + sigma noise."""
        return -jnp.sum(0.5 * noise**2 + jnp.log(self.sigma) + _HALF_LOG_2PI)

    def entropy(self) -> Array:
        """-E_q[log q]."""
        return jnp.sum(jnp.log(self.sigma) + (_HALF_LOG_2PI + 0.5))


class Objective(NamedTuple):
    """Estimates of the evidence lower bound, of its part from prior and entropy, and of the descent direction."""

    elbo: Array
    kl: Array
    gradient: MeanField
    """Of -elbo."""


def expected_log_prior(values: PriorValues, q: MeanField) -> Array:
    """E_q[log p(theta)] for a prior of independent normals, sum_m log N(mean_m | loc_m, s_m^2) - sigma_m^2 / (2 s_m^2).

    The normals' constant is in `values.log_normaliser`; a flat scalar, whose scale is infinite, adds nothing.
    """
    scaled = ((q.mean - values.loc) ** 2 + q.sigma**2) / values.scale**2
    return -0.5 * jnp.sum(scaled) - values.log_normaliser


def objective(key: Array, q: MeanField, evaluate: Evaluate, target: Target, samples: int) -> Objective:
    """Estimate the objective from `samples` draws theta = mean + sigma xi, xi ~ N(0, I).

    Minimised is KL(q || p_T) with p_T proportional to (likelihood x prior)^(1 / T), that is -elbo with

        elbo = E_q[log p(data | theta)] / T - kl,    kl = -E_q[log p(theta)] / T - H(q);

    at T = 1, kl is KL(q || prior). Expected prior and entropy H are exact for normal priors; for others the prior is
    averaged over the same draws. With g the gradient of what is averaged, d elbo / d mean = E[g] and
    d elbo / d sigma = E[g xi], to which the exact parts are added.

    Args:
        key: for the draws.
        q: where to estimate.
        evaluate: densities and tempered gradient of the full data or of a mini-batch.
        target: the posterior.
        samples: number of draws.
    """
    posterior, values = target.posterior, target.data.prior
    temperature, sigma = posterior.temperature, q.sigma
    exact_prior = posterior.family == "normal"
    noise = jax.random.normal(key, (samples, *q.mean.shape), q.mean.dtype)

    def add(total: tuple[Array, Array, Array, Array], xi: Array) -> tuple[tuple[Array, Array, Array, Array], None]:
        theta = q.mean + sigma * xi
        (likelihood, prior), gradient = evaluate(theta)
        if exact_prior:
            gradient = gradient - jax.grad(posterior.log_prior)(theta, values) / temperature
        return jax.tree.map(jnp.add, total, (likelihood, prior, gradient, gradient * xi)), None

    zero = jnp.zeros((), sigma.dtype)
    zeros = (zero, zero, jnp.zeros_like(sigma), jnp.zeros_like(sigma))
    total, _ = jax.lax.scan(add, zeros, noise)
    likelihood, prior, by_mean, by_sigma = jax.tree.map(lambda leaf: leaf / samples, total)
    by_rho = by_sigma * jax.nn.sigmoid(q.rho)
    if exact_prior:
        prior, gradient = jax.value_and_grad(lambda q: expected_log_prior(values, q))(q)
        by_mean, by_rho = by_mean + gradient.mean / temperature, by_rho + gradient.rho / temperature
    entropy, gradient = jax.value_and_grad(MeanField.entropy)(q)
    kl = -prior / temperature - entropy
    return Objective(likelihood / temperature - kl, kl, MeanField(-by_mean, -(by_rho + gradient.rho)))


class MeanFieldState(NamedTuple):
    """A fit, its optimiser, and the last draw from it."""

    q: MeanField
    optimiser: optax.OptState
    shuffle: minibatch.Shuffle | None
    draw: Draw
    gradient_norm: Array
    """Length of the last estimate of the gradient over mean and rho."""
    skipped: Array
    """Updates that were skipped because something was not finite."""


def build_mean_field(config: MeanFieldConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Fit q in the phase "optimising", then draw from it.

    Statistics of a draw: `elbo` = (log-likelihood + log-prior) / T - log q on all rows, whose mean over draws is the
    evidence lower bound; `kl` as in `objective` (exact for normal priors, then the same for all draws);
    `gradient_norm` of the last update, with the noise of its draws and mini-batch; `skipped_updates`; `divergent`, 1 if
    the density of a draw was not finite, which repeats the draw before it. The fit is `mean` and `sd`, both [P].

    Raises:
        ValueError: the mini-batches do not fit the rows.
    """
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)
    optimiser = build_optimiser(config.optimiser, steps)

    def init(key: Array, position: Array, target: Target) -> MeanFieldState:
        mean = position if config.mean_init == "warm_start" else target.data.prior.loc
        rho = math.log(math.expm1(config.sigma_init)) if config.sigma_init < 20 else config.sigma_init
        q = MeanField(mean, jnp.full_like(mean, rho))
        return MeanFieldState(
            q,
            optimiser.init(q),
            minibatch.begin(target, config.batch_size),
            draw_at(mean, target),
            jnp.zeros((), mean.dtype),
            jnp.int32(0),
        )

    def descend(
        key: Array, index: Array, state: MeanFieldState, target: Target, settings: Any
    ) -> tuple[MeanFieldState, dict[str, Array]]:
        rows_key, noise_key = jax.random.split(key)
        shuffle, evaluate = minibatch.next_evaluate(rows_key, index, state.shuffle, target, config.batch_size)
        if config.unscaled and config.batch_size:
            evaluate = _weighted(evaluate, target, config.batch_size / (target.rows * target.posterior.shards))
        elbo, kl, gradient = objective(noise_key, state.q, evaluate, target, config.samples)
        q, memory, skipped = update(optimiser, gradient, state.optimiser, state.q)
        norm = jnp.sqrt(jnp.vdot(gradient.mean, gradient.mean) + jnp.vdot(gradient.rho, gradient.rho))
        state = MeanFieldState(q, memory, shuffle, state.draw, norm, state.skipped + skipped)
        return state, _statistics(state, elbo, kl, skipped)

    def report(state: MeanFieldState, kept: np.ndarray | None) -> MeanFieldState:
        if state.skipped:
            log.warning(
                "%d of %d updates of a mean-field fit were not finite and were skipped; lower optimiser.learning_rate",
                state.skipped,
                steps,
            )
        return state

    return Method(
        init=init,
        phases=(
            Phase("optimising", steps, descend, finish=report),
            Phase("sampling", config.steps, _sample, keep=True, thinning=config.thinning),
        ),
        statistics={
            "elbo": Statistic("last"),
            "kl": Statistic("last"),
            "gradient_norm": Statistic("last"),
            "skipped_updates": Statistic("last", "int32"),
            "divergent": Statistic("sum", "int32"),
        },
        position=lambda state: state.draw.position,
        density=lambda state: state.draw.density,
        gradients_per_step=float(config.samples),
        fit=lambda state: {"mean": state.q.mean, "sd": state.q.sigma},
    )


def _weighted(evaluate: Evaluate, target: Target, weight: float) -> Evaluate:
    """`evaluate` with the log-likelihood taken this many times, and the prior once."""

    def weighted(theta: Array) -> Evaluation:
        (likelihood, prior), gradient = evaluate(theta)
        slope = jax.grad(target.posterior.log_prior)(theta, target.data.prior) / target.posterior.temperature
        return Evaluation(LogDensity(weight * likelihood, prior), weight * (gradient - slope) + slope)

    return weighted


def _sample(
    key: Array, index: Array, state: MeanFieldState, target: Target, settings: Any
) -> tuple[MeanFieldState, dict[str, Array]]:
    """A draw from q."""
    q, posterior = state.q, target.posterior
    temperature = posterior.temperature
    noise = jax.random.normal(key, q.mean.shape, q.mean.dtype)
    draw, divergent = next_draw(q.mean + q.sigma * noise, target, state.draw)
    likelihood, prior = draw.density
    log_q = q.log_density(noise)
    kl = log_q - prior / temperature
    if posterior.family == "normal":
        kl = -expected_log_prior(target.data.prior, q) / temperature - q.entropy()
    state = state._replace(draw=draw)
    return state, _statistics(state, (likelihood + prior) / temperature - log_q, kl, divergent)


def _statistics(state: MeanFieldState, elbo: Array, kl: Array, divergent: Array) -> dict[str, Array]:
    return {
        "elbo": elbo,
        "kl": kl,
        "gradient_norm": state.gradient_norm,
        "skipped_updates": state.skipped,
        "divergent": divergent,
    }
