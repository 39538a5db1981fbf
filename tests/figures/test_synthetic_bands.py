"""Bands of functions, a panel per method."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.functions import read_functions
from bnn_atlas.figures.kinds.synthetic_bands import band, synthetic_bands
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.arrays import load_functions
from tests.figures.conftest import Drawn
from tests.figures.set_files import CONVERGED, Values, written
from tests.figures.synthetic_functions import functions_on_line

Outputs = Callable[[str], FigureOutputs]


def run(
    folder: Path, label: str, method: str, chains: int = 2, draws: int = 50, diagnostics: Values = CONVERGED
) -> Shown:
    one = written(folder, label, diagnostics, task="regression", dataset="clusters", method=method)
    functions = functions_on_line(folder / f"{label}.npz", chains=chains, draws=draws)
    return one._replace(files={**one.files, "functions": functions})


def test_bands_hold_their_share_of_the_functions_and_a_point_has_none(drawn: Drawn, tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", "hmc"), run(tmp_path, "SGD", "map", 1, 1)]
    table = drawn(synthetic_bands, shown)
    of_hmc = table[(table["label"] == "HMC") & (table["series"] == "95 %")]
    mean = load_functions(shown[0].files["functions"]).mean
    assert mean is not None
    inside = (mean >= of_hmc["value"].to_numpy()) & (mean <= of_hmc["high"].to_numpy())
    assert inside.mean() == pytest.approx(0.95, abs=0.015)
    assert set(table.loc[table["label"] == "SGD", "series"]) == {"mean", "training row"}
    assert set(table.loc[table["label"] == "SGD", "draws"]) == {1}


def test_narrower_bands_lie_inside_wider_ones(tmp_path: Path) -> None:
    (functions,) = read_functions([run(tmp_path, "HMC", "hmc")])
    half, most = band(functions, 0.5), band(functions, 0.95)
    assert (most[0] <= half[0]).all()
    assert (half[1] <= most[1]).all()
    assert np.median(most[1] - most[0]) > np.median(half[1] - half[0])


def test_too_many_panels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="13 runs: at most 12 fit in one figure"):
        synthetic_bands([run(tmp_path, f"r{i}", "sgld", 1, 1) for i in range(13)])
