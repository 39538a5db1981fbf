"""The best of several fits of a variational method, by the evidence lower bound."""

import logging
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.base import VariationalSettings
from bnn_atlas.methods.contract import Method, Phase, State, Statistic
from bnn_atlas.posterior.density import Target

log = logging.getLogger(__name__)

COMPARED = 100
"""Draws from each fit by which the bounds are compared."""


class Fits(NamedTuple):
    """The states [start, ...] of all fits, and their bounds."""

    states: State
    """After the comparison, the state of the best fit comes first."""
    means: dict[str, Array]
    """Means over draws [start]: `elbo`, -inf for a fit with a draw whose density is not finite, its Monte Carlo error
    `elbo_error`, the `log_likelihood` of all rows, and `kl` or `objective` for methods that report it."""
    kept: Array
    """Number of the start whose fit is kept."""


def best_of_starts(method: Method, settings: VariationalSettings) -> Method:
    """Fit `settings.starts` times, and draw from the fit with the highest evidence lower bound.

    Each start has its own random keys, so that what it does not take from the chain's start (a generator, a factor) and
    all noise of its steps differ; the numbers of start j do not depend on how many starts there are. The fits advance
    one after another within each step, by one compiled program. In the phase "comparing", the bound of each fit is the
    mean of `elbo` over `COMPARED` draws from it, on all rows, with the error sd / sqrt(COMPARED).

    Statistics of a draw, in addition to the method's own: `elbo_of_start_j`, `elbo_error_of_start_j`,
    `log_likelihood_of_start_j` and, if the method has them, `kl_of_start_j` and `objective_of_start_j`, the means for
    start j and the error of its bound, and `start_kept`, the number of the start that is kept, which is in the fit,
    too; they are the same for all draws. While the fits are made, they are the estimates of the step, and the
    log-likelihoods are 0.

    Args:
        method: a method whose last phase makes independent draws with the statistic `elbo`.
        settings: the settings of the method.
    """
    starts, sampling = settings.starts, method.phases[-1]
    numbers, shared = jnp.arange(starts), [name for name in ("elbo", "kl", "objective") if name in method.statistics]

    def first(states: State) -> State:
        return jax.tree.map(lambda leaf: leaf[0], states)

    def init(key: Array, position: Array, target: Target) -> Fits:
        def one(number: Array) -> State:
            return method.init(jax.random.fold_in(key, number), position, target)

        unknown = {name: jnp.zeros(starts, position.dtype) for name in ("elbo_error", "log_likelihood", *shared)}
        return Fits(jax.lax.map(one, numbers), unknown, jnp.int32(0))

    def fitting(phase: Phase) -> Phase:
        def step(key: Array, index: Array, state: Fits, target: Target, settings: Any) -> tuple[Fits, dict[str, Array]]:
            def one(start: tuple[Array, State]) -> tuple[State, dict[str, Array]]:
                return phase.step(jax.random.fold_in(key, start[0]), index, start[1], target, settings)

            states, statistics = jax.lax.map(one, (numbers, state.states))
            state = state._replace(states=states, means=state.means | {name: statistics[name] for name in shared})
            return state, first(statistics) | of_starts(state)

        def finish(state: Fits, kept: np.ndarray | None) -> Fits:
            assert phase.finish is not None
            ends = [phase.finish(jax.tree.map(lambda leaf, j=j: leaf[j], state.states), kept) for j in range(starts)]
            return state._replace(states=jax.tree.map(lambda *leaves: np.stack(leaves), *ends))

        return phase._replace(step=step, finish=finish if phase.finish else None)

    def compare(key: Array, index: Array, state: Fits, target: Target, settings: Any) -> tuple[Fits, dict[str, Array]]:
        def one(start: tuple[Array, State]) -> tuple[dict[str, Array], dict[str, Array]]:
            def draw(key: Array) -> dict[str, Array]:
                # Not the first draw, at which a method may measure more than its bound.
                state, statistics = sampling.step(key, index + 1, start[1], target, settings)
                return statistics | {"log_likelihood": method.density(state).log_likelihood}

            statistics = jax.lax.map(draw, jax.random.split(jax.random.fold_in(key, start[0]), COMPARED))
            elbo, divergent = statistics["elbo"], statistics["divergent"]
            finite = jnp.all(jnp.isfinite(elbo)) & ~jnp.any(divergent)
            means = {name: jnp.mean(statistics[name]) for name in ("log_likelihood", *shared)}
            means |= {"elbo": jnp.where(finite, means["elbo"], -jnp.inf), "elbo_error": jnp.std(elbo) / COMPARED**0.5}
            return means, first(statistics)

        means, statistics = jax.lax.map(one, (numbers, state.states))
        state = state._replace(means=means)
        return state, first(statistics) | of_starts(state)

    def keep(state: Fits, kept: np.ndarray | None) -> Fits:
        bounds, errors = state.means["elbo"], state.means["elbo_error"]
        best = int(np.argmax(bounds))
        found = ", ".join(f"{b:.6g} +- {e:.2g}" for b, e in zip(bounds, errors, strict=True))
        log.info("bounds of %d starts: %s; keeping start %d", starts, found, best)
        order = np.concatenate([[best], np.delete(np.arange(starts), best)])
        return state._replace(
            states=jax.tree.map(lambda leaf: np.asarray(leaf)[order], state.states),
            kept=jnp.int32(best),
        )

    def sample(key: Array, index: Array, state: Fits, target: Target, settings: Any) -> tuple[Fits, dict[str, Array]]:
        new, statistics = sampling.step(key, index, first(state.states), target, settings)
        states = jax.tree.map(lambda leaf, own: leaf.at[0].set(own), state.states, new)
        state = state._replace(states=states)
        return state, statistics | of_starts(state)

    def of_starts(state: Fits) -> dict[str, Array]:
        means = {f"{name}_of_start_{j}": values[j] for name, values in state.means.items() for j in range(starts)}
        return means | {"start_kept": state.kept}

    recorded = [f"{name}_of_start_{j}" for name in ("elbo_error", "log_likelihood", *shared) for j in range(starts)]
    gradients = method.gradients_per_step
    return method._replace(
        init=init,
        phases=(
            *map(fitting, method.phases[:-1]),
            Phase("comparing", 1, compare, sampling.settings, finish=keep),
            sampling._replace(step=sample),
        ),
        statistics={
            **method.statistics,
            **{name: Statistic("last") for name in recorded},
            "start_kept": Statistic("last", "int32"),
        },
        position=lambda state: method.position(first(state.states)),
        density=lambda state: method.density(first(state.states)),
        gradients_per_step=None if gradients is None else starts * gradients,
        fit=lambda state: method.fit(first(state.states)) | {"start_kept": state.kept},
    )
