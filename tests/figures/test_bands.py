"""Bands of functions and of targets, a panel per method or network."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.data.synthetic import SinusoidsGenerator
from bnn_atlas.data.synthetic_rows import generate
from bnn_atlas.figures.functions import read_functions
from bnn_atlas.figures.kinds.bands import (
    SHARE,
    WITH_NOISE,
    band,
    noisy,
    synthetic_bands,
    toy_bands,
    true_function,
    under_over,
)
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.arrays import load_functions
from tests.figures.set_files import CONVERGED, Values, written
from tests.figures.synthetic_functions import changed, functions_on_line, networks

TOY = load_registry(Path(__file__).parents[2] / "config" / "datasets.yaml")["sinusoids_1"]
assert TOY.generate is not None
GENERATOR = TOY.generate.model_dump(mode="json")


def run(
    folder: Path, label: str, method: str, chains: int = 2, draws: int = 50, sets: Mapping[str, Values] | None = None,
    dataset: str = "sinusoids_1", own: Values = CONVERGED,
) -> Shown:  # fmt: skip
    one = written(folder, label, own, sets, task="regression", dataset=dataset, method=method)
    functions = functions_on_line(folder / f"{label}.npz", chains=chains, draws=draws)
    return one._replace(files={**one.files, "functions": functions})


def toy(folder: Path, label: str, method: str, gap: float, draws: int = 50, dataset: str = "sinusoids_1") -> Shown:
    sets = {"interval-gap": {"function_sd": gap}, "interval-right": {"function_sd": 2 * gap}}
    return run(folder, label, method, 1, draws, sets, dataset)._replace(generator=GENERATOR)


def test_panels_bands_and_shares_of_the_first_run(tmp_path: Path) -> None:
    shown = [toy(tmp_path, "HMC", "hmc", 0.4), toy(tmp_path, "MAP", "map", 0.1, 1)]
    table = toy_bands(shown).numbers
    assert set(table.loc[table["label"] == "MAP", "series"]) == {
        "mean", "truth", WITH_NOISE, "training row", "sd gap", "sd right", f"sd gap, {SHARE}",
        f"sd right, {SHARE}",
    }  # fmt: skip
    of_map = table[table["label"] == "MAP"].set_index("series")["value"]
    assert of_map[f"sd gap, {SHARE}"] == pytest.approx(0.25)
    assert of_map["sd right"] == pytest.approx(0.2)
    edges = table[table["label"] == "HMC"].set_index("series").loc[["function", "function and noise"]]
    widths = (edges["high"] - edges["value"]).groupby(level=0).mean()
    assert widths["function and noise"] > widths["function"] > 0


def test_each_data_set_has_a_column_and_its_own_first_run(tmp_path: Path) -> None:
    gaps = {("HMC", 1): 0.4, ("HMC", 2): 0.8, ("MAP", 1): 0.1, ("MAP", 2): 0.1}
    shown = [
        toy(tmp_path, f"{label} {seed}", "hmc", gap, 5, f"sinusoids_{seed}") for (label, seed), gap in gaps.items()
    ]
    drawing = toy_bands(shown)
    shares = drawing.numbers[drawing.numbers["series"] == f"sd gap, {SHARE}"].set_index("label")["value"]
    assert shares.to_dict() == pytest.approx({"HMC 1": 1, "MAP 1": 0.25, "HMC 2": 1, "MAP 2": 0.125})
    assert [ax.get_title() for ax in drawing.figure.axes] == [one.label for one in shown]
    grids = [spec.get_gridspec() for ax in drawing.figure.axes if (spec := ax.get_subplotspec())]
    assert {(grid.nrows, grid.ncols) for grid in grids} == {(2, 2)}


def test_the_band_of_targets_is_that_of_the_mixture(tmp_path: Path) -> None:
    (one,) = read_functions([toy(tmp_path, "HMC", "hmc", 0.4, draws=2)])
    low, high = noisy(one)
    for edge, level in ((low, 0.05), (high, 0.95)):
        np.testing.assert_allclose(norm.cdf(edge, one.mean, one.scale).mean(axis=0), level, atol=1e-12)


def test_the_true_function_is_that_of_the_data(tmp_path: Path) -> None:
    x, y = generate(SinusoidsGenerator.model_validate(GENERATOR), TOY.rows, TOY.published_train)
    np.testing.assert_allclose(true_function(toy(tmp_path, "HMC", "hmc", 0.4), x[70:, 0]), y[70:], atol=1e-5)


def test_bands_hold_their_share_of_the_functions_and_a_point_has_none(tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", "hmc"), run(tmp_path, "SGD", "map", 1, 1)]
    table = synthetic_bands(shown).numbers
    of_hmc = table[(table["label"] == "HMC") & (table["series"] == "95 %")]
    mean = load_functions(shown[0].files["functions"]).mean
    assert mean is not None
    inside = (mean >= of_hmc["value"].to_numpy()) & (mean <= of_hmc["high"].to_numpy())
    assert inside.mean() == pytest.approx(0.95, abs=0.015)
    assert set(table.loc[table["label"] == "SGD", "series"]) == {"mean", "training row"}
    assert set(table.loc[table["label"] == "SGD", "draws"]) == {1}


def test_a_run_that_diverged_has_a_panel_that_says_so_and_no_numbers(tmp_path: Path) -> None:
    """Its functions may not even be finite."""
    gone = run(tmp_path, "CLR", "sghmc_clr", own={**CONVERGED, "rmse": 6e8})
    gone = changed(gone, mean=np.full((2, 50, 60), np.inf))
    shown = [run(tmp_path, "HMC", "hmc"), gone, run(tmp_path, "SGD", "map", 1, 1)]
    drawing = synthetic_bands(shown)
    assert set(drawing.numbers["label"]) == {"HMC", "SGD"}
    assert drawing.names == ["HMC", "CLR", "SGD"]
    panel = drawing.figure.axes[1]
    assert panel.get_title() == "CLR"
    (text,) = (text.get_text() for text in panel.texts)
    assert " ".join(text.split()) == "diverged: not shown an RMSE of 6e+08, where a constant has about 1"
    assert not panel.lines
    assert not panel.collections
    with pytest.raises(ValueError, match="no run is left to draw, all diverged: CLR"):
        synthetic_bands([gone])


def test_narrower_bands_lie_inside_wider_ones(tmp_path: Path) -> None:
    (functions,) = read_functions([run(tmp_path, "HMC", "hmc")])
    half, most = band(functions, 0.5), band(functions, 0.95)
    assert (most[0] <= half[0]).all()
    assert (half[1] <= most[1]).all()
    assert np.median(most[1] - most[0]) > np.median(half[1] - half[0])


def test_bands_of_networks_that_are_under_and_over_parameterised(tmp_path: Path) -> None:
    runs = networks(tmp_path, 2, points=20)
    source = load_functions(runs[0].files["functions"])
    assert source.mean is not None
    same = np.broadcast_to(source.mean[:1, :1], source.mean.shape).copy()
    table = under_over([changed(runs[0], mean=same), runs[1]]).numbers
    first = table[table["label"] == "1x8"]
    parts = dict(iter(first.groupby("series")))
    np.testing.assert_allclose(parts["functions"]["value"], parts["functions"]["high"], rtol=1e-6)
    # One function only: what is left is its noise of 0.2.
    width = parts["with noise"]["high"].to_numpy() - parts["with noise"]["value"].to_numpy()
    np.testing.assert_allclose(width, 2 * norm.ppf(0.95) * 0.2, rtol=1e-5)
    assert parts["draw"]["number"].nunique() == 5
    second = table[(table["label"] == "1x8") & (table["series"] == "mean")]
    np.testing.assert_allclose(second["value"], same[0, 0], rtol=1e-5)
