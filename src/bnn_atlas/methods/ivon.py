"""Improved variational online Newton (IVON).

Shen et al. 2024 (Variational Learning is Effective for Large Deep Networks), Algorithm 1. With the mean loss
l = -log p(data | theta) / N, the weight decay delta = 1 / (N s^2) of a prior N(loc, s^2) and the effective sample size
lambda = N / T, q = N(m, diag(sigma^2)) with sigma = (lambda (h + delta))^-1/2. From draws theta of q, a step computes

    g^ = mean of the gradients of l at theta,   h^ = mean of g^ (theta - m) / sigma^2,
    g <- b1 g + (1 - b1) g^,
    h <- b2 h + (1 - b2) h^ + (1 - b2)^2 (h - h^)^2 / (2 (h + delta)),
    m <- m - a (h0 + delta) clip((g / (1 - b1^t) + delta (m - loc)) / (h + delta)).

The last term of h keeps h + delta positive (Lin, Schmidt and Khan 2020). Algorithm 1 does not clip; the authors' code
(ivon-opt, `clip_radius`) cuts each component to [-radius, radius] before the factor h0 + delta.
"""

import logging
import math
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.gaussian import IVONConfig
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method, Phase, Statistic, Step
from bnn_atlas.methods.mean_field import expected_log_prior
from bnn_atlas.methods.variational import DrawFrom, Family, Improved, VariationalState, build_variational
from bnn_atlas.posterior.density import Evaluate, Posterior, PosteriorData, Target

log = logging.getLogger(__name__)

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Normal(NamedTuple):
    """q(theta) = N(mean, diag(sigma^2)), both [P]."""

    mean: Array
    sigma: Array

    def log_density(self, noise: Array) -> Array:
        """Log density at mean + sigma noise."""
        return -jnp.sum(0.5 * noise**2 + jnp.log(self.sigma) + _HALF_LOG_2PI)

    def entropy(self) -> Array:
        """-E_q[log q]."""
        return jnp.sum(jnp.log(self.sigma) + (_HALF_LOG_2PI + 0.5))


class Memory(NamedTuple):
    """State of the steps in addition to q: the averages g and h [P] of the gradient and the Hessian of l, and t."""

    gradient: Array
    hessian: Array
    steps: Array


def build_ivon(config: IVONConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Fit q, then draw from it, with the statistics of `variational.build_variational`.

    One more statistic is `curvature_change`, the mean over parameters of |log(h / h0)|: how far the curvature in the
    precision h + delta of q is from where it started. Near 0, the fit has learned nothing of the curvature, and its
    spread is what `hessian_init` says; below `IVONConfig.unlearned` the log says so. The fit is `mean` and `sd` [P].

    Raises:
        ValueError: the prior is not normal, or a mini-batch is larger than the data.
    """
    if posterior.family.name != "normal":
        raise ValueError(
            f"method.kind 'ivon' takes its weight decay from a normal prior, and this prior belongs to the family "
            f"'{posterior.family.name}': choose prior.kind 'normal', or method.kind 'mean_field'"
        )
    rows, temperature = len(data.y), posterior.temperature
    b1, b2 = config.momentum, config.for_rows(rows).hessian_momentum
    assert b2 is not None
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)
    rate: Any = optax.constant_schedule(config.learning_rate)
    if config.schedule == "cosine":
        rate = optax.cosine_decay_schedule(config.learning_rate, steps)

    def decay_of(target: Target) -> Array:
        return 1 / (rows * target.data.prior.scale**2)

    def spread(hessian: Array, target: Target) -> Array:
        return jnp.sqrt(temperature / (rows * (hessian + decay_of(target))))

    def begin(key: Array, position: Array, target: Target) -> tuple[Normal, Memory]:
        hessian = jnp.full_like(position, config.hessian_init)
        return Normal(position, spread(hessian, target)), Memory(jnp.zeros_like(position), hessian, jnp.int32(0))

    def improve(key: Array, q: Normal, memory: Memory, evaluate: Evaluate, target: Target) -> Improved:
        found = _estimate(key, q, evaluate, target, config.samples)
        decay, t = decay_of(target), memory.steps + 1
        loss_slope = -found.slope * (temperature / rows)
        curvature = -found.curvature * (temperature / rows)
        average = b1 * memory.gradient + (1 - b1) * loss_slope
        difference = memory.hessian - curvature
        correction = 0.5 * (1 - b2) ** 2 * difference**2 / (memory.hessian + decay)
        hessian = b2 * memory.hessian + (1 - b2) * curvature + correction
        unbiased = average / -jnp.expm1(t * jnp.log(jnp.asarray(b1, average.dtype))) if b1 else average
        move = (unbiased + decay * (q.mean - target.data.prior.loc)) / (hessian + decay)
        if config.clip is not None:
            move = jnp.clip(move, -config.clip, config.clip)
        move = (config.hessian_init + decay) * move
        new = Normal(q.mean - rate(memory.steps) * move, spread(hessian, target)), Memory(average, hessian, t)
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(new)]))
        new_q, kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b).astype(b.dtype), new, (q, memory))
        kl = exact_kl(q, target)
        norm = jnp.sqrt(jnp.vdot(loss_slope, loss_slope)) * (rows / temperature)
        return Improved(new_q, kept, found.log_likelihood / temperature - kl, kl, norm, ~finite)

    def exact_kl(q: Normal, target: Target) -> Array:
        return -expected_log_prior(target.data.prior, q) / temperature - q.entropy()

    def draw(key: Array, q: Normal) -> DrawFrom:
        noise = jax.random.normal(key, q.mean.shape, q.mean.dtype)
        return DrawFrom(q.mean + q.sigma * noise, q.log_density(noise))

    family = Family(
        name="IVON",
        begin=begin,
        improve=improve,
        draw=draw,
        log_prior=lambda position, prior, target: prior,
        exact_kl=exact_kl,
        fit=lambda q: {"mean": q.mean, "sd": q.sigma},
        centre=lambda q: q.mean,
    )
    method = build_variational(config, family, posterior, data)
    fit, sampling = method.phases

    def change(memory: Memory) -> Array:
        return jnp.mean(jnp.abs(jnp.log(memory.hessian / config.hessian_init)))

    def with_change(phase: Phase, measured: bool) -> Step:
        def step(
            key: Array, index: Array, state: VariationalState, target: Target, settings: Any
        ) -> tuple[VariationalState, dict[str, Array]]:
            state, values = phase.step(key, index, state, target, settings)
            return state, values | {"curvature_change": change(state.optimiser) if measured else jnp.zeros(())}

        return step

    def report(state: VariationalState, kept: np.ndarray | None) -> VariationalState:
        moved = float(change(state.optimiser))
        if moved < config.unlearned:
            log.warning(
                "the curvature of a fit (IVON) is within %.2g%% of that at its start, on average: it has learned "
                "nothing of the curvature; give it more epochs, a lower hessian_momentum or another hessian_init",
                100 * moved,
            )
        assert fit.finish is not None
        return fit.finish(state, kept)

    phases = (
        fit._replace(step=with_change(fit, measured=False), finish=report),
        sampling._replace(step=with_change(sampling, measured=True)),
    )
    return method._replace(phases=phases, statistics={**method.statistics, "curvature_change": Statistic("last")})


class _Estimate(NamedTuple):
    """Mean log-likelihood under q; mean gradient and Hessian diagonal [P] of the tempered log-likelihood."""

    log_likelihood: Array
    slope: Array
    curvature: Array


def _estimate(key: Array, q: Normal, evaluate: Evaluate, target: Target, samples: int) -> _Estimate:
    """Means over `samples` draws theta = mean + sigma xi; by Stein's lemma E[Hessian] = E[gradient xi / sigma]."""
    posterior, values = target.posterior, target.data.prior

    def add(total: _Estimate, xi: Array) -> tuple[_Estimate, None]:
        theta = q.mean + q.sigma * xi
        (likelihood, _), gradient = evaluate(theta)
        slope = gradient - jax.grad(posterior.log_prior)(theta, values) / posterior.temperature
        return jax.tree.map(jnp.add, total, _Estimate(likelihood, slope, slope * xi / q.sigma)), None

    noise = jax.random.normal(key, (samples, *q.mean.shape), q.mean.dtype)
    zeros = _Estimate(jnp.zeros((), q.mean.dtype), jnp.zeros_like(q.mean), jnp.zeros_like(q.mean))
    total, _ = jax.lax.scan(add, zeros, noise)
    return _Estimate(*(leaf / samples for leaf in total))
