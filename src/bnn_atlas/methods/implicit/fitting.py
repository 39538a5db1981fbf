"""Implicit variational inference as a method of the runner.

Uppal et al. 2023 (Implicit Variational Inference for High-Dimensional Posteriors), with the evidence lower bound as the
objective unless the settings say otherwise; docs/implicit.md describes the objectives and the forms of the entropy.
"""

import logging
import math
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import AMSGradConfig, ImplicitConfig, SmallestEntropy
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import Method, Phase, Statistic
from bnn_atlas.methods.implicit.entropy import (
    MOST_INTEGRATED,
    Exact,
    Form,
    Place,
    build_form,
    linearisation_gap,
    scoring_form,
)
from bnn_atlas.methods.implicit.family import build_family
from bnn_atlas.methods.implicit.objective import ELBO, Objective, weights_of
from bnn_atlas.methods.independent import Draw, draw_at, next_draw
from bnn_atlas.methods.optimise import build_optimiser
from bnn_atlas.posterior.density import Posterior, PosteriorData, Target

log = logging.getLogger(__name__)

LARGE_SIGMA = 0.1
"""Value of sigma above which the noise sigma e may cause most of the spread of the weights."""


class Entropies(NamedTuple):
    """Entropies at the noise z of one draw."""

    entropy: Array
    """Entropy by the form that scores draws."""
    entropy_error: Array
    entropy_bracket: Array
    """Largest amount by which `entropy` may be too large because of too few steps."""
    entropy_as_trained: Array
    linearisation_gap: Array
    """How much the linearised entropy is too large (`entropy.linearisation_gap`) at the last draw with an integral."""


class ImplicitState(NamedTuple):
    """A fit, the states of its optimiser and of the entropy's searches, and the last draw."""

    q: Array
    """The learned vector (`family.Family`)."""
    optimiser: optax.OptState
    shuffle: minibatch.Shuffle | None
    search: Array | None
    """[entropies of a step, ...]; None for forms of the entropy without a search."""
    draw: Draw
    entropies: Entropies
    """Entropies of the last draw; zeros before the first draw."""
    gradient_norm: Array
    """Length of the last estimate of the gradient."""
    skipped: Array
    """Number of updates skipped because a value was not finite."""
    singular: Array
    """Number of samples so far at which J'J was numerically singular."""


def build_implicit(config: ImplicitConfig, posterior: Posterior, data: PosteriorData) -> Method:
    """Fit the generator in the phase "optimising", then draw theta = g(z) + s e.

    Statistics of a draw, with H the entropy at its z (`implicit.entropy`):

    - `entropy` = H as `scored_by` computes it;
    - `entropy_error`, the standard deviation of H over probes;
    - `entropy_bracket`, the largest amount by which H may be too large because of too few steps;
    - `entropy_as_trained` = H as computed by the form used in the fit;
    - `linearisation_gap`, with at most `MOST_INTEGRATED` noise numbers, the excess of H over the entropy of q, at about
      `INTEGRATED_DRAWS` evenly spread draws, whose values the draws after them repeat;
    - `elbo` = (log-likelihood + log-prior) / T + H on all rows, with H at the lower end of its bracket; the mean over
      draws is at most the evidence lower bound of the density linearised at z;
    - `objective`, which is like `elbo` but has the weights and the entropy of the fit;
    - `gradient_norm` of the last update, and `skipped_updates`;
    - `singular`, the number of samples at which J'J was numerically singular, for forms that check this;
    - `divergent`, 1 if the density of a draw was not finite; the previous draw is then repeated, with its entropies;
    - `entropy_is_bound`, only for fits that use the smallest singular value: 1 if the search for that value has
      converged.

    The fit has the generator's parameters by name, the number d of its noise entries (`noise`), `generated` [D] and
    `points` [r], the indices of the generated and of the other scalars, `point` [r], the values of the other scalars,
    and `sigma` [D], the standard deviation of the noise on the generated scalars if it is learned. `family.fitted`
    makes further draws from the fit.

    Raises:
        ValueError: the generator, the entropy, the noise or the mini-batches do not suit the posterior.
    """
    dtype = np.dtype(data.prior.loc.dtype)
    family = build_family(config, posterior)
    form = build_form(config.entropy, family.generator, dtype)
    scoring = scoring_form(config, form, family.generator, dtype)
    weights = weights_of(config, posterior, len(data.y))
    count = config.entropy_samples or config.samples
    objective = Objective(family, form, weights, count)
    steps = minibatch.steps_in(config.epochs, config.batch_size, posterior, data)
    optimiser = optimiser_of(config, steps, family.generator.parameters)
    integrates, apart = can_integrate(config, family.noise), max(2, config.steps // INTEGRATED_DRAWS)
    searches, looks = isinstance(config.entropy, SmallestEntropy), Exact in (type(form), type(scoring))
    log.info("The objective is %s", weights.words(len(data.y), posterior.temperature))
    if config.sigma > LARGE_SIGMA and config.learned_sigma is None:
        log.warning("sigma (%g) is large: most of the weights' spread may be this noise", config.sigma)

    def init(key: Array, position: Array, target: Target) -> ImplicitState:
        first, second = jax.random.split(key)
        if config.noise_init is not None:
            position = position.at[family.noise_at].set(np.log(config.noise_init))
        q = family.start(first, position)
        like = jnp.zeros(family.noise, position.dtype)
        zero = jnp.zeros((), position.dtype)
        return ImplicitState(
            q,
            optimiser.init(q),
            minibatch.begin(target, config.batch_size),
            jax.vmap(lambda key: form.start(key, like))(jax.random.split(second, count)),
            draw_at(position, target),
            Entropies(zero, zero, zero, zero, zero),
            zero,
            jnp.int32(0),
            jnp.int32(0),
        )

    def descend(
        key: Array, index: Array, state: ImplicitState, target: Target, settings: Any
    ) -> tuple[ImplicitState, dict[str, Array]]:
        rows_key, samples_key = jax.random.split(key)
        shuffle, evaluate = minibatch.next_evaluate(rows_key, index, state.shuffle, target, config.batch_size)
        keys = jax.random.split(samples_key, config.samples)
        found = objective.estimate(keys, state.q, evaluate, target, state.search)
        norm = jnp.linalg.norm(found.gradient)
        # Finite only if the whole gradient is finite; testing each number would make the compiled program a tenth
        # larger.
        finite = jnp.isfinite(norm)
        changes, memory = optimiser.update(found.gradient, state.optimiser, state.q)
        q, memory = _where(finite, (state.q + changes, memory), (state.q, state.optimiser))
        state = ImplicitState(
            q,
            memory,
            shuffle,
            jax.tree.map(_finite_or, found.search, state.search),
            state.draw,
            state.entropies,
            norm,
            state.skipped + ~finite,
            state.singular + found.singular,
        )
        return state, statistics(state, ~finite, jnp.zeros_like(norm), found.objective, jnp.bool_(False))

    def report(state: ImplicitState, kept: np.ndarray | None) -> ImplicitState:
        if state.skipped:
            log.warning(
                "%d of %d updates of an implicit fit were not finite and were skipped; lower optimiser.learning_rate",
                state.skipped,
                steps,
            )
        if state.singular:
            log.warning(
                "J'J was singular to within rounding at %d of %d samples of an implicit fit: the noise reaches fewer "
                "directions than it has numbers, and sigma^2 bounds the rest; lower the generator's noise",
                state.singular,
                steps * count,
            )
        return state

    def place(form: Form, q: Array, z: Array) -> Place:
        generator, values, sigma = family.scaled(q)
        return Place(generator, values, form.shared(generator, values), z, sigma)

    def sample(
        key: Array, index: Array, state: ImplicitState, target: Target, settings: Any
    ) -> tuple[ImplicitState, dict[str, Array]]:
        noise_key, trained_key, scoring_key, gap_key = jax.random.split(key, 4)
        noise = family.draw_noise(noise_key, state.q)
        theta = family(state.q, noise)
        draw, divergent = next_draw(theta, target, state.draw)
        search = None if state.search is None else state.search[0]
        half, trained = form.half_log_det(trained_key, place(form, state.q, noise.z), search)
        scored, scores = half, trained
        if scoring is not form:
            scored, scores = scoring.half_log_det(scoring_key, place(scoring, state.q, noise.z), None)
        if state.search is not None and trained.search is not None:
            state = state._replace(search=state.search.at[0].set(_finite_or(trained.search, state.search[0])))
        score, own = (objective.entropy(value, state.q) for value in (scored, half))
        gap = state.entropies.linearisation_gap
        if integrates:
            gap = jax.lax.cond(
                index % apart == 0,
                lambda: linearisation_gap(gap_key, place(Exact(), state.q, noise.z), noise.e),
                lambda: gap,
            )
        entropies = Entropies(score, scores.error, scores.bracket, own, gap)
        # Before the first draw, there is no draw to repeat.
        entropies = _where(divergent & (index > 0), state.entropies, entropies)
        singular = state.singular + (trained.singular | scores.singular)
        state = state._replace(draw=draw, entropies=entropies, singular=singular)
        lower = entropies.entropy - entropies.entropy_bracket
        elbo = objective.value(draw.position, draw.density, lower, target, ELBO)
        trained_for = objective.value(draw.position, draw.density, entropies.entropy_as_trained, target, weights)
        return state, statistics(state, divergent, elbo, trained_for, trained.converged)

    def statistics(
        state: ImplicitState, divergent: Array, elbo: Array, objective: Array, converged: Array
    ) -> dict[str, Array]:
        return {
            **{name: value for name, value in state.entropies._asdict().items() if name in real},
            "elbo": elbo,
            "objective": objective,
            **({"entropy_is_bound": converged} if searches else {}),
            **({"singular": state.singular} if looks else {}),
            "gradient_norm": state.gradient_norm,
            "skipped_updates": state.skipped,
            "divergent": divergent,
        }

    def fit(state: ImplicitState) -> dict[str, Any]:
        values, spread, point = family.named(np.asarray(state.q))
        named = {f"generator.{name}": array for name, array in values.items()}
        indices = {"generated": family.generated, "points": family.points, "noise": family.noise}
        whole = {name: np.asarray(where, np.int32) for name, where in indices.items()}
        learned = {} if spread is None else {"sigma": spread}
        return {**named, **whole, **learned, "point": point}

    entropy_names = [name for name in Entropies._fields if integrates or name != "linearisation_gap"]
    real = (*entropy_names, "elbo", "objective", "gradient_norm")
    counts = ("skipped_updates", *(["singular"] if looks else []), *(["entropy_is_bound"] if searches else []))
    return Method(
        init=init,
        phases=(
            Phase("optimising", steps, descend, finish=report),
            Phase("sampling", config.steps, sample, keep=True, thinning=config.thinning),
        ),
        statistics={
            **{name: Statistic("last") for name in real},
            **{name: Statistic("last", "int32") for name in counts},
            "divergent": Statistic("sum", "int32"),
        },
        position=lambda state: state.draw.position,
        density=lambda state: state.draw.density,
        gradients_per_step=float(config.samples),
        fit=fit,
    )


INTEGRATED_DRAWS = 20
"""Number of draws with a linearisation gap, which takes longer than everything else of a draw."""


def can_integrate(config: ImplicitConfig, noise: int) -> bool:
    """Whether the linearisation gap is computed: with few noise numbers, and J'S^-2 J without J."""
    return noise <= MOST_INTEGRATED and (config.learned_sigma in (None, "one") or not config.has_matrices)


def _where(chosen: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(chosen, a, b), new, old)


def _finite_or(new: Array, old: Array) -> Array:
    """`new` if all its values are finite, else `old`."""
    return jnp.where(jnp.all(jnp.isfinite(new)), new, old)


class AMSGradState(NamedTuple):
    """Steps so far, running averages of the gradient and its square, and the largest average square so far."""

    steps: Array
    mean: Any
    square: Any
    largest: Any


def scale_by_amsgrad(
    decay: float = 0.9, square_decay: float = 0.999, epsilon: float = 1e-8
) -> optax.GradientTransformation:
    """Adam with amsgrad (Reddi, Kale and Kumar 2018) as in PyTorch, where the largest square is corrected for its bias.

        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   u <- max(u, v),   c = sqrt(1 - b2^t)
        change = c / (1 - b1^t) m / (sqrt(u) + c epsilon)

    The bias is corrected by scalar factors only, for the reason given in `methods.optimise.scale_by_adam`.
    """

    def init(values: Any) -> AMSGradState:
        zeros = [jax.tree.map(jnp.zeros_like, values) for _ in range(3)]
        return AMSGradState(jnp.int32(0), *zeros)

    def change(gradient: Any, state: AMSGradState, values: Any = None) -> tuple[Any, AMSGradState]:
        steps = state.steps + 1
        mean = jax.tree.map(lambda m, g: decay * m + (1 - decay) * g, state.mean, gradient)
        square = jax.tree.map(lambda v, g: square_decay * v + (1 - square_decay) * g * g, state.square, gradient)
        largest = jax.tree.map(jnp.maximum, state.largest, square)

        def scaled(m: Array, u: Array) -> Array:
            passed = steps.astype(m.dtype)
            root = jnp.sqrt(-jnp.expm1(passed * math.log(square_decay)))
            return (root / -jnp.expm1(passed * math.log(decay))) * (m / (jnp.sqrt(u) + root * epsilon))

        return jax.tree.map(scaled, mean, largest), AMSGradState(steps, mean, square, largest)

    return optax.GradientTransformation(init, change)


LEARNING_RATE_OF_SPREAD = 0.01
"""Default learning rate of the logarithm of a learned spread: 1,000 steps can change it by 10."""


def optimiser_of(config: ImplicitConfig, steps: int, numbers: int) -> optax.GradientTransformation:
    """Optimiser of a vector q (`family.Family`) for a minimisation of `steps` steps.

    The learned spread and the points, which come after the generator's `numbers` parameters, may have their own
    learning rate; a learned spread has `LEARNING_RATE_OF_SPREAD` unless the settings say otherwise.
    """
    chosen = config.optimiser
    if isinstance(chosen, AMSGradConfig):
        rate: Any = chosen.learning_rate
        if chosen.schedule == "cosine":
            rate = optax.cosine_decay_schedule(rate, steps, alpha=chosen.end / chosen.learning_rate)
        base = optax.chain(scale_by_amsgrad(), optax.scale_by_learning_rate(rate))
    else:
        base = build_optimiser(chosen, steps)
    own = config.point_learning_rate
    if own is None and config.learned_sigma is not None:
        own = max(LEARNING_RATE_OF_SPREAD, chosen.learning_rate)
    if own is None:
        return base
    ratio = own / chosen.learning_rate

    def scaled(changes: Array, _: Any) -> Array:
        return jnp.where(jnp.arange(len(changes)) < numbers, changes, ratio * changes)

    return optax.chain(base, optax.stateless(scaled))
