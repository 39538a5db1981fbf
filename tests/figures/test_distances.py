"""Distances between functions: within a chain, and by network."""

from pathlib import Path

import numpy as np

from bnn_atlas.figures.functions import read_functions
from bnn_atlas.figures.kinds.distances import functional_diversity, wasserstein
from bnn_atlas.metrics.formulas.function_distances import wasserstein_squared
from bnn_atlas.metrics.tables.arrays import load_functions

from .synthetic_functions import changed, networks, two_runs


def test_distances_within_the_first_chain(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, draws=6)
    table = wasserstein(runs[:1]).numbers
    assert len(table) == 15
    assert (table["chain_a"] == 0).all()
    source = load_functions(runs[0].files["functions"])
    assert source.mean is not None
    higher = source.mean[0, 0].mean() > source.mean[0, 1].mean()
    assert (table["z"][0] > 0) == higher
    assert len(wasserstein(runs).numbers) == 30


def test_constant_functions_have_distances_but_no_z(tmp_path: Path) -> None:
    (run,) = two_runs(tmp_path, chains=2, draws=3)[:1]
    mean = np.zeros((2, 3, 30), dtype=np.float32)
    assert wasserstein([changed(run, mean=mean)]).numbers["z"].isna().all()


def test_bands_hold_nine_tenths_of_the_functions(tmp_path: Path) -> None:
    runs = networks(tmp_path)
    table = functional_diversity(runs).numbers
    band = table[(table["panel"] == "band") & (table["label"] == "2x8")]
    source = load_functions(runs[1].files["functions"])
    assert source.mean is not None
    inside = (source.mean >= band["low"].to_numpy()) & (source.mean <= band["high"].to_numpy())
    assert abs(inside.mean() - 0.9) < 0.01
    bins = table[table["panel"] == "distances"]
    assert (bins.groupby("label")["pairs"].sum() == 200 * 199 // 2).all()
    assert (bins.groupby("label")["x_end"].max() == bins["x_end"].max()).all()
    # Bins of the distance, not of its square, up to the farthest pair of all networks.
    np.testing.assert_allclose(np.diff(bins.loc[bins["label"] == "2x8", "x"]), bins["x_end"].max() / 40, rtol=1e-6)
    farthest = max(wasserstein_squared(one.mean, one.scale).max() for one in read_functions(runs))
    np.testing.assert_allclose(bins["x_end"].max(), np.sqrt(farthest), rtol=1e-6)
    assert len(table[table["panel"] == "training rows"]) == 40
