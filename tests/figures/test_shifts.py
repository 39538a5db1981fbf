"""Class predictions on shifted rows: what is read, how it is drawn, refusals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.shifts import (
    ALL_KINDS,
    calibration_curves,
    corruptions,
    dead_pixels,
    rotated_mnist,
)
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.classes import calibration_curve
from tests.figures.set_files import CONVERGED, UNCONVERGED, Values, written


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
    numbers = calibration_curves([run(tmp_path, "a", 0.05)]).numbers
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
    numbers = calibration_curves(shown).numbers
    shifted = numbers[numbers["rows"] == "shifted"].groupby("label")
    assert shifted["gap"].first().to_dict() == pytest.approx({"a": -0.2, "b": 0.15})
    assert set(numbers.loc[numbers["rows"] == "shifted", "sets"]) == {2}
    titles = [ax.get_title() for ax in calibration_curves(shown).figure.axes]
    assert titles == ["test rows", "shifted rows, mean over 2 sets"]


def test_the_curve_of_measured_bins_adds_up_to_the_calibration_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), size=500)
    labels = (rng.random((500, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=2)
    measured = {f"{m.metric}@{m.at}": (m.value, m.standard_error) for m in calibration_curve(probabilities, labels)}
    numbers = calibration_curves([written(tmp_path, "a", measured)]).numbers
    assert np.abs(numbers["gap"]).max() < 4 * numbers["error"].max()
    accuracy = (probabilities.argmax(axis=1) == labels).mean()
    assert numbers["accuracy"].mean() == pytest.approx(accuracy, abs=1e-9)


def turned(
    folder: Path, name: str, angles: Sequence[int], diagnostics: Values = CONVERGED, method: str = "map"
) -> Shown:
    def scores(angle: int) -> Values:
        return {
            "accuracy": (0.9 - angle / 400, 0.01), "nll": (0.2 + angle / 100, 0.02), "ece": 0.05,
            "mean_maximum_confidence": 0.8,
        }  # fmt: skip

    sets = {f"rotated{angle}": scores(angle) for angle in angles} | {"ood-letters": {"auroc_confidence": 0.9}}
    return written(folder, name, {**diagnostics, **scores(0)}, sets, method=method)


def test_a_line_per_method_over_the_angles(tmp_path: Path) -> None:
    shown = [
        turned(tmp_path, "MAP", (90, 45)),
        turned(tmp_path, "HMC", (45, 90), UNCONVERGED, "hmc"),
    ]
    numbers = rotated_mnist(shown).numbers
    assert set(numbers["angle"]) == {0, 45, 90}
    of_map = numbers[(numbers["label"] == "MAP") & (numbers["angle"] == 90)].set_index("metric")
    assert of_map["value"].to_dict() == pytest.approx(
        {"accuracy": 0.675, "log_likelihood": -1.1, "ece": 0.05, "mean_maximum_confidence": 0.8}
    )
    assert of_map["error"]["log_likelihood"] == 0.02


KINDS = ("fog", "blur", "contrast", "pixelate")


def scored(fall: float) -> dict[str, Any]:
    return {"accuracy": (0.95 - fall, 0.01), "nll": (0.2 + fall, 0.02), "ece": 0.03 + fall}


def corrupted(folder: Path, name: str, kinds: tuple[str, ...] = KINDS, severities: int = 5, **changes: Any) -> Shown:
    sets = {
        f"{kind}{level}": scored(0.02 * (i + 1) * level)
        for i, kind in enumerate(kinds)
        for level in range(1, severities + 1)
    }
    sets |= {"rotated30": scored(0.5), "dead_pixels2": scored(0.5), "ood-notmnist": {"auroc_confidence": 0.9}}
    return written(folder, name, scored(0), sets, **changes)


def test_corruptions_enter_by_severity_and_nothing_else_does(tmp_path: Path) -> None:
    numbers = corruptions([corrupted(tmp_path, "a"), corrupted(tmp_path, "b", kinds=KINDS[::-1])]).numbers
    assert set(numbers["corruption"]) == {"", *KINDS, ALL_KINDS}
    assert sorted(numbers["severity"].unique()) == [0, 1, 2, 3, 4, 5]
    fog = numbers[(numbers["corruption"] == "fog") & (numbers["severity"] == 3)].set_index("label")
    assert fog["accuracy"].to_dict() == pytest.approx({"a": 0.89, "b": 0.71})
    assert fog["difference"].to_dict() == pytest.approx({"a": 0.0, "b": -0.18})
    mean = numbers[(numbers["corruption"] == ALL_KINDS) & (numbers["severity"] == 3)].set_index("label")
    assert mean["difference"].to_dict() == pytest.approx({"a": 0.0, "b": 0.0})


def test_rows_with_one_class_do_not_enter_the_error_of_a_difference(tmp_path: Path) -> None:
    own = {"accuracy": (0.9, 0.003)}  # of 10,000 rows
    first = written(tmp_path, "first", own, {"fog1": own})
    near = {name: {"agreement": 0.96} for name in ("test", "fog1")}
    other = written(tmp_path, "other", {"accuracy": (0.88, 0.00325)}, {"fog1": own}, {"first": near})
    alone = written(tmp_path, "alone", own, {"fog1": own})
    numbers = corruptions([first, other, alone]).numbers
    clean = numbers[numbers["severity"] == 0].set_index("label")["error"]
    assert clean["other"] == pytest.approx(((0.04 - 0.02**2) / 10_000) ** 0.5)
    assert clean["alone"] == pytest.approx(0.003 * 2**0.5)
    assert np.isnan(clean["first"])


def noisy(folder: Path, name: str, dead: float, fall: float, **changes: Any) -> Shown:
    noise = {
        f"{kind}{level}": {"accuracy": (0.9 - fall * level * share, 0.01)}
        for kind, share in (("dead_pixels", 1.0), ("live_pixels", 0.5))
        for level in range(1, 6)
    }
    own = {"accuracy": (0.9, 0.01), "weight_sd_dead_inputs": dead, "weight_sd_live_inputs": 0.3}
    sets = {**noise, "fog1": {"accuracy": 0.1}, "ood-notmnist": {"auroc_entropy": 0.8}}
    return written(folder, name, own, sets, **{"prior_sd": 0.45, **changes})


def test_weights_and_accuracies_by_severity(tmp_path: Path) -> None:
    numbers = dead_pixels([noisy(tmp_path, "HMC", 0.44, 0.1)]).numbers
    weights = numbers[numbers["noise_in"] == ""].set_index("metric")["value"]
    assert weights.to_dict() == {"weight_sd_dead_inputs": 0.44, "weight_sd_live_inputs": 0.3}
    dead = numbers[numbers["noise_in"] == "dead_pixels"]
    assert dead["severity"].tolist() == [0, 1, 2, 3, 4, 5]
    assert dead["value"].to_numpy() == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    assert dead["difference"].eq(0).all(), "less its own"
    live = numbers[numbers["noise_in"] == "live_pixels"]
    assert live["value"].iloc[-1] == pytest.approx(0.65)
    assert set(numbers["prior_sd"]) == {0.45}


def test_the_picture_marks_the_prior_of_runs_that_have_one(tmp_path: Path) -> None:
    shown = [
        noisy(tmp_path, "HMC", 0.44, 0.1, method="hmc"),
        noisy(tmp_path, "SGD", 0.0, 0.01, method="map"),
        noisy(tmp_path, "EmpCov", 0.02, 0.01, method="hmc", prior_sd=None),
    ]
    figure = dead_pixels(shown).figure
    weights, dead, _ = figure.axes
    assert [text.get_text() for text in dead.get_xticklabels()][:2] == ["0\n.900", "1\n.800"], "of the first label"
    ticks = [line.get_xdata()[0] for line in weights.lines if line.get_marker() == "|"]
    assert ticks == [0.45, 0.45]
    assert weights.get_xlim()[0] < 0


def test_runs_without_dead_pixels_are_refused(tmp_path: Path) -> None:
    plain = written(tmp_path, "a", {"accuracy": 0.9}, {"fog1": {"accuracy": 0.5}})
    with pytest.raises(ValueError, match="'a' has no weight_sd_dead_inputs: there is no pixel that never varies"):
        dead_pixels([plain])
