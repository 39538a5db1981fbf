"""What the log densities of the draws say: fit, distance from 0, and what a fit reached."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from bnn_atlas.metrics.gathering.log_densities import (
    ceiling_measurements,
    course_measurements,
    error_under_noise,
    late_change,
    log_likelihood_measurements,
    optimum_measurements,
    point_noise_measurements,
    settling_measurements,
    shell_measurements,
    size_of,
    variational_measurements,
)
from bnn_atlas.models.layout import Layout, Parameter

THETA = np.zeros((3, 101, 2))


def test_it_is_of_the_second_halves_of_the_kept_chains(memory_pool):
    values = np.random.default_rng(0).normal(304.8, 1.8, size=(3, 101))
    values[:, :50] = -1e6
    values[1] = 0.0
    pool = memory_pool(THETA, {"log_likelihood": values})
    (found,) = log_likelihood_measurements(pool, np.array([0, 2]), 10_000)
    assert found.value == pytest.approx(values[[0, 2], 50:].mean())
    assert found.note == "second halves of the chains, 51 draws each"
    assert found.monte_carlo_error == pytest.approx(1.8 / np.sqrt(102), rel=0.4)


def test_one_draw_has_a_value_without_an_error_and_other_traces_none(memory_pool):
    pool = memory_pool(THETA[:, :1], {"log_likelihood": np.full((3, 1), -7.0)})
    (found,) = log_likelihood_measurements(pool, np.arange(3), 10_000)
    assert (found.value, found.monte_carlo_error) == (-7.0, None)
    assert log_likelihood_measurements(pool, np.arange(0), 10_000) == []
    assert log_likelihood_measurements(memory_pool(THETA), np.arange(3), 10_000) == []


MAX_BYTES, SD = 2**20, 0.4
KEPT = np.arange(3)


def measured(memory_pool, theta, kept=KEPT, prior_sd=SD):
    pool = memory_pool(theta, {"log_prior": norm.logpdf(theta, scale=SD).sum(axis=2)})
    return {row.metric: row for row in shell_measurements(pool, kept, prior_sd, MAX_BYTES)}


def test_it_is_the_mean_square_of_the_draws_in_units_of_the_prior(memory_pool):
    theta = 0.3 * np.random.default_rng(0).normal(size=(3, 200, 50)) + 0.1
    found = measured(memory_pool, theta)
    assert found["prior_shell"].value == pytest.approx((theta**2).mean() / SD**2, rel=1e-12)
    kept = measured(memory_pool, theta, np.array([0, 2]))
    assert kept["prior_shell"].value == pytest.approx((theta[[0, 2]] ** 2).mean() / SD**2, rel=1e-12)


def test_independent_draws_from_the_prior_are_on_its_shell_and_stay_there(memory_pool):
    """With the variance 2 / P of one draw: 600 draws of 50 parameters have a standard error of 0.0082."""
    theta = SD * np.random.default_rng(1).normal(size=(3, 200, 50))
    found = measured(memory_pool, theta)
    error = np.sqrt(2 / 50 / 600)
    assert abs(found["prior_shell"].value - 1) < 4 * error
    assert found["prior_shell"].monte_carlo_error == pytest.approx(error, rel=0.3)
    assert abs(found["prior_shell_shift"].value) < 3


def test_chains_on_their_way_to_the_shell_are_seen(memory_pool):
    theta = SD * np.random.default_rng(2).normal(size=(3, 200, 50)) * np.linspace(0.1, 1, 200)[:, None]
    found = measured(memory_pool, theta)
    assert found["prior_shell"].value < 0.5
    assert found["prior_shell_shift"].value > 3
    backwards = measured(memory_pool, theta[:, ::-1])
    assert backwards["prior_shell_shift"].value < -3


def test_the_shift_is_in_standard_errors(memory_pool):
    """Over many pools of independent draws it is standard normal."""
    rng = np.random.default_rng(3)
    shifts = [measured(memory_pool, SD * rng.normal(size=(3, 100, 20)))["prior_shell_shift"].value for _ in range(300)]
    assert np.mean(shifts) == pytest.approx(0, abs=0.2)
    assert np.std(shifts) == pytest.approx(1, abs=0.15)


def test_without_a_normal_prior_or_without_draws_there_is_none(memory_pool):
    theta = np.random.default_rng(4).normal(size=(3, 20, 5))
    assert measured(memory_pool, theta, prior_sd=None) == {}
    assert measured(memory_pool, theta, kept=KEPT[:0]) == {}
    assert shell_measurements(memory_pool(theta), KEPT, SD, MAX_BYTES) == []
    assert set(measured(memory_pool, theta[:, :1])) == {"prior_shell"}


FITTED = np.zeros((3, 50, 2))


def test_means_errors_and_counts_of_the_kept_chains(memory_pool):
    rng = np.random.default_rng(0)
    elbo = rng.normal(-20, 2, size=(3, 50))
    elbo[1] = np.nan
    statistics = {
        "elbo": elbo,
        "entropy": rng.normal(5, 1, size=(3, 50)),
        "entropy_error": np.full((3, 50), 0.4),
        "entropy_bracket": np.full((3, 50), 0.3),
        "skipped_updates": np.tile([[2], [100], [3]], 50),
        "singular": np.tile(np.arange(50), (3, 1)),
    }
    pool = memory_pool(
        FITTED, statistics, attributes={"notes": {"entropy": "entropy: exact", "entropy_error": "as well"}}
    )
    rows = {m.metric: m for m in variational_measurements(pool, np.array([0, 2]), 10_000)}
    assert set(rows) == set(statistics)
    assert rows["elbo"].value == pytest.approx(elbo[[0, 2]].mean())
    assert rows["elbo"].monte_carlo_error == pytest.approx(2 / np.sqrt(100), rel=0.4)
    # Probes average over draws, what steps are too few for does not.
    assert rows["entropy_error"].value == pytest.approx(0.4 / np.sqrt(100) + 0.3)
    assert rows["entropy_bracket"].value == pytest.approx(0.3)
    assert rows["entropy"].note == "entropy: exact"
    assert rows["entropy_error"].note == "of the mean entropy; 0 is exact; as well"
    assert rows["elbo"].note == ""
    assert rows["skipped_updates"].value == 5
    assert rows["singular"].value == 2 * 49


def test_bounds_of_several_starts_and_the_one_that_is_kept(memory_pool):
    """For each chain; a bound that is not finite is said to be none."""
    bounds, errors = np.array([[-9.0, -3.0], [-np.inf, -4.0], [-5.0, -7.0]]), np.array([[1, 2], [np.inf, 3], [4, 5]])
    statistics = {"elbo": np.zeros((3, 50)), "start_kept": np.tile([[1], [1], [0]], 50)}
    for j in range(2):
        statistics[f"elbo_of_start_{j}"] = np.tile(bounds[:, [j]], 50)
        statistics[f"elbo_error_of_start_{j}"] = np.tile(errors[:, [j]], 50)
        statistics[f"log_likelihood_of_start_{j}"] = np.tile(bounds[:, [j]] / 2, 50)
    pool = memory_pool(FITTED, statistics)
    rows = {(m.metric, m.at): m for m in variational_measurements(pool, np.array([1, 2]), 10_000)}
    assert np.isnan(rows["elbo_of_starts", "1.0"].value)
    assert "no finite density" in rows["elbo_of_starts", "1.0"].note
    found = [rows["elbo_of_starts", at] for at in ("1.1", "2.0", "2.1")]
    assert [(m.value, m.monte_carlo_error) for m in found] == [(-4, 3), (-5, 4), (-7, 5)]
    assert [rows["log_likelihood_of_starts", at].value for at in ("1.1", "2.0", "2.1")] == [-2, -2.5, -3.5]
    assert [rows["start_kept", chain].value for chain in "12"] == [1, 0]
    assert len(rows) == 11


def test_other_methods_have_none(memory_pool):
    assert variational_measurements(memory_pool(FITTED), np.arange(3), 10_000) == []
    pool = memory_pool(FITTED, {"elbo": np.zeros((3, 50))})
    assert variational_measurements(pool, np.arange(0), 10_000) == []


ROWS = 70
LAYOUT = Layout((Parameter("layer0.weight", (2,), "weight", 0, 1, 2), Parameter("log_sigma", (), "scale", None, 1, 1)))


def of_residuals(memory_pool, noise: np.ndarray, residuals: np.ndarray, **changes):
    """A pool whose draws have these residuals [c, s, rows], at noises [c, s]."""
    theta = np.zeros((*noise.shape, 3))
    theta[..., 2] = np.log(noise)
    density = -0.5 * (residuals / noise[..., None]) ** 2 - np.log(noise)[..., None] - 0.5 * np.log(2 * np.pi)
    statistics = {"elbo": np.zeros(noise.shape), "log_likelihood": density.sum(axis=-1)} | changes
    return memory_pool(theta, statistics, layout=LAYOUT)


def test_the_optimum_is_the_root_mean_square_residual(memory_pool):
    residuals = np.random.default_rng(0).normal(0, 0.5, size=(3, 40, ROWS))
    noise = np.repeat([[0.3], [9.0], [0.2]], 40, axis=1)
    pool = of_residuals(memory_pool, noise, residuals)
    kept = np.array([0, 2])
    (found,) = point_noise_measurements(pool, kept, ROWS, 10_000)
    assert found.metric == "noise_sd_optimal"
    assert found.value == pytest.approx(np.sqrt(np.mean(residuals[kept] ** 2)))


def test_only_of_fits_whose_noise_is_one_number(memory_pool):
    residuals = np.random.default_rng(0).normal(size=(2, 40, ROWS))
    point, varying = np.full((2, 40), 0.3), np.random.default_rng(1).uniform(0.2, 0.4, (2, 40))
    whole = of_residuals(memory_pool, point, residuals)
    assert point_noise_measurements(whole, np.arange(2), ROWS, 10_000)
    assert not point_noise_measurements(whole, np.arange(2), None, 10_000)
    assert not point_noise_measurements(whole, np.arange(0), ROWS, 10_000)
    assert not point_noise_measurements(of_residuals(memory_pool, varying, residuals), np.arange(2), ROWS, 10_000)
    assert not point_noise_measurements(
        of_residuals(memory_pool, varying[:, :1], residuals[:, :1]), np.arange(2), ROWS, 10_000
    )
    chains = memory_pool(np.zeros((2, 40, 3)), {"log_likelihood": np.zeros((2, 40))}, layout=LAYOUT)
    assert not point_noise_measurements(chains, np.arange(2), ROWS, 10_000)


def late_shift(memory_pool, log_posterior, kept=KEPT):
    zeros = np.zeros_like(log_posterior)
    pool = memory_pool(np.zeros((*log_posterior.shape, 2)), {"log_likelihood": log_posterior, "log_prior": zeros})
    return settling_measurements(pool, kept, MAX_BYTES)


def test_a_change_is_counted_in_errors_of_the_last_tenths(memory_pool):
    """Means over 100 draws of 3 chains, each with the error 1 / sqrt(300)."""
    noise = np.random.default_rng(1).normal(size=(3, 1000))
    (found,) = late_shift(memory_pool, noise + (np.arange(1000) >= 900))
    assert found.value == pytest.approx(1 / np.sqrt(2 / 300), rel=0.3)
    assert found.note == "last 100 draws minus the 100 before, in standard errors"
    (found,) = late_shift(memory_pool, np.where(np.arange(1000) < 800, -1e6, 0.0) + noise)
    assert abs(found.value) < 3.5, "what came before does not count"


def test_stationary_chains_have_late_shifts_of_about_one(memory_pool):
    """Also correlated ones that stay at different levels: the error then follows from the chains' own differences."""
    rng = np.random.default_rng(2)
    noise = lfilter([1.0], [1.0, -0.9], rng.normal(size=(200, 4, 500)), axis=2)[..., 100:]
    values = noise + 50 * rng.normal(size=(200, 4, 1))
    shifts = [late_shift(memory_pool, one, np.arange(4))[0].value for one in values]
    assert 0.2 < np.sqrt(np.mean(np.square(shifts))) < 1.6
    assert np.mean(np.abs(shifts) > 3) < 0.05


def test_short_or_constant_chains_have_no_late_shift(memory_pool):
    assert late_shift(memory_pool, np.random.default_rng(3).normal(size=(3, 39))) == []
    assert late_shift(memory_pool, np.zeros((3, 100))) == []
    assert late_shift(memory_pool, np.zeros((3, 100)), np.arange(0)) == []
    assert settling_measurements(memory_pool(np.zeros((3, 100, 2))), KEPT, MAX_BYTES) == []


def ceiling(memory_pool, theta, entropy):
    pool = memory_pool(theta, {"entropy": np.full(theta.shape[:2], entropy)})
    return ceiling_measurements(pool, np.arange(len(theta)), 4000)


def test_independent_normals_reach_the_ceiling_of_their_entropy(memory_pool):
    """Also with few draws, and with a parameter that never varies; the error is the spread over repetitions."""
    scales = np.geomspace(0.01, 10, 30)
    entropy = norm.entropy(scale=scales).sum()
    found = []
    for seed in range(60):
        theta = np.random.default_rng(seed).normal(size=(2, 12, 30)) * scales
        (row,) = ceiling(memory_pool, np.concatenate([theta, np.ones((2, 12, 1))], axis=2), entropy)
        found.append(row.value)
    assert np.mean(found) == pytest.approx(entropy, abs=4 * np.std(found) / np.sqrt(60))
    assert row.monte_carlo_error == pytest.approx(np.std(found), rel=0.3)
    assert row.note == "30 parameters vary"


def test_an_entropy_above_the_ceiling_is_said_and_dependence_is_below(memory_pool):
    rng = np.random.default_rng(1)
    common = rng.normal(size=(1, 5000, 1)) + 0.1 * rng.normal(size=(1, 5000, 2))
    covariance = np.array([[1.01, 1.0], [1.0, 1.01]])
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
    (row,) = ceiling(memory_pool, common, entropy)
    assert row.value == pytest.approx(2 * norm.entropy(scale=np.sqrt(1.01)), abs=0.1)
    assert row.value > entropy + 1
    assert "above" not in row.note
    (row,) = ceiling(memory_pool, common, 5.0)
    assert "`entropy` is" in row.note
    assert "above it" in row.note


def test_no_ceiling_without_an_entropy_or_draws(memory_pool):
    theta = np.random.default_rng(2).normal(size=(2, 20, 3))
    assert ceiling_measurements(memory_pool(theta), np.arange(2), MAX_BYTES) == []
    assert ceiling(memory_pool, theta[:, :9], 0.0) == []
    assert ceiling(memory_pool, np.ones((2, 20, 3)), 0.0) == []


def changes(kept=(0, 2), **courses):
    return {one.metric: one for one in course_measurements(courses, np.asarray(kept, int))}


def test_a_fit_is_held_to_the_rule_for_chains():
    """A bound that rises to 20, and one that still rises by 10 in a tenth; a chain that is left out does not count."""
    rng, time = np.random.default_rng(4), np.arange(100.0)
    settled = 20 * -np.expm1(-time / 10) + rng.normal(size=(3, 100))
    settled[1] = np.nan
    found = changes(elbo=settled, kl=np.full((3, 100), 5.0) + 0.01 * rng.normal(size=(3, 100)))
    bound, gain, kl = found["bound_late_change"], found["bound_gain"], found["kl_late_change"]
    assert abs(bound.value) < 3 * bound.monte_carlo_error
    assert bound.monte_carlo_error == pytest.approx(np.sqrt(2 / 10), rel=0.7)
    assert gain.value == pytest.approx(20 - settled[[0, 2], :10].mean(), abs=2)
    assert abs(kl.value) < 0.002
    moving = changes(elbo=settled + time, kl=50 + np.tile(time, (3, 1)))
    bound, kl = moving["bound_late_change"], moving["kl_late_change"]
    assert bound.value == pytest.approx(10, abs=2)
    assert bound.value > 3 * bound.monte_carlo_error
    assert kl.value == pytest.approx(10 / (50 + 94.5))
    assert kl.value > 3 * kl.monte_carlo_error, "also without noise"


def test_of_several_fits_the_one_that_moved_most_is_judged_by_its_own_error():
    """Rises of 10 and 100 in a tenth, whose mean has a spread of 45: no fit hides the movement of another."""
    rng, time = np.random.default_rng(6), np.arange(100.0)
    slopes = np.array([[1.0], [0.0], [10.0]])
    found = changes(elbo=slopes * time + rng.normal(size=(3, 100)))
    bound, gain = found["bound_late_change"], found["bound_gain"]
    assert bound.value > 3 * bound.monte_carlo_error
    assert bound.note == "last tenth of the steps minus the tenth before; chain 2, the worst of 2"
    assert gain.note == "last tenth of the steps minus the first; chain 0, the worst of 2", "which rose less"
    wide = np.stack([40 * rng.normal(size=100), 0.5 * time, 0.01 * time])
    assert "chain 1" in changes((0, 1, 2), elbo=wide)["bound_late_change"].note, "the first is within its error"
    assert "chain 0" in changes((0, 2), elbo=wide)["bound_late_change"].note, "both are fine"
    assert changes(objective=slopes * time) == changes(elbo=slopes * time), "what implicit fits maximise"
    one = changes((2,), elbo=slopes * time)["bound_late_change"]
    assert (one.value, one.note) == (pytest.approx(100), "last tenth of the steps minus the tenth before")


def test_a_loss_on_validation_rows_may_rise_and_one_on_training_rows_may_not():
    """The worst member is that which falls most, or that which moves most."""
    time = np.arange(100.0)
    losses = np.stack([0.01 * time, 0 * time, -0.005 * time]) + 1e-4 * np.random.default_rng(7).normal(size=(3, 100))
    for name, value, chain in (("validation_loss", -0.05, 2), ("training_loss", 0.1, 0)):
        found = changes(**{name: losses})["loss_late_change"]
        assert found.value == pytest.approx(value, abs=1e-3)
        words = name.replace("_", " ")
        assert found.note == f"{words}; last tenth of the epochs minus the tenth before; chain {chain}, the worst of 2"


def test_a_course_that_is_short_constant_or_not_finite_says_nothing(memory_pool):
    """Points before the last two tenths need not be finite, but the gain since the first tenth is then not known."""
    noise = np.random.default_rng(5).normal(size=(3, 100))
    assert set(changes(validation_loss=noise)) == {"loss_late_change"}
    late = np.where(np.arange(100) == 85, np.inf, noise)
    for course in (noise[:, :39], np.zeros((3, 100)), np.where(np.arange(100) == 95, np.nan, noise)):
        assert not changes(elbo=course)
    assert set(changes(elbo=late)) == {"bound_gain"}
    assert set(changes(elbo=np.where(np.arange(100) == 5, -np.inf, noise))) == {"bound_late_change"}
    early = np.where(np.arange(100) == 49, -np.inf, noise)
    assert changes(elbo=early) == changes(elbo=noise)
    assert late_shift(memory_pool, early) == late_shift(memory_pool, noise)
    assert late_shift(memory_pool, late) == []
    one = noise.copy()
    one[2, 99] = np.nan
    assert changes(elbo=one)["bound_late_change"].value == changes((0,), elbo=noise)["bound_late_change"].value
    assert not changes((), elbo=noise)
    assert not changes()


def test_an_optimum_that_is_not_finite_is_counted(memory_pool):
    """A value of the others does not stand for it, and without others there is none; chains left out do not count."""
    pool, rises = memory_pool(THETA), np.array([0.7, np.nan, 1.4])
    (found,) = optimum_measurements(pool, KEPT, rises, 70, MAX_BYTES)
    assert found.value == pytest.approx(0.02)
    how = "at most 50 further gradients"
    assert found.note == f"not finite for 1 of 3 chains; {how}; chain 2, the worst of 2"
    (found,) = optimum_measurements(pool, KEPT, np.full(3, np.nan), 70, MAX_BYTES)
    assert np.isnan(found.value)
    assert found.note == f"not finite for 3 of 3 chains; {how}"
    (found,) = optimum_measurements(pool, np.array([0, 2]), rises, 70, MAX_BYTES)
    assert found.note == f"{how}; chain 2, the worst of 2"
    assert optimum_measurements(pool, KEPT[:0], rises, 70, MAX_BYTES) == []


def test_the_decrement_is_in_standard_deviations_of_the_tempered_posterior(memory_pool):
    pool = memory_pool(THETA, {"newton_decrement": np.full((3, 101), 0.6)})
    (found,) = optimum_measurements(pool, KEPT, np.empty(0), None, MAX_BYTES, temperature=0.25)
    assert found.value == pytest.approx(1.2)


def autoregressive(correlation, fits, points=100, seed=0):
    """Courses [fit, point] of variance 1."""
    noise = np.random.default_rng(seed).standard_normal((fits, points))
    noise[:, 1:] *= np.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], noise, axis=1)


def alarms(courses):
    return np.array([size_of("bound_late_change", late_change(one[None]), falls=False)[0] for one in courses])


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_autocorrelated_noise_raises_few_false_alarms_and_hides_no_drift(correlation):
    """Three errors are nominally beyond 0.3 % of settled fits, and 3 % of the worst of ten.

    Without `error_under_noise`, it is 6 % of fits at an autocorrelation of 0.5, and 30 % at 0.9.
    """
    settled, time = 100 * autoregressive(correlation, 2000), np.arange(100)
    alarmed = alarms(settled)
    assert alarmed.mean() < 0.01
    assert alarmed.reshape(-1, 10).any(axis=1).mean() < 0.1
    assert alarms(settled[:100] + 100 * time).mean() > 0.95, "a straight rise, by ten sd in a tenth"
    assert alarms(settled[:100] - 3e5 * np.exp(-time / 20)).mean() > 0.95, "a rise that slows down"


def test_the_error_under_noise_is_that_of_the_difference_and_a_little_more():
    """Compared with the spread of differences of settled courses, of one chain and of the mean over four."""
    courses = autoregressive(0.8, 2000, points=2000)
    for chains in (1, 4):
        of_chains = courses.reshape(-1, chains, 2000)
        spread = np.std(of_chains[..., -40:].mean(axis=(1, 2)) - of_chains[..., -80:-40].mean(axis=(1, 2)))
        errors = [error_under_noise(one, 40, 40) for one in of_chains[:200]]
        assert 1 < np.median(errors) / spread < 1.2
