from collections.abc import Callable
from pathlib import Path

import numpy as np

from bnn_atlas.figures.kinds.wasserstein import wasserstein
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.metrics.tables.arrays import load_functions
from tests.figures.conftest import Drawn

from .synthetic_functions import (
    changed,
    two_runs,
)

Outputs = Callable[[str], FigureOutputs]


def test_distances_within_the_first_chain(drawn: Drawn, tmp_path: Path) -> None:
    runs = two_runs(tmp_path, draws=6)
    table = drawn(wasserstein, runs[:1])
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
