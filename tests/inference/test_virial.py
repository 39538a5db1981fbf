"""The effective temperature of draws and the balance of layers, against closed forms and exact chains."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas import build_posterior, sample
from bnn_atlas.inference import virial as module
from bnn_atlas.inference.virial import layers_of, virial_of
from bnn_atlas.library.posteriors import NetworkPosterior
from bnn_atlas.metrics.gathering.virial import (
    Virial,
    balance_measurements,
    load_virial,
    save_virial,
    virial_measurements,
)
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.permutation import rescalings
from bnn_atlas.traces.draws import ArrayDraws

ROWS = 30
X = np.random.default_rng(0).normal(size=(ROWS, 3))
Y = X @ [1.0, -0.5, 0.2] + 0.3
SIGMA, PRIOR = 0.5, 0.8
LINEAR: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": []},
    "likelihood": {"kind": "gaussian", "sigma": SIGMA},
    "prior": {"kind": "normal", "scale": PRIOR},
}
DEEP = LINEAR | {"model": {"kind": "mlp", "hidden": [4], "activation": "tanh"}, "likelihood": {"kind": "learned_noise"}}


def pool(posterior: NetworkPosterior, draws: np.ndarray) -> ArrayDraws:
    chains, length, _ = draws.shape
    layout = posterior.density.layout
    return ArrayDraws(Path("pool.json"), layout, draws, {}, np.arange(chains), np.arange(length), {})


def found(posterior: NetworkPosterior, draws: np.ndarray) -> Virial:
    return virial_of(posterior.density, posterior.data, pool(posterior, draws))


def measured(virial: Virial, temperature: float = 1.0, chains: int | None = None) -> dict[str, Measurement]:
    rows = virial_measurements(virial, np.arange(chains or len(virial.chains)), temperature)
    return {row.at or "whole": row for row in rows}


def of_linear(temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and Cholesky factor of the covariance of the linear model's posterior; the bias comes first."""
    inputs = np.column_stack([np.ones(ROWS), X])
    precision = inputs.T @ inputs / SIGMA**2 + np.eye(4) / PRIOR**2
    mean = np.linalg.solve(precision, inputs.T @ Y / SIGMA**2)
    return mean, np.linalg.cholesky(temperature * np.linalg.inv(precision))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_with_the_moments_of_a_gaussian_have_its_temperature(temperature: float) -> None:
    """Mean +- sqrt(d) columns of the covariance's factor have the moments on which the expectation depends."""
    mean, factor = of_linear(temperature)
    points = mean + 2.0 * np.concatenate([factor.T, -factor.T])
    rows = measured(found(build_posterior(X, Y, LINEAR | {"temperature": temperature}), points[None]), temperature)
    assert rows["whole"].value == pytest.approx(temperature, rel=1e-5)
    assert rows["whole"].note == f"draws from the posterior have {temperature:g}"
    assert rows["prior"].value == pytest.approx((points**2).sum(axis=1).mean() / PRIOR**2 / 4, rel=1e-5)
    assert rows["likelihood"].value + rows["prior"].value == pytest.approx(temperature, rel=1e-5)
    assert set(rows) == {"whole", "likelihood", "prior"}, "one layer has no rows of its own"


def test_the_error_covers_the_temperature_of_independent_draws() -> None:
    """One value has the variance 2 T^2 / d plus that of -mean . grad, so errors are known."""
    mean, factor = of_linear(1.0)
    draws = mean + np.random.default_rng(1).normal(size=(8, 100, 4)) @ factor.T
    row = measured(found(build_posterior(X, Y, LINEAR), draws))["whole"]
    gradient = mean @ np.linalg.inv(factor @ factor.T) @ mean
    expected = np.sqrt((2 * 4 + gradient) / 16 / 800)
    assert row.monte_carlo_error == pytest.approx(expected, rel=0.2)
    assert abs(row.value - 1) < 4 * expected


def densities(layout: Layout, theta: np.ndarray) -> np.ndarray:
    """Log-likelihood and log-prior of the network of `DEEP`, up to constants, in double precision."""
    of = layout.unflatten(theta)
    hidden = np.tanh(X @ of["layer0.weight"].T + of["layer0.bias"])
    residuals = Y - hidden @ of["layer1.weight"][0] - of["layer1.bias"]
    noise = of["log_sigma"]
    likelihood = -0.5 * np.exp(-2 * noise) * (residuals**2).sum() - ROWS * noise
    return np.array([likelihood, -0.5 * (theta**2).sum() / PRIOR**2])


def test_layers_have_the_slopes_of_their_scales() -> None:
    """-theta_l . grad_l log p is -d/ds log p where the layer's parameters are multiplied by exp(s)."""
    posterior = build_posterior(X, Y, DEEP)
    layout = posterior.density.layout
    draws = 0.5 * np.random.default_rng(2).normal(size=(2, 3, layout.size)).astype(np.float32).astype(np.float64)
    virial = found(posterior, draws)
    names, layer = layers_of(layout)
    assert names.tolist() == virial.layers.tolist() == ["layer0", "layer1", "noise"]
    assert virial.sizes.tolist() == [16, 5, 1]
    of_scalar, step = np.repeat(layer, [p.size for p in layout.parameters]), 1e-5
    for chain, draw, number in ((0, 0, 0), (0, 2, 1), (1, 1, 2), (1, 2, 0)):
        scaled = [draws[chain, draw] * np.exp(s * (of_scalar == number)) for s in (step, -step)]
        slopes = (densities(layout, scaled[0]) - densities(layout, scaled[1])) / (2 * step)
        of_draw = [part[chain, draw, number] for part in (virial.likelihood, virial.prior)]
        np.testing.assert_allclose(of_draw, -slopes, rtol=1e-4, atol=1e-4)


def test_draws_are_thinned_evenly_and_the_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = build_posterior(X, Y, LINEAR)
    draws = np.random.default_rng(3).normal(size=(2, 9, 4))
    whole = found(posterior, draws)
    monkeypatch.setattr(module, "MOST_DRAWS", 6)
    monkeypatch.setattr(module, "TOGETHER", 4)
    thinned = found(posterior, draws)
    assert thinned.likelihood.shape == (2, 3, 1)
    np.testing.assert_allclose(thinned.likelihood, whole.likelihood[:, [0, 4, 8]], rtol=1e-5)
    assert "3 of 9 draws of each chain, evenly spread" in measured(thinned)["whole"].note


def test_large_networks_are_taken_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = build_posterior(X, Y, LINEAR)
    draws = np.random.default_rng(3).normal(size=(2, 3, 4))
    whole = found(posterior, draws)
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    sizes: list[int] = []
    place = module.Placement
    monkeypatch.setattr(module, "Placement", lambda size: sizes.append(size) or place(size))
    np.testing.assert_allclose(found(posterior, draws).likelihood, whole.likelihood, rtol=1e-5)
    assert sizes == [1]


def test_many_rows_leave_out_draws_and_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = build_posterior(X, Y, LINEAR)
    draws = np.random.default_rng(3).normal(size=(12, 9, 4))
    whole = found(posterior, draws)
    monkeypatch.setattr(module, "MOST_ROWS", 6 * ROWS)
    fewer = found(posterior, draws)
    assert fewer.chains.tolist() == [0, 6, 11]
    np.testing.assert_allclose(fewer.likelihood, whole.likelihood[fewer.chains][:, [0, 8]], rtol=1e-5)
    assert measured(fewer, chains=12)["whole"].note.endswith("3 of 12 chains")
    assert virial_measurements(fewer, np.array([1, 2, 3]), 1.0) == []


def test_single_networks_have_no_temperature_and_lost_draws_no_value(tmp_path: Path) -> None:
    posterior = build_posterior(X, Y, LINEAR)
    draws = np.random.default_rng(4).normal(size=(3, 4, 4))
    assert measured(found(posterior, draws[:, :1])) == {}
    no_rows = posterior.data._replace(x=X[:0], y=Y[:0])
    assert measured(virial_of(posterior.density, no_rows, pool(posterior, draws[:, :1]))) == {}
    draws[1, 2, 0] = np.nan
    save_virial(tmp_path / "virial.npz", found(posterior, draws))
    virial = load_virial(tmp_path / "virial.npz")
    assert np.isnan(measured(virial)["whole"].value)
    kept = virial_measurements(virial, np.array([0, 2]), 1.0)
    assert all(np.isfinite(row.value) for row in kept)


def test_two_draws_of_many_chains_have_a_jackknife_over_chains() -> None:
    values = np.random.default_rng(5).normal(size=(12, 2, 1))
    row = measured(Virial(np.array(["layer0"]), np.array([1]), 2, np.arange(12), values, 0 * values))["whole"]
    assert row.monte_carlo_error == pytest.approx(values.mean(axis=(1, 2)).std(ddof=1) / np.sqrt(12))


@pytest.mark.parametrize(("temperature", "step"), [(1.0, 0.06), pytest.param(0.5, 0.04, marks=pytest.mark.slow)])
def test_exact_chains_have_the_temperature_of_their_posterior(temperature: float, step: float) -> None:
    """HMC on a network with learned noise, whose moments no formula gives."""
    noise = 0.5 * np.random.default_rng(6).normal(size=ROWS)
    posterior = build_posterior(X, Y + noise, DEEP | {"temperature": temperature})
    hmc = {"kind": "hmc", "burn_in": 200, "steps": 600, "step_size": step, "trajectory_length": 10 * step}
    draws = sample(posterior, hmc, chains=3, seed=1)
    rows = measured(virial_of(posterior.density, posterior.data, draws), temperature)
    for at, largest in {"whole": 0.05, "layer0": 0.03, "layer1": 0.15, "noise": 0.3}.items():
        error = rows[at].monte_carlo_error
        assert error is not None, at
        assert error < largest, at
        assert abs(rows[at].value - temperature) < 4 * error, at


RELU = DEEP | {"model": {"kind": "mlp", "hidden": [4, 3], "activation": "relu"}}


def balance(posterior: NetworkPosterior, draws: ArrayDraws, temperature: float = 1.0) -> dict[str, Measurement]:
    free = rescalings(posterior.config.model, draws.layout)
    kept = np.arange(draws.chains)
    rows = balance_measurements(draws, kept, free, PRIOR, temperature, max_bytes=4000)
    assert rows == balance_measurements(draws, kept, free, PRIOR, temperature, max_bytes=10**9)
    assert balance_measurements(draws, kept, free, None, temperature, 10**9) == []
    assert balance_measurements(pool(posterior, draws.read(draws=[0])), kept, free, PRIOR, temperature, 10**9) == []
    return {row.at: row for row in rows}


def test_imbalance_of_layers_has_its_closed_form() -> None:
    """Draws with theta^2 = c s^2 in the incoming and e s^2 in the outgoing parameters of the first layer."""
    posterior = build_posterior(X, Y, RELU)
    draws = np.full((2, 8, posterior.density.layout.size), PRIOR)
    layer = {name: posterior.density.layout.select(names=[name]) for name in ("layer0.weight", "layer0.bias")}
    draws[..., np.concatenate(list(layer.values()))] *= 2.0
    rows = balance(posterior, pool(posterior, draws), temperature=0.5)
    # 16 incoming parameters of theta^2 = 4 s^2 and 12 outgoing ones of s^2; then 15 and 3, all of s^2.
    assert rows["layer0"].value == pytest.approx((64 - 12 - 0.5 * (16 - 12)) / 28)
    assert rows["layer1"].value == pytest.approx((15 - 3 - 0.5 * (15 - 3)) / 18)
    assert rows["layer0"].note == "16 incoming and 12 outgoing parameters; draws from the posterior have 0"
    assert balance(build_posterior(X, Y, DEEP), pool(build_posterior(X, Y, DEEP), draws[..., :22])) == {}
    assert rescalings(build_posterior(X, Y, LINEAR).config.model, posterior.density.layout) == []


@pytest.mark.parametrize("temperature", [1.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_layers_of_exact_chains_are_in_balance(temperature: float) -> None:
    posterior = build_posterior(
        X, Y + 0.5 * np.random.default_rng(6).normal(size=ROWS), RELU | {"temperature": temperature}
    )
    nuts = {"kind": "nuts", "warmup": 300, "steps": 400, "step_size": 0.1, "max_doublings": 6}
    draws = sample(posterior, nuts, chains=3, seed=1)
    rows = balance(posterior, draws, temperature)
    for at, largest in {"layer0": 0.1, "layer1": 0.2}.items():
        error = rows[at].monte_carlo_error
        assert error is not None, at
        assert error < largest, at
        assert abs(rows[at].value) < 4 * error, at
    assert abs(balance(posterior, draws, 3 * temperature)["layer1"].value) > 5 * (rows["layer1"].monte_carlo_error or 1)
