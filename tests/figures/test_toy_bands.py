"""Bands of functions and of targets on the toy, a panel per method."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.data.synthetic import SinusoidsGenerator
from bnn_atlas.data.synthetic import generate
from bnn_atlas.figures.functions import read_functions
from bnn_atlas.figures.implicit_vi.toy_bands import SHARE, WITH_NOISE, bands, toy_bands, true_function
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import Drawn
from tests.figures.set_files import CONVERGED, written
from tests.figures.synthetic_functions import functions_on_line

TOY = load_registry(Path(__file__).parents[2] / "config" / "datasets.yaml")["sinusoids_1"]
assert TOY.generate is not None
GENERATOR = TOY.generate.model_dump(mode="json")
Outputs = Callable[[str], FigureOutputs]


def run(folder: Path, label: str, method: str, gap: float, draws: int = 50) -> Shown:
    sets = {"interval-gap": {"function_sd": gap}, "interval-right": {"function_sd": 2 * gap}}
    one = written(folder, label, CONVERGED, sets, task="regression", dataset="sinusoids_1", method=method)
    functions = functions_on_line(folder / f"{label}.npz", chains=1, draws=draws)
    return one._replace(files={**one.files, "functions": functions}, generator=GENERATOR)


def test_panels_bands_and_shares_of_the_first_run(drawn: Drawn, tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", "hmc", 0.4), run(tmp_path, "MAP", "map", 0.1, 1)]
    table = drawn(toy_bands, shown)
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
    low, high = bands(one)[WITH_NOISE]
    for edge, level in ((low, 0.05), (high, 0.95)):
        np.testing.assert_allclose(norm.cdf(edge, one.mean, one.scale).mean(axis=0), level, atol=1e-12)


def test_the_true_function_is_that_of_the_data(tmp_path: Path) -> None:
    x, y = generate(SinusoidsGenerator.model_validate(GENERATOR), TOY.rows, TOY.published_train)
    np.testing.assert_allclose(true_function(run(tmp_path, "HMC", "hmc", 0.4), x[70:, 0]), y[70:], atol=1e-5)


def test_too_many_panels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="13 runs: at most 12 fit in one figure"):
        toy_bands([run(tmp_path, "HMC", "hmc", 0.4, 1)] * 13)
