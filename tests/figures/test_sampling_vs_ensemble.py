from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D

from bnn_atlas.figures.kinds.sampling_vs_ensemble import (
    _comparison_figure,
    comparison_table,
    sampling_vs_ensemble,
)
from bnn_atlas.figures.shown import Published, Shown
from tests.figures.set_files import scored


def pairs(folder: Path, datasets: tuple[str, ...] = ("airfoil", "energy"), seeds: int = 3) -> list[Shown]:
    runs = []
    for i, dataset in enumerate(datasets):
        task = "classification" if dataset in ("ionosphere", "fashion") else "regression"
        for method, gain in (("mclmc", 0.3), ("deep_ensemble", 0.0)):
            for seed in range(seeds):
                lppd = 0.2 * i + gain + 0.02 * seed
                runs.append(
                    scored(
                        folder, f"{dataset}-{method}-{seed}", lppd, 0.5 - 0.2 * lppd, dataset=dataset, method=method,
                        task=task, likelihood="heteroscedastic" if task == "regression" else "categorical",
                        entry=f"{dataset}-{method}", point={"seed": seed},
                    )
                )  # fmt: skip
    return runs


def test_files_hold_runs_and_means(tmp_path: Path) -> None:
    runs = pairs(tmp_path, ("airfoil", "energy", "ionosphere", "fashion"))
    table = sampling_vs_ensemble(runs).numbers
    means = table[(table["kind"] == "mean") & (table["row"] == "Energy") & (table["metric"] == "lppd")]
    assert list(means["method"]) == ["mclmc", "deep_ensemble"]
    np.testing.assert_allclose(means["value"], [0.52, 0.22])
    np.testing.assert_allclose(means["sd"], 0.02)
    assert (table["kind"] == "run").sum() == 4 * 2 * 3 * 2
    assert set(table.loc[table["task"] == "classification", "metric"]) == {"lppd", "accuracy"}


def test_settings_of_one_data_set_are_rows_of_their_own(tmp_path: Path) -> None:
    runs = pairs(tmp_path, ("airfoil", "energy"), 1)
    runs += [scored(tmp_path, "wide", 0.4, 0.1, model="mlp 64x64 relu", hidden=(64, 64), likelihood="heteroscedastic")]
    runs += [scored(tmp_path, "same", 0.4, 0.1, likelihood="learned_noise")]
    assert list(comparison_table(runs)[1]["row"].unique()) == [
        "Airfoil\n16×16, noise per row", "Energy", "Airfoil\n64×64, noise per row", "Airfoil\n16×16, one noise level",
    ]  # fmt: skip


def test_splits_are_repetitions(tmp_path: Path) -> None:
    runs = pairs(tmp_path, ("airfoil",), 1) + [
        scored(tmp_path, f"airfoil-{method}-0", 0.9, 0.1, method=method, split=1, likelihood="heteroscedastic",
               entry=f"airfoil-{method}", point={"seed": 0})
        for method in ("mclmc", "deep_ensemble")
    ]  # fmt: skip
    means = comparison_table(runs)[1]
    assert list(means["repetitions"]) == [2, 2, 2, 2]


def test_gaps_and_wild_values_are_shown(tmp_path: Path) -> None:
    runs = [run for run in pairs(tmp_path, tuple("abcd")) if not run.run.startswith("b-deep")]
    runs[0] = scored(tmp_path, runs[0].run, -np.inf, np.nan, dataset="a", likelihood="heteroscedastic",
                     entry="a-mclmc", point={"seed": 0})  # fmt: skip
    table = sampling_vs_ensemble(runs).numbers
    means = table[(table["kind"] == "mean") & (table["row"] == "A") & (table["method"] == "mclmc")]
    assert means["value"].iloc[0] == -np.inf
    assert np.isnan(means["value"].iloc[1])


def test_one_run_has_the_standard_error_over_rows_and_no_dot(tmp_path: Path) -> None:
    runs = pairs(tmp_path, ("airfoil",), 1)
    table = sampling_vs_ensemble(runs).numbers.query("kind == 'mean'").set_index("metric")
    assert table["sd"].isna().all()
    assert (table.loc["lppd", "standard_error"] == 0.04).all()
    assert table.loc["rmse", "standard_error"].isna().all()
    assert not dots(runs)
    repeated = pairs(tmp_path, ("airfoil",), 3)
    assert comparison_table(repeated)[1]["standard_error"].isna().all()
    assert [len(line.get_xdata()) for line in dots(repeated)] == [3] * 4


def dots(runs: list[Shown]) -> list[Line2D]:
    figure = _comparison_figure(*comparison_table(runs))
    return [line for ax in figure.axes for line in ax.lines if (line.get_marker(), line.get_markersize()) == ("o", 2)]


def test_a_small_difference_spreads_over_the_axis_of_its_row(tmp_path: Path) -> None:
    runs = pairs(tmp_path, ("airfoil", "ionosphere"))
    close = {"dataset": "near", "likelihood": "heteroscedastic"}
    runs += [scored(tmp_path, "near", 5.0, 0.2, **close)]
    runs += [scored(tmp_path, "near-ensemble", 5.001, 0.2001, method="deep_ensemble", **close)]
    figure = _comparison_figure(*comparison_table(runs))
    # Regressions stand first.
    assert [ax.get_ylabel() for ax in figure.axes[::2]] == ["Airfoil", "Near", "Ionosphere"]
    low, high = figure.axes[3].get_xlim()
    assert 0.0001 < high - low < 0.0003


def test_runs_of_a_label_share_a_row(tmp_path: Path) -> None:
    runs = [one._replace(label="airfoil, package") for one in pairs(tmp_path, ("airfoil",))]
    other = [
        scored(tmp_path, f"scale-{method}", 0.3, 0.2, label="airfoil", method=method, likelihood="heteroscedastic")
        for method in ("mclmc", "deep_ensemble")
    ]
    means = comparison_table([*runs, *other])[1]
    assert means.groupby("row", sort=False)["repetitions"].agg(list).to_dict() == {
        "airfoil, package": [3] * 4,
        "airfoil": [1] * 4,
    }


def test_published_numbers_stand_beside_the_means(tmp_path: Path) -> None:
    runs = pairs(tmp_path, ("airfoil",), 3)
    numbers = (
        Published("lppd_cumulative_chains", 0.6, 0.1, 10),
        Published("lppd_cumulative_chains", 0.9, None, 1000),
        Published("rmse", 0.05, 0.01, None),
    )
    marked = [one._replace(published=numbers) if one.method == "mclmc" else one for one in runs]
    singles, means = comparison_table(marked)
    found = means.set_index(["method", "metric"])[["published", "published_sd"]]
    np.testing.assert_allclose(found.loc[("mclmc", "lppd")], [0.9, np.nan])
    np.testing.assert_allclose(found.loc[("mclmc", "rmse")], [0.05, 0.01])
    assert found.loc["deep_ensemble"].isna().all(axis=None)
    figure = _comparison_figure(singles, means)
    for ax, value in zip(figure.axes, (0.9, 0.04), strict=True):
        assert ax.get_xlim()[0] < value < ax.get_xlim()[1]
    assert [ax.containers != [] for ax in figure.axes] == [True, True]
