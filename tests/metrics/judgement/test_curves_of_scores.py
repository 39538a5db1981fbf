"""Scores of the first chains and draws, calibration curves, histograms, and what the kept rows tell."""

from typing import NamedTuple

import numpy as np
import pytest

from bnn_atlas.metrics.formulas.classification import entropy_histogram
from bnn_atlas.metrics.formulas.function_distances import crps, interval_score
from bnn_atlas.metrics.formulas.reliability import (
    calibration_bins,
    expected_calibration_error,
    expected_calibration_error_equal_mass,
)
from bnn_atlas.metrics.formulas.rhat_ess import diagnose
from bnn_atlas.metrics.gathering.streaming import Limits, summarise
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.judgement import measure, sets
from bnn_atlas.metrics.judgement.classes import (
    calibration_curve,
    classification_scores,
    cumulative_scores,
    entropy_shares,
)
from bnn_atlas.metrics.judgement.kept_rows import log_score_measurements, wasserstein_to
from bnn_atlas.metrics.tables.measurement import PredictionError, RunIdentity

ROWS, DRAWS = 40, 60
RUN = RunIdentity("study", "run", "demo", 0, "data", "mlp 16", "hmc")


class Classes(NamedTuple):
    summary: PredictiveSummary
    probabilities: np.ndarray
    """[C, S, n, k] of every draw."""
    labels: np.ndarray


@pytest.fixture
def classes(memory_pool, predict_softmax) -> Classes:
    rng = np.random.default_rng(5)
    x, labels = rng.normal(size=(ROWS, 2)), rng.integers(0, 3, size=ROWS)
    draws = 2 * rng.normal(size=(4, DRAWS, 6))
    summary = summarise(memory_pool(draws), predict_softmax, x, labels, classes=3)
    log_probs = np.asarray(predict_softmax(draws.reshape(-1, 6), x).log_probs)
    return Classes(summary, np.exp(log_probs).reshape(4, DRAWS, ROWS, 3), labels)


def _values(measurements, metric, column):
    return {getattr(m, column): m.value for m in measurements if m.metric == metric}


def test_scores_of_the_first_draws_are_those_of_their_average(classes):
    found = cumulative_scores(classes.summary, classes.labels, 15, 5, 0)
    stops = classes.summary.batch_stops.tolist()
    accuracy, error = (_values(found, f"{name}_cumulative_draws", "draws") for name in ("accuracy", "ece"))
    assert list(accuracy) == list(error) == stops
    assert stops[-1] == DRAWS
    for stop in stops:
        average = classes.probabilities[:, :stop].mean(axis=(0, 1))
        assert accuracy[stop] == (average.argmax(axis=1) == classes.labels).mean()
        assert error[stop] == pytest.approx(expected_calibration_error(average, classes.labels, 15), abs=1e-5)
    whole = classification_scores(classes.probabilities.mean(axis=(0, 1)), classes.labels)
    assert accuracy[DRAWS] == next(m.value for m in whole if m.metric == "accuracy")


def test_scores_of_the_first_chains_are_means_over_orders(classes):
    """Of one chain the mean over all chains would be that of single chains; all chains are one average."""
    found = cumulative_scores(classes.summary, classes.labels, 15, 500, 0)
    accuracy, error = (_values(found, f"{name}_cumulative_chains", "chains") for name in ("accuracy", "ece"))
    chains = classes.probabilities.mean(axis=1)
    assert list(accuracy) == [1, 2, 3, 4]
    alone = [(chain.argmax(axis=1) == classes.labels).mean() for chain in chains]
    assert accuracy[1] == pytest.approx(np.mean(alone), abs=0.01)
    together = chains.mean(axis=0)
    assert accuracy[4] == pytest.approx((together.argmax(axis=1) == classes.labels).mean(), abs=1e-12)
    assert error[4] == pytest.approx(expected_calibration_error(together, classes.labels, 15), abs=1e-5)


def test_scores_of_a_chain_alone_are_means_over_chains(classes):
    found = cumulative_scores(classes.summary, classes.labels, 15, 5, 0)
    for stop in classes.summary.batch_stops.tolist():
        alone = classes.probabilities[:, :stop].mean(axis=1)
        right = [(chain.argmax(axis=1) == classes.labels).mean() for chain in alone]
        errors = [expected_calibration_error(chain, classes.labels, 15) for chain in alone]
        for name, values, tolerance in (("accuracy", right, 1e-9), ("ece", errors, 1e-5)):
            (one,) = [m for m in found if (m.metric, m.draws) == (f"{name}_chain_mean_cumulative_draws", stop)]
            assert one.value == pytest.approx(np.mean(values), abs=tolerance)
            assert one.standard_error == pytest.approx(np.std(values, ddof=1) / 2, abs=tolerance)
            assert one.over == "chains"


def test_the_lppd_of_a_chain_alone_ends_at_its_own(classes):
    found = measure.prediction_measurements(classes.summary, classes.labels, 1.0, "hmc")
    by_draws = _values(found, "lppd_chain_mean_cumulative_draws", "draws")
    assert list(by_draws) == classes.summary.running_draws.tolist()
    assert by_draws[DRAWS] == pytest.approx(next(m.value for m in found if m.metric == "lppd_chain_mean"), rel=1e-5)


def test_divergent_chains_enter_no_curve(classes):
    divergent = np.array([False, True, False, False])
    by_batch = np.where(divergent[:, None, None, None], np.nan, classes.summary.probabilities_by_batch)
    summary = classes.summary._replace(divergent=divergent, probabilities_by_batch=by_batch)
    found = cumulative_scores(summary, classes.labels, 15, 5, 0)
    assert all(np.isfinite(m.value) for m in found)
    assert max(_values(found, "accuracy_cumulative_chains", "chains")) == 3


def test_one_chain_and_one_batch_have_no_curves(classes):
    by_batch = classes.summary.probabilities_by_batch
    ensemble = classes.summary._replace(probabilities_by_batch=by_batch[:, :1], batch_stops=np.array([DRAWS]))
    found = cumulative_scores(ensemble, classes.labels, 15, 5, 0)
    assert {m.metric for m in found} == {"accuracy_cumulative_chains", "ece_cumulative_chains"}
    one = classes.summary._replace(divergent=np.array([False, True, True, True]))
    assert {m.metric for m in cumulative_scores(one, classes.labels, 15, 5, 0)} == {
        "accuracy_cumulative_draws",
        "ece_cumulative_draws",
        "accuracy_chain_mean_cumulative_draws",
        "ece_chain_mean_cumulative_draws",
    }


def test_a_calibration_curve_by_hand():
    """Six rows in three bins of two; the confidences of the last four tie in pairs."""
    p = np.array([0.55, 0.6, 0.7, 0.7, 0.9, 0.9])
    probabilities, labels = np.stack([p, 1 - p], axis=1), np.array([0, 1, 0, 0, 0, 1])
    bins = calibration_bins(probabilities, labels, 3)
    np.testing.assert_allclose(bins.confidence, [0.575, 0.7, 0.9])
    np.testing.assert_allclose(bins.accuracy, [0.5, 1, 0.5])
    assert bins.rows.tolist() == [2, 2, 2]
    error = expected_calibration_error_equal_mass(probabilities, labels, 3)
    assert np.sum(bins.rows * np.abs(bins.accuracy - bins.confidence)) / 6 == pytest.approx(error)
    tied = calibration_bins(np.full((6, 2), 0.5), labels, 3)
    assert sorted(tied.rows.tolist()) == [0, 0, 6]
    assert np.isnan(tied.confidence).sum() == 2


def test_bins_without_rows_are_left_out_of_the_curve():
    found = calibration_curve(np.full((6, 2), 0.5), np.array([0, 0, 0, 0, 1, 1]))
    assert [(m.metric, m.value) for m in found] == [
        ("calibration_confidence", 0.5),
        ("calibration_accuracy", pytest.approx(4 / 6)),
        ("calibration_share", 1.0),
    ]
    assert found[1].standard_error == pytest.approx(np.std([1, 1, 1, 1, 0, 0], ddof=1) / np.sqrt(6))


def test_shares_and_confidences_of_a_curve_add_up(classes):
    average = classes.probabilities.mean(axis=(0, 1))
    found = calibration_curve(average, classes.labels)
    share, confidence = (_values(found, f"calibration_{name}", "at") for name in ("share", "confidence"))
    assert sum(share.values()) == pytest.approx(1)
    assert sum(share[at] * confidence[at] for at in share) == pytest.approx(average.max(axis=1).mean())
    assert max(map(float, share)) <= 1


def test_a_histogram_of_entropies():
    uniform, certain = np.full((3, 4), 0.25), np.eye(4)[:1]
    shares = entropy_histogram(np.concatenate([uniform, certain]), 5)
    np.testing.assert_array_equal(shares, [0.25, 0, 0, 0, 0.75])
    found = entropy_shares(np.concatenate([uniform, certain]))
    assert len(found) == 20
    assert float(found[-1].at) == pytest.approx(np.log(4), rel=1e-3)
    assert sum(m.value for m in found) == pytest.approx(1)


@pytest.mark.parametrize("one_level", [True, False])
def test_log_scores_of_a_regression_are_diagnosed(memory_pool, predict_linear, one_level):
    rng = np.random.default_rng(2)
    x, draws = rng.normal(size=(ROWS, 2)), rng.normal(size=(3, DRAWS, 3))
    draws[0] += 2
    y = x @ [0.5, -1.0]

    def predict(theta, rows):
        found = predict_linear(theta, rows)
        factor = 1.0 if one_level else 1 + 0.1 * np.abs(rows[:, 0])
        return found._replace(scale=found.scale * factor)

    summary = summarise(memory_pool(draws), predict, x, y)
    kept = summary.function_rows if one_level else np.array(sorted({round(39 * i / 15) for i in range(16)}))
    prediction = predict(draws.reshape(-1, 3), x)
    scores = -0.5 * (np.log(2 * np.pi) + ((y - prediction.mean) / prediction.scale) ** 2) - np.log(prediction.scale)
    exact = diagnose(scores.reshape(3, DRAWS, ROWS)[..., kept])
    found = {m.metric: m for m in log_score_measurements(summary, y)}
    assert len(kept) == (ROWS if one_level else 16)
    assert found["rhat_log_score_max"].value == pytest.approx(exact.rhat.max(), rel=1e-3)
    assert found["rhat_log_score_median"].value == pytest.approx(np.median(exact.rhat), rel=1e-3)
    assert found["ess_bulk_log_score_min"].value == pytest.approx(exact.ess_bulk.min(), rel=1e-2)
    assert found["rhat_log_score_max"].value > 1.2
    assert found["rhat_log_score_max"].note == f"log score at {len(kept)} of {len(kept)} test rows"


def test_log_scores_of_a_classification_are_those_of_the_label(classes):
    exact = np.take_along_axis(np.log(classes.probabilities), classes.labels[None, None, :, None], axis=3)[..., 0]
    expected = diagnose(exact)
    found = {m.metric: m.value for m in log_score_measurements(classes.summary, classes.labels)}
    assert found["rhat_log_score_max"] == pytest.approx(expected.rhat.max(), rel=1e-3)
    assert found["ess_bulk_log_score_min"] == pytest.approx(expected.ess_bulk.min(), rel=1e-2)


def test_log_scores_that_never_change_are_undefined(classes):
    still = np.broadcast_to(classes.summary.function_draws[:1, :1], classes.summary.function_draws.shape)
    found = log_score_measurements(classes.summary._replace(function_draws=still), classes.labels)
    assert all(np.isnan(m.value) for m in found)
    assert {m.note for m in found} == {f"log score at 0 of {ROWS} test rows: constant, or one chain"}
    assert log_score_measurements(classes.summary._replace(divergent=np.ones(4, bool)), classes.labels) == []
    assert log_score_measurements(classes.summary._replace(draws=3), classes.labels) == []


def test_regressions_are_compared_with_another_run(memory_pool, predict_linear):
    """Noise of one level: all draws that differ by 0.3 in the mean are that far apart."""
    rng = np.random.default_rng(4)
    x, draws = np.column_stack([rng.normal(size=(30, 1)), np.ones(30)]), 0.3 * rng.normal(size=(2, DRAWS, 3))
    y = x @ [1.0, 0.0]
    moved = draws.copy()
    moved[..., 1] += 0.3
    own, other = (summarise(memory_pool(d), predict_linear, x, y) for d in (draws, moved))
    found = wasserstein_to(own, other, "hmc", "a note")
    assert found.value == pytest.approx(0.3, rel=1e-4)
    assert found.note == "a note; mean over 30 test rows, evenly spread, noise included"
    assert found.at == "hmc"
    rows = {row.metric: row for row in sets.reference_rows(RUN, "hmc", own, other)}
    assert set(rows) == {"wasserstein_1", "elpd_diff"}
    assert rows["wasserstein_1"].value == found.value
    none_left = own._replace(divergent=np.ones(2, bool))
    undefined = sets.reference_rows(RUN, "hmc", none_left, other)
    assert {row.metric for row in undefined} == {"wasserstein_1", "elpd_diff"}
    assert all(np.isnan(row.value) for row in undefined)
    apart = other._replace(function_rows=other.function_rows + 100)
    with pytest.raises(PredictionError, match="'hmc' keep no row in common"):
        wasserstein_to(own, apart, "hmc")


def test_scores_of_the_mixture_are_over_rows_without_divergent_chains(memory_pool, predict_linear):
    rng = np.random.default_rng(6)
    x, draws = rng.normal(size=(25, 2)), 0.4 * rng.normal(size=(3, 10, 3))
    y = x @ [0.5, -1.0] + rng.normal(size=25)
    draws[1, 4] = np.nan
    summary = summarise(memory_pool(draws), predict_linear, x, y)
    found = {m.metric: m for m in measure.prediction_measurements(summary, y, 4.0, "hmc")}
    prediction = predict_linear(draws[[0, 2]].reshape(-1, 3), x)
    rows = crps(prediction.mean, prediction.scale, y)
    assert found["crps"].value == pytest.approx(rows.mean(), rel=1e-12)
    assert found["crps"].standard_error == pytest.approx(rows.std(ddof=1) / 5, rel=1e-12)
    assert (found["interval_score"].at, found["interval_score"].note) == ("0.9", "")
    assert found["interval_score"].value == pytest.approx(
        interval_score(prediction.mean, prediction.scale, y, 0.9).mean(), rel=1e-12
    )
    for score in ("crps", "interval_score"):
        scaled, own = found[score], found[f"{score}_original_units"]
        assert own.at == scaled.at
        assert (own.value, own.standard_error) == (4 * scaled.value, 4 * scaled.standard_error)
    few = summarise(memory_pool(draws), predict_linear, x, y, Limits(mixture_draws=9))
    (some,) = (m for m in measure.prediction_measurements(few, y, 1.0, "hmc") if m.metric == "crps")
    assert some.note.startswith("mixture of 6 of 20 draws")
    none = [m.metric for m in measure.prediction_measurements(few._replace(mixture_mean=None), y, 1.0, "hmc")]
    assert "crps" not in none


def test_log_likelihood_in_the_targets_own_units(memory_pool, predict_linear):
    """Of targets and predictions that are multiplied by 7, the log density is lower by log 7."""
    rng = np.random.default_rng(6)
    x, draws = rng.normal(size=(25, 2)), 0.4 * rng.normal(size=(3, DRAWS, 3))
    y = x @ [0.5, -1.0] + 0.1 * rng.normal(size=25)

    def in_own_units(theta, rows):
        found = predict_linear(theta, rows)
        return found._replace(mean=7 * found.mean, scale=7 * found.scale)

    scaled, raw = (
        summarise(memory_pool(draws), predict, x, factor * y)
        for predict, factor in ((predict_linear, 1), (in_own_units, 7))
    )
    by_scale = {m.metric: m for m in measure.prediction_measurements(scaled, y, 7.0, "hmc", ["izmailov"])}
    direct = {m.metric: m for m in measure.prediction_measurements(raw, 7 * y, 1.0, "hmc", ["izmailov"])}
    assert by_scale["lppd_original_units"].value == pytest.approx(direct["lppd"].value, abs=1e-9)
    assert by_scale["lppd_original_units"].standard_error == by_scale["lppd"].standard_error
    assert by_scale["lppd_original_units"].monte_carlo_error == pytest.approx(by_scale["lppd"].monte_carlo_error)
    assert by_scale["lppd_izmailov"].value == pytest.approx(-direct["nll_moment_matched"].value, abs=1e-9)
    assert "lppd_izmailov" not in {m.metric for m in measure.prediction_measurements(scaled, y, 7.0, "hmc")}
