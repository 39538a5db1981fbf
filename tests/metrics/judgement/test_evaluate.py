from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from bnn_atlas.metrics.gathering.cost import Cost, Phase
from bnn_atlas.metrics.gathering.streaming import Limits, summarise
from bnn_atlas.metrics.gathering.virial import Rescaling
from bnn_atlas.metrics.judgement import evaluate
from bnn_atlas.metrics.judgement.evaluate import write_scored
from bnn_atlas.metrics.judgement.rows import as_rows
from bnn_atlas.metrics.tables.measurement import Measurement, RunIdentity
from bnn_atlas.metrics.tables.parquet import CURVE_SCHEMA, SAMPLER_SCHEMA, RunFiles, read_table
from bnn_atlas.posterior import Predictive

RUN = RunIdentity("sampling_perspective", "airfoil", "demo", 1, "airfoil", "mlp-16", "mclmc")


class Data(NamedTuple):
    x_test: np.ndarray
    y_test: np.ndarray
    y_scale: float


def regression(chains=4, draws=40):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25, 2))
    theta = np.array([0.5, -1.0, -0.7]) + 0.1 * rng.normal(size=(chains, draws, 3))
    return theta, Data(x, x @ [0.5, -1.0] + 0.5 * rng.normal(size=25), 3.0)


COST = Cost((Phase("tuning", 300, 2.0), Phase("sampling", 400, 8.0)), 4, 2.0, ("cpu",), 1)


def score(pool, predict, data, run, limits=None, max_bytes=evaluate.MAX_BYTES, **facts):
    """Predictions of a pool, and their scores."""
    summary = summarise(pool, predict, data.x_test, data.y_test, limits)
    return evaluate.score(pool, summary, data, evaluate.RunFacts(run, **facts), max_bytes=max_bytes)


def only(scored, metric, at=""):
    """The one row of a metric."""
    rows = [row for row in [*scored.rows, *scored.rates] if (row.metric, row.at) == (metric, at)]
    assert len(rows) == 1, f"{metric} at {at!r}: {len(rows)} rows"
    return rows[0]


def test_regression_run_has_every_metric_with_the_values_of_brute_force(memory_pool, predict_linear):
    theta, data = regression()
    scored = score(memory_pool(theta), predict_linear, data, RUN)
    mean = theta[..., :-1] @ data.x_test.T
    scale = np.exp(theta[..., -1:])
    mixture = logsumexp(norm.logpdf(data.y_test, mean, scale), axis=(0, 1)) - np.log(160)
    lppd = only(scored, "lppd")
    assert lppd.value == pytest.approx(mixture.mean())
    assert lppd.standard_error == pytest.approx(mixture.std(ddof=1) / 5)
    assert (lppd.chains, lppd.draws, lppd.note) == (4, 40, "")
    assert lppd[:7] == RUN
    assert only(scored, "nll").value == -lppd.value
    rmse = np.sqrt(np.mean((mean.mean(axis=(0, 1)) - data.y_test) ** 2))
    assert only(scored, "rmse").value == pytest.approx(rmse)
    assert only(scored, "rmse_original_units").value == pytest.approx(3 * rmse)
    assert only(scored, "noise_sd").value == pytest.approx(np.sqrt(np.mean(np.square(scale))))
    pit = norm.cdf(data.y_test, mean, scale).mean(axis=(0, 1))
    assert only(scored, "coverage", "0.9").value == pytest.approx(((pit >= 0.05) & (pit <= 0.95)).mean())
    for metric in ("nll_moment_matched", "calibration_error", "lppd_chain_mean", "lppd_chain_min", "lppd_chain_max",
                   "rhat_weight_max", "rhat_weight_median", "rhat_function_max", "rhat_chainwise_weight_max",
                   "rhat_chainwise_function_median", "ess_bulk_weight_median", "ess_tail_function_min",
                   "variance_between_weight_median"):  # fmt: skip
        assert np.isfinite(only(scored, metric).value), metric
    for metric, at in (("pit_histogram", "0.1"), ("pit_histogram", "1"), ("rhat_weight_share_above", "1.01")):
        assert np.isfinite(only(scored, metric, at).value), metric
    assert only(scored, "chains_excluded").value == 0
    assert not any(row.metric.startswith(("energy", "acceptance", "divergences")) for row in scored.rows)


def test_cumulative_curves_have_one_row_per_point(memory_pool, predict_linear):
    theta, data = regression()
    scored = score(memory_pool(theta), predict_linear, data, RUN, limits=Limits(running_points=10))
    over_chains = [row for row in scored.rows if row.metric == "lppd_cumulative_chains"]
    assert [row.chains for row in over_chains] == [1, 2, 3, 4]
    assert {row.draws for row in over_chains} == {40}
    assert over_chains[-1].value == pytest.approx(only(scored, "lppd").value)
    assert over_chains[-1].standard_error == pytest.approx(only(scored, "lppd").standard_error)
    assert "mean over 50 random orders" in over_chains[0].note
    deviations = [row for row in scored.rows if row.metric == "lppd_cumulative_chains_order_sd"]
    assert [row.chains for row in deviations] == [1, 2, 3, 4]
    assert all(row.value > 0 and row.standard_error is None for row in deviations[:-1])
    assert deviations[-1].value == 0.0
    over_draws = [row for row in scored.rows if row.metric == "lppd_cumulative_draws"]
    assert [row.draws for row in over_draws] == [1, 2, 3, 5, 8, 12, 18, 27, 40]
    assert {row.chains for row in over_draws} == {4}
    assert over_draws[-1].standard_error == pytest.approx(only(scored, "lppd").standard_error)
    assert over_draws[-1].value == pytest.approx(only(scored, "lppd").value)
    running = scored.chains
    assert running["draws"].tolist()[: len(over_draws)] == [row.draws for row in over_draws]
    single = running[running["draws"] == 40]["lppd"]
    assert only(scored, "lppd_chain_mean").value == pytest.approx(single.mean())
    assert only(scored, "lppd_chain_max").value == pytest.approx(single.max())


@pytest.mark.parametrize("method", ["deep_ensemble", "laplace", "mean_field", "mclmc"])
def test_lppd_of_the_published_code_beside_the_right_one(memory_pool, predict_linear, method):
    """One noise level: ensembles have exp(mean) for it, Laplace and mean field the exponential of the variance."""
    theta, data = regression(draws=1)
    run = RUN._replace(method=method)
    scored = score(memory_pool(theta), predict_linear, data, run, published=["sommer"])
    assert np.isfinite(only(scored, "calibration_error_sommer").value)
    with_others = score(memory_pool(theta), predict_linear, data, run, published=["uppal", "izmailov"]).rows
    others = [row for row in with_others if row.metric != "lppd_izmailov"]
    assert len(others) == len(with_others) - 1
    plain = [row for row in scored.rows if not row.metric.endswith("_sommer")]
    assert [row.metric for row in plain] == [row.metric for row in others]
    np.testing.assert_array_equal([row.value for row in plain], [row.value for row in others])
    published = [row for row in scored.rows if row.metric == "lppd_sommer"]
    if method == "mclmc":
        assert published == []
        return
    mean = theta[:, 0, :-1] @ data.x_test.T
    variance = mean.var(axis=0) + np.exp(2 * theta[:, 0, -1]).mean()
    expected = {
        "deep_ensemble": logsumexp(norm.logpdf(data.y_test, mean, np.exp(mean)), axis=0) - np.log(4),
        "other": norm.logpdf(data.y_test, mean.mean(axis=0), np.exp(variance)),
    }
    density = expected.get(method, expected["other"])
    assert published[0].value == pytest.approx(density.mean())
    assert published[0].standard_error == pytest.approx(density.std(ddof=1) / 5)
    assert "is taken for the log of the noise" in published[0].note


def test_noise_of_each_row_is_scored_as_published_by_the_right_formula_alone(memory_pool):
    theta, data = regression()

    def predict(theta, x):
        return Predictive(theta[:, :-1] @ x.T, np.exp(theta[:, -1:] + 0.1 * x[:, 0]))

    scored = score(memory_pool(theta), predict, data, RUN._replace(method="deep_ensemble"), published=["sommer"])
    assert not any(row.metric == "lppd_sommer" for row in scored.rows)


def test_memory_limit_does_not_change_a_value(memory_pool, predict_linear):
    theta, data = regression()
    large = score(memory_pool(theta), predict_linear, data, RUN, limits=Limits(function_rows=2))
    tight = Limits(5120, function_rows=2)
    small = score(memory_pool(theta, chunk=7), predict_linear, data, RUN, tight, max_bytes=5120)
    numbers = {"value": 0, "standard_error": None, "monte_carlo_error": None}
    assert [row._replace(**numbers) for row in large.rows] == [row._replace(**numbers) for row in small.rows]
    np.testing.assert_allclose([r.value for r in small.rows], [r.value for r in large.rows], rtol=1e-9)


def test_divergent_chain_is_excluded_everywhere_and_every_row_says_so(memory_pool, predict_linear):
    theta, data = regression()
    clean = score(memory_pool(theta[1:]), predict_linear, data, RUN)
    theta[0, 30] = np.nan
    statistics = {"energy_change": np.ones((4, 40)), "divergent": np.zeros((4, 40), np.int32)}
    scored = score(memory_pool(theta, statistics), predict_linear, data, RUN)
    for row in clean.rows:
        if row.metric == "chains_excluded":
            continue
        other = [
            r for r in scored.rows if (r.metric, r.at, r.chains, r.draws) == (row.metric, row.at, row.chains, row.draws)
        ]
        assert len(other) == 1, row.metric
        np.testing.assert_allclose(other[0].value, row.value, rtol=1e-9, err_msg=row.metric)
        assert "1 of 4 chains excluded" in other[0].note
    excluded = only(scored, "chains_excluded")
    assert (excluded.value, excluded.chains) == (1, 4)
    assert only(scored, "divergences").chains == 4
    assert scored.chains.groupby("chain")["divergent"].all().tolist() == [True, False, False, False]
    assert scored.chains[scored.chains["chain"] == 0]["lppd"].isna().all()


def test_density_of_zero_is_reported_as_minus_infinity(memory_pool):
    def predict(theta, x):
        log_probs = np.where(theta[:, None, :] > 0, np.log([0.5, 0.5]), np.array([0.0, -np.inf]))
        return Predictive(log_probs=np.broadcast_to(log_probs, (len(theta), len(x), 2)))

    data = Data(np.ones((3, 1)), np.array([0, 0, 1]), 1.0)
    scored = score(memory_pool(np.full((2, 5, 1), -1.0)), predict, data, RUN)
    assert only(scored, "lppd").value == -np.inf
    assert only(scored, "lppd").standard_error is None
    assert only(scored, "lppd").note == "1 of 3 rows have density 0"
    assert only(scored, "nll").value == np.inf
    assert only(scored, "accuracy").value == pytest.approx(2 / 3)
    assert only(scored, "ece").value == pytest.approx(1 / 3)
    assert only(scored, "rhat_weight_max").note == "1 of 1 quantities left out: constant or not finite draws"


def test_ensemble_of_single_draws_says_why_there_is_no_rhat(memory_pool, predict_linear):
    theta, data = regression(chains=5, draws=1)
    scored = score(memory_pool(theta), predict_linear, data, RUN)
    assert np.isfinite(only(scored, "lppd").value)
    assert np.isnan(only(scored, "rhat_weight_max").value)
    assert only(scored, "rhat_weight_max").note == "undefined: needs at least 4 draws"
    assert only(scored, "rhat_chainwise_weight_max").note == "undefined: needs at least 8 draws"
    one = score(memory_pool(regression(chains=1)[0]), predict_linear, data, RUN)
    assert only(one, "rhat_function_median").note == "undefined: needs at least 2 chains"
    assert np.isfinite(only(one, "ess_bulk_weight_median").value)


def write_all(scored, folder):
    folder.mkdir(exist_ok=True)
    paths = {name: folder / f"{name}.parquet" for name in RunFiles._fields}
    write_scored(scored, RunFiles(**paths))
    return paths


def test_files_have_their_columns_and_the_same_bytes_each_time(memory_pool, predict_linear, tmp_path):
    theta, data = regression()
    pool = memory_pool(theta)
    first = write_all(score(pool, predict_linear, data, RUN), tmp_path / "a")
    second = write_all(score(pool, predict_linear, data, RUN), tmp_path / "b")
    for name in first:
        assert first[name].read_bytes() == second[name].read_bytes(), name
    assert len(read_table(first["table"])) > 30
    parameters = pq.read_table(first["parameters"])
    assert parameters.column_names == [
        "name", "layer", "role", "rhat", "rhat_chainwise_max", "rhat_chainwise_median", "ess_bulk", "ess_tail",
        "within", "between", "rhat_gelman_rubin",
    ]  # fmt: skip
    assert parameters["name"].to_pylist() == [f"layer0.weight[{i}]" for i in range(3)]
    functions = pq.read_table(first["functions"]).to_pandas()
    assert functions["row"].tolist() == list(range(25))
    assert functions["class"].isna().all()
    assert pq.read_table(first["chains"]).column_names == ["chain", "divergent", "draws", "lppd"]
    assert pq.read_schema(first["samplers"]).equals(SAMPLER_SCHEMA)
    assert pq.read_schema(first["curves"]).equals(CURVE_SCHEMA)
    assert len(read_table(first["rates"])) == 0


def test_efficiency_sets_effective_draws_against_all_that_was_spent(memory_pool, predict_linear):
    theta, data = regression()
    theta[0, 30] = np.nan
    scored = score(memory_pool(theta), predict_linear, data, RUN, cost=COST)
    ess = only(scored, "ess_bulk_function_median").value
    assert only(scored, "ess_bulk_function_median_per_gradient").value == pytest.approx(ess / (2 * 4 * 400))
    assert only(scored, "ess_bulk_function_median_per_gradient_total").value == pytest.approx(ess / (2 * 4 * 700))
    rate = only(scored, "ess_bulk_function_median_per_second")
    assert rate.value == pytest.approx(ess / 8)
    assert rate.note == "wall time on cpu; 1 of 4 chains excluded: 1 not finite"
    assert only(scored, "gradients_sampling").note == "of all chains, of the full data"
    assert not any("second" in row.metric for row in scored.rows), "wall time must not enter the table of scores"


def test_share_of_rhat_above_its_limits(memory_pool, predict_linear):
    theta, data = regression(draws=400)
    theta[:, :, 0] += np.arange(4)[:, None]
    scored = score(memory_pool(theta), predict_linear, data, RUN)
    values = scored.parameters["rhat"]
    for limit in (1.01, 1.05, 1.1):
        assert only(scored, "rhat_weight_share_above", f"{limit}").value == pytest.approx((values > limit).mean())
    assert only(scored, "rhat_weight_share_above", "1.05").value == pytest.approx(1 / 3)


def test_excluded_chains_are_named_with_their_reason(memory_pool, predict_linear):
    theta, data = regression()
    theta[1, 3] = np.nan
    theta[2] = theta[2, 0]
    likelihood = np.random.default_rng(0).normal(size=(4, 40))
    likelihood[2] = -1.0
    statistics = {"log_likelihood": likelihood, "log_prior": np.ones((4, 40))}
    scored = score(memory_pool(theta, statistics), predict_linear, data, RUN)
    assert scored.samplers["excluded"].tolist() == ["", "not finite", "never moved", ""]
    note = "2 of 4 chains excluded: 1 not finite, 1 never moved"
    assert only(scored, "chains_excluded").note == note
    assert only(scored, "lppd").note == note
    assert set(scored.curves["curve"]) == {"log_posterior", "autocorrelation", "rank"}


@pytest.mark.parametrize(("chains", "draws"), [(5, 1), (1, 1), (1, 50), (3, 3)])
@pytest.mark.parametrize("reported", [True, False])
def test_whatever_makes_no_sense_is_left_out(memory_pool, predict_linear, tmp_path, chains, draws, reported):
    theta, data = regression(chains, draws)
    statistics = {"log_likelihood": theta[..., 0], "log_prior": theta[..., 1]} if reported else {}
    scored = score(memory_pool(theta, statistics), predict_linear, data, RUN, cost=COST, batch_rows=80)
    for row in [*scored.rows, *scored.rates]:
        assert np.isfinite(row.value) or row.note, row
        assert np.isfinite(row.value) or not row.metric.endswith(("_gradient", "_total", "_second")), row
    ess = [row for row in scored.rates if row.metric.startswith("ess")]
    assert bool(ess) == (draws >= 4)
    assert only(scored, "gradients_sampling").note == "of all chains, of mini-batches of 80 rows"
    assert len(scored.samplers) == chains
    write_all(scored, tmp_path)


def test_independent_draws_have_no_efficiency(memory_pool, predict_linear):
    theta, data = regression()
    scored = score(memory_pool(theta), predict_linear, data, RUN._replace(method="mean_field"), cost=COST)
    assert only(scored, "seconds_sampling").value == 8.0
    assert not any(row.metric.endswith(("per_gradient", "per_second")) and "ess" in row.metric
                   for row in [*scored.rows, *scored.rates])  # fmt: skip


@pytest.mark.parametrize(("method", "draws", "there"), [("hmc", 40, 1), ("path", 40, 0), ("map", 1, 0)])
def test_layers_of_optima_are_not_held_to_a_balance_that_only_draws_have(
    memory_pool, predict_linear, method, draws, there
):
    theta, data = regression(draws=draws)
    free = [Rescaling("layer0", np.array([0]), np.array([1]))]
    run = RUN._replace(method=method)
    scored = score(memory_pool(theta), predict_linear, data, run, prior_sd=1.0, rescalings=free)
    assert sum(row.metric == "layer_imbalance" for row in scored.rows) == there


def test_a_metric_that_is_not_listed_is_refused(memory_pool, predict_linear):
    theta, data = regression(chains=1, draws=2)
    summary = summarise(memory_pool(theta), predict_linear, data.x_test, data.y_test)
    with pytest.raises(ValueError, match=r"'spherical' is not in the list of metrics; add it to .*metrics\.py"):
        as_rows(RUN, [Measurement("spherical", 0.5)], summary)


@pytest.mark.parametrize("why", ["not finite", "never moved"])
def test_where_no_chain_is_left_every_row_says_so(memory_pool, predict_linear, tmp_path, why):
    theta, data = regression()
    theta = theta * np.nan if why == "not finite" else np.repeat(theta[:, :1], 40, axis=1)
    statistics = {"log_likelihood": np.full((4, 40), -1.0), "log_prior": np.ones((4, 40))}
    scored = score(memory_pool(theta, statistics if why == "never moved" else {}), predict_linear, data, RUN)
    for metric in ("lppd", "nll", "rmse", "rmse_original_units", "rhat_weight_max", "ess_bulk_function_median"):
        row = only(scored, metric)
        assert np.isnan(row.value)
        assert "no chain left" in row.note
        assert f"4 of 4 chains excluded: 4 {why}" in row.note
        assert row.chains == 0
    assert (only(scored, "chains_excluded").value, only(scored, "chains_excluded").chains) == (4, 4)
    assert scored.samplers["excluded"].tolist() == [why] * 4
    assert scored.chains["lppd"].isna().all()
    write_all(scored, tmp_path)
