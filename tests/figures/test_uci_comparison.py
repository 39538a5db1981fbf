"""Methods on regression data sets: means over splits, errors, white marks and limits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.uci_comparison import uci_comparison
from bnn_atlas.figures.shown import Shown
from tests.figures.set_files import CONVERGED, UNCONVERGED, Values, written


def split(
    folder: Path, label: str, dataset: str, number: int, rmse: float, density: float, diagnostics: Values = CONVERGED,
    **changes: Any,
) -> Shown:  # fmt: skip
    values = {
        "rmse_original_units": rmse, "lppd_original_units": (density, 0.05), "rows_test": 50, "rows_train": 450,
        **diagnostics,
    }  # fmt: skip
    fields = {"task": "regression", "dataset": dataset, "dataset_title": dataset, "label": label, "split": number}
    return written(folder, f"{label}-{dataset}", values, **{**fields, "entry": label, **changes})


def runs(folder: Path) -> list[Shown]:
    return [
        split(folder, label, dataset, number, 3 + number + shift, -2.5 - shift, method=method)
        for shift, (label, method) in enumerate((("HMC", "hmc"), ("SGLD", "sgld")))
        for dataset in ("boston", "yacht")
        for number in range(3)
    ]


def test_means_are_over_splits_with_the_error_of_nadeau_and_bengio(tmp_path: Path) -> None:
    numbers = uci_comparison(runs(tmp_path)).numbers
    assert (numbers["kind"] == "run").sum() == 2 * 12
    found = numbers[(numbers["kind"] == "mean") & (numbers["label"] == "SGLD") & (numbers["dataset"] == "yacht")]
    rmse = found.set_index("metric").loc["rmse_original_units"]
    assert (rmse["value"], rmse["over"], rmse["repetitions"]) == (5.0, "splits", 3)
    assert rmse["error"] == pytest.approx(np.sqrt(1 / 3 + 50 / 450))


def test_a_single_split_has_the_error_over_rows_where_there_is_one(tmp_path: Path) -> None:
    numbers = uci_comparison([split(tmp_path, "HMC", "boston", 0, 3.0, -2.4)]).numbers
    means = numbers[numbers["kind"] == "mean"].set_index("metric")
    assert means.loc["lppd_original_units", ["error", "over"]].tolist() == [0.05, "rows"]
    assert np.isnan(means.loc["rmse_original_units", "error"])
    assert means.loc["rmse_original_units", "over"] == ""


def test_marks_are_white_where_a_split_should_not_be_trusted(tmp_path: Path) -> None:
    shown = [
        split(tmp_path, "HMC", "boston", 0, 3.0, -2.4, method="hmc"),
        split(tmp_path, "HMC", "boston", 1, 3.2, -2.4, UNCONVERGED, method="hmc"),
        split(tmp_path, "SGLD", "boston", 0, 3.1, -2.4),
    ]
    numbers = uci_comparison(shown).numbers
    means = numbers[(numbers["kind"] == "mean") & (numbers["metric"] == "rmse_original_units")].set_index("label")
    assert means["distrusted"].to_dict() == {"HMC": 1, "SGLD": 0}
    ax = uci_comparison(shown).figure.axes[0]
    faces = [line.get_markerfacecolor() for line in ax.lines if line.get_markersize() == 4]
    assert faces[0] == "white"
    assert faces[1] != "white"


def test_the_picture_has_a_column_for_each_data_set(tmp_path: Path) -> None:
    figure = uci_comparison(runs(tmp_path)).figure
    assert [ax.get_title().strip() for ax in figure.axes] == ["boston", "yacht", "", ""]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["HMC", "SGLD"]


def test_a_far_mean_is_counted_and_does_not_set_the_axis(tmp_path: Path) -> None:
    shown = [split(tmp_path, f"m{i}", "boston", 0, 3 + 0.1 * i, -2.5) for i in range(5)]
    shown.append(split(tmp_path, "bad", "boston", 0, 900.0, -2.5))
    ax = uci_comparison(shown).figure.axes[0]
    assert ax.get_xlim()[1] < 4
    assert ax.get_title(loc="right") == "1 off scale, to 900"
