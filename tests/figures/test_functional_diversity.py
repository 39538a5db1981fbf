from pathlib import Path

import numpy as np

from bnn_atlas.figures.functions import read_functions
from bnn_atlas.figures.kinds.functional_diversity import functional_diversity
from bnn_atlas.metrics.formulas.distances import wasserstein_squared
from bnn_atlas.metrics.tables.arrays import load_functions
from tests.figures.conftest import Drawn

from .synthetic_functions import (
    networks,
)


def test_bands_hold_nine_tenths_of_the_functions(drawn: Drawn, tmp_path: Path) -> None:
    runs = networks(tmp_path)
    table = drawn(functional_diversity, runs)
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
