"""Histograms of predictive entropy: bins and means of test rows and of other sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.entropy_histograms import _figure, entropy_histograms, entropy_numbers
from bnn_atlas.figures.method_looks import method_looks
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.classes import entropy_shares
from tests.figures.conftest import Drawn
from tests.figures.set_files import written


def shares(seed: int, concentration: float) -> dict[str, float]:
    probabilities = np.random.default_rng(seed).dirichlet(np.full(5, concentration), size=200)
    return {f"entropy_histogram@{m.at}": m.value for m in entropy_shares(probabilities)}


def run(folder: Path, name: str, seed: int, **changes: Any) -> Shown:
    own = {**shares(seed, 0.1), "predictive_entropy": (0.4, 0.02)}
    outside = {**shares(seed, 3.0), "predictive_entropy_ood": (1.3, 0.03)}
    return written(
        folder, name, own, {"ood-notmnist": outside, "rotated30": shares(seed, 1.0)},
        set_titles={"ood-notmnist": "notMNIST"}, **changes,
    )  # fmt: skip


def test_bins_and_means_of_test_rows_and_other_sets(tmp_path: Path) -> None:
    one = run(tmp_path, "a", 0)
    numbers = entropy_numbers([one])
    assert set(numbers["set"]) == {"test", "ood-notmnist"}
    bins = numbers[numbers["metric"] == "share"]
    assert bins.groupby("set")["value"].sum().to_numpy() == pytest.approx(1)
    assert bins["right"].max() == pytest.approx(np.log(5), rel=1e-3)
    means = numbers[numbers["metric"] == "mean"].set_index("set")
    assert means["value"].to_dict() == {"test": 0.4, "ood-notmnist": 1.3}
    figure = _figure(numbers, {"test": "test rows", **one.set_titles}, method_looks([one]))
    assert [ax.get_title() for ax in figure.axes] == ["test rows", "notMNIST"]
    stairs = figure.axes[0].patches[0].get_data()
    np.testing.assert_allclose(stairs.values, bins.loc[bins["set"] == "test", "value"])
    assert stairs.edges[0] == 0


def test_the_picture_is_the_same_every_time(drawn: Drawn, tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", 1, method="hmc"), run(tmp_path, "SGD", 2, method="map")]
    assert len(drawn(entropy_histograms, shown)) == 2 * 2 * 21


def test_regressions_and_too_many_sets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot show a run of the task 'regression'"):
        entropy_numbers([written(tmp_path, "a", {"rmse": 0.3}, task="regression")])
    sets = {f"ood-d{i}": shares(0, 1.0) for i in range(4)}
    with pytest.raises(ValueError, match="5 sets of rows: at most 4 fit"):
        entropy_numbers([written(tmp_path, "a", shares(0, 1.0), sets)])
