"""Step sizes by the number of the step, burn-in included."""

from collections.abc import Callable

import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.sgmcmc import ConstantSchedule, CyclicalSchedule, PolynomialSchedule, ScheduleConfig

Schedule = Callable[[Array], Array]
"""Number of the step (int) -> step size."""


def build_schedule(config: ScheduleConfig, step_size: float, burn_in: int, epoch: int) -> Schedule:
    """Schedule of the settings, for `burn_in` steps of burn-in and `epoch` steps per epoch."""
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
    """`step_size` for `burn_in` steps, then step_size / 2 (1 + cos(pi t)) at the share t in [0, 1) of a cycle.

    Zhang et al. 2020, Cyclical Stochastic Gradient MCMC, equation 1; the noise is on at all times, as in Izmailov et
    al. 2021.
    """

    def schedule(step: Array) -> Array:
        t = (step - burn_in) % cycle / cycle
        return jnp.where(step < burn_in, step_size, step_size / 2 * (1 + jnp.cos(jnp.pi * t)))

    return schedule


def polynomial_decay(step_size: float, offset: float, power: float) -> Schedule:
    """Step size a (b + t)^-gamma at step t with b = `offset`, gamma = `power`, and a so that it starts at `step_size`.

    Welling and Teh 2011, Bayesian Learning via Stochastic Gradient Langevin Dynamics, section 5.
    """
    return lambda step: step_size * (1 + step / offset) ** -power
