import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

from bnn_atlas.metrics.formulas import rhat_ess
from bnn_atlas.metrics.formulas.rhat_ess import ess_mean
from bnn_atlas.metrics.gathering import chain_convergence
from bnn_atlas.metrics.gathering.streaming import Limits, summarise
from bnn_atlas.models.layout import Layout, Parameter

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next version on import
    import arviz


def chains_of(rng, chains, draws, correlation, spread=0.0):
    """Autoregressive chains [C, S] around means that differ by `spread`."""
    noise = rng.normal(size=(chains, draws))
    return lfilter([1.0], [1.0, -correlation], noise, axis=1) + spread * rng.normal(size=(chains, 1))


def arviz_of(draws):
    """R-hat, bulk and tail ESS of draws [C, S, P] by ArviZ, one quantity at a time."""
    columns = [np.ascontiguousarray(draws[..., p]) for p in range(draws.shape[2])]
    return (
        np.array([arviz.rhat(c) for c in columns]),
        np.array([arviz.ess(c) for c in columns]),
        np.array([arviz.ess(c, method="tail") for c in columns]),
    )


def assert_as_arviz(draws):
    rhat, bulk, tail = arviz_of(draws)
    np.testing.assert_allclose(rhat_ess.rhat(draws), rhat, rtol=1e-6)
    if draws.shape[1] < rhat_ess.SHORTEST_ESS:
        assert np.isnan([rhat_ess.ess_bulk(draws), rhat_ess.ess_tail(draws)]).all()
        return
    np.testing.assert_allclose(rhat_ess.ess_bulk(draws), bulk, rtol=1e-6)
    np.testing.assert_allclose(rhat_ess.ess_tail(draws), tail, rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), chains=st.integers(2, 5), draws=st.integers(40, 90),
    correlation=st.sampled_from([-0.9, -0.5, 0.0, 0.5, 0.9, 0.99]), spread=st.sampled_from([0.0, 0.3, 5.0]),
)  # fmt: skip
def test_rhat_and_ess_are_those_of_arviz(seed, chains, draws, correlation, spread):
    rng = np.random.default_rng(seed)
    if (0.05 * (chains * draws - 1)) % 1 == 0:  # the quantile is a draw itself: one ulp decides whether it counts
        draws += 1
    assert_as_arviz(np.stack([chains_of(rng, chains, draws, correlation, spread) for _ in range(3)], axis=2))


@pytest.mark.parametrize(("chains", "draws"), [(2, 4), (2, 5), (3, 6), (3, 7), (2, 8), (4, 9), (2, 11), (10, 1000)])
def test_short_odd_and_long_chains_are_those_of_arviz(chains, draws):
    rng = np.random.default_rng(draws + 1)
    assert_as_arviz(np.stack([chains_of(rng, chains, draws, r) for r in (-0.8, 0.0, 0.3, 0.95)], axis=2))


@pytest.mark.parametrize("draws", [9, 10])
def test_there_is_no_ess_of_so_few_draws_that_it_is_one_number_for_all(draws):
    """Below the limit ArviZ gives chains that mix and chains far apart the same."""
    rng = np.random.default_rng(0)
    mixing_well, apart = (rng.normal(size=(2, draws, 1)) + spread * np.arange(2)[:, None, None] for spread in (0, 100))
    bulk = [arviz_of(x)[1][0] for x in (mixing_well, apart)]
    assert (bulk[0] == bulk[1]) == (draws < rhat_ess.SHORTEST_ESS)
    assert np.isnan(rhat_ess.ess_bulk(apart)).all() == (draws < rhat_ess.SHORTEST_ESS)


@pytest.mark.parametrize(("seed", "draws"), [(19, 16), (57, 10), (123, 14)])
def test_sequence_that_never_turns_negative_ends_as_in_arviz(seed, draws):
    """The last pair of autocorrelations is positive although its first member is negative."""
    assert_as_arviz(np.random.default_rng(seed).normal(size=(2, draws, 1)))


def test_repeated_draws_of_a_metropolis_chain_are_ranked_as_in_arviz():
    rng = np.random.default_rng(0)
    draws = np.repeat(chains_of(rng, 3, 100, 0.5)[..., None], 2, axis=2)
    stay = rng.random((3, 100)) < 0.4
    for s in range(1, 100):
        draws[:, s][stay[:, s]] = draws[:, s - 1][stay[:, s]]
    np.testing.assert_allclose(rhat_ess.rhat(draws), arviz_of(draws)[0], rtol=1e-6)
    np.testing.assert_allclose(rhat_ess.ess_bulk(draws), arviz_of(draws)[1], rtol=1e-6)


def test_diagnostics_keep_trailing_axes_and_do_not_mix_quantities():
    rng = np.random.default_rng(1)
    draws = chains_of(rng, 24, 60, 0.4).reshape(4, 2, 3, 60).transpose(0, 3, 1, 2)
    for function in (rhat_ess.rhat, rhat_ess.ess_bulk, rhat_ess.ess_tail):
        whole = function(draws)
        assert whole.shape == (2, 3)
        assert whole[1, 2] == function(draws[..., 1, 2])
    assert rhat_ess.rhat_chainwise(draws).shape == (4, 2, 3)


def test_chainwise_rhat_is_its_formula_on_four_pieces():
    rng = np.random.default_rng(2)
    draws = chains_of(rng, 2, 43, 0.7)
    values = rhat_ess.rhat_chainwise(draws[..., None])[:, 0]
    for chain, value in zip(draws, values, strict=True):
        kept = chain[3:]
        pieces = norm.ppf((rankdata(kept) - 0.375) / (40 + 0.25)).reshape(4, 10)
        within = pieces.var(axis=1, ddof=1).mean()
        between = pieces.mean(axis=1).var(ddof=1)
        assert value == pytest.approx(np.sqrt((9 / 10 * within + between) / within))


def test_rhat_sees_separated_chains_and_chainwise_rhat_does_not():
    draws = chains_of(np.random.default_rng(3), 4, 400, 0.0, spread=20.0)[..., None]
    assert rhat_ess.rhat(draws)[0] > 1.5
    assert rhat_ess.rhat_chainwise(draws).max() < 1.05


def test_undefined_diagnostics_are_nan():
    rng = np.random.default_rng(4)
    free = rng.normal(size=(3, 20))
    constant, broken = np.full((3, 20), 2.5), free.copy()
    broken[1, 5] = np.inf
    values = rhat_ess.diagnose(np.stack([free, constant, broken], axis=2))
    for name in ("rhat", "rhat_chainwise_max", "rhat_chainwise_median", "ess_bulk", "ess_tail"):
        assert np.isfinite(getattr(values, name)[0]), name
        assert np.isnan(getattr(values, name)[1:]).all(), name
    assert values.within[1] == 0
    assert values.between[1] == 0


@pytest.mark.parametrize(("chains", "draws"), [(1, 20), (3, 3), (3, 1), (1, 1)])
def test_too_few_chains_or_draws_are_nan(chains, draws):
    values = rhat_ess.diagnose(np.random.default_rng(5).normal(size=(chains, draws, 2)))
    assert np.isnan(values.rhat).all()
    assert np.isnan(values.ess_bulk).all() == (draws < 4)
    assert np.isnan(values.ess_tail).all() == (draws < 4)
    assert np.isnan(values.rhat_chainwise_max).all() == (draws < 8)
    assert np.isnan(values.within).all() == (draws < 2)
    assert np.isnan(values.between).all() == (chains < 2)


@pytest.mark.parametrize("length", [10, 14, 25])
def test_chains_that_stand_still_apart_have_infinite_rhat(length):
    draws = np.zeros((2, length, 1))
    draws[1] = 1.0
    assert rhat_ess.rhat(draws)[0] == np.inf
    assert np.isnan(rhat_ess.rhat_chainwise(draws)).all()


def test_one_stuck_chain_leaves_no_chainwise_number():
    draws = np.random.default_rng(6).normal(size=(3, 40, 1))
    draws[1] = 0.3
    values = rhat_ess.diagnose(draws)
    assert np.isnan(values.rhat_chainwise_max[0])
    assert np.isnan(values.rhat_chainwise_median[0])
    assert np.isfinite(values.rhat[0])


def test_two_valued_draws_are_nan_in_the_tail_and_not_their_count():
    draws = np.random.default_rng(7).integers(0, 2, size=(2, 100, 1)).astype(float)
    assert np.isnan(rhat_ess.ess_tail(draws)[0])
    assert np.isfinite(rhat_ess.ess_bulk(draws)[0])


def test_variances_by_hand():
    draws = np.array([[0.0, 2.0], [5.0, 9.0]])[..., None]
    within, between = rhat_ess.variance_within_between(draws)
    assert within[0] == pytest.approx((2 + 8) / 2)
    assert between[0] == pytest.approx(np.var([1, 7], ddof=1))


LIMIT = 1000
"""More than there are parameters."""


def two_layer_pool(memory_pool, draws):
    layout = Layout((
        Parameter("layer0.weight", (2, 2), "weight", 0, 2, 2),
        Parameter("layer0.bias", (2,), "bias", 0, 2, 2),
        Parameter("log_sigma", (), "scale", None, 1, 1),
    ))  # fmt: skip
    return memory_pool(draws, layout=layout)


def test_parameters_are_diagnosed_in_batches_of_bounded_size(memory_pool):
    draws = np.random.default_rng(8).normal(size=(3, 30, 7)).astype(np.float32)
    whole = chain_convergence.diagnose_parameters(two_layer_pool(memory_pool, draws), np.arange(3), 2**24, LIMIT)
    assert whole["name"].tolist()[:2] == ["layer0.weight[0,0]", "layer0.weight[0,1]"]
    assert whole["role"].tolist() == ["weight"] * 4 + ["bias"] * 2 + ["scale"]
    assert whole["layer"].isna().tolist() == [False] * 6 + [True]
    for max_bytes in (1, 2 * 16 * 8 * 90, 5 * 16 * 8 * 90):
        pool = two_layer_pool(memory_pool, draws)
        assert chain_convergence.diagnose_parameters(pool, np.arange(3), max_bytes, LIMIT).equals(whole)
        assert pool.largest <= max(max_bytes, 90 * 4)
    expected = rhat_ess.diagnose(draws)
    np.testing.assert_array_equal(whole["ess_bulk"], expected.ess_bulk)


def test_only_kept_chains_are_diagnosed(memory_pool):
    draws = np.random.default_rng(9).normal(size=(3, 30, 7))
    clean = chain_convergence.diagnose_parameters(
        two_layer_pool(memory_pool, draws[[0, 2]]), np.arange(2), 2**24, LIMIT
    )
    draws[1] = np.nan
    kept = chain_convergence.diagnose_parameters(two_layer_pool(memory_pool, draws), np.array([0, 2]), 2**24, LIMIT)
    assert kept.equals(clean)
    none = chain_convergence.diagnose_parameters(
        two_layer_pool(memory_pool, draws), np.array([], dtype=int), 2**24, LIMIT
    )
    assert len(none) == 7
    assert none["rhat"].isna().all()


def test_function_values_are_diagnosed_by_row_and_class(memory_pool, predict_softmax):
    rng = np.random.default_rng(10)
    theta, x, y = rng.normal(size=(3, 50, 6)), rng.normal(size=(4, 2)), rng.integers(0, 3, size=4)
    summary = summarise(memory_pool(theta), predict_softmax, x, y, Limits(2**20, function_rows=2))
    frame = chain_convergence.diagnose_functions(summary, 10_000)
    assert frame["row"].tolist() == [0, 0, 0, 3, 3, 3]
    assert frame["class"].tolist() == [0, 1, 2] * 2
    probabilities = np.exp(np.stack([predict_softmax(chain, x).log_probs for chain in theta]))
    np.testing.assert_allclose(frame["rhat"][4], arviz.rhat(probabilities[:, :, 3, 1]), rtol=1e-6)
    assert frame["rhat"].notna().all()
    # Chains that are sure of a class, up to the rounding of single precision.
    summary.function_draws[:, :, 0] = np.array([1.0, 1.0, np.nextafter(np.float32(1), 0)])[:, None]
    summary.function_draws[:, :, 1] = 1 - 1e-5 * np.arange(3)[:, None]
    frame = chain_convergence.diagnose_functions(summary, 10_000)
    assert frame["rhat"].isna().tolist() == [True] + [False] * 5
    assert np.isinf(frame["rhat"][1])


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.6, 0.9])
def test_effective_draws_of_an_autoregression_are_known(correlation):
    draws = chains_of(np.random.default_rng(1), 4, 40_000, correlation)[..., None]
    known = 160_000 * (1 - correlation) / (1 + correlation)
    assert ess_mean(draws)[0] == pytest.approx(known, rel=0.1)
    assert rhat_ess.ess_bulk(draws)[0] == pytest.approx(known, rel=0.1)


@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0])
def test_rhat_of_shifted_chains_is_known(shift):
    """Two chains N(-a, 1) and N(a, 1): normal scores z = Phi^-1(F(x)) of the mixture F, moments by quadrature."""
    draws = np.random.default_rng(2).normal(size=(2, 40_000)) + np.array([[-shift], [shift]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    x = nodes + shift
    z = norm.ppf((norm.cdf(x - shift) + norm.cdf(x + shift)) / 2)
    mean, square = ((weights * power).sum() / weights.sum() for power in (z, z**2))
    between = mean**2 * 4 / 3  # four half chains, two at each mean, ddof 1
    known = np.sqrt(1 + between / (square - mean**2))
    assert rhat_ess.rhat(draws[..., None])[0] == pytest.approx(known, abs=0.005)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_of_many_parameters_every_so_many_is_diagnosed(memory_pool, limit):
    draws = np.random.default_rng(8).normal(size=(3, 20, 7))
    whole = chain_convergence.diagnose_parameters(two_layer_pool(memory_pool, draws), np.arange(3), 2**24, LIMIT)
    stride = -(-7 // limit)
    for max_bytes in (1, 20_000, 2**24):
        some = chain_convergence.diagnose_parameters(two_layer_pool(memory_pool, draws), np.arange(3), max_bytes, limit)
        assert some.equals(whole.iloc[::stride].reset_index(drop=True))
    assert len(some) <= limit


def test_layers_have_their_own_rhat():
    """The values of the parameters' own table, layer by layer; what is outside the layers is the noise."""
    frame = pd.DataFrame({
        "layer": pd.Series([0, 0, 0, 1, 1, None], dtype="Int64"),
        "rhat": [1.0, 1.3, 1.1, 2.0, np.nan, 1.5],
    })  # fmt: skip
    rows = {(row.metric, row.at): row for row in chain_convergence.layer_measurements(frame)}
    values = {key: row.value for key, row in rows.items()}
    assert values == {
        ("rhat_weight_layer_max", "layer0"): 1.3, ("rhat_weight_layer_median", "layer0"): 1.1,
        ("rhat_weight_layer_max", "layer1"): 2.0, ("rhat_weight_layer_median", "layer1"): 2.0,
        ("rhat_weight_layer_max", "noise"): 1.5, ("rhat_weight_layer_median", "noise"): 1.5,
    }  # fmt: skip
    assert rows["rhat_weight_layer_max", "layer1"].note.startswith("1 of 2 quantities left out")
    assert chain_convergence.layer_measurements(frame[:3]) == []
    assert chain_convergence.layer_measurements(frame.assign(rhat=np.nan)) == []
