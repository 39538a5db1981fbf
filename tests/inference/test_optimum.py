"""Whether optima have converged: MAP, a Laplace approximation and a path, each ended early and late."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from bnn_atlas import build_posterior, sample
from bnn_atlas.inference.optimum import are_optima, gradients_of, rises_above
from bnn_atlas.inference.problem import Problem
from bnn_atlas.library.posteriors import NetworkPosterior
from bnn_atlas.metrics.gathering.log_densities import course_measurements, losses_of_path, optimum_measurements
from bnn_atlas.metrics.gathering.virial import load_virial, save_virial
from bnn_atlas.metrics.judgement.checks import Status, Value, settled_check
from bnn_atlas.posterior.density import LogDensity
from bnn_atlas.traces.draws import Draws

ROWS, CHAINS, MAX_BYTES = 40, 2, 2**20
X = np.random.default_rng(0).normal(size=(ROWS, 3))
Y = np.sin(X @ [1.0, -0.5, 0.2])
NETWORK: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": [6], "activation": "tanh"},
    "likelihood": {"kind": "gaussian", "sigma": 0.3},
}
LINEAR = NETWORK | {"model": {"kind": "mlp", "hidden": []}}


def optimised(posterior: NetworkPosterior, folder: Path, **method: Any) -> Draws:
    size = posterior.density.layout.size
    starts = 0.5 * np.random.default_rng(1).normal(size=(CHAINS, size)).astype(np.float32)
    return sample(posterior, method, starts, folder / "run", seed=3)


def status(posterior: NetworkPosterior, pool: Draws, folder: Path) -> Status:
    problem = Problem(posterior.density, posterior.data, cast(Any, None), cast(Any, None))
    save_virial(folder / "virial.npz", gradients_of(pool, problem, lambda: problem))
    rises = load_virial(folder / "virial.npz").rises
    kept = np.arange(CHAINS)
    rows = optimum_measurements(pool, kept, rises, ROWS, MAX_BYTES)
    rows += course_measurements(losses_of_path(pool, ROWS, MAX_BYTES), kept) if len(rises) == 0 else []
    found = settled_check({row.metric: Value(row.value, CHAINS, row.note, row.monte_carlo_error) for row in rows})
    assert found is not None
    return found.status


@pytest.mark.parametrize(
    ("method", "early", "late"),
    [
        ({"kind": "map", "batch_size": None, "optimiser": {"kind": "adam", "learning_rate": 0.02}},
         {"epochs": 30}, {"epochs": 3000}),
        ({"kind": "map", "batch_size": 10, "optimiser": {"kind": "adam", "learning_rate": 0.01, "schedule": "cosine"}},
         {"epochs": 10}, {"epochs": 2000}),
        ({"kind": "laplace", "steps": 5}, {"map_steps": 2}, {"map_steps": 200}),
        ({"kind": "path", "batch_size": None, "epochs": 100, "optimiser": {"kind": "adam", "learning_rate": 0.002}},
         {}, {"optimiser": {"kind": "adam", "learning_rate": 0.1}}),
    ],
    ids=["map", "map by mini-batches", "laplace", "path"],
)  # fmt: skip
def test_an_optimum_that_ended_early_fails_the_rule(
    method: dict[str, Any], early: dict[str, Any], late: dict[str, Any], tmp_path: Path
) -> None:
    posterior = build_posterior(X, Y, NETWORK)
    for name, more, expected in (("early", early, Status.LOOK), ("late", late, Status.FINE)):
        folder = tmp_path / name
        folder.mkdir()
        assert status(posterior, optimised(posterior, folder, **(method | more)), folder) is expected, name


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_the_rise_is_that_to_the_maximum_of_a_gaussian(temperature: float) -> None:
    """1/2 d' H d at the distance d from the maximum of a linear model, and 0 at it; of the untempered posterior."""
    posterior = build_posterior(X, Y, LINEAR | {"temperature": temperature})
    inputs = np.column_stack([np.ones(ROWS), X])
    precision = inputs.T @ inputs / 0.3**2 + np.eye(4)
    mean = np.linalg.solve(precision, inputs.T @ Y / 0.3**2)
    away = np.array([0.3, -0.2, 0.1, 0.4])
    found = rises_above(posterior.density, posterior.data, np.stack([mean, mean + away]))
    np.testing.assert_allclose(found, [0, 0.5 * away @ precision @ away], rtol=1e-3, atol=1e-3)


def rise_of(log_density: Callable[[jax.Array], jax.Array], start: list[float], rows: int = 1) -> float:
    """The rise above `start` of a log density, where the data have `rows` rows."""

    def evaluate(theta: jax.Array, batch: Any) -> tuple[LogDensity, jax.Array]:
        value, gradient = jax.value_and_grad(log_density)(theta)
        return LogDensity(value, jnp.zeros_like(value)), gradient

    posterior = SimpleNamespace(arrange=lambda data: None, evaluate=evaluate, temperature=1.0)
    data = SimpleNamespace(y=np.broadcast_to(0.0, rows), prior=SimpleNamespace(loc=jnp.zeros(1, jnp.float32)))
    return float(rises_above(cast(Any, posterior), cast(Any, data), np.array([start]))[0])


def test_the_search_is_as_long_for_many_rows() -> None:
    scales = jnp.geomspace(1.0, 1e3, 8)
    start = np.asarray(scales**-0.5).tolist()
    assert rise_of(lambda theta: -0.5 * (scales * theta**2).sum(), start, 10**6) == pytest.approx(4, rel=1e-3)


def test_a_step_to_where_the_density_is_not_finite_is_shortened() -> None:
    """It rises straight up to 0.5 and is not finite beyond; if it is finite at the start alone, nothing is known."""
    assert rise_of(lambda theta: jnp.where(theta[0] < 0.5, 10 * theta[0], jnp.nan), [0.0]) == pytest.approx(5, rel=0.1)
    assert np.isnan(rise_of(lambda theta: jnp.where(theta[0] == 0, theta[0], jnp.nan), [0.0]))
    assert np.isnan(rise_of(lambda theta: jnp.where(theta[0] == 1, theta[0], jnp.nan), [1.0])), "up to rounding"
    steep = rise_of(lambda theta: jnp.where(theta[0] < 1e-3, 1e5 * theta[0], -jnp.inf), [0.0])
    assert steep == pytest.approx(100, rel=0.5)


def test_a_point_without_a_density_has_no_rise() -> None:
    posterior = build_posterior(X, Y, LINEAR)
    assert np.isnan(rises_above(posterior.density, posterior.data, np.full((1, 4), np.nan))).all()


def test_only_optima_of_the_posterior_are_followed(tmp_path: Path) -> None:
    posterior = build_posterior(X, Y, NETWORK)
    pool = optimised(posterior, tmp_path, kind="mean_field", epochs=2, batch_size=10, steps=1)
    assert not are_optima(pool)
    problem = Problem(posterior.density, posterior.data, cast(Any, None), cast(Any, None))
    assert gradients_of(pool, problem, lambda: problem).rises.size == 0
