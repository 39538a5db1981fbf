"""Bands of functions and of targets on the toy, a panel per method."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bnn_atlas.figures.functions import read_functions
from bnn_atlas.figures.implicit_vi.toy_bands import SHARE, target_band, toy_bands, true_function
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.provenance import Provenance
from tests.figures.set_files import CONVERGED, written
from tests.figures.synthetic_functions import functions_on_line

Outputs = Callable[[str], FigureOutputs]


def run(folder: Path, label: str, method: str, gap: float, draws: int = 50) -> Shown:
    sets = {"interval-gap": {"function_sd": gap}, "interval-right": {"function_sd": 2 * gap}}
    one = written(folder, label, CONVERGED, sets, task="regression", dataset="sinusoids_1", method=method)
    functions = functions_on_line(folder / f"{label}.npz", chains=1, draws=draws)
    return one._replace(files={**one.files, "functions": functions})


def test_panels_bands_and_shares_of_the_first_run(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", "hmc", 0.4), run(tmp_path, "MAP", "map", 0.1, 1)]
    for folder in ("a", "b"):
        toy_bands(shown, outputs(folder), provenance)
    assert outputs("a").png.read_bytes() == outputs("b").png.read_bytes()
    assert read_provenance(outputs("a").pdf) == provenance
    table = pd.read_csv(outputs("a").csv)
    assert set(table.loc[table["label"] == "MAP", "series"]) == {
        "mean", "truth", "function and noise", "training row", "sd gap", "sd right", f"sd gap, {SHARE}",
        f"sd right, {SHARE}",
    }  # fmt: skip
    of_map = table[table["label"] == "MAP"].set_index("series")["value"]
    assert of_map[f"sd gap, {SHARE}"] == pytest.approx(0.25)
    assert of_map["sd right"] == pytest.approx(0.2)
    edges = table[table["label"] == "HMC"].set_index("series").loc[["function", "function and noise"]]
    widths = (edges["high"] - edges["value"]).groupby(level=0).mean()
    assert widths["function and noise"] > widths["function"] > 0


def test_the_band_of_targets_is_that_of_the_mixture(tmp_path: Path) -> None:
    (one,) = read_functions([run(tmp_path, "HMC", "hmc", 0.4, draws=2)])
    low, high = target_band(one)
    for edge, level in ((low, 0.05), (high, 0.95)):
        np.testing.assert_allclose(norm.cdf(edge, one.mean, one.scale).mean(axis=0), level, atol=1e-6)


def test_the_true_function_is_that_of_the_data() -> None:
    z = 0.7
    expected = z + 0.8 * np.sin(2 * np.pi * z) + 0.8 * np.sin(4 * np.pi * z)
    np.testing.assert_allclose(true_function(np.array([z / 1.28])), expected)


def test_too_many_panels_are_refused(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="13 runs: at most 12 panels fit"):
        toy_bands([run(tmp_path, "HMC", "hmc", 0.4, 1)] * 13, outputs("a"), provenance)
