from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.sampling_perspective.nuts_vs_mean_field import nuts_vs_mean_field
from bnn_atlas.figures.shown import Shown
from tests.figures.shown import shown
from tests.figures.subset_files import write_subset

NAMES = ("layer0.weight[0,0]", "layer1.weight[0,0]", "log_sigma")


def runs(folder: Path, chains: int = 12, draws: int = 300, fits: int = 2, noise: float = 0.05) -> list[Shown]:
    """Draws with product 1 along both branches, and normal ones at (1, 1) and, from a second fit, at (-1, -1)."""
    rng = np.random.default_rng(0)
    found = []
    for sd, spread in ((0.1, 0.1), (1.0, 0.5)):
        first = np.exp(rng.normal(0, spread, (chains, draws))) * rng.choice([-1, 1], (chains, 1))
        second = rng.normal(1, noise, (chains, draws)) / first
        fit = rng.normal(1, noise, (fits, 100, 2)) * np.resize([1, -1], (fits, 1, 1))
        for method, pair in (("nuts", np.stack([first, second], axis=2)), ("mean_field", fit)):
            values = np.concatenate([pair, rng.normal(-1, 0.1, (*pair.shape[:2], 1))], axis=2)
            file = write_subset(folder / f"{method}{sd}.parquet", NAMES, values)
            found.append(shown(f"{method}-{sd}", {"subset": file}, method=method, prior_sd=sd, hidden=(1,)))
    return found


def test_two_branches_and_one_blob(tmp_path: Path) -> None:
    table = nuts_vs_mean_field(runs(tmp_path)).numbers
    assert list(dict.fromkeys(table["prior_sd"])) == [1.0, 0.1]
    for _, panel in table.groupby("prior_sd"):
        nuts = panel[(panel["method"] == "nuts") & (panel["share"] == 0.5)]
        assert nuts["x"].min() < -0.5
        assert nuts["x"].max() > 0.5
        assert np.median(nuts["x"] * nuts["y"]) == pytest.approx(1, abs=0.15)
        blob = panel[panel["method"] == "mean_field"]
        np.testing.assert_allclose(blob[["x", "y"]].mean(), 1, atol=0.05)
        assert blob["x"].min() > 0.5


def test_few_draws_and_a_wide_blob_are_enough(tmp_path: Path) -> None:
    nuts_vs_mean_field(runs(tmp_path, 2, 20, 1, 0.4))
    assert set(nuts_vs_mean_field(runs(tmp_path)[:2]).numbers["prior_sd"]) == {0.1}
