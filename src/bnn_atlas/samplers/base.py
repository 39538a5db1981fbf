"""The contract between a sampling method and the runner."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from jax import Array

from bnn_atlas.posterior.density import LogDensity, Target

State = Any
"""A method's own NamedTuple of arrays for one chain."""


Step = Callable[[Array, Array, State, Target, Any], tuple[State, dict[str, Array]]]
"""(key, number of the step within the phase, state, target, settings) -> (state, the step's statistics)."""


Settle = Callable[[State, Target], tuple[State, dict[str, Array]]]
"""(state, target) -> (state, what to add to statistics that are sums)."""


class Statistic(NamedTuple):
    """How a quantity that every step reports becomes one number per kept draw."""

    reduction: Literal["last", "mean", "sum"]
    dtype: str = "float32"


class Phase(NamedTuple):
    """A stretch of steps that are all alike."""

    name: str
    steps: int
    step: Step
    settings: Any = ()
    """Numbers that the steps of this phase take; phases with the same `step` share one compiled program."""
    keep: bool = False
    """Keep draws, for `finish` or, in the last phase, as the trace."""
    thinning: int = 1
    """Every how many steps a state is kept."""
    select: np.ndarray | None = None
    """Indices of the scalars to keep; None keeps all."""
    settle: Settle | None = None
    """What happens after every `thinning` steps, before a draw is kept."""
    finish: Callable[[State, np.ndarray | None], State] | None = None
    """On the host, for one chain after the phase: (state, kept draws [draw, scalar] or None) -> state."""

    @property
    def draws(self) -> int:
        """States at multiples of the thinning; the phase runs in units of so many steps."""
        return self.steps // self.thinning


class Sampler(NamedTuple):
    """A method: how a chain starts, and its phases; the draws of the last phase are the trace."""

    init: Callable[[Array, Array, Target], State]
    """(key, position [P], target) -> state."""
    phases: tuple[Phase, ...]
    statistics: Mapping[str, Statistic]
    position: Callable[[State], Array]
    density: Callable[[State], LogDensity]
    gradients_per_step: float | None
    """Gradient evaluations per step (on average), for rates; None where only the trace will tell."""
