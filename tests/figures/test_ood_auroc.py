"""AUROC of methods by data set: what is read, how it is drawn, refusals."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.figures.kinds.ood_auroc import _figure, auroc_numbers, ood_auroc
from bnn_atlas.figures.method_looks import method_looks
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import Drawn
from tests.figures.set_files import CONVERGED, UNCONVERGED, Values, written

TITLES = {"ood-fashion_mnist": "Fashion-MNIST", "ood-notmnist": "notMNIST"}


def run(folder: Path, name: str, area: float, diagnostics: Values = CONVERGED, **changes: Any) -> Shown:
    sets = {
        other: {"auroc_confidence": (area - i / 10, 0.01), "auroc_entropy": (area - i / 10 + 0.02, 0.02)}
        for i, other in enumerate(TITLES)
    }
    return written(folder, name, diagnostics, {**sets, "rotated30": {"accuracy": 0.7}}, set_titles=TITLES, **changes)


def test_a_panel_for_each_other_set_and_marks_for_both_scores(drawn: Drawn, tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", 0.9, method="hmc"), run(tmp_path, "SGLD", 0.8, UNCONVERGED)]
    numbers = drawn(ood_auroc, shown)
    assert len(numbers) == 2 * 2 * 2
    row = numbers[(numbers["label"] == "SGLD") & (numbers["set"] == "ood-notmnist")].set_index("metric")
    assert row["value"].to_dict() == pytest.approx({"auroc_confidence": 0.7, "auroc_entropy": 0.72})
    assert row["error"].to_dict() == {"auroc_confidence": 0.01, "auroc_entropy": 0.02}
    figure = _figure(numbers, TITLES, method_looks(shown))
    assert [ax.get_title() for ax in figure.axes] == ["Fashion-MNIST", "notMNIST"]
    # Two grid lines and, for each label, a filled and a white mark.
    faces = [line.get_markerfacecolor() for line in figure.axes[0].lines if line.get_markersize() == 3.8]
    assert [face == "white" for face in faces] == [False, True, False, True]


def test_the_axis_ends_at_one(tmp_path: Path) -> None:
    for areas in ((0.999, 0.9995), (0.6, 0.9995)):
        sets: list[dict[str, Values]] = [{"ood-a": {"auroc_confidence": (area, 1e-4)}} for area in areas]
        parts = [written(tmp_path, str(area), CONVERGED, each) for area, each in zip(areas, sets, strict=True)]
        ax = _figure(auroc_numbers(parts), {}, method_looks(parts)).axes[0]
        low, high = ax.get_xlim()
        assert low < areas[0]
        assert max(tick for tick in ax.get_xticks() if tick <= high) <= 1 < high < 1.02


def test_runs_without_other_sets_and_too_many_sets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no auroc_confidence and no auroc_entropy of run a"):
        auroc_numbers([written(tmp_path, "a", {"accuracy": 0.9}, {"rotated30": {"accuracy": 0.5}})])
    many = {f"ood-d{i}": {"auroc_confidence": 0.9} for i in range(6)}
    with pytest.raises(ValueError, match="6 out-of-distribution sets: at most 5 fit"):
        auroc_numbers([written(tmp_path, "a", {}, many)])
