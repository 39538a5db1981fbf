"""Posteriors with known answers, and running a method's phases for one chain without the runner."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
    LearnedNoiseLikelihood,
    LikelihoodConfig,
    MLPConfig,
)
from bnn_atlas.config.parts.priors import NormalPrior, PriorConfig
from bnn_atlas.keys import step_key
from bnn_atlas.methods.contract import Method, Phase
from bnn_atlas.posterior.density import Posterior, PosteriorData, Target, binder, build_posterior, posterior_data

SIGMA = 0.5


class Case(NamedTuple):
    posterior: Posterior
    data: PosteriorData

    @property
    def size(self) -> int:
        return self.posterior.layout.size

    @property
    def target(self) -> Target:
        return binder(self.posterior)(self.data)


class Line(NamedTuple):
    """Linear regression with known noise; the posterior at temperature 1 is N(mean, precision^-1)."""

    case: Case
    design: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    log_evidence: float


class Fit(NamedTuple):
    state: Any
    draws: np.ndarray
    statistics: dict[str, np.ndarray]


def rows(count: int = 30, features: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, features))
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.3 * rng.normal(size=count)


def line(prior: PriorConfig, temperature: float = 1.0, dtype: Any = jnp.float64, bias: bool = True) -> Line:
    """Three features and a bias."""
    x, y = rows()
    model = MLPConfig(hidden=(), bias=bias)
    posterior, built = build_posterior(
        model, GaussianLikelihood(sigma=SIGMA), prior, temperature=temperature, shape=(3,), dtype=dtype
    )
    layout = posterior.layout
    design = np.zeros((len(x), layout.size))
    design[:, layout.select(roles=["weight"])] = x
    design[:, layout.select(roles=["bias"])] = 1.0
    loc, scale = (np.asarray(leaf, np.float64) for leaf in built.values[:2])
    precision = design.T @ design / SIGMA**2 + np.diag(scale**-2)
    mean = np.linalg.solve(precision, design.T @ y / SIGMA**2 + loc / scale**2)
    spread = SIGMA**2 * np.eye(len(x)) + (design * scale**2) @ design.T
    residual = y - design @ loc
    evidence = -0.5 * (residual @ np.linalg.solve(spread, residual) + np.linalg.slogdet(2 * np.pi * spread)[1])
    return Line(Case(posterior, posterior_data(x, y, built)), design, mean, precision, float(evidence))


def tanh_network(
    likelihood: LikelihoodConfig,
    prior: PriorConfig | None = None,
    *,
    dtype: Any = jnp.float64,
    hidden: tuple[int, ...] = (4, 3),
    bias: bool = True,
    temperature: float = 1.0,
    shards: int = 1,
) -> Case:
    """Two hidden layers; two features, 13 rows, 3 classes for classification."""
    x, y = rows(13, 2)
    classes = 3 if isinstance(likelihood, CategoricalLikelihood) else 0
    posterior, built = build_posterior(
        MLPConfig(hidden=hidden, activation="tanh", bias=bias),
        likelihood,
        prior or NormalPrior(scale=0.7),
        temperature=temperature,
        shape=(2,),
        classes=classes,
        dtype=dtype,
        shards=shards,
    )
    y = np.digitize(y, [-0.5, 0.5]) if classes else y
    return Case(posterior, posterior_data(x, y, built, shards))


LIKELIHOODS: dict[str, LikelihoodConfig] = {
    "gaussian": GaussianLikelihood(sigma=0.3),
    "learned_noise": LearnedNoiseLikelihood(),
    "exp": HeteroscedasticLikelihood(head="exp"),
    "softplus": HeteroscedasticLikelihood(head="softplus"),
    "categorical": CategoricalLikelihood(),
}


def some_theta(case: Case) -> jax.Array:
    return jnp.asarray(0.5 * np.random.default_rng(1).normal(size=case.size), case.data.prior.loc.dtype)


def drive(sampler: Method, case: Case, start: np.ndarray | None = None, seed: int = 0) -> Fit:
    """All phases for one chain from `start` (zeros); draws and statistics of the last one.

    Rows and prior are arguments of the compiled programs, so that cases that differ in them alone share programs.
    """
    bind = binder(case.posterior)
    dtype = case.data.prior.loc.dtype
    position = jnp.zeros(case.size, dtype) if start is None else jnp.asarray(start, dtype)
    state = jax.jit(lambda position, data: sampler.init(jax.random.key(seed), position, bind(data)))(
        position, case.data
    )
    for number, phase in enumerate(sampler.phases):

        def run(state: Any, data: PosteriorData, number: int = number, phase: Phase = phase) -> Any:
            target = bind(data)

            def body(state: Any, index: jax.Array) -> Any:
                key = step_key(jax.random.key(seed), number, index)
                state, statistics = phase.step(key, index, state, target, phase.settings)
                return state, (sampler.position(state), statistics | sampler.density(state)._asdict())

            return jax.lax.scan(body, state, jnp.arange(phase.steps))

        state, (draws, statistics) = jax.jit(run)(state, case.data)
        if phase.finish:
            before = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)
            state = phase.finish(jax.tree.map(np.asarray, state), None)
            assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == before
    return Fit(state, np.asarray(draws), {name: np.asarray(value) for name, value in statistics.items()})
