from pathlib import Path

import numpy as np
import pandas as pd

from bnn_atlas.figures.axes import score_text
from bnn_atlas.figures.kinds.prior_depth import prior_depth
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import read_table, write_rows
from tests.figures.set_files import scored


def grid(
    folder: Path, datasets: tuple[str, ...] = ("airfoil", "energy"), depths: tuple[int, ...] = (1, 2, 3),
    scales: tuple[float, ...] = (0.1, 1, 10), seeds: tuple[int, ...] = (1,),
) -> list[Shown]:  # fmt: skip
    runs = []
    for i, dataset in enumerate(datasets):
        for depth in depths:
            for scale in scales:
                for seed in seeds:
                    point = {"dataset": dataset, "prior.scale": scale, "seed": seed}
                    lppd = 0.5 * i + 0.1 * depth - 0.3 * np.log10(scale) ** 2 + 0.01 * seed
                    runs.append(
                        scored(
                            folder, f"{dataset}-{depth}-{scale}-{seed}", lppd, 0.3 - 0.1 * lppd, dataset=dataset,
                            hidden=(16,) * depth, point=point, prior_sd=None,
                        )
                    )  # fmt: skip
    return runs


def test_files_hold_the_grid(tmp_path: Path) -> None:
    runs = grid(tmp_path, depths=(1, 2), seeds=(1, 2, 3))
    table = prior_depth(runs).numbers
    assert len(table) == 2 * 2 * 2 * 3
    lppd = table[(table["dataset"] == "energy") & (table["metric"] == "lppd") & (table["depth"] == 2)]
    assert list(lppd["scale"]) == [0.1, 1, 10]
    np.testing.assert_allclose(lppd["mean"], 0.5 + 0.2 - np.array([0.3, 0, 0.3]) + 0.02)
    np.testing.assert_allclose(lppd["sd"], 0.01)
    assert set(table["repetitions"]) == {3}


def test_settings_that_were_not_run_are_gaps(tmp_path: Path) -> None:
    runs = [run for run in grid(tmp_path) if run.run != "energy-2-1-1"]
    table = prior_depth(runs).numbers
    gap = table[table["repetitions"] == 0]
    assert list(zip(gap["dataset"], gap["metric"], gap["depth"], gap["scale"], strict=True)) == [
        ("energy", "lppd", 2, 1), ("energy", "rmse", 2, 1),
    ]  # fmt: skip
    assert gap["mean"].isna().all()


def test_ensembles_stand_beside_the_samples(tmp_path: Path) -> None:
    runs = grid(tmp_path, datasets=("airfoil",))
    runs += [
        scored(tmp_path, f"de-{depth}", -1.0 + depth / 10, 0.4, method="deep_ensemble", hidden=(16,) * depth)
        for depth in (1, 2, 3)
    ]
    table = prior_depth(runs).numbers
    ensembles = table[(table["method"] == "deep_ensemble") & (table["metric"] == "lppd")]
    assert list(ensembles["scale"]) == [1, 1, 1]
    np.testing.assert_allclose(ensembles["mean"], [-0.9, -0.8, -0.7])


def test_a_data_set_that_was_not_sampled_says_so(tmp_path: Path) -> None:
    runs = grid(tmp_path, ("airfoil",), (1, 2))
    runs.append(scored(tmp_path, "de", 0.2, 0.4, dataset="energy", method="deep_ensemble", hidden=(16,)))
    table = prior_depth(runs).numbers
    energy = table[(table["dataset"] == "energy") & (table["method"] == "mclmc")]
    assert len(energy) == 2 * 2 * 3
    assert (energy["repetitions"] == 0).all()
    axes = prior_depth(runs).figure.axes
    assert [[text.get_text() for text in ax.texts] for ax in axes] == [[], ["not run"], [], ["not run"]]


def test_wild_and_undefined_values_stay_in_the_table(tmp_path: Path) -> None:
    runs = grid(tmp_path)
    runs[0] = scored(tmp_path, runs[0].run, -np.inf, 80.0, **changed(runs[0]))
    runs[1] = scored(tmp_path, runs[1].run, -35.0, np.nan, **changed(runs[1]))
    table = prior_depth(runs).numbers
    assert table["mean"].min() == -np.inf
    assert {-35.0, 80.0} <= set(table["mean"])
    assert (table["mean"].isna() & (table["repetitions"] == 1)).sum() == 1


def test_every_value_is_drawn_with_its_bar_or_counted(tmp_path: Path) -> None:
    runs = grid(tmp_path, ("airfoil",))
    runs[0] = scored(tmp_path, runs[0].run, -35.0, 80.0, **changed(runs[0]))
    table = prior_depth(runs).numbers
    assert (table.loc[table["metric"] == "lppd", "standard_error"] == 0.04).all()
    for ax, metric in zip(prior_depth(runs).figure.axes, ("lppd", "rmse"), strict=True):
        part = table[table["metric"] == metric]
        inside = part["mean"].between(*ax.get_ylim())
        assert (~inside).sum() == 1
        assert all(line.get_clip_on() for line in ax.lines)
        assert ax.get_title(loc="right") == f"1 off scale, to {score_text(part.loc[~inside, 'mean'].iloc[0])}"
        drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in ax.lines])
        assert set(part["mean"].round(9)) <= set(drawn.round(9))


def changed(run: Shown) -> dict:
    return {name: getattr(run, name) for name in ("dataset", "hidden", "point", "prior_sd")}


def test_chains_near_their_starts_are_white(tmp_path: Path) -> None:
    runs = []
    for shell, run in zip((0.9, 0.2, 0.1), grid(tmp_path, datasets=("airfoil",), depths=(1,)), strict=True):
        table = read_table(run.files["table"])
        row = table.iloc[:1].assign(metric="prior_shell", value=shell)
        write_rows(run.files["table"], pd.concat([table, row], ignore_index=True))
        runs.append(run)
    drawing = prior_depth(runs)
    assert drawing.numbers["prior_shell"].tolist() == [0.9, 0.2, 0.1] * 2
    assert "white: still near their starts" in [text.get_text() for text in drawing.figure.legends[0].get_texts()]
