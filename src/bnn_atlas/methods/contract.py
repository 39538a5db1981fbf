"""The contract between the runner and a method: a Markov chain, an approximation or an optimisation."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
from jax import Array

from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.posterior.density import LogDensity, Posterior, PosteriorData, Target

State = Any
"""A method's own NamedTuple of arrays for one chain; the runner only stores the state and passes it on."""


Step = Callable[[Array, Array, State, Target, Any], tuple[State, dict[str, Array]]]
"""(key, index of the step within the phase, state, target, settings) -> (state, statistics of the step)."""


Settle = Callable[[State, Target], tuple[State, dict[str, Array]]]
"""(state, target) -> (state, amounts to add to statistics that are sums)."""


class Statistic(NamedTuple):
    """How a quantity that every step reports becomes one number per kept draw."""

    reduction: Literal["last", "mean", "sum"]
    dtype: str = "float32"


class Phase(NamedTuple):
    """A sequence of steps that all compute the same function."""

    name: str
    steps: int
    step: Step
    settings: Any = ()
    """Numbers passed to the steps of this phase; phases with the same `step` share one compiled program."""
    keep: bool = False
    """Whether to keep draws, for `finish` or, in the last phase, as the trace."""
    thinning: int = 1
    """Every `thinning`-th state is kept."""
    select: np.ndarray | None = None
    """Indices of the scalars to keep; None keeps all."""
    settle: Settle | None = None
    """Applied after every `thinning` steps, before a draw is kept."""
    finish: Callable[[State, np.ndarray | None], State] | None = None
    """Called on the host after the phase, once per chain: (state, kept draws [draw, scalar] or None) -> state."""

    @property
    def draws(self) -> int:
        """Number of states that can be kept: one per `thinning` steps."""
        return self.steps // self.thinning


def nothing_learned(state: State) -> dict[str, Array]:
    """The empty fit of a method that learns nothing except its draws."""
    return {}


class Method(NamedTuple):
    """The start and the phases of a chain; the draws of the last phase are the trace."""

    init: Callable[[Array, Array, Target], State]
    """(key, position [P], target) -> state."""
    phases: tuple[Phase, ...]
    """Phases with at least one step each; see `with_steps`."""
    statistics: Mapping[str, Statistic]
    position: Callable[[State], Array]
    density: Callable[[State], LogDensity]
    gradients_per_step: float | None
    """Gradients per step (on average), for rates; None if steps take no gradients, or if only the trace counts them."""
    fit: Callable[[State], dict[str, Array]] = nothing_learned
    """(state after the last phase) -> name -> what one chain has learned in addition to its draws; called on the
    host."""


def with_steps(*phases: Phase) -> tuple[Phase, ...]:
    """The phases that have at least one step."""
    return tuple(phase for phase in phases if phase.steps)


def build_method(settings: MethodSettings, posterior: Posterior, data: PosteriorData) -> Method:
    """Build a method from its settings; only the modules that it needs are imported, which saves start-up time.

    Raises:
        ValueError: the method does not suit the posterior or its data.
    """
    build, *changes = map(_named, settings.builders)
    method: Method = build(settings, posterior, data)
    for change in changes:
        method = change(method, settings)
    return method


def _named(name: str) -> Callable[..., Any]:
    module, function = name.split(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
