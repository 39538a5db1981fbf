"""Warm-up of methods with a Metropolis test: it tunes the step size and estimates the posterior variances.

Stan's rules and constants (Stan Reference Manual, "HMC algorithm parameters"), from BlackJAX's building blocks. The
rules are applied at every transition, so that a run can be interrupted between any two transitions: dual averaging of
the step size throughout; variances over windows of doubling length, each of which restarts both estimates; and a last
stretch for the step size only.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
from blackjax.adaptation.mass_matrix import MassMatrixAdaptationState, mass_matrix_adaptation
from blackjax.adaptation.staged_adaptation import build_schedule
from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.contract import Method, Phase, Statistic, nothing_learned, with_steps
from bnn_atlas.posterior.density import Evaluate, Evaluation, Place, Target

Tree = Any


class ChainState(NamedTuple):
    """Position [P] with the densities and gradient at this position."""

    position: Array
    evaluation: Evaluation

    @property
    def place(self) -> Place:
        """Position and densities, which a Metropolis test compares."""
        return Place(self.position, self.evaluation.density)


class Adaptation(NamedTuple):
    """Step size of the next transition, and the averages that determine step size and variances."""

    step_size: Array
    averaging: DualAveragingAdaptationState
    mass: MassMatrixAdaptationState | None
    """None if variances are not estimated."""

    @property
    def variances(self) -> Array:
        """Posterior variances [P] of the last window, shrunk towards 1e-3 with the weight of 5 draws; ones at first."""
        assert self.mass is not None
        return self.mass.inverse_mass_matrix


class WarmUp:
    """The rules of a warm-up with a given number of transitions."""

    def __init__(
        self, steps: int, target_acceptance: float = 0.8, *, step_size: bool = True, variances: bool = False
    ) -> None:
        """Tune towards a mean acceptance probability.

        Args:
            steps: transitions of the warm-up.
            target_acceptance: mean acceptance probability at the tuned step size.
            step_size: whether to tune the step size or keep its first value.
            variances: whether to estimate variances.
        """
        self.steps, self._step_size, self._variances = steps, step_size, variances
        self._begin, self._average, self._averaged = dual_averaging_adaptation(target_acceptance)
        self._mass, self._accumulate, self._close = mass_matrix_adaptation(is_diagonal_matrix=True)
        self._schedule = np.asarray(build_schedule(steps), bool).reshape(steps, 2)

    @property
    def first_window(self) -> int:
        """Transitions until the first estimate of the variances."""
        return int(np.argmax(self._schedule[:, 1])) + 1

    def init(self, step_size: float, position: Array) -> Adaptation:
        """Start with a given step size and no variances."""
        first = jnp.asarray(step_size, position.dtype)
        mass = self._mass(position.size) if self._variances else None
        return Adaptation(first, *_in_dtype(position.dtype, (self._begin(first), mass)))

    def update(self, state: Adaptation, index: Array, position: Array, acceptance: Array) -> Adaptation:
        """Learn from the final position and the acceptance probability of warm-up transition `index`."""
        averaging, mass = self._average(state.averaging, acceptance), state.mass
        if mass is not None:
            collect, last = jnp.asarray(self._schedule)[index]
            mass = _choose(collect, self._accumulate(mass, position), mass)
            mass = _choose(last, self._close(mass), mass)
            averaging = _choose(last, self._begin(self._averaged(averaging)), averaging)
        step_size = jnp.exp(averaging.log_step_size) if self._step_size else state.step_size
        return Adaptation(*_in_dtype(position.dtype, (step_size, averaging, mass)))

    def finish(self, state: Adaptation) -> Adaptation:
        """Set the step size to the averaged step size; called on the host."""
        if not self._step_size:
            return state
        return state._replace(step_size=np.exp(np.asarray(state.averaging.log_step_size_avg)))


STATISTICS = {
    "energy_change": Statistic("last"),
    "acceptance": Statistic("mean"),
    "accepted": Statistic("mean"),
    "divergent": Statistic("sum", "int32"),
    "cut_short": Statistic("mean"),
    "gradients": Statistic("sum", "int32"),
    "tree_depth": Statistic("mean"),
    "length": Statistic("last"),
    "step_size": Statistic("last"),
}
"""Statistic -> how the transitions' reports become one number per draw."""


class AdaptedState(NamedTuple):
    """A chain and its adaptation."""

    chain: ChainState
    adaptation: Adaptation


Transition = Callable[[Array, Array, ChainState, Adaptation, Target, Array], tuple[ChainState, dict[str, Array]]]
"""(key, index within the phase, state, adaptation, target, whether in warm-up) -> (state, statistics); one of the
statistics is `acceptance`."""


def start(key: Array, position: Array, evaluate: Evaluate) -> ChainState:
    """State at `position`."""
    return ChainState(position, evaluate(position))


def adapted_method(
    transition: Transition,
    warm_up: WarmUp,
    *,
    step_size: float,
    steps: int,
    thinning: int,
    statistics: Iterable[str],
    gradients_per_step: float | None = None,
    fit: Callable[[Adaptation], dict[str, Array]] = nothing_learned,
) -> Method:
    """A method whose warm-up tunes the adaptation that its transitions use.

    The `statistics` (names in `STATISTICS`) and the step size are kept from a transition's reports. The `fit` contains
    what the adaptation has learned.
    """

    def init(key: Array, position: Array, target: Target) -> AdaptedState:
        return AdaptedState(start(key, position, target.evaluate), warm_up.init(step_size, position))

    def step(
        key: Array, index: Array, state: AdaptedState, target: Target, warming: Array
    ) -> tuple[AdaptedState, dict[str, Array]]:
        chain, values = transition(key, index, state.chain, state.adaptation, target, warming)
        adaptation = jax.lax.cond(
            warming,
            lambda: warm_up.update(state.adaptation, index, chain.position, values["acceptance"]),
            lambda: state.adaptation,
        )
        return AdaptedState(chain, adaptation), {**values, "step_size": state.adaptation.step_size}

    def finish(state: AdaptedState, draws: np.ndarray | None) -> AdaptedState:
        return state._replace(adaptation=warm_up.finish(state.adaptation))

    return Method(
        init=init,
        phases=with_steps(
            Phase("warm-up", warm_up.steps, step, 1, finish=finish),
            Phase("sampling", steps, step, 0, keep=True, thinning=thinning),
        ),
        statistics={name: STATISTICS[name] for name in (*statistics, "step_size")},
        position=lambda state: state.chain.position,
        density=lambda state: state.chain.evaluation.density,
        gradients_per_step=gradients_per_step,
        fit=lambda state: fit(state.adaptation),
    )


def _choose(condition: Array, new: Tree, old: Tree) -> Tree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _in_dtype(dtype: Any, tree: Tree) -> Tree:
    """The adaptation with all numbers, including counts, in the precision of the run, so that a loop can carry them."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)
