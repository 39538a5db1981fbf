"""Monte Carlo errors of scores against the spread over runs with other chains."""

import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.metrics.formulas import averages
from bnn_atlas.metrics.formulas.classification import compare
from bnn_atlas.metrics.gathering.streaming import summarise
from bnn_atlas.metrics.judgement import monte_carlo, sets
from bnn_atlas.metrics.judgement.measure import COVERAGE_LEVELS, prediction_measurements
from bnn_atlas.metrics.tables.measurement import RunIdentity

RUN = RunIdentity("study", "run", "demo", 0, "data", "mlp 16", "hmc")
LEVELS = np.array(COVERAGE_LEVELS)
X = np.random.default_rng(5).normal(size=(60, 2))
Y = X @ [0.5, -1.0] + 0.5 * np.random.default_rng(6).normal(size=60)


def draws(rng: np.random.Generator, chains: int, length: int = 20) -> np.ndarray:
    """Chains that stay where they start, as those of a network do."""
    start = rng.normal(size=(chains, 1, 3)) * 0.4 + np.array([0.5, -1.0, -0.5])
    return start + 0.05 * rng.normal(size=(chains, length, 3))


@pytest.mark.parametrize("chains", [8, 45])
def test_the_error_is_the_spread_over_runs(memory_pool, predict_linear, chains):
    rng = np.random.default_rng(0)
    values, errors = [], []
    for _ in range(60):
        summary = summarise(memory_pool(draws(rng, chains, 4)), predict_linear, X, Y)
        found = {m.metric: m for m in prediction_measurements(summary, Y, 1.0, "mclmc") if m.metric in ("lppd", "rmse")}
        values.append([found[name].value for name in ("lppd", "rmse")])
        errors.append([found[name].monte_carlo_error for name in ("lppd", "rmse")])
    spread, claimed = np.std(values, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))
    np.testing.assert_allclose(claimed, spread, rtol=0.4)


def test_of_few_chains_it_is_the_plain_jackknife(memory_pool, predict_linear):
    theta = draws(np.random.default_rng(1), 5)
    summary = summarise(memory_pool(theta), predict_linear, X, Y)
    left_out = [
        summarise(memory_pool(np.delete(theta, c, axis=0)), predict_linear, X, Y).log_density_by_chain for c in range(5)
    ]
    lppds = np.array([(np.log(np.exp(chains).mean(axis=0))).mean() for chains in left_out])
    expected = np.sqrt(4 / 5 * np.square(lppds - lppds.mean()).sum())
    errors = monte_carlo.monte_carlo_errors(summary, Y, 2.0, LEVELS)
    assert errors["lppd", ""] == errors["nll", ""] == pytest.approx(expected)
    assert errors["rmse_original_units", ""] == pytest.approx(2 * errors["rmse", ""])
    assert ("coverage", "0.9") in errors


def test_classification_has_errors_of_its_scores(memory_pool, predict_softmax):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, size=60)
    summary = summarise(memory_pool(rng.normal(size=(4, 30, 6))), predict_softmax, X, labels, classes=3)
    found = {m.metric: m.monte_carlo_error for m in prediction_measurements(summary, labels, 1.0, "mclmc")}
    assert all(found[name] > 0 for name in ("lppd", "nll", "accuracy", "brier", "predictive_entropy", "ece"))
    assert found["lppd_cumulative_chains"] is None


def test_distances_to_a_reference_have_the_jackknife_over_chains(memory_pool, predict_softmax):
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 3, size=60)
    own = summarise(memory_pool(rng.normal(size=(4, 30, 6))), predict_softmax, X, labels, classes=3)
    other = summarise(memory_pool(rng.normal(size=(2, 30, 6))), predict_softmax, X, labels, classes=3)
    reference = other.probabilities.mean(axis=0)
    left_out = [compare(np.delete(own.probabilities, c, axis=0).mean(axis=0), reference) for c in range(4)]
    found = monte_carlo.comparison_errors(own, reference)
    for name in ("agreement", "total_variation"):
        values = np.array([getattr(one, name) for one in left_out])
        assert found[name] == pytest.approx(np.sqrt(3 / 4 * np.square(values - values.mean()).sum()))
    rows = {row.metric: row for row in sets.reference_rows(RUN, "hmc", own, other)}
    assert rows["agreement"].monte_carlo_error == pytest.approx(found["agreement"])
    one_draw = summarise(memory_pool(rng.normal(size=(1, 1, 6))), predict_softmax, X, labels, classes=3)
    assert monte_carlo.comparison_errors(one_draw, reference) == {}


def test_one_chain_has_batches_of_draws(memory_pool, predict_linear, predict_softmax):
    rng = np.random.default_rng(3)
    summary = summarise(memory_pool(draws(rng, 1, 200)), predict_linear, X, Y)
    errors = monte_carlo.monte_carlo_errors(summary, Y, 1.0, LEVELS)
    assert set(errors) == {("lppd", ""), ("nll", ""), ("lppd_original_units", "")}
    assert 0 < errors["lppd", ""] < 0.1
    labels = rng.integers(0, 3, size=60)
    single = summarise(memory_pool(rng.normal(size=(1, 40, 6))), predict_softmax, X, labels, classes=3)
    assert ("accuracy", "") in monte_carlo.monte_carlo_errors(single, labels, 1.0, LEVELS)


def test_one_draw_of_one_chain_has_no_error(memory_pool, predict_linear):
    summary = summarise(memory_pool(draws(np.random.default_rng(4), 1, 1)), predict_linear, X, Y)
    assert monte_carlo.monte_carlo_errors(summary, Y, 1.0, LEVELS) == {}


def test_scores_at_infinity_remove_the_bias_of_few_draws(memory_pool, predict_linear):
    """Means N(0, 1) of N(mean, 1): infinitely many draws predict N(0, 2), whatever the row.

    The targets are N(1, 2), so that scores are not stationary in the mean, where a jackknife error is too large.
    """
    rng, x = np.random.default_rng(3), np.ones((100, 1))
    y = 1 + np.sqrt(2) * rng.normal(size=100)
    truth = {"lppd": norm.logpdf(y, 0, np.sqrt(2)).mean(), "rmse": np.sqrt((y**2).mean())}
    plain, found, errors = [], [], []
    for _ in range(300):
        theta = np.concatenate([rng.normal(size=(6, 5, 1)), np.zeros((6, 5, 1))], axis=2)
        summary = summarise(memory_pool(theta), predict_linear, x, y)
        rows = {m.metric: m for m in monte_carlo.scores_at_infinity(summary, y)}
        plain.append(averages.mixture_log_density(summary.log_density_by_chain).mean())
        found.append([rows[f"{name}_at_infinity"].value for name in truth])
        errors.append([rows[f"{name}_at_infinity"].monte_carlo_error for name in truth])
    limit = np.array(list(truth.values()))
    bias, left, spread = np.mean(plain) - limit[0], np.mean(found, axis=0) - limit, np.std(found, axis=0)
    standard = spread / np.sqrt(300)
    assert bias < -4 * standard[0]
    np.testing.assert_array_less(np.abs(left), 3 * standard)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(errors), axis=0)), spread, rtol=0.3)
    assert rows["lppd_at_infinity"].note == "jackknife over 6 parts, each a chain"


@pytest.mark.parametrize(("chains", "of"), [(3, "chain"), (45, "group of chains"), (1, "batch of draws")])
def test_the_brier_score_at_infinity_is_that_of_pairs_of_parts(memory_pool, predict_softmax, chains, of):
    """The Brier score is a square, so its limit is exact: products of different parts only."""
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, size=60)
    summary = summarise(memory_pool(rng.normal(size=(chains, 40, 6))), predict_softmax, X, labels, classes=3)
    (found,) = (m for m in monte_carlo.scores_at_infinity(summary, labels) if m.metric == "brier_at_infinity")
    assert found.note.endswith(f"each a {of}")
    if chains != 3:
        assert found.monte_carlo_error > 0
        return
    off = summary.probabilities - np.eye(3)[labels]
    pairs = [(off[g] * off[h]).sum(axis=1).mean() for g in range(3) for h in range(3) if g != h]
    assert found.value == pytest.approx(np.mean(pairs))


def test_two_chains_have_a_limit_without_an_error_and_one_draw_has_none(memory_pool, predict_linear):
    theta = draws(np.random.default_rng(5), 2)
    found = monte_carlo.scores_at_infinity(summarise(memory_pool(theta), predict_linear, X, Y), Y)
    assert [m.monte_carlo_error for m in found] == [None, None]
    assert not monte_carlo.scores_at_infinity(summarise(memory_pool(theta[:1, :1]), predict_linear, X, Y), Y)
