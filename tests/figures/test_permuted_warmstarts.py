from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.sampling_perspective.permuted_warmstarts import _limits, permuted_warmstarts
from bnn_atlas.metrics.gathering.curves import RunningLppd
from bnn_atlas.metrics.tables.arrays import load_functions

from .synthetic_functions import save_running, two_runs


def test_permuted_warm_starts_beside_regular_ones(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, draws=5)
    table = permuted_warmstarts(runs).numbers
    assert list(table["label"].unique()) == ["Permuted", "Regular"]
    pairs = table[table["panel"] == "distances"]
    assert len(pairs) == 2 * 20 * 19 // 2
    source = load_functions(runs[1].files["functions"])
    assert source.mean is not None
    assert source.scale is not None
    row = pairs[(pairs["label"] == "Regular") & (pairs["chain_a"] == 1) & (pairs["chain_b"] == 3)].iloc[7]
    a, b = (int(row["chain_a"]), int(row["draw_a"]) // 10), (int(row["chain_b"]), int(row["draw_b"]) // 10)
    expected = np.sum((source.mean[a] - source.mean[b]) ** 2 + (source.scale[a] - source.scale[b]) ** 2)
    np.testing.assert_allclose(row["wasserstein_squared"], expected, rtol=1e-4)
    roots = np.sqrt(source.scale[a]) - np.sqrt(source.scale[b])
    published = np.sum((source.mean[a] - source.mean[b]) ** 2 + roots**2)
    assert published != pytest.approx(expected, rel=1e-3)
    np.testing.assert_allclose(row["wasserstein_squared_sommer"], published, rtol=1e-4)
    running = table[(table["panel"] == "running LPPD") & (table["label"] == "Permuted")]
    assert sorted(running["chain"].dropna().unique()) == [0, 1, 2]
    assert list(running["draws"].unique())[-1] == 60
    together = running[running["chain"].isna()].set_index("draws")["lppd"]
    mean_of_chains = running.groupby("draws")["lppd"].mean()
    assert (together >= mean_of_chains - 1e-12).all()


def test_the_axis_holds_all_chains_together_however_far_above_single_ones() -> None:
    chains = np.linspace(-0.1, 0.0, 12)[:, None] + np.array([-5.0, 0.0, 0.02])
    limits = _limits([RunningLppd(np.array([1, 50, 100]), np.array([-4.0, 0.2, 0.25]), chains)])
    assert limits is not None
    assert -0.2 < limits[0] < -0.1
    assert 0.25 < limits[1] < 0.3


def test_what_cannot_be_drawn_of_a_running_lppd_stays_in_the_csv(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, draws=3, rows=5)
    density = np.zeros((3, 4, 6))
    density[0, :2, 0], density[1, :2, 0] = -np.inf, -np.inf
    save_running(runs[0].files["predictive"], density, divergent=(2,))
    table = permuted_warmstarts(runs).numbers
    rows = table[(table["panel"] == "running LPPD") & (table["label"] == "Permuted")]
    together = rows[rows["chain"].isna()]["lppd"].to_numpy()
    assert (together[:2] == -np.inf).all()
    assert np.isfinite(together[2:]).all()
    assert rows[rows["chain"] == 2]["lppd"].isna().all()


def test_a_run_without_a_chain_left_has_no_curve(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, draws=3, rows=5)
    save_running(runs[0].files["predictive"], np.full((3, 4, 6), np.nan), divergent=(0, 1, 2))
    table = permuted_warmstarts(runs).numbers
    rows = table[table["panel"] == "running LPPD"]
    assert rows[rows["label"] == "Permuted"]["lppd"].isna().all()
    assert rows[rows["label"] == "Regular"]["lppd"].notna().all()
    for run in runs:
        save_running(run.files["predictive"], np.full((3, 4, 6), np.nan), divergent=(0, 1, 2))
    table = permuted_warmstarts(runs).numbers
    assert table.loc[table["panel"] == "running LPPD", "lppd"].isna().all()
