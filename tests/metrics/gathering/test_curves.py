"""Curves of bounded size: courses over the draws, autocorrelation, ranks."""

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from bnn_atlas.metrics.formulas.rhat_ess import autocorrelation
from bnn_atlas.metrics.gathering import curves
from bnn_atlas.metrics.gathering.chain_statistics import LINES, Course, bin_edges
from bnn_atlas.metrics.gathering.curves import course_rows, divergence_rows, lppd_of_first_draws, rank_rows
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import PredictionError
from bnn_atlas.metrics.tables.parquet import CURVE_SCHEMA


def autoregressive(chains, draws, correlation, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, draws)) * np.sqrt(1 - correlation**2)
    noise[:, 0] = rng.normal(size=chains)
    return lfilter([1.0], [1.0, -correlation], noise, axis=1)


def course(values, points):
    made = Course.empty(len(values), bin_edges(values.shape[1], points))
    made.fill(slice(0, len(values)), values)
    return made


@pytest.mark.parametrize(("draws", "points"), [(1, 200), (7, 7), (200, 200), (201, 200), (1000, 200), (10_000, 300)])
def test_bins_are_few_equal_and_whole(draws, points):
    edges = bin_edges(draws, points)
    widths = np.diff(edges)
    assert (edges[0], edges[-1]) == (0, draws)
    assert len(widths) <= points
    assert len(widths) > points // 2 or draws < points
    assert (widths[:-1] == widths[0]).all()
    assert 0 < widths[-1] <= widths[0]


def test_a_point_is_the_mean_of_the_finite_draws_of_its_bin():
    values = np.array([[1.0, 3.0, np.inf, 5.0, np.nan, np.nan, 7.0]])
    made = course(values, 4)
    np.testing.assert_array_equal(made.mean, [[2.0, 5.0, np.nan, 7.0]])
    np.testing.assert_array_equal(made.low, [[1.0, 5.0, np.nan, 7.0]])
    np.testing.assert_array_equal(made.high, [[3.0, 5.0, np.nan, 7.0]])
    np.testing.assert_array_equal(made.centres, [1.5, 3.5, 5.5, 7.0])


@pytest.mark.parametrize("chains", [1, LINES, LINES + 1, 400])
def test_few_chains_are_lines_and_many_are_quantiles_of_those_kept(chains):
    values = np.random.default_rng(0).normal(size=(chains, 60))
    values[0] += 100
    kept = np.arange(1, chains) if chains > 1 else np.arange(1)
    rows = course_rows("log_posterior", course(values, 30), kept)
    if chains <= LINES:
        assert rows["chain"].nunique() == chains, "excluded chains are drawn too"
        assert len(rows) == 30 * chains
        assert rows["quantile"].isna().all()
        return
    assert len(rows) == 30 * len(curves.QUANTILES)
    assert rows["chain"].isna().all()
    means = values.reshape(chains, 30, 2).mean(axis=2)[1:]
    for level in (0.0, 0.25, 0.5, 1.0):
        np.testing.assert_allclose(rows.loc[rows["quantile"] == level, "value"], np.quantile(means, level, axis=0))


def test_a_bin_in_which_nothing_is_finite_is_left_out_of_the_bands():
    values = np.ones((LINES + 1, 4))
    values[:, 1] = np.nan
    rows = course_rows("energy_change", course(values, 4), np.arange(LINES + 1))
    assert sorted(rows["x"].unique()) == [1.0, 3.0, 4.0]
    nothing = course_rows("energy_change", course(values * np.nan, 4), np.arange(LINES + 1))
    assert len(nothing) == 0


def test_divergences_are_counted_where_they_are():
    steps = np.zeros((3, 10))
    steps[1, 2:4] = [1, 4]
    rows = divergence_rows(course(steps, 5))
    assert rows[["chain", "x", "value"]].to_numpy().tolist() == [[1, 3.5, 5.0]]
    many = np.zeros((LINES + 1, 10))
    many[:, 0] = 2
    rows = divergence_rows(course(many, 5))
    assert rows["chain"].isna().all()
    assert rows[["x", "value"]].to_numpy().tolist() == [[1.5, 2.0 * (LINES + 1)]]
    assert len(divergence_rows(course(0 * steps, 5))) == 0


def test_autocorrelation_is_that_of_the_process():
    rho = autocorrelation(autoregressive(8, 20_000, 0.8))
    np.testing.assert_allclose(rho[:8], 0.8 ** np.arange(8), atol=0.02)
    assert rho[0] == 1.0


def test_chains_that_disagree_keep_the_autocorrelation_up():
    draws = autoregressive(4, 4000, 0.0) + np.array([[-2.0], [2.0], [-2.0], [2.0]])
    # V = 1 + variance of the means (ddof 1), 16/3; what is left at long lags is 1 - 1 / V.
    assert autocorrelation(draws)[50] == pytest.approx(1 - 1 / (1 + 16 / 3), abs=0.02)


def test_autocorrelation_of_one_chain_in_single_precision():
    draws = autoregressive(1, 500, 0.5)
    np.testing.assert_allclose(autocorrelation(draws.astype(np.float32)), autocorrelation(draws), atol=1e-5)


def test_ranks_are_level_for_chains_that_agree_and_shifted_for_one_that_does_not():
    draws = np.random.default_rng(0).normal(size=(4, 5000))
    rows = rank_rows("f", draws, np.array([0, 2, 3, 5]))
    assert sorted(rows["chain"].unique()) == [0, 2, 3, 5]
    np.testing.assert_allclose(rows["value"], 1 / 20, atol=0.015)
    np.testing.assert_allclose(rows.groupby("chain")["value"].sum(), 1.0)
    draws[1] += 100
    shifted = rank_rows("f", draws, np.arange(4))
    own = shifted[shifted["chain"] == 1].set_index("x")["value"]
    assert own[own.index < 0.75].sum() == 0
    np.testing.assert_allclose(own[own.index > 0.75], 1 / 5)


def test_of_very_many_draws_some_are_ranked(monkeypatch):
    draws = np.random.default_rng(0).normal(size=(4, 5000))
    monkeypatch.setattr(curves, "MOST_RANKED", 8000)
    rows = rank_rows("f", draws, np.arange(4))
    every_third = rank_rows("f", draws[:, ::3], np.arange(4))
    pd.testing.assert_frame_equal(rows, every_third)


def test_ranks_of_many_chains_are_bands():
    rows = rank_rows("f", np.random.default_rng(0).normal(size=(LINES + 1, 40)), np.arange(LINES + 1))
    assert len(rows) == 20 * len(curves.QUANTILES)
    assert rows["chain"].isna().all()


def functions(rhat, ess, classes=None):
    count = len(rhat)
    kinds = pd.array([pd.NA] * count if classes is None else classes, dtype="Int64")
    return pd.DataFrame({"row": np.arange(10, 10 + count), "class": kinds, "rhat": rhat, "ess_bulk": ess})


def test_the_function_values_that_say_most_are_shown():
    draws = np.random.default_rng(0).normal(size=(3, 40, 5))
    frame = functions([1.0, 1.5, 1.2, np.nan, 1.1], [50.0, 20.0, 9.0, np.nan, 60.0])
    rows = curves.joined(curves.function_rows(frame, draws, np.arange(3)))
    labels = rows.groupby("curve")["label"].unique()
    assert set(labels["autocorrelation"]) == {"largest R-hat (row 11)", "median R-hat (row 12)"}
    assert set(labels["rank"]) == {"largest R-hat (row 11)"}
    by_class = curves.function_rows(functions([1.3], [5.0], [2]), draws[..., :1], np.arange(3))
    assert by_class[0]["label"].iloc[0] == "largest R-hat (row 10, class 2)"


def test_there_is_nothing_to_show_of_too_few_or_constant_draws():
    frame = functions([np.nan], [np.nan])
    assert curves.function_rows(frame, np.zeros((2, 40, 1)), np.arange(2)) == []
    assert curves.function_rows(functions([1.0], [5.0]), np.zeros((2, 3, 1)), np.arange(2)) == []
    assert curves.function_rows(functions([1.0], [5.0]), np.zeros((2, 40, 1)), np.arange(0)) == []
    assert list(curves.joined([]).columns) == CURVE_SCHEMA.names
    one = curves.function_rows(functions([np.nan], [5.0]), autoregressive(1, 40, 0.5)[..., None], np.arange(1))
    assert [part["curve"].iloc[0] for part in one] == ["autocorrelation"]


def by_draws(by_draw: np.ndarray, by_chain: np.ndarray, counts: np.ndarray, divergent: list[bool]) -> PredictiveSummary:
    nothing = np.empty(0, dtype=np.int64)
    return PredictiveSummary(
        len(by_draw), np.array(divergent), np.array(divergent), counts, np.empty((len(divergent), len(by_draw), 0)),
        nothing, nothing, log_density_by_draw=by_draw, running_lppd=by_chain,
    )  # fmt: skip


def test_running_lppd_is_the_log_of_mean_densities() -> None:
    rng = np.random.default_rng(1)
    density = rng.uniform(0.1, 2.0, size=(3, 20, 5))
    counts = np.array([1, 2, 7, 20])
    chains = np.array([[np.log(c[:k].mean(axis=0)).mean() for k in counts] for c in density])
    found = lppd_of_first_draws(by_draws(np.log(density.mean(axis=0)), chains, counts, [False] * 3))
    expected = [np.log(density[:, :k].mean(axis=(0, 1))).mean() for k in counts]
    np.testing.assert_allclose(found.ensemble, expected, rtol=1e-12)
    assert found.chains is chains
    assert found.counts is counts


def test_a_density_of_zero_stays_minus_infinity_until_a_draw_has_some() -> None:
    by_draw = np.array([[-np.inf, 0.0], [-np.inf, 0.0], [np.log(3.0), 0.0]])
    found = lppd_of_first_draws(by_draws(by_draw, np.zeros((1, 3)), np.array([1, 2, 3]), [False]))
    np.testing.assert_allclose(found.ensemble, [-np.inf, -np.inf, 0.0], atol=1e-12)


def test_no_running_lppd_without_targets() -> None:
    by_draw, counts = np.zeros((1, 2)), np.array([1])
    with pytest.raises(PredictionError, match="without targets"):
        lppd_of_first_draws(by_draws(by_draw, np.zeros((1, 1)), counts, [False])._replace(log_density_by_draw=None))


def test_the_running_lppd_of_no_chain_is_missing() -> None:
    found = lppd_of_first_draws(
        by_draws(np.full((3, 2), np.nan), np.full((2, 2), np.nan), np.array([1, 3]), [True, True])
    )
    assert np.isnan(found.ensemble).tolist() == [True, True]
    assert np.isnan(found.chains).all()
