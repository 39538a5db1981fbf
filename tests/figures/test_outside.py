"""Class predictions on rows of other data sets: what is read, how it is drawn, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.outside import entropy_cdf, entropy_histograms, ood_auroc
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.classes import entropy_shares
from tests.figures.set_files import CONVERGED, UNCONVERGED, Values, written

TITLES = {"ood-fashion_mnist": "Fashion-MNIST", "ood-notmnist": "notMNIST"}


def run(folder: Path, name: str, area: float, diagnostics: Values = CONVERGED, **changes: Any) -> Shown:
    sets = {
        other: {"auroc_confidence": (area - i / 10, 0.01), "auroc_entropy": (area - i / 10 + 0.02, 0.02)}
        for i, other in enumerate(TITLES)
    }
    return written(folder, name, diagnostics, {**sets, "rotated30": {"accuracy": 0.7}}, set_titles=TITLES, **changes)


def test_a_panel_for_each_other_set_and_marks_for_both_scores(tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", 0.9, method="hmc"), run(tmp_path, "SGLD", 0.8, UNCONVERGED)]
    numbers = ood_auroc(shown).numbers
    assert len(numbers) == 2 * 2 * 2
    row = numbers[(numbers["label"] == "SGLD") & (numbers["set"] == "ood-notmnist")].set_index("metric")
    assert row["value"].to_dict() == pytest.approx({"auroc_confidence": 0.7, "auroc_entropy": 0.72})
    assert row["error"].to_dict() == {"auroc_confidence": 0.01, "auroc_entropy": 0.02}
    figure = ood_auroc(shown).figure
    assert [ax.get_title() for ax in figure.axes] == ["Fashion-MNIST", "notMNIST"]
    # Two grid lines and, for each label, a filled and a white mark.
    faces = [line.get_markerfacecolor() for line in figure.axes[0].lines if line.get_markersize() == 4]
    assert [face == "white" for face in faces] == [False, True, False, True]


def test_the_axis_ends_at_one(tmp_path: Path) -> None:
    for areas in ((0.999, 0.9995), (0.6, 0.9995)):
        sets: list[dict[str, Values]] = [{"ood-a": {"auroc_confidence": (area, 1e-4)}} for area in areas]
        parts = [written(tmp_path, str(area), CONVERGED, each) for area, each in zip(areas, sets, strict=True)]
        ax = ood_auroc(parts).figure.axes[0]
        low, high = ax.get_xlim()
        assert low < areas[0]
        assert max(tick for tick in ax.get_xticks() if tick <= high) <= 1 < high < 1.02


def shares(seed: int, concentration: float) -> dict[str, float]:
    probabilities = np.random.default_rng(seed).dirichlet(np.full(5, concentration), size=200)
    return {f"entropy_histogram@{m.at}": m.value for m in entropy_shares(probabilities)}


def uncertain(folder: Path, name: str, seed: int, **changes: Any) -> Shown:
    own = {**shares(seed, 0.1), "predictive_entropy": (0.4, 0.02)}
    outside = {**shares(seed, 3.0), "predictive_entropy_ood": (1.3, 0.03)}
    return written(
        folder, name, own, {"ood-notmnist": outside, "rotated30": shares(seed, 1.0)},
        set_titles={"ood-notmnist": "notMNIST"}, **changes,
    )  # fmt: skip


def test_bins_and_means_of_test_rows_and_other_sets(tmp_path: Path) -> None:
    one = uncertain(tmp_path, "a", 0)
    numbers = entropy_histograms([one]).numbers
    assert set(numbers["set"]) == {"test", "ood-notmnist"}
    bins = numbers[numbers["metric"] == "share"]
    assert bins.groupby("set")["value"].sum().to_numpy() == pytest.approx(1)
    assert bins["right"].max() == pytest.approx(np.log(5), rel=1e-3)
    means = numbers[numbers["metric"] == "mean"].set_index("set")
    assert means["value"].to_dict() == {"test": 0.4, "ood-notmnist": 1.3}
    figure = entropy_histograms([one]).figure
    assert [ax.get_title() for ax in figure.axes] == ["test rows", "notMNIST"]
    assert len(entropy_histograms([one, uncertain(tmp_path, "b", 0)]).figure.axes) == 4, "a row per label"
    up_to = entropy_cdf([one]).numbers.groupby("set")["value"]
    assert up_to.last().tolist() == pytest.approx([1, 1])
    assert (up_to.diff().dropna() >= 0).all()
    outside, inside = (up_to.get_group(name).iloc[len(up_to.get_group(name)) // 2] for name in ("ood-notmnist", "test"))
    assert outside < inside, "rows of the other set are less certain"
    stairs = figure.axes[0].patches[0].get_data()
    np.testing.assert_allclose(stairs.values, bins.loc[bins["set"] == "test", "value"])
    assert stairs.edges[0] == 0
