"""Methods of stochastic-gradient dynamics: burn-in, sampling, and what a divergent chain goes back to."""

from typing import NamedTuple

import jax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.augmentation import AugmentationConfig
from bnn_atlas.config.methods.sgmcmc import (
    PSGLDConfig,
    SGHMCCLRConfig,
    SGHMCCLRPrecConfig,
    SGHMCConfig,
    SGHMCPrecConfig,
    SGLDConfig,
)
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.base import Method, Phase, Statistic, Step, with_steps
from bnn_atlas.methods.sgmcmc.dynamics import Dynamics, Preconditioner, rmsprop, step
from bnn_atlas.methods.sgmcmc.schedules import Schedule, build_schedule
from bnn_atlas.posterior.density import LogDensity, Posterior, PosteriorData, Target

AnySGMCMCConfig = SGLDConfig | PSGLDConfig | SGHMCConfig | SGHMCCLRConfig | SGHMCCLRPrecConfig | SGHMCPrecConfig


class SGMCMCState(NamedTuple):
    """A chain, the order of its rows, and the last point that it can go back to."""

    dynamics: Dynamics
    shuffle: minibatch.Shuffle | None
    """None where every step takes all rows."""
    safe: Array
    """Position [P] at the last draw whose density on all rows was finite."""
    density: LogDensity
    """On all rows, at `safe`."""


class PhaseSettings(NamedTuple):
    """Steps before a phase, and whether (1 or 0) it adapts the mass."""

    offset: int
    adapt: int


class Lengths(NamedTuple):
    """Steps of burn-in, of sampling, and from one draw to the next."""

    burn_in: int
    sampling: int
    thinning: int


def build_sgmcmc(config: AnySGMCMCConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """SGLD, pSGLD or SGHMC, with cyclical step sizes or the mass of RMSprop, of the settings.

    Raises:
        ValueError: the rows do not fill a mini-batch.
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
    """Method from its parts.

    A step whose gradient is not finite is undone, with momentum 0. Before every draw, and as often in burn-in, the
    log density on all rows is evaluated at the position, for the trace, which costs a third of a pass over the
    data. A chain whose density is not finite there goes back to where it was when that was last done, with momentum 0;
    so no such position becomes a draw. Both are counted as divergent.
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
        # A barrier, since the compiler would otherwise compute the schedule anew for every parameter.
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
    """Burn-in, in two parts where its length is no multiple of the thinning, and sampling."""
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
    """Evaluate the log density at the position, or go back to the last one where it was finite."""
    density = target.log_density(state.dynamics.position)
    finite = jnp.isfinite(density.log_likelihood + density.log_prior)
    here = (state.dynamics, state.dynamics.position, density)
    back = (_at_rest(state.dynamics, state.safe), state.safe, state.density)
    dynamics, safe, density = jax.tree.map(lambda new, old: jnp.where(finite, new, old), here, back)
    return SGMCMCState(dynamics, state.shuffle, safe, density), {"divergent": ~finite}


def _at_rest(dynamics: Dynamics, position: Array) -> Dynamics:
    """The same with another position and momentum 0."""
    return dynamics._replace(position=position, momentum=jax.tree.map(jnp.zeros_like, dynamics.momentum))
