"""Bivariate marginal densities: what is counted, how it is laid out, refusals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from bnn_atlas.figures.kinds.fireball import fireball, fireball_teaser
from bnn_atlas.figures.shown import Shown
from bnn_atlas.traces.grids import BivariateGrids
from tests.figures.shown import shown
from tests.figures.subset_files import write_subset

BINS = 40


def grids(pairs: list[tuple[str, str]], draws: int = 4000, seed: int = 0, shift: float = 0.0) -> BivariateGrids:
    rng = np.random.default_rng(seed)
    points = rng.normal(shift, 1, (len(pairs), 2, draws))
    edges = [[-4.0, 4.0], [-4.0, 4.0]]
    counts = np.zeros((len(pairs), BINS, BINS), dtype=np.int64)
    for k, pair in enumerate(points):
        counts[k] = np.histogram2d(*pair, bins=BINS, range=edges)[0]
    return BivariateGrids(
        x=tuple(x for x, _ in pairs),
        y=tuple(y for _, y in pairs),
        limits=np.array([edges] * len(pairs)),
        counts=counts,
        outside=draws - counts.sum(axis=(1, 2)),
        nonfinite=np.zeros(len(pairs), dtype=np.int64),
        draws=draws,
    )


def runs(folder: Path, *several: BivariateGrids) -> list[Shown]:
    """Each grid as that of a run."""
    for k, grid in enumerate(several):
        grid.save(folder / f"{k}.npz")
    return [shown(f"run{k}", {"grid": folder / f"{k}.npz"}) for k in range(len(several))]


def weights(layers: int) -> list[tuple[str, str]]:
    return [(f"layer{i}.weight[0,0]", f"layer{j}.weight[0,1]") for i in range(layers) for j in range(layers)]


def test_cells_of_one_pair_are_its_counts(tmp_path: Path) -> None:
    grid = grids(weights(1))
    table = fireball(runs(tmp_path, grid)).numbers
    assert table["count"].sum() == grid.counts.sum()
    assert set(table["x_name"]) == {"W1[1,1]"}
    seen = np.zeros((BINS, BINS), dtype=int)
    place = ((table[["x", "y"]] + 4) / 8 * BINS).astype(int)
    seen[place["x"], place["y"]] = table["count"]
    np.testing.assert_array_equal(seen, grid.counts[0])


def test_every_layer_against_every_layer(tmp_path: Path) -> None:
    biases = [
        ("layer0.bias[0]", "layer0.bias[1]"),
        ("layer0.bias[0]", "layer1.bias[0]"),
        ("layer1.bias[0]", "layer0.bias[1]"),
    ]
    figure, table, *_ = fireball(runs(tmp_path, grids(weights(2) + biases)))
    every = [ax for ax in figure.findobj(Axes) if isinstance(ax, Axes) and ax.axison]
    named = [ax for ax in every if ax.get_xlabel().startswith("b")]
    assert [ax.get_xlabel() for ax in named if ax.has_data()] == ["b2[1]", "b1[1]"], "below the lowest panel of each"
    assert all(ax.has_data() for ax in named), "and not below an empty place"
    panels = table.groupby(["block", "x_name", "y_name"], sort=False).size()
    assert list(panels.index)[:2] == [("weights", "W1[1,1]", "W1[1,2]"), ("weights", "W2[1,1]", "W1[1,2]")]
    assert len(panels.loc["biases"]) == 3


def test_panels_have_their_distance_to_the_prior_where_there_is_one(tmp_path: Path) -> None:
    grid = grids(weights(2))
    grid.counts[3] = 0
    np.fill_diagonal(grid.counts[3], grid.draws // BINS)  # a ridge
    grid.outside[3] = 0
    (run,) = runs(tmp_path, grid)
    found = fireball([run]).numbers.groupby(["x_name", "y_name"])["prior_distance"].unique()
    assert [len(values) for values in found] == [1] * 4
    assert all(found["W1[1,1]", name][0] < 0.04 for name in ("W1[1,2]", "W2[1,2]"))
    assert found["W2[1,1]", "W2[1,2]"][0] > 0.25
    assert fireball([run._replace(prior_sd=None)]).numbers["prior_distance"].isna().all()


def test_single_pairs_stand_side_by_side(tmp_path: Path) -> None:
    chosen = [("layer0.weight[0,0]", "layer0.weight[0,1]"), ("layer2.weight[0,0]", "layer2.weight[0,1]"),
              ("layer1.weight[0,0]", "layer1.weight[0,1]")]  # fmt: skip
    assert list(dict.fromkeys(fireball(runs(tmp_path, grids(chosen))).numbers["x_name"])) == [
        "W1[1,1]",
        "W3[1,1]",
        "W2[1,1]",
    ]


def test_several_runs_are_named(tmp_path: Path) -> None:
    several = [grids(weights(1), seed=seed) for seed in range(3)]
    assert list(dict.fromkeys(fireball(runs(tmp_path, *several)).numbers["block"])) == ["run0", "run1", "run2"]


def test_a_pair_wholly_outside_is_shown_as_such(tmp_path: Path) -> None:
    grid = grids(weights(2))
    grid.counts[3] = 0
    grid.outside[3] = grid.draws
    grid.nonfinite[0] = 7
    assert len(fireball(runs(tmp_path, grid)).numbers.groupby(["x_name", "y_name"])) == 3


def test_bad_grids_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no draw of \(layer0\.weight\[0,0\], layer0\.weight\[0,1\]\) lies inside"):
        fireball(runs(tmp_path, grids(weights(1), shift=100.0)))
    with pytest.raises(ValueError, match="no draw of any pair"):
        fireball(runs(tmp_path, grids([])))
    with pytest.raises(ValueError, match="no pairs to draw"):
        fireball([])


NAMES = ("layer1.weight[0,0]", "layer1.weight[0,1]")
TEASER_BINS = 70


def teaser(folder: Path, chains: int = 10, draws: int = 200, names: tuple[str, str] = NAMES, limit: float = 3) -> Shown:
    rng = np.random.default_rng(0)
    every = rng.normal(0, 1, (20, draws, 2)) @ [[1.0, 0.5], [0.0, 0.6]]
    counts = np.histogram2d(*every.reshape(-1, 2).T, bins=TEASER_BINS, range=[[-limit, limit]] * 2)[0].astype(np.int64)
    grid = BivariateGrids(
        x=("layer0.weight[0,0]", names[0]),
        y=("layer0.weight[0,1]", names[1]),
        limits=np.array([[[-limit, limit]] * 2] * 2),
        counts=np.stack([counts * 0, counts]),
        outside=every[..., 0].size - np.array([0, counts.sum()]),
        nonfinite=np.array([0, 2]),
        draws=every[..., 0].size,
    )
    grid.save(folder / "grid.npz")
    write_subset(folder / "draws.parquet", NAMES, every[:chains])
    return shown(files={"grid": folder / "grid.npz", "subset": folder / "draws.parquet"}, chains=20)


def test_counts_and_outlines_of_the_teaser(tmp_path: Path) -> None:
    run = teaser(tmp_path)
    table = fireball_teaser([run]).numbers
    assert set(table["x_name"]) == {"W2[1,1]"}
    counted = table[table["panel"] == "counted"]
    assert counted["count"].sum() == BivariateGrids.load(run.files["grid"]).counts[1].sum()
    smoothed = table[table["panel"] == "smoothed"]
    assert smoothed["share"].max() == 0.95
    # Outlines of nested regions of one normal: their areas grow as -2 log(1 - share).
    width = smoothed.groupby("share")["x"].agg(np.ptp)
    assert width.is_monotonic_increasing
    assert width[0.95] / width[0.55] == pytest.approx(np.sqrt(np.log(0.05) / np.log(0.45)), rel=0.15)


def test_few_draws_and_a_lost_chain_are_enough(tmp_path: Path) -> None:
    run = teaser(tmp_path, 2, 20)
    frame = pd.read_parquet(run.files["subset"])
    frame.loc[0, "value"] = np.nan
    frame.to_parquet(run.files["subset"], index=False)
    assert (fireball_teaser([run]).numbers["panel"] == "smoothed").any()


def test_teasers_of_bad_inputs_are_refused_in_words(tmp_path: Path) -> None:
    other = teaser(tmp_path, names=("layer2.weight[0,0]", "layer2.weight[0,1]"))
    with pytest.raises(ValueError, match=r"draws\.parquet: no pair of .*grid\.npz is among its parameters layer1"):
        fireball_teaser([other])
    run = teaser(tmp_path)
    grid = BivariateGrids.load(run.files["grid"])
    BivariateGrids(**{**vars(grid), "counts": grid.counts * 0}).save(run.files["grid"])
    with pytest.raises(ValueError, match=r"no draw of \(layer1\.weight\[0,0\], layer1\.weight\[0,1\]\) lies inside"):
        fireball_teaser([run])
