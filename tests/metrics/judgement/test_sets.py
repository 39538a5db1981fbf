"""Scores of further sets and against references, from predictive summaries."""

import numpy as np
import pytest

from bnn_atlas.metrics.formulas.classification import auroc, compare, cross_fitted_rows
from bnn_atlas.metrics.gathering.streaming import summarise
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.judgement import sets
from bnn_atlas.metrics.judgement.measure import correct_rows, elpd_difference
from bnn_atlas.metrics.judgement.rows import average
from bnn_atlas.metrics.tables.measurement import PredictionError, RunIdentity

RUN = RunIdentity("hmc_posteriors", "mnist_hmc", "demo", 0, "mnist", "mlp 256 relu", "hmc")


def summary(seed: int, rows: int = 30, chains: int = 3, divergent: int = 0) -> PredictiveSummary:
    rng = np.random.default_rng(seed)
    batches = rng.dirichlet(np.ones(4), size=(chains, 2, rows))
    left_out = np.arange(chains) < divergent
    batches[left_out] = np.nan
    nothing = np.empty(0, dtype=np.int64)
    return PredictiveSummary(
        10, left_out, np.zeros(chains, bool), nothing, np.empty((chains, 10, 0)), nothing, nothing,
        log_density_by_chain=rng.normal(size=(chains, rows)), probabilities_by_batch=batches,
        batch_stops=np.array([4, 10]),
    )  # fmt: skip


def value(rows, metric):
    (row,) = (row for row in rows if row.metric == metric)
    return row


def test_correct_rows_are_those_whose_most_probable_class_was_observed():
    found = summary(0, divergent=1)
    labels = np.random.default_rng(1).integers(4, size=30)
    observed = np.log(found.probabilities[:, np.arange(30), labels])
    correct = correct_rows(found._replace(log_density_by_chain=observed.astype(np.float32)))
    np.testing.assert_array_equal(correct, average(found).argmax(axis=1) == labels)
    assert 0 < correct.sum() < 30


def test_average_weighs_batches_by_their_draws_and_leaves_divergent_chains_out():
    found = summary(0, divergent=1)
    expected = (0.4 * found.probabilities_by_batch[1:, 0] + 0.6 * found.probabilities_by_batch[1:, 1]).mean(axis=0)
    np.testing.assert_allclose(average(found), expected)


def test_shifted_rows_are_named_after_the_set():
    found, labels = summary(1), np.random.default_rng(0).integers(0, 4, size=30)
    rows = sets.shift_rows(RUN, "rotated30", found, labels)
    row = value(rows, "accuracy")
    assert row.dataset == "mnist/rotated30"
    assert row.run == "mnist_hmc"
    assert (row.chains, row.draws) == (3, 10)
    assert row.value == (average(found).argmax(axis=1) == labels).mean()


def test_nll_of_shifted_rows_is_finite_where_their_probabilities_round_to_0():
    """Densities e^-200 and e^-300, of which the mixture is e^-200 / 2; the third chain is left out."""
    sure = np.zeros((3, 1, 2, 4), np.float32)
    sure[..., 0] = 1
    density = np.array([[-200.0, -200.0], [-300.0, -300.0], [np.nan, np.nan]])
    found = summary(1)._replace(
        divergent=np.array([False, False, True]), log_density_by_chain=density, probabilities_by_batch=sure,
        batch_stops=np.array([10]),
    )  # fmt: skip
    row = value(sets.shift_rows(RUN, "rotated30", found, np.ones(2, int)), "nll")
    assert row.value == pytest.approx(200 + np.log(2), rel=1e-12)
    assert row.dataset == "mnist/rotated30"
    impossible = found._replace(log_density_by_chain=np.where(np.arange(2) == 1, -np.inf, density))
    row = value(sets.shift_rows(RUN, "rotated30", impossible, np.ones(2, int)), "nll")
    assert row.value == np.inf
    assert "1 of 2 rows have density 0" in row.note


def test_outside_rows_are_told_from_test_rows_by_certainty():
    inside, outside = summary(2), summary(3, rows=20)
    rows = sets.outside_rows(RUN, "ood-fashion_mnist", outside, inside)
    expected = auroc(average(inside).max(axis=1), average(outside).max(axis=1))
    assert value(rows, "auroc_confidence").value == pytest.approx(expected, rel=1e-12)
    assert {row.dataset for row in rows} == {"mnist/ood-fashion_mnist"}


def test_reference_rows_name_the_reference_and_the_excluded_chains():
    found, reference = summary(4, divergent=1), np.random.default_rng(5).dirichlet(np.ones(4), size=30)
    rows = sets.reference_rows(RUN, "hmc_imdb", found, reference)
    expected = compare(average(found), reference)
    assert value(rows, "agreement").value == expected.agreement
    assert value(rows, "total_variation").value == expected.total_variation
    assert {row.at for row in rows} == {"hmc_imdb"}
    assert "1 of 3 chains excluded" in rows[0].note
    assert rows[0].dataset == "mnist"


def test_nothing_is_scored_without_a_chain():
    with pytest.raises(PredictionError, match="no chain is left"):
        average(summary(6, divergent=3))


def test_what_is_said_of_a_reference_begins_every_note():
    said = ["reference not converged: ESS of the log posterior 4 (at least 100)", "", "same posterior as hmc"]
    rows = sets.reference_rows(RUN, "hmc", summary(4, divergent=1), summary(5), said)
    distances = {f"{name}{end}" for name in ("agreement", "total_variation") for end in ("", "_cross_fitted")}
    assert {row.metric for row in rows} == {*distances, "elpd_diff"}
    assert all(row.note.startswith(f"{said[0]}; {said[2]}") for row in rows)
    assert all("1 of 3 chains excluded" in row.note for row in rows)
    published = sets.reference_rows(RUN, "hmc", summary(4), np.full((30, 4), 0.25), ["40 training rows"])
    assert [row.note for row in published[:2]] == ["40 training rows; against hmc"] * 2
    assert all(row.note.startswith("40 training rows; against hmc; halves") for row in published[2:])
    assert not any("reference" in row.note for row in sets.reference_rows(RUN, "hmc", summary(4), summary(5)))


def test_the_difference_of_two_runs_is_paired_by_row():
    """Rows differ by nats, the runs by a tenth: only a paired error sees that."""
    rng = np.random.default_rng(0)
    hard = 3 * rng.normal(size=30)
    gap = 0.1 + 0.01 * rng.normal(size=30)
    own, other = (summary(s)._replace(log_density_by_chain=np.tile(hard + g, (3, 1))) for s, g in ((1, gap), (2, 0.0)))
    row = value(sets.reference_rows(RUN, "hmc", own, other), "elpd_diff")
    assert row.value == pytest.approx(gap.mean())
    assert row.standard_error == pytest.approx(gap.std(ddof=1) / np.sqrt(30))
    assert (row.over, row.at) == ("rows", "hmc")
    fewer = other._replace(log_density_by_chain=other.log_density_by_chain[:, :9])
    with pytest.raises(PredictionError, match="30 rows cannot be paired with 9 rows of 'hmc'"):
        elpd_difference(own, fewer, "hmc")


def test_without_a_chain_of_the_reference_nothing_is_compared():
    rows = sets.reference_rows(RUN, "hmc", summary(4), summary(5, divergent=3))
    assert all(np.isnan(row.value) and row.note.startswith("no chain left to average of hmc") for row in rows)


def test_shifted_rows_have_the_ceiling_of_the_chains_that_are_left():
    found, labels = summary(1, divergent=1), np.random.default_rng(0).integers(0, 4, size=30)
    rows = sets.shift_rows(RUN, "rotated30", found, labels)
    first, second = found.probabilities[1:]
    assert value(rows, "agreement_ceiling").value == compare(first, second).agreement
    assert value(rows, "total_variation_ceiling").value == pytest.approx(compare(first, second).total_variation)
    single = [(chain.argmax(axis=1) == labels).mean() for chain in (first, second)]
    assert value(rows, "accuracy_chain_mean").value == pytest.approx(np.mean(single))
    assert value(rows, "accuracy_chain_mean").standard_error == pytest.approx(np.std(single, ddof=1) / 2**0.5)
    assert [value(rows, f"accuracy_chain_{name}").value for name in ("min", "max")] == [min(single), max(single)]
    alone = sets.shift_rows(RUN, "rotated30", summary(1, chains=1), labels)
    assert "agreement_ceiling" not in {row.metric for row in alone}


def functions(chains: int, draws: int, divergent: int = 0) -> tuple[PredictiveSummary, np.ndarray]:
    """Predictions of a regression without targets at six inputs, and its functions [chain, draw, input]."""
    values = np.random.default_rng(3).normal(size=(chains, draws, 6)) * np.arange(1, 7)
    left_out = np.arange(chains) < divergent
    mean, second = values.mean(axis=1), np.square(values).mean(axis=1)
    mean[left_out] = second[left_out] = np.nan
    found = PredictiveSummary(
        draws, left_out, np.zeros(chains, bool), np.empty(0, np.int64), values, np.arange(6), np.full(6, -1),
        mean=mean, second_moment=second, noise_variance=np.ones((chains, 6)),
    )  # fmt: skip
    return found, values


def test_spread_of_functions_on_an_interval_is_over_all_draws_of_the_chains_that_count():
    found, values = functions(3, 40, divergent=1)
    (row,) = sets.interval_rows(RUN, "interval-gap", found)
    assert (row.dataset, row.metric) == ("mnist/interval-gap", "function_sd")
    assert row.value == pytest.approx(values[1:].reshape(-1, 6).std(axis=0).mean())
    halves = [values[chain].std(axis=0).mean() for chain in (1, 2)]
    assert row.monte_carlo_error == pytest.approx(abs(halves[0] - halves[1]) / 2)


def test_the_error_of_one_chain_is_over_batches_of_draws_and_one_draw_has_none():
    found, values = functions(1, 400)
    (row,) = sets.interval_rows(RUN, "interval-gap", found)
    # Of independent draws the relative error of a standard deviation is 1 / sqrt(2 S); six inputs are averaged.
    expected = np.sqrt(np.sum((values[0].std(axis=0) / np.sqrt(800)) ** 2)) / 6
    assert row.monte_carlo_error == pytest.approx(expected, rel=0.5)
    (row,) = sets.interval_rows(RUN, "interval-gap", functions(1, 1)[0])
    assert (row.value, row.monte_carlo_error) == (0, None)


def test_without_a_chain_the_spread_is_not_a_number():
    (row,) = sets.interval_rows(RUN, "interval-gap", functions(2, 5, divergent=2)[0])
    assert np.isnan(row.value)
    assert "no chain left" in row.note


def test_cross_fitted_distances_use_halves_of_both_sides(memory_pool, predict_softmax):
    """Other draws of the same distribution: no distance, although the averages differ; the error is a jackknife."""
    rng, x = np.random.default_rng(7), np.random.default_rng(8).normal(size=(3000, 2))
    ours, theirs = (
        summarise(memory_pool(rng.normal(size=(6, 5, 6))), predict_softmax, x, np.arange(3000) % 3, classes=3)
        for _ in range(2)
    )
    rows = sets.reference_rows(RUN, "other", ours, theirs)
    plain, found = value(rows, "total_variation"), value(rows, "total_variation_cross_fitted")
    assert plain.value > 0.04
    assert found.monte_carlo_error > 0
    assert abs(found.value) < 4 * found.monte_carlo_error
    assert found.at == "other"
    assert "halves of the draws" in found.note
    published = value(sets.reference_rows(RUN, "published", ours, average(theirs)), "total_variation_cross_fitted")
    assert "the floor of the published reference remains" in published.note
    assert value(rows, "agreement_cross_fitted").monte_carlo_error > 0


def test_one_chain_is_halved_into_draws_and_one_network_not_at_all():
    one, labels = summary(3, chains=1), np.arange(30) % 4
    p = [one.probabilities_by_batch[0, batch] for batch in (0, 1)]
    other = summary(4, chains=1)
    q = [other.probabilities_by_batch[0, batch] for batch in (0, 1)]
    found = value(sets.reference_rows(RUN, "o", one, other), "total_variation_cross_fitted").value
    assert found == pytest.approx(cross_fitted_rows(tuple(p), tuple(q))[1].mean())
    single = one._replace(draws=1, probabilities_by_batch=one.probabilities_by_batch[:, :1], batch_stops=np.array([1]))
    rows = sets.reference_rows(RUN, "o", single, single)
    assert value(rows, "total_variation_cross_fitted").value == 0
    assert value(rows, "agreement_cross_fitted").value == 1
    assert len({row.metric for row in sets.shift_rows(RUN, "blur1", one, labels)} & {"accuracy_cumulative_draws"}) == 1


def test_shifted_rows_have_their_accuracy_by_number_of_draws_of_all_chains():
    found, labels = summary(1), np.random.default_rng(0).integers(0, 4, size=30)
    rows = [r for r in sets.shift_rows(RUN, "rotated30", found, labels) if r.metric == "accuracy_cumulative_draws"]
    first = found.probabilities_by_batch[:, 0].mean(axis=0)
    assert [(row.chains, row.draws) for row in rows] == [(3, 4), (3, 10)]
    assert rows[0].value == (first.argmax(axis=1) == labels).mean()
    assert rows[1].value == value(sets.shift_rows(RUN, "rotated30", found, labels), "accuracy").value


def test_shifted_rows_have_their_accuracy_by_number_of_chains():
    found, labels = summary(1), np.random.default_rng(0).integers(0, 4, size=30)
    rows = [r for r in sets.shift_rows(RUN, "rotated30", found, labels) if r.metric == "accuracy_cumulative_chains"]
    assert [row.chains for row in rows] == [1, 2, 3]
    assert rows[-1].value == pytest.approx(value(sets.shift_rows(RUN, "rotated30", found, labels), "accuracy").value)


def without(found: PredictiveSummary, chain: int) -> PredictiveSummary:
    """The same predictions with one chain fewer."""
    return found._replace(
        divergent=np.delete(found.divergent, chain), stuck=np.delete(found.stuck, chain),
        function_draws=np.delete(found.function_draws, chain, axis=0),
        probabilities_by_batch=np.delete(found.probabilities_by_batch, chain, axis=0),
        log_density_by_chain=np.delete(found.log_density_by_chain, chain, axis=0),
    )  # fmt: skip


def jackknifed(values: list[float]) -> float:
    return pytest.approx(np.sqrt((len(values) - 1) * np.var(values)))


def test_scores_of_shifted_rows_have_the_error_over_chains_of_those_of_test_rows():
    """sqrt(3/4 sum (v - mean)^2) over the four scores without one of the chains."""
    found, labels = summary(1, rows=200, chains=4), np.random.default_rng(0).integers(0, 4, size=200)
    fewer = [sets.shift_rows(RUN, "fog3", without(found, chain), labels) for chain in range(4)]
    rows = sets.shift_rows(RUN, "fog3", found, labels)
    for name in ("accuracy", "nll", "brier", "ece", "ece_equal_mass", "sce", "mean_maximum_confidence"):
        assert value(rows, name).monte_carlo_error == jackknifed([value(one, name).value for one in fewer]), name
        assert value(rows, name).monte_carlo_error > 0
    at = [[row for row in one if row.metric == "entropy_histogram"][15] for one in [rows, *fewer]]
    assert at[0].monte_carlo_error == jackknifed([one.value for one in at[1:]])
    assert value(rows, "accuracy_chain_mean").monte_carlo_error is None, "it has an error over chains of its own"
    one_draw = summary(1, chains=1)
    one_draw = one_draw._replace(
        draws=1, batch_stops=np.array([1]), probabilities_by_batch=one_draw.probabilities_by_batch[:, :1]
    )
    assert value(sets.shift_rows(RUN, "fog3", one_draw, labels[:30]), "accuracy").monte_carlo_error is None


def test_detection_has_the_error_over_chains_that_both_sides_share():
    inside, outside = summary(2, rows=80, chains=4), summary(3, rows=50, chains=4)._replace(log_density_by_draw=None)
    fewer = [sets.outside_rows(RUN, "ood-x", without(outside, c), without(inside, c), ["uppal"]) for c in range(4)]
    rows = sets.outside_rows(RUN, "ood-x", outside, inside, ["uppal"])
    for name in ("auroc_confidence", "auroc_entropy", "fpr95_entropy_uppal", "predictive_entropy_ood"):
        assert value(rows, name).monte_carlo_error == jackknifed([value(one, name).value for one in fewer]), name
    other = outside._replace(divergent=np.arange(4) == 1)
    assert value(sets.outside_rows(RUN, "ood-x", other, inside), "auroc_entropy").monte_carlo_error is None


def test_detection_by_one_chain_has_the_error_over_batches_of_its_draws():
    inside, outside = (summary(seed, chains=1)._replace(log_density_by_chain=None) for seed in (4, 5))
    single = [
        [one._replace(probabilities_by_batch=one.probabilities_by_batch[:, [b]], batch_stops=np.array([10]))
         for one in (outside, inside)]
        for b in (1, 0)
    ]  # fmt: skip
    fewer = [value(sets.outside_rows(RUN, "ood-x", *one), "auroc_entropy").value for one in single]
    row = value(sets.outside_rows(RUN, "ood-x", outside, inside), "auroc_entropy")
    assert row.monte_carlo_error == jackknifed(fewer)
