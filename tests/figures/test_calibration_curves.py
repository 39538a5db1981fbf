"""Calibration curves of class probabilities: gaps, errors, averages over shifted sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.calibration_curves import _figure, calibration_curves, curve_numbers
from bnn_atlas.figures.method_looks import method_looks
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.classes import calibration_curve
from tests.figures.conftest import Drawn
from tests.figures.set_files import written


def bins(excess: float, count: int = 4) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for number in range(count):
        at, said = f"{(number + 1) / count:g}", 0.3 + 0.2 * number
        values[f"calibration_confidence@{at}"] = said
        values[f"calibration_accuracy@{at}"] = (said + excess, 0.01 * (number + 1))
        values[f"calibration_share@{at}"] = 1 / count
    return values


def run(folder: Path, name: str, excess: float, shifts: dict[str, float] | None = None, **changes: Any) -> Shown:
    sets = {shift: bins(value) for shift, value in (shifts or {}).items()}
    return written(folder, name, bins(excess), {**sets, "ood-notmnist": {"auroc_confidence": 0.9}}, **changes)


def test_gaps_are_accuracy_less_confidence_with_the_errors_of_the_accuracy(tmp_path: Path) -> None:
    numbers = curve_numbers([run(tmp_path, "a", 0.05)])
    assert numbers["gap"].to_numpy() == pytest.approx(0.05)
    assert numbers["at"].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert numbers["confidence"].to_numpy() == pytest.approx([0.3, 0.5, 0.7, 0.9])
    assert numbers["error"].to_numpy() == pytest.approx([0.01, 0.02, 0.03, 0.04])
    assert set(numbers["rows"]) == {"test"}


def test_shifted_sets_that_all_have_are_averaged_bin_by_bin(tmp_path: Path) -> None:
    shown = [
        run(tmp_path, "a", 0.0, {"fog1": -0.1, "fog2": -0.3, "blur1": 0.4}),
        run(tmp_path, "b", 0.0, {"fog1": 0.1, "fog2": 0.2}),
    ]
    numbers = curve_numbers(shown)
    shifted = numbers[numbers["rows"] == "shifted"].groupby("label")
    assert shifted["gap"].first().to_dict() == pytest.approx({"a": -0.2, "b": 0.15})
    assert set(numbers.loc[numbers["rows"] == "shifted", "sets"]) == {2}
    titles = [ax.get_title() for ax in _figure(numbers, method_looks(shown)).axes]
    assert titles == ["test rows", "shifted rows, mean over 2 sets"]


def test_the_curve_of_measured_bins_adds_up_to_the_calibration_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), size=500)
    labels = (rng.random((500, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=2)
    measured = {f"{m.metric}@{m.at}": (m.value, m.standard_error) for m in calibration_curve(probabilities, labels)}
    numbers = curve_numbers([written(tmp_path, "a", measured)])
    assert np.abs(numbers["gap"]).max() < 4 * numbers["error"].max()
    accuracy = (probabilities.argmax(axis=1) == labels).mean()
    assert numbers["accuracy"].mean() == pytest.approx(accuracy, abs=1e-9)


def test_the_picture_is_the_same_every_time(drawn: Drawn, tmp_path: Path) -> None:
    shown = [
        run(tmp_path, "HMC", 0.02, {"fog1": -0.1}, method="hmc"),
        run(tmp_path, "SGD", -0.1, {"fog1": -0.3}, method="map"),
    ]
    assert len(drawn(calibration_curves, shown)) == 2 * 2 * 4


def test_regressions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot show a run of the task 'regression'"):
        curve_numbers([written(tmp_path, "a", {"rmse": 0.3}, task="regression")])
