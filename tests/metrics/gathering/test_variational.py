"""What variational fits report, as rows."""

import numpy as np
import pytest

from bnn_atlas.metrics.gathering.variational import variational_measurements

THETA = np.zeros((3, 50, 2))


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
        THETA, statistics, attributes={"notes": {"entropy": "entropy: exact", "entropy_error": "as well"}}
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


def test_other_methods_have_none(memory_pool):
    assert variational_measurements(memory_pool(THETA), np.arange(3), 10_000) == []
    pool = memory_pool(THETA, {"elbo": np.zeros((3, 50))})
    assert variational_measurements(pool, np.arange(0), 10_000) == []
