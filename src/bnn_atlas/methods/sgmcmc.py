"""Stochastic-gradient Langevin and Hamiltonian dynamics, with a constant, decaying or cyclical step size.

SGLD (Welling and Teh 2011), SGHMC (Chen et al. 2014) in the form and with the schedules of Izmailov et al. 2021, and
preconditioned SGLD (Li et al. 2016). There is no Metropolis test: draws are biased by the step size and by the noise of
the mini-batches. The momentum carries over from mini-batch to mini-batch and from phase to phase; it is never redrawn.

The temperature enters only through the tempered gradient. With step size h and temperature T, the chain is the same as
with untempered gradients, step size h / T and T times the noise variance.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.base import AugmentationConfig
from bnn_atlas.config.methods.sgmcmc import (
    ConstantSchedule,
    CyclicalSchedule,
    PolynomialSchedule,
    PSGLDConfig,
    RMSpropConfig,
    ScheduleConfig,
    SGHMCCLRConfig,
    SGHMCCLRPrecConfig,
    SGHMCConfig,
    SGHMCPrecConfig,
    SGLDConfig,
)
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method, Phase, Statistic, Step, with_steps
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.posterior.density import Evaluation, LogDensity, Posterior, PosteriorData, Target

Averages = Any
"""Quantities from which a preconditioner computes its mass: arrays, or NamedTuples of arrays."""


class Dynamics(NamedTuple):
    """Position [P]; momentum [P] (None if not kept); and the averages that determine the mass (None for mass 1)."""

    position: Array
    momentum: Array | None
    averages: Averages


class SGMCMCInfo(NamedTuple):
    """Norm of a step's gradient, infinite if the step was undone, and the step's estimate of the log-likelihood."""

    gradient_norm: Array
    log_likelihood_estimate: Array
    divergent: Array


class Preconditioner(NamedTuple):
    """A diagonal mass computed from the gradients so far."""

    init: Callable[[Array], Averages]
    """Position [P] -> averages at the start."""
    update: Callable[[Averages, Array], Averages]
    """(averages, gradient [P]) -> averages."""
    mass: Callable[[Averages], Array]
    """Averages -> M [P]."""
    noise: Callable[[Array, Array, float], Array]
    """(M [P], step size h, friction 1 - beta) -> variance of the momentum's noise [P]."""


def step(
    key: Array,
    state: Dynamics,
    evaluation: Evaluation,
    *,
    step_size: Array,
    momentum_decay: float,
    preconditioner: Preconditioner | None = None,
    adapt: Array | int = 1,
) -> tuple[Dynamics, SGMCMCInfo]:
    """One step of size h with momentum decay beta, mass M and z ~ N(0, I).

        m <- beta m + sqrt(h) g + sqrt(2 (1 - beta) M) z
        theta <- theta + sqrt(h) m / M

    beta = 0 is SGLD, theta <- theta + h g / M + sqrt(2 h / M) z. For small h and a constant M the stationary density of
    theta is the target's. A step whose gradient or log density is not finite returns `state` with momentum 0.

    Args:
        key: random key of this step.
        state: current state.
        evaluation: log density and tempered gradient g at the position, from a mini-batch or all rows.
        step_size: h.
        momentum_decay: beta.
        preconditioner: computes M; None for the identity.
        adapt: 1 if this step's gradient enters M (before M is used), 0 if M stays as it is.
    """
    gradient = evaluation.gradient
    norm = jnp.sqrt(jnp.dot(gradient, gradient))
    finite = jnp.isfinite(norm + evaluation.density.log_likelihood + evaluation.density.log_prior)
    averages, mass = None, jnp.ones((), gradient.dtype)
    variance = 2 * (1 - momentum_decay) * mass
    if preconditioner is not None:
        seen = preconditioner.update(state.averages, gradient)
        averages = jax.tree.map(lambda new, old: jnp.where(adapt & finite, new, old), seen, state.averages)
        mass = preconditioner.mass(averages)
        variance = preconditioner.noise(mass, step_size, 1 - momentum_decay)
    root = jnp.sqrt(step_size)
    momentum = root * gradient + jnp.sqrt(variance) * standard_normal(key, gradient)
    if state.momentum is not None:
        momentum = momentum_decay * state.momentum + momentum
    position = jnp.where(finite, state.position + root * momentum / mass, state.position)
    kept = None if state.momentum is None else jnp.where(finite, momentum, 0.0)
    info = SGMCMCInfo(jnp.where(finite, norm, jnp.inf), evaluation.density.log_likelihood, ~finite)
    return Dynamics(position, kept, averages), info


def rmsprop(config: RMSpropConfig, rows: int) -> Preconditioner:
    """M = epsilon + sqrt(e) with e <- d e + (1 - d) g^2, e = 0 at the start.

    g is the gradient of the log posterior as in Izmailov et al. 2021. With `per_row` it is divided by `rows` as in Li
    et al. 2016, Preconditioned Stochastic Gradient Langevin Dynamics, algorithm 1, with the step size 2 rows h. The
    correction term for the derivative of 1 / M is left out, as in both papers' experiments.
    """
    scale = 1 / rows if config.per_row else 1.0
    return Preconditioner(
        init=jnp.zeros_like,
        update=lambda e, gradient: config.decay * e + (1 - config.decay) * (scale * gradient) ** 2,
        mass=lambda e: config.epsilon + jnp.sqrt(e),
        noise=lambda mass, step_size, friction: 2 * friction * mass,
    )


Schedule = Callable[[Array], Array]
"""Index of the step (int) -> step size."""


def build_schedule(config: ScheduleConfig, step_size: float, burn_in: int, epoch: int) -> Schedule:
    """Build a schedule from its settings, for `burn_in` steps of burn-in and `epoch` steps per epoch."""
    match config:
        case ConstantSchedule(final_step_size=final):
            if final is None or burn_in == 0:
                return optax.constant_schedule(final or step_size)
            return optax.cosine_decay_schedule(step_size, burn_in, alpha=final / step_size)
        case CyclicalSchedule():
            return cyclical(step_size, burn_in, config.cycle_epochs * epoch)
        case PolynomialSchedule():
            return polynomial_decay(step_size, config.offset_epochs * epoch, config.power)


def cyclical(step_size: float, burn_in: int, cycle: int) -> Schedule:
    """`step_size` for `burn_in` steps, then step_size / 2 (1 + cos(pi t)) at the fraction t in [0, 1) of a cycle.

    Zhang et al. 2020, Cyclical Stochastic Gradient MCMC, equation 1; noise is added at all times, as in Izmailov et al.
    2021.
    """

    def schedule(step: Array) -> Array:
        t = (step - burn_in) % cycle / cycle
        return jnp.where(step < burn_in, step_size, step_size / 2 * (1 + jnp.cos(jnp.pi * t)))

    return schedule


def polynomial_decay(step_size: float, offset: float, power: float) -> Schedule:
    """Step size a (b + t)^-gamma at step t with b = `offset`, gamma = `power`, and a chosen to start at `step_size`.

    Welling and Teh 2011, Bayesian Learning via Stochastic Gradient Langevin Dynamics, section 5.
    """
    return lambda step: step_size * (1 + step / offset) ** -power


AnySGMCMCConfig = SGLDConfig | PSGLDConfig | SGHMCConfig | SGHMCCLRConfig | SGHMCCLRPrecConfig | SGHMCPrecConfig


class SGMCMCState(NamedTuple):
    """A chain, the order of its rows, and the point to which it returns after a divergence."""

    dynamics: Dynamics
    shuffle: minibatch.Shuffle | None
    """None if every step takes all rows."""
    safe: Array
    """Position [P] at the last draw whose density on all rows was finite."""
    density: LogDensity
    """Densities on all rows at `safe`."""


class PhaseSettings(NamedTuple):
    """Number of steps before a phase, and 1 or 0 for whether the phase adapts the mass."""

    offset: int
    adapt: int


class Lengths(NamedTuple):
    """Number of steps in burn-in, in sampling, and from one draw to the next."""

    burn_in: int
    sampling: int
    thinning: int


def build_sgmcmc(config: AnySGMCMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """SGLD, pSGLD or SGHMC with the given settings, which may have cyclical step sizes or RMSprop's mass.

    Raises:
        ValueError: a mini-batch is larger than the data.
    """
    rows = len(data.y)
    epoch = minibatch.batches_per_epoch(rows, config.batch_size) if config.batch_size else 1
    burn_in = config.burn_in_epochs * epoch
    preconditioner, adapt = None, True
    if isinstance(config, PSGLDConfig | SGHMCCLRPrecConfig | SGHMCPrecConfig):
        preconditioner, adapt = rmsprop(config.preconditioner, rows), config.preconditioner.adapt_after_burn_in
    return build_stochastic(
        Lengths(burn_in, config.epochs * epoch - burn_in, config.ensemble_every * epoch),
        config.batch_size,
        build_schedule(config.schedule, config.step_size, burn_in, epoch),
        0.0 if isinstance(config, SGLDConfig | PSGLDConfig) else config.momentum_decay,
        preconditioner,
        adapt,
        config.augmentation,
    )


def build_stochastic(
    lengths: Lengths,
    batch_size: int | None,
    schedule: Schedule,
    momentum_decay: float,
    preconditioner: Preconditioner | None,
    adapt_after_burn_in: bool,
    augmentation: AugmentationConfig | None = None,
) -> Method:
    """Build a stochastic-gradient method from its parts.

    A step whose gradient is not finite is undone and sets the momentum to 0. Before every draw, and equally often in
    burn-in, the log density on all rows is evaluated for the trace, which costs a third of a pass over the data. If
    this density is not finite, the chain returns, with momentum 0, to the last position with a finite density, so that
    only such positions become draws. Both events count as divergent.
    """

    def init(key: Array, position: Array, target: Target) -> SGMCMCState:
        dynamics = Dynamics(
            position,
            jnp.zeros_like(position) if momentum_decay else None,
            preconditioner.init(position) if preconditioner else None,
        )
        shuffle = minibatch.begin(target, batch_size)
        return SGMCMCState(dynamics, shuffle, position, target.log_density(position))

    def transition(
        key: Array, index: Array, state: SGMCMCState, target: Target, settings: PhaseSettings
    ) -> tuple[SGMCMCState, dict[str, Array]]:
        noise_key, shuffle_key = jax.random.split(key)
        shuffle, evaluate = minibatch.next_evaluate(shuffle_key, index, state.shuffle, target, batch_size, augmentation)
        evaluation = evaluate(state.dynamics.position)
        # Without the barrier, the compiler would compute the schedule again for every parameter.
        dtype = state.dynamics.position.dtype
        step_size = jax.lax.optimization_barrier(jnp.asarray(schedule(settings.offset + index), dtype))
        dynamics, info = step(
            noise_key,
            state.dynamics,
            evaluation,
            step_size=step_size,
            momentum_decay=momentum_decay,
            preconditioner=preconditioner,
            adapt=settings.adapt,
        )
        return state._replace(dynamics=dynamics, shuffle=shuffle), {"step_size": step_size, **info._asdict()}

    def fit(state: SGMCMCState) -> dict[str, Array]:
        return {"mass": preconditioner.mass(state.dynamics.averages)} if preconditioner else {}

    return Method(
        init=init,
        phases=_phases(lengths, transition, adapt_after_burn_in),
        statistics={
            "step_size": Statistic("last"),
            "gradient_norm": Statistic("mean"),
            "log_likelihood_estimate": Statistic("mean"),
            "divergent": Statistic("sum", "int32"),
        },
        position=lambda state: state.dynamics.position,
        density=lambda state: state.density,
        gradients_per_step=1.0,
        fit=fit,
    )


def _phases(lengths: Lengths, transition: Step, adapt_after_burn_in: bool) -> tuple[Phase, ...]:
    """Burn-in, in two parts if its length is not a multiple of the thinning, and sampling."""
    rest = lengths.burn_in % lengths.thinning
    whole, adapt = lengths.burn_in - rest, int(adapt_after_burn_in)

    def phase(name: str, steps: int, settings: PhaseSettings, keep: bool, thinning: int) -> Phase:
        return Phase(name, steps, transition, settings, keep, thinning, settle=_settle)

    return with_steps(
        phase("start of burn-in", rest, PhaseSettings(0, 1), False, max(rest, 1)),
        phase("burn-in", whole, PhaseSettings(rest, 1), False, lengths.thinning),
        phase("sampling", lengths.sampling, PhaseSettings(lengths.burn_in, adapt), True, lengths.thinning),
    )


def _settle(state: SGMCMCState, target: Target) -> tuple[SGMCMCState, dict[str, Array]]:
    """Evaluate the log density; if it is not finite, return to the last position with a finite density."""
    density = target.log_density(state.dynamics.position)
    finite = jnp.isfinite(density.log_likelihood + density.log_prior)
    here = (state.dynamics, state.dynamics.position, density)
    back = (_at_rest(state.dynamics, state.safe), state.safe, state.density)
    dynamics, safe, density = jax.tree.map(lambda new, old: jnp.where(finite, new, old), here, back)
    return SGMCMCState(dynamics, state.shuffle, safe, density), {"divergent": ~finite}


def _at_rest(dynamics: Dynamics, position: Array) -> Dynamics:
    return dynamics._replace(position=position, momentum=jax.tree.map(jnp.zeros_like, dynamics.momentum))
