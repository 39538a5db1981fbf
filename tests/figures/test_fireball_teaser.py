from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.fireball_teaser import fireball_teaser
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.traces.grids import BivariateGrids
from tests.figures.conftest import Drawn
from tests.figures.shown import shown
from tests.figures.subset_files import write_subset

Outputs = Callable[[str], FigureOutputs]
NAMES = ("layer1.weight[0,0]", "layer1.weight[0,1]")
BINS = 70


def teaser(folder: Path, chains: int = 10, draws: int = 200, names: tuple[str, str] = NAMES, limit: float = 3) -> Shown:
    rng = np.random.default_rng(0)
    every = rng.normal(0, 1, (20, draws, 2)) @ [[1.0, 0.5], [0.0, 0.6]]
    counts = np.histogram2d(*every.reshape(-1, 2).T, bins=BINS, range=[[-limit, limit]] * 2)[0].astype(np.int64)
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


def test_both_panels_are_in_the_files(drawn: Drawn, tmp_path: Path) -> None:
    run = teaser(tmp_path)
    table = drawn(fireball_teaser, [run])
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


def test_bad_inputs_are_refused_in_words(tmp_path: Path) -> None:
    other = teaser(tmp_path, names=("layer2.weight[0,0]", "layer2.weight[0,1]"))
    with pytest.raises(ValueError, match=r"draws\.parquet: no pair of .*grid\.npz is among its parameters layer1"):
        fireball_teaser([other])
    run = teaser(tmp_path)
    grid = BivariateGrids.load(run.files["grid"])
    BivariateGrids(**{**vars(grid), "counts": grid.counts * 0}).save(run.files["grid"])
    with pytest.raises(ValueError, match=r"no draw of \(layer1\.weight\[0,0\], layer1\.weight\[0,1\]\) lies inside"):
        fireball_teaser([run])
