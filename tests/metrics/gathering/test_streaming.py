import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from bnn_atlas.metrics.gathering.streaming import Limits, summarise
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, running_counts
from bnn_atlas.metrics.tables.measurement import PredictionError
from bnn_atlas.posterior import Predictive

LOTS = 2**24


def regression_case(rng, chains, draws, rows, features=2):
    theta = rng.normal(size=(chains, draws, features + 1)) * 0.5
    return theta, rng.normal(size=(rows, features)), rng.normal(size=rows)


def brute_regression(theta, x, y):
    mean = theta[..., :-1] @ x.T
    scale = np.exp(theta[..., -1:]) * np.ones(len(x))
    density = norm.logpdf(y, mean, scale)
    chains, draws = theta.shape[:2]
    return {
        "log_density_by_chain": logsumexp(density, axis=1) - np.log(draws),
        "log_density_by_draw": logsumexp(density, axis=0) - np.log(chains),
        "mean": mean.mean(axis=1),
        "second_moment": (mean**2).mean(axis=1),
        "noise_variance": (scale**2).mean(axis=1),
        "pit": norm.cdf(y, mean, scale).mean(axis=1),
    }, density


def assert_same(one: PredictiveSummary, other: PredictiveSummary, tolerance=1e-12):
    for name, value in one._asdict().items():
        if value is None:
            assert getattr(other, name) is None
        else:
            np.testing.assert_allclose(getattr(other, name), value, rtol=tolerance, atol=tolerance, err_msg=name)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), chains=st.integers(1, 4), draws=st.integers(1, 13), rows=st.integers(1, 6),
    max_bytes=st.integers(1, 20_000), chunk=st.integers(1, 13),
)  # fmt: skip
def test_streamed_regression_equals_everything_at_once(
    memory_pool, predict_linear, seed, chains, draws, rows, max_bytes, chunk
):
    theta, x, y = regression_case(np.random.default_rng(seed), chains, draws, rows)
    pool = memory_pool(theta, chunk=chunk)
    summary = summarise(pool, predict_linear, x, y, Limits(max_bytes))
    expected, density = brute_regression(theta, x, y)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(summary, name), value, rtol=1e-10, atol=1e-12, err_msg=name)
    running = [logsumexp(density[:, :s], axis=1).mean(axis=1) - np.log(s) for s in summary.running_draws]
    np.testing.assert_allclose(summary.running_lppd, np.stack(running, axis=1), rtol=1e-10, atol=1e-12)
    functions = theta[..., :-1] @ x[summary.function_rows].T
    np.testing.assert_allclose(summary.function_draws, functions, rtol=1e-10, atol=1e-12)
    assert summary.task == "regression"
    assert not summary.divergent.any()
    np.testing.assert_allclose(summary.mixture_mean, theta[..., :-1] @ x.T, rtol=1e-10, atol=1e-12)
    noise = np.broadcast_to(theta[..., -1:], summary.mixture_log_noise.shape)
    np.testing.assert_allclose(summary.mixture_log_noise, noise, rtol=1e-10, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), draws=st.integers(1, 9), max_bytes=st.integers(1, 20_000))
def test_streamed_classification_equals_everything_at_once(memory_pool, predict_softmax, seed, draws, max_bytes):
    rng = np.random.default_rng(seed)
    theta, x, y = rng.normal(size=(3, draws, 6)), rng.normal(size=(5, 2)), rng.integers(0, 3, size=5)
    summary = summarise(memory_pool(theta), predict_softmax, x, y, Limits(max_bytes, function_rows=5))
    log_probs = np.stack([predict_softmax(chain, x).log_probs for chain in theta])
    density = log_probs[:, :, np.arange(5), y]
    np.testing.assert_allclose(summary.log_density_by_chain, logsumexp(density, axis=1) - np.log(draws), atol=1e-12)
    np.testing.assert_allclose(summary.log_density_by_draw, logsumexp(density, axis=0) - np.log(3), atol=1e-12)
    np.testing.assert_allclose(summary.probabilities, np.exp(log_probs).mean(axis=1), atol=1e-12)
    values = np.exp(log_probs)[..., summary.function_rows, summary.function_classes]
    np.testing.assert_allclose(summary.function_draws, values, atol=1e-12)
    assert summary.task == "classification"


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), draws=st.integers(1, 9), batches=st.integers(1, 12), max_bytes=st.integers(1, 20_000),
    chunk=st.integers(1, 9),
)  # fmt: skip
def test_probabilities_are_kept_in_batches_of_draws(
    memory_pool, predict_softmax, seed, draws, batches, max_bytes, chunk
):
    rng = np.random.default_rng(seed)
    theta, x = rng.normal(size=(3, draws, 6)), rng.normal(size=(5, 2))
    limits = Limits(max_bytes, draw_batches=batches)
    summary = summarise(memory_pool(theta, chunk=chunk), predict_softmax, x, None, limits)
    expected = np.exp(np.stack([predict_softmax(chain, x).log_probs for chain in theta]))
    stops = summary.batch_stops
    assert len(stops) == max(1, min(batches, draws, max_bytes // (3 * 5 * 3 * 8)))
    assert stops[-1] == draws
    for batch, (start, stop) in enumerate(zip([0, *stops], stops, strict=False)):
        mean = expected[:, start:stop].mean(axis=1)
        np.testing.assert_allclose(summary.probabilities_by_batch[:, batch], mean, atol=1e-12)
    np.testing.assert_allclose(summary.probabilities, expected.mean(axis=1), atol=1e-12)


def test_rows_without_targets_are_predicted_and_not_scored(memory_pool, predict_linear):
    theta, x, y = regression_case(np.random.default_rng(3), 2, 5, 4)
    without = summarise(memory_pool(theta), predict_linear, x, None)
    scored = summarise(memory_pool(theta), predict_linear, x, y)
    np.testing.assert_array_equal(without.mean, scored.mean)
    for name in ("log_density_by_chain", "log_density_by_draw", "running_lppd", "pit", "mixture_mean"):
        assert getattr(without, name) is None
        assert getattr(scored, name) is not None


def test_batches_do_not_matter_and_predict_sees_one_shape_within_the_budget(memory_pool, predict_linear):
    theta, x, y = regression_case(np.random.default_rng(1), 5, 37, 11)
    whole = summarise(memory_pool(theta), predict_linear, x, y, Limits(LOTS))
    for max_bytes, chunk in ((1, 1), (5_000, 7), (20_000, 37), (60_000, 10), (LOTS, 4)):
        pool, shapes = memory_pool(theta, chunk=chunk), set()

        def predict(batch, rows, shapes=shapes):
            shapes.add(batch.shape)
            return predict_linear(batch, rows)

        assert_same(whole, summarise(pool, predict, x, y, Limits(max_bytes, function_rows=11))._replace(
            function_draws=whole.function_draws, function_rows=whole.function_rows,
            function_classes=whole.function_classes,
        ))  # fmt: skip
        assert len(shapes) == 1
        assert pool.largest <= max(max_bytes, theta[0, 0].nbytes)


def test_batches_larger_than_the_budget_are_cut(memory_pool, predict_linear):
    theta, x, y = regression_case(np.random.default_rng(7), 4, 37, 11)

    class Whole(memory_pool):
        def batches(self, *, max_bytes):
            return super().batches(max_bytes=LOTS)

    shapes = set()

    def predict(batch, rows):
        shapes.add(batch.shape)
        return predict_linear(batch, rows)

    whole = summarise(memory_pool(theta), predict_linear, x, y, Limits(LOTS, function_rows=1))
    for max_bytes in (4_000, 12_000, 60_000):
        shapes.clear()
        assert_same(whole, summarise(Whole(theta), predict, x, y, Limits(max_bytes, function_rows=1)))
        ((draws, _),) = shapes
        assert draws * 11 * 8 * 5 < max_bytes


def test_some_draws_are_kept_at_all_rows(memory_pool, predict_linear):
    theta, x, y = regression_case(np.random.default_rng(9), 2, 31, 12)
    few = summarise(memory_pool(theta, chunk=7), predict_linear, x, y, Limits(3_000, mixture_draws=9))
    assert few.mixture_log_noise.shape == (2, 4, 12)
    np.testing.assert_allclose(few.mixture_mean, theta[:, ::10, :-1] @ x.T, rtol=1e-10, atol=1e-12)
    assert summarise(memory_pool(theta), predict_linear, x, y, Limits(mixture_draws=1)).mixture_mean.shape[1] == 1


def test_function_draws_shrink_to_the_budget_and_stay_evenly_spread(memory_pool, predict_linear):
    theta, x, y = regression_case(np.random.default_rng(2), 4, 50, 101)
    full = summarise(memory_pool(theta), predict_linear, x, y, Limits(LOTS, function_rows=5))
    assert full.function_rows.tolist() == [0, 25, 50, 75, 100]
    small = summarise(memory_pool(theta), predict_linear, x, y, Limits(3 * 4 * 50 * 8, function_rows=5))
    assert small.function_rows.tolist() == [0, 50, 100]
    np.testing.assert_allclose(small.function_draws, full.function_draws[..., ::2], atol=1e-12)


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_divergent_chain_is_marked_and_left_out_of_every_average(memory_pool, predict_linear, bad, value):
    theta, x, y = regression_case(np.random.default_rng(3), 3, 20, 4)
    others = [c for c in range(3) if c != bad]
    clean = summarise(memory_pool(theta[others]), predict_linear, x, y, Limits(2_000))
    theta[bad, 17, 0] = value
    with np.errstate(invalid="ignore"):
        summary = summarise(memory_pool(theta), predict_linear, x, y, Limits(2_000))
    assert summary.divergent.tolist() == [c == bad for c in range(3)]
    assert summary.kept.tolist() == others
    np.testing.assert_allclose(summary.log_density_by_draw, clean.log_density_by_draw, rtol=1e-12)
    for name in ("log_density_by_chain", "running_lppd", "function_draws", "mean", "second_moment", "noise_variance",
                 "pit", "mixture_mean", "mixture_log_noise"):  # fmt: skip
        np.testing.assert_allclose(getattr(summary, name)[others], getattr(clean, name), rtol=1e-12, err_msg=name)
        assert np.isnan(getattr(summary, name)[bad]).all(), name


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scale_that_is_no_scale_makes_the_chain_divergent(memory_pool, scale):
    def predict(theta, x):
        return Predictive(mean=theta @ x.T, scale=np.where(theta > 5, scale, 1.0) * np.ones(len(x)))

    theta = np.zeros((2, 6, 1))
    theta[1, 3] = 6.0
    summary = summarise(memory_pool(theta), predict, np.ones((2, 1)), np.zeros(2), Limits(LOTS))
    assert summary.divergent.tolist() == [False, True]


def test_infinite_parameter_behind_finite_predictions_is_divergent(memory_pool):
    def predict(theta, x):
        return Predictive(mean=np.tanh(theta) @ x.T, scale=np.ones((len(theta), len(x))))

    theta = np.zeros((2, 5, 1))
    theta[0, 4] = np.inf
    summary = summarise(memory_pool(theta), predict, np.ones((3, 1)), np.zeros(3), Limits(LOTS))
    assert summary.divergent.tolist() == [True, False]


def test_all_chains_divergent_gives_nan_and_no_number(memory_pool, predict_linear):
    theta = np.full((2, 4, 2), np.nan)
    summary = summarise(memory_pool(theta), predict_linear, np.ones((3, 1)), np.zeros(3), Limits(LOTS))
    assert summary.divergent.all()
    assert np.isnan(summary.log_density_by_draw).all()
    assert np.isnan(summary.log_density_by_chain).all()


def certain(theta: np.ndarray, x: np.ndarray) -> Predictive:
    """Two classes: probability 1 for class 0 if theta < 0.5, else one half each."""
    sure, even = np.array([0.0, -np.inf]), np.log([0.5, 0.5])
    log_probs = np.where(theta[:, None, :1] < 0.5, sure, even)
    return Predictive(log_probs=np.broadcast_to(log_probs, (len(theta), len(x), 2)))


def test_density_of_zero_is_a_value_and_not_a_divergence(memory_pool):
    theta = np.array([[[0.0], [0.0], [1.0], [1.0]], [[0.0], [0.0], [0.0], [0.0]]])
    summary = summarise(memory_pool(theta), certain, np.ones((2, 1)), np.array([1, 0]), Limits(LOTS))
    assert not summary.divergent.any()
    np.testing.assert_allclose(summary.log_density_by_chain, [[np.log(0.25), np.log(0.75)], [-np.inf, 0.0]])
    np.testing.assert_allclose(
        summary.log_density_by_draw, [[-np.inf, 0], [-np.inf, 0], *[[np.log(0.25), np.log(0.75)]] * 2]
    )
    expected = (np.log(0.5 / 3) + np.log(2.5 / 3)) / 2
    np.testing.assert_allclose(summary.running_lppd[0], [-np.inf, -np.inf, expected, np.log(0.25 * 0.75) / 2])
    assert np.isneginf(summary.running_lppd[1]).all()


def test_square_beyond_float64_is_a_density_of_zero(memory_pool):
    def predict(theta, x):
        return Predictive(mean=np.zeros((len(theta), len(x))), scale=np.exp(theta) * np.ones(len(x)))

    theta = np.array([[[-600.0]], [[0.0]]])
    summary = summarise(memory_pool(theta), predict, np.ones((1, 1)), np.ones(1), Limits(LOTS))
    assert not summary.divergent.any()
    assert np.isneginf(summary.log_density_by_chain[0]).all()
    np.testing.assert_allclose(summary.log_density_by_draw, norm.logpdf(1.0) - np.log(2))


@pytest.mark.parametrize(
    ("chains", "draws", "limit", "chunk", "block", "blocks"),
    [
        (1, 11, 10, 1, 6, 2),
        (1, 11, 10, 5, 5, 3),
        (1, 100, 10, 4, 8, 13),
        (1, 12, 8, 3, 6, 2),
        (5, 7, 29, 7, 21, 2),
        (4, 3, 100, 1, 12, 1),
    ],
    ids=["one too many", "in chunks", "many", "chunk and a half", "chains", "everything"],
)
def test_blocks_are_about_equally_full(memory_pool, predict_linear, chains, draws, limit, chunk, block, blocks):
    """A short block costs as much as a full one, so the last one should not hold a single draw."""
    theta, x, y = regression_case(np.random.default_rng(8), chains, draws, 1)

    class Pool(memory_pool):
        draws_per_chunk = chunk

    seen, each = [], 2 * theta[0, 0].nbytes + 96

    def predict(batch, rows):
        seen.append(len(batch))
        return predict_linear(batch, rows)

    assert_same(
        summarise(memory_pool(theta), predict_linear, x, y, Limits(LOTS, function_rows=1)),
        summarise(Pool(theta), predict, x, y, Limits(limit * each, function_rows=1)),
    )
    assert seen == [block] * blocks


@pytest.mark.parametrize(
    ("predict", "y", "message"),
    [
        (
            lambda t, x: Predictive(mean=np.zeros((len(t), 3)), scale=np.ones((len(t), 3))),
            np.zeros(2),
            r"mean of shape",
        ),
        (
            lambda t, x: Predictive(mean=np.zeros((len(t), 2)), scale=np.ones((len(t), 1))),
            np.zeros(2),
            r"scale of shape",
        ),
        (lambda t, x: Predictive(mean=np.zeros((1, 2)), scale=np.ones((1, 2))), np.zeros(2), r"for 8 draws"),
        (lambda t, x: Predictive(log_probs=np.zeros((len(t), 2, 2))), np.zeros(2, int), r"not normalised"),
        (lambda t, x: Predictive(log_probs=np.zeros((len(t), 2, 1))), np.ones(2, int), r"label 1 has no probability"),
        (lambda t, x: Predictive(log_probs=np.zeros((len(t), 2, 1))), np.zeros(2), r"needs integer labels"),
        (
            lambda t, x: Predictive(mean=np.zeros((len(t), 2)), scale=np.ones((len(t), 2))),
            np.zeros(2, int),
            r"log_probs",
        ),
        (None, np.zeros(3), r"x has shape \(2, 1\)"),
        (None, np.array([0.0, np.nan]), r"1 test targets are not finite"),
        (None, np.array([0, -1]), r"label -1 is negative"),
    ],
)
def test_wrong_predictions_and_data_are_refused_in_words(memory_pool, predict, y, message):
    with pytest.raises(PredictionError, match=message):
        summarise(memory_pool(np.zeros((2, 4, 1))), predict, np.ones((2, 1)), y, Limits(LOTS))


def test_pool_out_of_order_or_short_is_refused(memory_pool, predict_linear):
    theta, x, y = regression_case(np.random.default_rng(5), 2, 6, 3)

    class Backwards(memory_pool):
        def batches(self, *, max_bytes):
            return reversed(list(super().batches(max_bytes=max_bytes)))

    class Short(memory_pool):
        def batches(self, *, max_bytes):
            return list(super().batches(max_bytes=max_bytes))[:-1]

    with pytest.raises(PredictionError, match=r"draw 3 of chain 0 after 0"):
        summarise(Backwards(theta, chunk=3), predict_linear, x, y, Limits(LOTS))
    with pytest.raises(PredictionError, match=r"3 of 6 draws of chain 0"):
        summarise(Short(theta, chunk=3), predict_linear, x, y, Limits(LOTS))


def test_subset_of_the_parameters_cannot_predict(memory_pool, predict_linear):
    theta, x, y = regression_case(np.random.default_rng(6), 2, 6, 3)
    subset = memory_pool(theta[..., :2], layout=memory_pool(theta).layout)
    with pytest.raises(PredictionError, match="2 of 3 parameters"):
        summarise(subset, predict_linear, x, y, Limits(LOTS))


def test_running_counts_cover_the_range_without_repeats():
    assert running_counts(4, 50).tolist() == [1, 2, 3, 4]
    counts = running_counts(10_000, 50)
    assert counts[0] == 1
    assert counts[-1] == 10_000
    assert (np.diff(counts) > 0).all()
    assert len(counts) <= 50


def test_a_chain_that_never_moved_is_left_out(memory_pool, predict_linear):
    rng = np.random.default_rng(3)
    draws, x, y = regression_case(rng, 3, 20, 4)
    draws[1] = draws[1, :1]
    log_likelihood = rng.normal(size=(3, 20))
    log_likelihood[1] = -7.0
    pool = memory_pool(draws, {"log_likelihood": log_likelihood})
    summary = summarise(pool, predict_linear, x, y, Limits(10_000))
    moving = summarise(memory_pool(draws[[0, 2]]), predict_linear, x, y, Limits(10_000))
    np.testing.assert_array_equal(summary.divergent, [False, True, False])
    np.testing.assert_allclose(summary.log_density_by_draw, moving.log_density_by_draw)
