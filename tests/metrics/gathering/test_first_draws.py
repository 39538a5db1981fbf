import numpy as np
import pytest

from bnn_atlas.metrics.gathering.curves import lppd_of_first_draws
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import PredictionError


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
