"""Layers exchanged between draws, against independent layers and layers that undo each other."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from bnn_atlas.files import save_arrays
from bnn_atlas.inference import exchange as module
from bnn_atlas.inference.exchange import densities_of_validation, exchange_of, exchanged_layers
from bnn_atlas.metrics.gathering.exchange import Exchange, exchange_measurements, load_exchange, save_exchange
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.posterior import Predictive
from bnn_atlas.traces.draws import ArrayDraws

LAYOUT = Layout((
    Parameter("layer0.weight", (1, 1), "weight", 0, 1, 1), Parameter("layer1.weight", (1, 1), "weight", 1, 1, 1),
    Parameter("log_sigma", (), "scale", None, 1, 1),
))  # fmt: skip
X = np.linspace(-2, 2, 21)[:, None]
Y = X[:, 0] + 0.3 * np.random.default_rng(0).normal(size=21)
SIGMA = 0.3


def predict(theta: np.ndarray, x: np.ndarray) -> Predictive:
    """N(w0 w1 x, exp(s)^2)."""
    return Predictive(mean=theta[:, :1] * theta[:, 1:2] * x[:, 0], scale=np.exp(theta[:, 2:]) * np.ones(len(x)))


def pool(theta: np.ndarray, layout: Layout = LAYOUT) -> ArrayDraws:
    chains, draws, _ = theta.shape
    return ArrayDraws(Path("pool.json"), layout, theta, {}, np.arange(chains), np.arange(draws), {})


def draws_of(chains: int, draws: int, *, dependent: bool, seed: int = 1) -> np.ndarray:
    """Weights that spread by a factor of 2; if dependent, their product is 1."""
    first, second = np.exp(0.7 * np.random.default_rng(seed).normal(size=(2, chains, draws)))
    if dependent:
        second = 1 / first
    return np.stack([first, second, np.full_like(first, np.log(SIGMA))], axis=2)


def test_each_layer_is_of_its_own_draw_and_keeps_its_values() -> None:
    theta = np.arange(2 * 7 * 3.0).reshape(2, 7, 3)
    found = exchanged_layers(LAYOUT, theta)
    source = (found - np.arange(3)) / 3 % 7
    np.testing.assert_array_equal(source[0], (np.arange(7)[:, None] + 2 * np.arange(3)) % 7)
    np.testing.assert_array_equal(np.sort(found, axis=1), theta)
    assert (found // 21 == np.array([0, 1])[:, None, None]).all(), "chains stay apart"


def test_layers_that_undo_each_other_lose_what_their_dependence_was_worth() -> None:
    """As drawn, every draw is w x with w = 1; exchanged, w is lognormal."""
    theta = draws_of(4, 50, dependent=True)
    found = exchange_of(pool(theta), predict, X, Y, classes=0)
    np.testing.assert_allclose(found.as_drawn, np.tile(norm.logpdf(Y, X[:, 0], SIGMA), (4, 1)))
    slopes = np.roll(theta[..., 1], -(50 // 3), axis=1) * theta[..., 0]
    expected = logsumexp(norm.logpdf(Y, slopes[..., None] * X[:, 0], SIGMA), axis=1) - np.log(50)
    np.testing.assert_allclose(found.exchanged, expected)
    (row,) = exchange_measurements(found, np.arange(4))
    mixtures = [logsumexp(part, axis=0) - np.log(4) for part in found[1:]]
    assert row.value == pytest.approx((mixtures[0] - mixtures[1]).mean())
    assert row.monte_carlo_error is not None
    assert row.value > 10 * row.monte_carlo_error


def test_the_dependence_of_independent_layers_is_worth_nothing() -> None:
    values = []
    for seed in range(100):
        found = exchange_of(pool(draws_of(4, 50, dependent=False, seed=seed)), predict, X, Y, classes=0)
        (row,) = exchange_measurements(found, np.arange(4))
        values.append((row.value, row.monte_carlo_error))
    differences, errors = np.array(values).T
    assert abs(differences.mean()) < 3 * differences.std() / 10
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(differences.std(), rel=0.5)


def test_draws_are_evenly_spread_and_lost_chains_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DRAWS", 15)
    theta = draws_of(3, 17, dependent=True)
    theta[1, 4] = np.nan
    save_exchange(tmp_path / "exchange.npz", exchange_of(pool(theta), predict, X, Y, classes=0))
    found = load_exchange(tmp_path / "exchange.npz")
    assert found.draws == 5
    assert np.isnan(found.as_drawn[1]).all()
    (row,) = exchange_measurements(found, np.array([0, 2]))
    assert np.isfinite(row.value)
    assert row.note.startswith("5 draws of each chain")


def test_what_cannot_be_exchanged_has_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    single = Layout((Parameter("layer0.weight", (3,), "weight", 0, 1, 1),))
    theta = draws_of(2, 20, dependent=True)
    for draws in (pool(theta, single), pool(theta[:, :2])):
        assert exchange_measurements(exchange_of(draws, predict, X, Y, classes=0), np.arange(2)) == []
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    assert exchange_measurements(exchange_of(pool(theta), predict, X, Y, classes=0), np.arange(2)) == []
    assert exchange_measurements(Exchange(np.asarray(3), *np.zeros((2, 2, 5))), np.arange(0)) == []


def test_validation_rows_have_the_mean_density_of_a_few_draws(tmp_path: Path) -> None:
    """All rows at once, and evenly spread ones where the test rows are fewer; other rows fill up and are cut off."""
    theta = draws_of(3, 100, dependent=False)
    each = np.linspace(0, 99, 20).round().astype(int)
    slopes = (theta[..., 0] * theta[..., 1])[:, each, None]
    expected = logsumexp(norm.logpdf(Y, slopes * X[:, 0], SIGMA), axis=1) - np.log(20)
    for together, rows in ((21, slice(None)), (30, slice(None)), (3, [0, 10, 20])):
        found = densities_of_validation(pool(theta), predict, X, Y, classes=0, together=together)
        np.testing.assert_allclose(found, expected[:, rows])
    exchange = exchange_of(pool(theta), predict, X, Y, classes=0)._replace(validation=expected)
    save_exchange(tmp_path / "exchange.npz", exchange)
    np.testing.assert_array_equal(load_exchange(tmp_path / "exchange.npz").validation, expected)


def test_a_file_without_validation_rows_can_be_read(tmp_path: Path) -> None:
    save_arrays(tmp_path / "exchange.npz", dict(zip(Exchange._fields[:3], np.zeros((3, 2, 5)), strict=True)))
    assert not load_exchange(tmp_path / "exchange.npz").validation.size


def test_a_single_chain_needs_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = draws_of(2, 20, dependent=True)
    for draws, count in ((pool(theta[:1]), 21), (pool(theta), 0)):
        assert not densities_of_validation(draws, predict, X[:count], Y[:count], classes=0, together=21).size
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    assert not densities_of_validation(pool(theta), predict, X, Y, classes=0, together=21).size
