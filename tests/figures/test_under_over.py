from pathlib import Path

import numpy as np
from scipy.stats import norm

from bnn_atlas.figures.kinds.under_over import under_over
from bnn_atlas.metrics.tables.arrays import load_functions
from tests.figures.conftest import Drawn

from .synthetic_functions import (
    changed,
    networks,
)


def test_bands_of_networks_that_are_under_and_over_parameterised(drawn: Drawn, tmp_path: Path) -> None:
    runs = networks(tmp_path, 2, points=20)
    source = load_functions(runs[0].files["functions"])
    assert source.mean is not None
    same = np.broadcast_to(source.mean[:1, :1], source.mean.shape).copy()
    table = drawn(under_over, [changed(runs[0], mean=same), runs[1]])
    first = table[table["label"] == "1x8"]
    parts = dict(iter(first.groupby("series")))
    np.testing.assert_allclose(parts["functions"]["value"], parts["functions"]["high"], rtol=1e-6)
    # One function only: what is left is its noise of 0.2.
    width = parts["with noise"]["high"].to_numpy() - parts["with noise"]["value"].to_numpy()
    np.testing.assert_allclose(width, 2 * norm.ppf(0.95) * 0.2, rtol=1e-5)
    assert parts["draw"]["number"].nunique() == 5
    second = table[(table["label"] == "1x8") & (table["series"] == "mean")]
    np.testing.assert_allclose(second["value"], same[0, 0], rtol=1e-5)
