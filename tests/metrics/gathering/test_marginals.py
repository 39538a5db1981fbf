"""Distance of the weights' marginals to their prior."""

import numpy as np
import pytest
from scipy.stats import kstest

from bnn_atlas.metrics.formulas.repetitions import GROUPS, jackknife
from bnn_atlas.metrics.gathering.marginals import (
    BINS,
    OF_MARGINALS,
    dead_input_measurements,
    direction_measurements,
    marginal_measurements,
)
from bnn_atlas.models.layout import Layout, Parameter

LAYOUT = Layout(
    (Parameter("layer0.weight", (2, 3), "weight", 0, 3, 2), Parameter("layer0.bias", (2,), "bias", 0, 3, 2))
)


def jackknives(pool, kept, measured):
    """The errors of what is measured of a pool, and those of a jackknife over the chains `kept`."""
    left_out = [{(m.metric, m.at): m.value for m in measured(pool, np.delete(kept, i))} for i in range(len(kept))]
    found = {(m.metric, m.at): m.monte_carlo_error for m in measured(pool, kept)}
    return found, {key: jackknife(np.array([one[key] for one in left_out])) for key in found}


def measured(pool, kept, sd):
    return {(m.metric, m.at): m.value for m in marginal_measurements(pool, kept, sd, 4096)}


def test_the_distance_is_that_of_kolmogorov_and_smirnov(memory_pool):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(4, 50, 8)).astype(np.float32)
    theta[..., 6:] = 3 + 0.1 * theta[..., 6:]
    kept = np.array([0, 1, 3])
    found = measured(memory_pool(theta, layout=LAYOUT), kept, 2.0)
    for name, part in (("layer0.weight", slice(0, 6)), ("layer0.bias", slice(6, 8))):
        values = theta[kept][..., part].ravel().astype(float)
        assert found["prior_distance", name] == pytest.approx(kstest(values / 2.0, "norm").statistic, abs=2 / BINS)
        assert found["marginal_sd", name] == pytest.approx(values.std(), rel=1e-6)
    assert found["prior_distance", "layer0.bias"] > 0.8


def test_draws_of_the_prior_are_at_no_distance(memory_pool):
    theta = 0.5 * np.random.default_rng(1).normal(size=(5, 2000, 8))
    pool = memory_pool(theta, layout=LAYOUT)
    assert measured(pool, np.arange(5), 0.5)["prior_distance", "layer0.weight"] < 0.02
    assert measured(pool, np.arange(5), 1.0)["prior_distance", "layer0.weight"] == pytest.approx(0.16, abs=0.02)


def test_errors_are_those_of_a_jackknife_over_chains(memory_pool):
    """In a linear network of three inputs and two units, whose second input is dead; 60 chains make 20 groups."""
    layout = Layout((Parameter("layer0.weight", (2, 3), "weight", 0, 3, 2),
                     Parameter("layer1.weight", (3, 2), "weight", 1, 2, 3)))  # fmt: skip
    rng, dead = np.random.default_rng(2), np.array([False, True, False])
    theta = rng.normal(size=(60, 30, 12)) * rng.uniform(0.5, 1.5, size=(60, 1, 1))
    pool = memory_pool(theta, layout=layout)

    def everything(pool, kept):
        return [*marginal_measurements(pool, kept, 1.0, 4096), *dead_input_measurements(pool, kept, dead, 4096)]

    found, expected = jackknives(pool, np.array([1, 4, 5, 9]), everything)
    assert {metric for metric, _ in found} == {*OF_MARGINALS}
    assert found == pytest.approx(expected)
    of_all = {(m.metric, m.at): m.monte_carlo_error for m in everything(pool, np.arange(60))}
    groups = [np.delete(np.arange(60), part) for part in np.array_split(np.arange(60), GROUPS)]
    sds = [measured(pool, rest, 1.0)["marginal_sd", "layer0.weight"] for rest in groups]
    assert of_all["marginal_sd", "layer0.weight"] == pytest.approx(jackknife(np.array(sds)))
    assert {m.monte_carlo_error for m in everything(pool, np.array([7]))} == {None}


def test_both_signs_and_the_prior_s_circle_of_a_linear_network(memory_pool):
    """Five draws of two units: the first has w1 = w2 = 1 or -1, inside the circle of radius 2.45, the second is
    outside."""
    layout = Layout((Parameter("layer0.weight", (2, 1), "weight", 0, 1, 2),
                     Parameter("layer1.weight", (1, 2), "weight", 1, 2, 1)))  # fmt: skip
    sign = np.array([1.0, 1.0, 1.0, -1.0, 1.0])
    theta = np.stack([sign, 2 * sign, sign, 2 * sign], axis=1)[None]
    found = measured(memory_pool(theta, layout=layout), np.arange(1), 1.0)
    assert found["smaller_sign_share", "layer0.weight"] == pytest.approx(0.2)
    assert found["prior_circle_share", ""] == 0.5
    assert measured(memory_pool(theta, layout=layout), np.arange(1), 2.0)["prior_circle_share", ""] == 1.0
    biased = Layout((*layout.parameters, Parameter("layer1.bias", (1,), "bias", 1, 2, 1)))
    with_bias = np.concatenate([theta, np.ones((1, 5, 1))], axis=2)
    assert measured(memory_pool(with_bias, layout=biased), np.arange(1), 1.0)["prior_circle_share", ""] == 0.5


def test_without_such_a_prior_there_is_no_distance_and_without_chains_nothing(memory_pool):
    pool = memory_pool(np.ones((2, 9, 8)), layout=LAYOUT)
    assert {name for name, _ in measured(pool, np.arange(2), None)} == {"marginal_sd", "smaller_sign_share"}
    assert measured(pool, np.arange(0), 1.0) == {}


LINE = Layout((Parameter("layer0.weight", (1, 5), "weight", 0, 5, 1), Parameter("log_sigma", (), "scale", None, 1, 1)))
SD, NOISE = 0.7, 0.4


def line(temperature):
    """Inputs [40, 5] of rank 3 (one is 0, one the sum of two others), and draws of N(m, T C) for their targets."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 5)) * [3.0, 0.1, 1.0, 1.0, 0.0]
    x[:, 3] = x[:, 0] + x[:, 2]
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(5) / SD**2)
    mean = covariance @ x.T @ (x @ [0.3, -2.0, 1.0, 0.5, 9.0] + NOISE * rng.normal(size=40)) / NOISE**2
    draws = rng.multivariate_normal(mean, temperature * covariance, size=(6, 2000))
    return x, mean, covariance, np.concatenate([draws, np.zeros((6, 2000, 1))], axis=2)


def by_direction(pool, kept, moments, temperature=1.0, sd=SD, max_bytes=4096):
    return {m.metric: m for m in direction_measurements(pool, kept, moments, sd, max_bytes, temperature)}


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_a_linear_regression_has_its_closed_form_in_both_kinds_of_directions(memory_pool, temperature):
    x, mean, covariance, theta = line(temperature)
    moments = x.T @ x / 40
    found = by_direction(memory_pool(theta, layout=LINE), np.array([0, 1, 2, 4, 5]), moments, temperature)
    expected = mean @ moments @ mean + temperature * np.trace(moments @ covariance)
    determined, undetermined = found["prior_shell_determined"], found["prior_shell_undetermined"]
    for one, value in ((determined, expected / (SD**2 * np.trace(moments))), (undetermined, temperature)):
        assert 0 < one.monte_carlo_error < 0.1 * value
        assert abs(one.value - value) < 4 * one.monte_carlo_error
    assert determined.note == f"3 of 5 directions of the inputs; draws from the prior have {temperature:g}"
    assert undetermined.note.startswith("2 of 5 directions of the inputs; draws from the posterior have")


def test_only_the_draws_that_count_are_read(memory_pool):
    """500 of 20,000 draws of six chains, whatever lies between them."""
    x, _, _, theta = line(1.0)
    pool = memory_pool(np.tile(theta, (1, 10, 1)), layout=LINE)
    found = by_direction(pool, np.arange(6), x.T @ x / 40, max_bytes=4096)
    assert 0 < pool.largest <= 4096
    assert found == by_direction(pool, np.arange(6), x.T @ x / 40, max_bytes=10**9)
    assert pool.largest == 500 * 5 * 8


def test_rotating_inputs_and_weights_changes_nothing(memory_pool):
    x, _, _, theta = line(1.0)
    q = np.linalg.qr(np.random.default_rng(6).normal(size=(5, 5)))[0]
    turned = np.concatenate([theta[..., :5] @ q, theta[..., 5:]], axis=2)
    pools, inputs = (memory_pool(t, layout=LINE) for t in (theta, turned)), (x, x @ q)
    one, other = (by_direction(p, np.arange(6), i.T @ i / 40) for p, i in zip(pools, inputs, strict=True))
    assert {name: m.value for name, m in one.items()} == pytest.approx({name: m.value for name, m in other.items()})


def test_draws_that_are_no_draws_of_the_posterior_show_where_no_row_says_anything(memory_pool):
    """As at a trained network with weight decay: weights of directions without data are 0."""
    x, _, _, theta = line(1.0)
    shrunk = theta[..., :5] @ np.linalg.pinv(x) @ x
    pool = memory_pool(np.concatenate([shrunk, theta[..., 5:]], axis=2), layout=LINE)
    found = by_direction(pool, np.arange(6), x.T @ x / 40)
    assert found["prior_shell_undetermined"].value < 1e-10
    intact = by_direction(memory_pool(theta, layout=LINE), np.arange(6), x.T @ x / 40)["prior_shell_determined"].value
    assert found["prior_shell_determined"].value == pytest.approx(intact)


def test_without_a_dense_first_layer_a_normal_prior_or_a_null_space_there_is_less(memory_pool):
    x, _, _, theta = line(1.0)
    pool, moments, kept = memory_pool(theta[:, :9], layout=LINE), x.T @ x / 40, np.arange(6)
    assert set(by_direction(pool, kept, np.eye(5))) == {"prior_shell_determined"}
    assert not by_direction(pool, kept, None)
    assert not by_direction(pool, kept, np.eye(4))
    assert not by_direction(pool, kept, np.zeros((5, 5)))
    assert not by_direction(pool, kept, moments, sd=None)
    assert not by_direction(pool, kept[:0], moments)
