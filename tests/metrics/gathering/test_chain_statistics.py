"""Summaries of chains from the per-draw statistics, and the rows made from them."""

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.metrics.gathering.chain_statistics import LINES, stuck_chains, summarise_statistics
from bnn_atlas.metrics.gathering.sampling import bfmi_measurements, covariance_bias, sampling_measurements

EVERY = ("log_likelihood", "log_prior", "energy_change", "energy_change_squared", "acceptance", "divergent", "guarded",
         "step_size", "gradients", "cut_short")  # fmt: skip


def reported(chains: int, draws: int, dtype=np.float32) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=(chains, draws)).astype(dtype) for name in EVERY[:4]}
    values["energy_change_squared"] = values["energy_change"] ** 2
    for name in ("acceptance", "cut_short"):
        values[name] = rng.uniform(size=(chains, draws)).astype(dtype)
    for name in ("divergent", "guarded", "gradients"):
        values[name] = rng.integers(0, 5, (chains, draws)).astype(np.int32)
    values["step_size"] = rng.uniform(0.01, 0.1, (chains, draws)).astype(dtype)
    return values


def summary(memory_pool, statistics, max_bytes=2**20, points=200):
    chains, draws = next(iter(statistics.values())).shape if statistics else (3, 5)
    return summarise_statistics(memory_pool(np.zeros((chains, draws, 2)), statistics), max_bytes, points)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_column_is_that_of_numpy(memory_pool, dtype):
    values = reported(4, 30, dtype)
    found = summary(memory_pool, values).chains
    log_posterior = values["log_likelihood"].astype(float) + values["log_prior"]
    energy = values["energy_change"].astype(float)
    expected = {
        "log_posterior_mean": log_posterior.mean(axis=1),
        "log_posterior_sd": log_posterior.std(axis=1, ddof=1),
        "acceptance_mean": values["acceptance"].mean(axis=1, dtype=float),
        "cut_short_share": values["cut_short"].mean(axis=1, dtype=float),
        "divergences": values["divergent"].sum(axis=1),
        "guarded": values["guarded"].sum(axis=1),
        "energy_change_mean": energy.mean(axis=1),
        "energy_change_sd": energy.std(axis=1, ddof=1),
        "energy_change_max_abs": np.abs(energy).max(axis=1),
        "energy_change_nonfinite": np.zeros(4),
        "energy_change_mean_square": values["energy_change_squared"].mean(axis=1, dtype=float),
        "energy_change_mean_square_nonfinite": np.zeros(4),
        "step_size_min": values["step_size"].min(axis=1),
        "step_size_median": np.median(values["step_size"].astype(float), axis=1),
        "step_size_max": values["step_size"].max(axis=1),
        "gradients": values["gradients"].sum(axis=1),
    }
    assert list(found.columns) == ["chain", *expected]
    for name, column in expected.items():
        np.testing.assert_allclose(found[name], column, rtol=1e-12, err_msg=name)


def test_values_that_are_not_finite_are_left_out_of_their_own_chain_only(memory_pool):
    values = {"energy_change": np.array([[1.0, np.inf, 3.0, np.nan], [np.nan] * 4, [2.0, 2.0, 2.0, 4.0]]),
              "step_size": np.array([[0.1, np.nan, 0.3, 0.3], [np.nan] * 4, [0.2] * 4])}  # fmt: skip
    found = summary(memory_pool, values).chains
    np.testing.assert_array_equal(found["energy_change_mean"], [2.0, np.nan, 2.5])
    np.testing.assert_allclose(found["energy_change_sd"], [np.sqrt(2), np.nan, 1.0])
    np.testing.assert_array_equal(found["energy_change_max_abs"], [3.0, np.nan, 4.0])
    np.testing.assert_array_equal(found["energy_change_nonfinite"], [2, 4, 0])
    np.testing.assert_array_equal(found["step_size_median"], [0.3, np.nan, 0.2])
    np.testing.assert_array_equal(found["step_size_min"], [0.1, np.nan, 0.2])


def test_what_is_not_reported_leaves_empty_columns_and_no_row(memory_pool):
    stated = summary(memory_pool, {})
    assert stated.chains.drop(columns="chain").isna().all(axis=None)
    assert stated.courses == {}
    assert sampling_measurements(stated.chains, np.arange(3), 2, 5, 100) == []


def test_memory_does_not_grow_with_the_run_and_no_bit_depends_on_it(memory_pool):
    values = reported(40, 300)
    pool = memory_pool(np.zeros((40, 300, 2)), values)
    whole = summarise_statistics(pool, 2**30, 50)
    assert pool.largest == 40 * 300 * 4
    pool.largest = 0
    few = summarise_statistics(pool, 6 * 8 * 300 * 3, 50)
    assert pool.largest == 3 * 300 * 4
    pd.testing.assert_frame_equal(whole.chains, few.chains, check_exact=True)
    for name, course in whole.courses.items():
        np.testing.assert_array_equal(course.mean, few.courses[name].mean)
        assert course.mean.shape == (40, 50)
        assert course.low.shape == (40, 0), "extremes are for chains that are drawn one by one"
    assert len(few.chains) > LINES


def test_chains_that_stand_are_found_in_pieces(memory_pool):
    likelihood = np.random.default_rng(0).normal(size=(5, 20))
    likelihood[[1, 4]] = -3.0
    pool = memory_pool(np.zeros((5, 20, 2)), {"log_likelihood": likelihood})
    for max_bytes in (1, 2**20):
        assert stuck_chains(pool, max_bytes).tolist() == [False, True, False, False, True]
    pool.values["log_likelihood"][:] = -3.0
    assert stuck_chains(pool, 1).all()


def rows_of(memory_pool, values, dimensions=2, steps=None, kept=None):
    stated = summary(memory_pool, values)
    chains, draws = next(iter(values.values())).shape
    kept = np.arange(chains) if kept is None else np.array(kept)
    rows = sampling_measurements(stated.chains, kept, dimensions, draws, steps)
    assert len({row.metric for row in rows}) == len(rows)
    return {row.metric: row for row in rows}


def test_acceptance_step_size_and_divergences_by_hand(memory_pool):
    values = {
        "acceptance": np.array([[0.5, 0.7], [0.9, 0.9], [0.0, 0.0]]),
        "step_size": np.array([[0.1, 0.3], [0.4, 0.4], [9.0, 9.0]]),
        "divergent": np.array([[1, 0], [0, 0], [30, 10]]),
    }
    values["cut_short"] = np.array([[0.0, 0.2], [1.0, 0.9], [1.0, 1.0]])
    rows = rows_of(memory_pool, values, steps=20, kept=[0, 1])
    assert rows["cut_short_share"].value == pytest.approx((0.1 + 0.95) / 2)
    assert rows["cut_short_share_chain_max"].value == pytest.approx(0.95)
    assert rows["acceptance_mean"].value == pytest.approx(0.75)
    assert rows["acceptance_mean"].standard_error == pytest.approx(0.15)
    assert rows["acceptance_mean"].over == "chains"
    assert rows["acceptance_chain_min"].value == pytest.approx(0.6)
    assert rows["step_size_min"].value == 0.1
    assert rows["step_size_median"].value == pytest.approx((0.2 + 0.4) / 2)
    assert rows["step_size_max"].value == 0.4
    assert (rows["divergences"].value, rows["divergences"].chains) == (41, 3)
    assert rows["divergences_chains"].value == 2
    assert rows["divergence_share"].value == pytest.approx(41 / 60)
    assert "divergence_share" not in rows_of(memory_pool, values)


def test_energy_is_pooled_over_the_finite_values(memory_pool):
    values = {"energy_change": np.array([[1.0, 3.0, np.inf], [5.0, np.nan, np.nan]])}
    rows = rows_of(memory_pool, values, dimensions=4)
    assert rows["energy_change_mean"].value == pytest.approx(3.0)
    assert rows["energy_change_mean"].note == "3 of 6 values are not finite and left out"
    assert rows["energy_change_sd"].value == pytest.approx(np.sqrt(2))
    assert rows["energy_change_variance_per_dimension"].value == pytest.approx(2 / 4)
    assert rows["energy_change_max_abs"].value == 5
    assert rows["energy_change_nonfinite"].value == 3
    nothing = rows_of(memory_pool, {"energy_change": np.full((2, 4), np.inf)})
    assert np.isnan([nothing[f"energy_change_{name}"].value for name in ("mean", "max_abs")]).all()
    assert nothing["energy_change_mean"].note == "8 of 8 values are not finite and left out"


def test_bias_is_stated_only_without_metropolis_test_and_only_where_a_bound_is_known(memory_pool):
    squares = np.full((2, 3), 5e-4 * 10)
    row = rows_of(memory_pool, {"energy_change_squared": squares}, dimensions=10)["covariance_bias_bound"]
    assert row.value == pytest.approx(0.0516, abs=1e-3)
    assert "Gaussian" in row.note
    far = rows_of(memory_pool, {"energy_change_squared": 100 * squares}, dimensions=10)["covariance_bias_bound"]
    assert np.isnan(far.value)
    assert "no bound is known" in far.note
    both = {"energy_change_squared": squares, "acceptance": np.ones((2, 3))}
    assert "covariance_bias_bound" not in rows_of(memory_pool, both)


def test_bias_solves_its_equation_and_is_that_of_leapfrog_steps():
    for variance in (1e-8, 5e-4, 0.033):
        bias = covariance_bias(variance)
        assert 4 * bias**3 / (1 + bias) ** 2 == pytest.approx(variance)
    # Leapfrog with step h on a standard normal: variance 1 / (1 - h^2/4), energy variance 4 x^3 / (1 - x), x = h^2/4.
    x = 0.3**2 / 4
    assert covariance_bias(4 * x**3 / (1 - x)) == pytest.approx(1 / (1 - x) - 1)
    assert covariance_bias(0.0) == 0.0
    assert np.isnan(covariance_bias(0.0331))
    assert np.isnan(covariance_bias(float("nan")))


DIMENSIONS = 40


def spread(*deviations: float) -> pd.DataFrame:
    return pd.DataFrame({"log_posterior_sd": deviations})


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_it_is_the_share_of_the_energy_that_momenta_renew(temperature: float) -> None:
    """Energies of a Gaussian target whose log posterior varies more than that of d independent normals."""
    rng = np.random.default_rng(0)
    log_posterior = rng.normal(scale=9.0, size=400_000)
    kinetic = rng.chisquare(DIMENSIONS, log_posterior.size) / 2
    simulated = kinetic.var() / (kinetic - log_posterior / temperature).var()
    (found,) = bfmi_measurements(spread(log_posterior.std()), np.array([0]), "hmc", DIMENSIONS, temperature)
    assert found.value == pytest.approx(simulated, rel=0.02)


def test_a_normal_target_has_one_half() -> None:
    (found,) = bfmi_measurements(spread((DIMENSIONS / 2) ** 0.5), np.array([0]), "nuts", DIMENSIONS, 1.0)
    assert found.value == pytest.approx(0.5)


def test_the_lowest_of_the_kept_chains_counts_and_other_methods_have_none() -> None:
    several = spread(1.0, 30.0, 500.0, np.nan)
    (found,) = bfmi_measurements(several, np.array([0, 1, 3]), "hmc", DIMENSIONS, 1.0)
    assert found.value == pytest.approx(20 / 920)
    assert bfmi_measurements(several, np.array([0, 1]), "mclmc", DIMENSIONS, 1.0) == []
    assert bfmi_measurements(several, np.array([3]), "hmc", DIMENSIONS, 1.0) == []
