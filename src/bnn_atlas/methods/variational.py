"""The common part of variational methods: a fit of a density q to the posterior, then independent draws from q."""

import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import LearnedNoiseLikelihood
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method, Phase, Statistic
from bnn_atlas.methods.independent import Draw, draw_at, next_draw
from bnn_atlas.posterior.density import Evaluate, Posterior, PosteriorData, Target
from bnn_atlas.posterior.prior_densities import PriorValues

log = logging.getLogger(__name__)


class Lengths(Protocol):
    """Settings of a variational method that determine the length of its phases."""

    @property
    def epochs(self) -> int:
        """Epochs of the fit."""

    @property
    def batch_size(self) -> int | None:
        """Rows per mini-batch; None for the full data."""

    @property
    def samples(self) -> int:
        """Draws from q per step of the fit."""

    @property
    def steps(self) -> int:
        """Draws after the fit."""

    @property
    def thinning(self) -> int:
        """Every `thinning`-th draw is kept."""


class Improved(NamedTuple):
    """Result of one step of a fit."""

    q: Any
    optimiser: Any
    elbo: Array
    """Estimate of the evidence lower bound at the temperature of the run (`mean_field.objective`)."""
    kl: Array
    """Contribution of the prior and the entropy to `elbo`."""
    gradient_norm: Array
    skipped: Array
    """Whether the update was skipped because it was not finite."""


class DrawFrom(NamedTuple):
    """A draw from q."""

    position: Array
    log_q: Array


class Family(NamedTuple):
    """A family of densities q (NamedTuples of arrays), with functions to start, improve and draw from a q."""

    name: str
    begin: Callable[[Array, Array, Target], tuple[Any, Any]]
    """(key, position [P], target) -> q and the state of its optimiser."""
    improve: Callable[[Array, Any, Any, Evaluate, Target], Improved]
    """(key, q, state of the optimiser, densities of this step's rows, target) -> result of the step."""
    draw: Callable[[Array, Any], DrawFrom]
    """(key, q) -> a draw from q."""
    log_prior: Callable[[Array, Array, Target], Array]
    """(position, its log-prior, target) -> the log-prior of the parameters that q is a density over."""
    exact_kl: Callable[[Any, Target], Array] | None
    """-E_q[log prior] / T - entropy in closed form; None if it is estimated from the draws."""
    fit: Callable[[Any], dict[str, Array]]
    centre: Callable[[Any], Array]
    """The mean of q [P]."""


class VariationalState(NamedTuple):
    """A fit, the state of its optimiser, and the last draw from the fit."""

    q: Any
    optimiser: Any
    shuffle: minibatch.Shuffle | None
    draw: Draw
    gradient_norm: Array
    """Length of the last estimate of the gradient with respect to the parameters of q."""
    skipped: Array
    """Number of updates skipped because a value was not finite."""


def build_variational(
    config: Lengths,
    family: Family,
    posterior: Posterior,
    data: PosteriorData,
    weighting: Callable[[Evaluate, Target], Evaluate] = lambda evaluate, target: evaluate,
) -> Method:
    """Fit q in the phase "optimising", then draw from it.

    Statistics of a draw: `elbo` = (log-likelihood + log-prior) / T - log q on all rows, whose mean over draws is the
    evidence lower bound; `kl`, the contribution of the prior and the entropy (exact for normal priors, and then the
    same for all draws); `gradient_norm` of the last update, with the noise of its draws and mini-batch;
    `skipped_updates`; `divergent`, 1 if the density of a draw was not finite and the previous draw is repeated.

    Args:
        config: lengths, mini-batches and draws of the fit.
        family: the family of densities.
        posterior: the posterior that q approximates.
        data: the data of the posterior.
        weighting: changes the densities of a mini-batch.

    Raises:
        ValueError: a mini-batch is larger than the data.
    """
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)

    def init(key: Array, position: Array, target: Target) -> VariationalState:
        q, optimiser = family.begin(key, position, target)
        mean = family.centre(q)
        return VariationalState(
            q,
            optimiser,
            minibatch.begin(target, config.batch_size),
            draw_at(mean, target),
            jnp.zeros((), mean.dtype),
            jnp.int32(0),
        )

    def descend(
        key: Array, index: Array, state: VariationalState, target: Target, settings: Any
    ) -> tuple[VariationalState, dict[str, Array]]:
        rows_key, noise_key = jax.random.split(key)
        shuffle, evaluate = minibatch.next_evaluate(rows_key, index, state.shuffle, target, config.batch_size)
        evaluate = weighting(evaluate, target)
        found = family.improve(noise_key, state.q, state.optimiser, evaluate, target)
        skipped = state.skipped + found.skipped
        state = VariationalState(found.q, found.optimiser, shuffle, state.draw, found.gradient_norm, skipped)
        return state, _statistics(state, found.elbo, found.kl, found.skipped)

    def report(state: VariationalState, kept: np.ndarray | None) -> VariationalState:
        if state.skipped:
            log.warning(
                "%d of %d updates of a fit (%s) were not finite and were skipped; lower the learning rate",
                state.skipped,
                steps,
                family.name,
            )
        return state

    def sample(
        key: Array, index: Array, state: VariationalState, target: Target, settings: Any
    ) -> tuple[VariationalState, dict[str, Array]]:
        temperature = target.posterior.temperature
        position, log_q = family.draw(key, state.q)
        draw, divergent = next_draw(position, target, state.draw)
        likelihood, prior = draw.density
        prior = family.log_prior(draw.position, prior, target)
        kl = log_q - prior / temperature if family.exact_kl is None else family.exact_kl(state.q, target)
        state = state._replace(draw=draw)
        return state, _statistics(state, (likelihood + prior) / temperature - log_q, kl, divergent)

    return Method(
        init=init,
        phases=(
            Phase("optimising", steps, descend, finish=report),
            Phase("sampling", config.steps, sample, keep=True, thinning=config.thinning),
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
        fit=lambda state: family.fit(state.q),
    )


def _statistics(state: VariationalState, elbo: Array, kl: Array, divergent: Array) -> dict[str, Array]:
    return {
        "elbo": elbo,
        "kl": kl,
        "gradient_norm": state.gradient_norm,
        "skipped_updates": state.skipped,
        "divergent": divergent,
    }


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def noise_index(posterior: Posterior) -> int:
    """Index of log sigma, for a single noise level that is fitted together with the density of the weights.

    Log sigma is the last parameter of a posterior with the likelihood `learned_noise`, and has no prior and no spread
    (type-II maximum likelihood): the fit maximises the evidence lower bound of the weights at this noise level, as
    Uppal et al. 2023 do in their regressions.

    Raises:
        ValueError: the likelihood has no learned noise, or the prior is not normal.
    """
    if not isinstance(posterior.likelihood, LearnedNoiseLikelihood):
        raise ValueError(
            f"method.noise 'point' needs likelihood.kind 'learned_noise', not '{posterior.likelihood.kind}': leave "
            "noise out, or choose that likelihood"
        )
    if posterior.family.name != "normal":
        raise ValueError(
            f"method.noise 'point' takes the noise out of a normal prior, and this prior belongs to the family "
            f"'{posterior.family.name}': choose prior.kind 'normal', or leave noise out"
        )
    return posterior.layout.size - 1


def without_noise(values: PriorValues, index: int) -> PriorValues:
    """The prior with a flat density for log sigma."""
    scale = values.scale[index]
    own = jnp.where(jnp.isinf(scale), 0, jnp.log(scale) + _HALF_LOG_2PI)
    return values._replace(scale=values.scale.at[index].set(jnp.inf), log_normaliser=values.log_normaliser - own)


def weights_only(size: int, index: int) -> Array:
    """[size]: 1 for the parameters that q is a density over, 0 for log sigma."""
    return jnp.asarray(np.arange(size) != index, jnp.float32)
