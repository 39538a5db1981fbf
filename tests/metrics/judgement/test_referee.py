"""A run beside its referee."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.judgement.referee import Refereed, ess_of_chains, judge, rhat_of_halves, shift, trend
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError
from bnn_atlas.metrics.tables.parquet import REFEREE_SCHEMA

CHAINS, DRAWS, ROWS = 3, 600, 40
NOTHING = np.empty(0, dtype=np.int64)
LEVEL, PRIOR_LEVEL = np.array([10.0, 20.0, 30.0]), -5.0


def series(level: Any, sd: Any, seed: int, draws: int = DRAWS) -> np.ndarray:
    """Independent draws [C, S] whose mean and standard deviation (ddof = 1) are exactly these."""
    values = np.random.default_rng(seed).standard_normal((CHAINS, draws))
    values -= values.mean(axis=1, keepdims=True)
    values /= values.std(axis=1, ddof=1, keepdims=True)
    return np.reshape(level, (-1, 1)) + np.reshape(sd, (-1, 1)) * values


def pool_of(memory_pool: Any, log_likelihood: np.ndarray, log_prior: np.ndarray) -> Any:
    statistics = {"log_likelihood": log_likelihood, "log_prior": log_prior}
    return memory_pool(np.zeros((*log_likelihood.shape, 2)), statistics)


def predictions(density: np.ndarray, divergent: tuple[int, ...] = ()) -> PredictiveSummary:
    left_out = np.isin(np.arange(len(density)), divergent)
    density = np.where(left_out[:, None], np.nan, density)
    return PredictiveSummary(
        DRAWS, left_out, np.zeros(len(density), bool), NOTHING, np.empty((len(density), DRAWS, 0)), NOTHING, NOTHING,
        log_density_by_chain=density,
    )  # fmt: skip


DENSITIES = np.random.default_rng(5).normal(-1, 0.3, (2, CHAINS, ROWS))
"""Log densities of the test rows, by the run and by its referee."""


def refereed(memory_pool: Any, log_likelihood: np.ndarray | None = None, divergent: tuple[int, ...] = ()) -> Refereed:
    run = pool_of(memory_pool, series(LEVEL, [2.0, 4.0, 5.0], 1), series(PRIOR_LEVEL, 3.0, 2))
    after = series(LEVEL + 10, 1.0, 3) if log_likelihood is None else log_likelihood
    referee = pool_of(memory_pool, after, series(PRIOR_LEVEL - 6, 1.0, 4, after.shape[1]))
    return judge(run, referee, predictions(DENSITIES[0], divergent), predictions(DENSITIES[1]))


def by_metric(found: Refereed) -> dict[str, Measurement]:
    return {row.metric: row for row in found.measurements}


def test_shifts_are_means_over_chains_with_their_error(memory_pool: Any) -> None:
    rows = by_metric(refereed(memory_pool))
    shifts = np.array([10 / 2, 10 / 4, 10 / 5])
    found = rows["referee_log_likelihood_shift"]
    assert found.value == pytest.approx(shifts.mean())
    assert found.standard_error == pytest.approx(shifts.std(ddof=1) / np.sqrt(3))
    assert rows["referee_log_prior_shift"].value == pytest.approx(-6 / 3)
    assert rows["referee_log_likelihood_change"].value == pytest.approx(10)
    assert rows["referee_log_prior_change"].value == pytest.approx(-6)
    assert {row.chains for row in rows.values()} == {CHAINS}


def test_changes_of_the_lppd_are_paired(memory_pool: Any) -> None:
    rows = by_metric(refereed(memory_pool))
    before, after = (np.log(np.exp(part).mean(axis=0)) for part in DENSITIES)
    assert rows["referee_lppd"].value == pytest.approx(after.mean())
    assert rows["referee_lppd_change"].value == pytest.approx((after - before).mean())
    assert rows["referee_lppd_change"].standard_error == pytest.approx((after - before).std(ddof=1) / np.sqrt(ROWS))
    alone = DENSITIES.mean(axis=2)
    assert rows["referee_lppd_chain_mean"].value == pytest.approx(alone[1].mean())
    change = alone[1] - alone[0]
    assert rows["referee_lppd_chain_change"].value == pytest.approx(change.mean())
    assert rows["referee_lppd_chain_change"].standard_error == pytest.approx(change.std(ddof=1) / np.sqrt(3))


def test_a_referee_that_stays_at_its_level_has_mixed(memory_pool: Any) -> None:
    rows = by_metric(refereed(memory_pool))
    assert rows["referee_mixed"].value == 1
    assert rows["referee_rhat_max"].value < 1.05
    assert rows["referee_ess_min"].value > 300
    assert abs(rows["referee_trend"].value) < 2 * (rows["referee_trend"].standard_error or 0)
    assert not any("not mixed" in row.note for row in rows.values())


def test_a_referee_that_still_rises_bounds_nothing_and_every_row_says_so(memory_pool: Any) -> None:
    rising = series(LEVEL, 1.0, 3) + np.linspace(0, 6, DRAWS)
    rows = by_metric(refereed(memory_pool, rising))
    assert rows["referee_mixed"].value == 0
    assert rows["referee_trend"].value == pytest.approx(6, abs=0.3)
    for row in rows.values():
        assert "the referee has not mixed and bounds nothing: R-hat" in row.note
        assert "log-likelihood still rising, by" in row.note
    falling = by_metric(refereed(memory_pool, rising[:, ::-1]))["referee_mixed"]
    assert "still falling, by" in falling.note


def test_a_slight_trend_is_seen_although_rhat_is_fine(memory_pool: Any) -> None:
    slight = series(LEVEL, 1.0, 3) + np.linspace(0, 0.5, DRAWS)
    rows = by_metric(refereed(memory_pool, slight))
    assert rows["referee_rhat_max"].value < 1.1
    assert rows["referee_mixed"].value == 0
    assert "bounds nothing: log-likelihood still rising" in rows["referee_mixed"].note


def test_too_few_draws_are_not_called_mixed(memory_pool: Any) -> None:
    found = by_metric(refereed(memory_pool, series(LEVEL, 1.0, 3, draws=6)))["referee_mixed"]
    assert found.value == 0
    assert "R-hat between its halves undefined, effective draws undefined" in found.note


def test_an_excluded_chain_counts_in_no_value(memory_pool: Any) -> None:
    found = refereed(memory_pool, divergent=(0,))
    rows = by_metric(found)
    assert rows["referee_log_likelihood_shift"].value == pytest.approx((10 / 4 + 10 / 5) / 2)
    assert rows["referee_lppd"].value == pytest.approx(np.log(np.exp(DENSITIES[1, 1:]).mean(axis=0)).mean())
    assert rows["referee_lppd"].chains == 2
    assert found.chains.iloc[0].drop("chain").isna().all()
    assert found.chains.iloc[1:].notna().all(axis=None)
    none = refereed(memory_pool, divergent=(0, 1, 2))
    assert [row.note for row in none.measurements] == ["no chain left to average"]
    assert np.isnan(none.measurements[0].value)


def test_the_file_by_chain_has_the_values_of_each(memory_pool: Any) -> None:
    chains = refereed(memory_pool).chains
    pa.Table.from_pandas(chains, schema=REFEREE_SCHEMA, preserve_index=False)
    assert list(chains.columns) == REFEREE_SCHEMA.names
    pd.testing.assert_series_equal(chains["log_likelihood_shift"], pd.Series([5.0, 2.5, 2.0]), check_names=False)
    np.testing.assert_allclose(chains["log_likelihood_before"], LEVEL)
    np.testing.assert_allclose(chains["log_likelihood_sd"], [2, 4, 5])
    np.testing.assert_allclose(chains["log_likelihood_after"], LEVEL + 10)
    np.testing.assert_allclose(chains["lppd_after"], DENSITIES[1].mean(axis=1))


def test_other_chains_or_rows_are_refused(memory_pool: Any) -> None:
    pool = pool_of(memory_pool, series(LEVEL, 1.0, 1), series(LEVEL, 1.0, 2))
    with pytest.raises(PredictionError, match=r"3 chains with densities \[3, 40\] and a referee of 3 with \[3, 39\]"):
        judge(pool, pool, predictions(DENSITIES[0]), predictions(DENSITIES[1][:, 1:]))


def ar1(correlation: float, chains: int, draws: int, seed: int = 0) -> np.ndarray:
    """Stationary chains [C, S] with mean 0 and variance 1."""
    noise = np.random.default_rng(seed).standard_normal((chains, draws))
    values = noise.copy()
    for s in range(1, draws):
        values[:, s] = correlation * values[:, s - 1] + np.sqrt(1 - correlation**2) * noise[:, s]
    return values


def test_shift_is_in_standard_deviations_of_the_chain_and_has_its_sign() -> None:
    chains = np.array([[1.0, 2.0, 3.0], [-2.0, 0.0, 2.0]])
    found = shift(chains, np.array([[5.0, 5.0], [-1.0, -7.0]]))
    np.testing.assert_allclose(found, [3.0 / 1.0, -4.0 / 2.0])


def test_shift_of_a_still_chain_or_a_single_draw_is_not_defined_in_standard_deviations() -> None:
    assert np.isnan(shift(np.array([[2.0, 2.0]]), np.array([[3.0, 3.0]])))
    assert np.isnan(shift(np.array([[2.0]]), np.array([[3.0]])))


def test_trend_of_a_line_with_noise() -> None:
    noise = np.random.default_rng(1).standard_normal((2, 1001))
    times = np.linspace(-0.5, 0.5, 1001)
    noise -= noise.mean(axis=1, keepdims=True)
    noise -= (noise @ times / (times @ times))[:, None] * times
    found = trend(np.array([[7.0], [-3.0]]) * times + noise)
    np.testing.assert_allclose(found.rise, [7.0, -3.0])
    # Of independent residuals: s / sqrt(n var(t)) with var(t) = 1/12.
    np.testing.assert_allclose(found.error, np.sqrt(12 / 1001), rtol=0.15)


def test_the_error_of_a_trend_counts_dependent_draws_as_fewer() -> None:
    values = ar1(0.9, 400, 2000)
    found = trend(values)
    # The spread of the slopes of stationary chains is what their error says.
    assert found.error.mean() == pytest.approx(found.rise.std(), rel=0.15)
    assert np.mean(np.abs(found.rise) > 2 * found.error) < 0.1


def test_a_chain_that_changes_level_or_spread_has_a_large_rhat_of_halves() -> None:
    values = ar1(0.5, 3, 400)
    values[1, 200:] += 2
    values[2, 200:] *= 4
    found = rhat_of_halves(values)
    assert found[0] < 1.05
    assert (found[1:] > 1.1).all()
    assert np.isnan(rhat_of_halves(values[:, :7])).all()


def test_effective_draws_are_of_each_chain_alone() -> None:
    values = np.concatenate([ar1(0.0, 1, 4000), ar1(0.9, 1, 4000) + 100])
    found = ess_of_chains(values)
    assert found[0] == pytest.approx(4000, rel=0.15)
    assert found[1] == pytest.approx(4000 * 0.1 / 1.9, rel=0.35)
