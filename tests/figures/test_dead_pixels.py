"""Weights of dead pixels and accuracy under noise in them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.figures.kinds.dead_pixels import _figure, dead_pixel_numbers, dead_pixels
from bnn_atlas.figures.method_looks import method_looks
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import Drawn
from tests.figures.set_files import written

Outputs = Callable[[str], FigureOutputs]


def run(folder: Path, name: str, dead: float, fall: float, **changes: Any) -> Shown:
    noise = {
        f"{kind}{level}": {"accuracy": (0.9 - fall * level * share, 0.01)}
        for kind, share in (("dead_pixels", 1.0), ("live_pixels", 0.5))
        for level in range(1, 6)
    }
    own = {"accuracy": (0.9, 0.01), "weight_sd_dead_inputs": dead, "weight_sd_live_inputs": 0.3}
    sets = {**noise, "fog1": {"accuracy": 0.1}, "ood-notmnist": {"auroc_entropy": 0.8}}
    return written(folder, name, own, sets, **{"prior_sd": 0.45, **changes})


def test_weights_and_accuracies_by_severity(tmp_path: Path) -> None:
    numbers = dead_pixel_numbers([run(tmp_path, "HMC", 0.44, 0.1)])
    weights = numbers[numbers["noise_in"] == ""].set_index("metric")["value"]
    assert weights.to_dict() == {"weight_sd_dead_inputs": 0.44, "weight_sd_live_inputs": 0.3}
    dead = numbers[numbers["noise_in"] == "dead_pixels"]
    assert dead["severity"].tolist() == [0, 1, 2, 3, 4, 5]
    assert dead["value"].to_numpy() == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    live = numbers[numbers["noise_in"] == "live_pixels"]
    assert live["value"].iloc[-1] == pytest.approx(0.65)
    assert set(numbers["prior_sd"]) == {0.45}


def test_the_picture_marks_the_prior_of_runs_that_have_one(drawn: Drawn, tmp_path: Path) -> None:
    shown = [
        run(tmp_path, "HMC", 0.44, 0.1, method="hmc"),
        run(tmp_path, "SGD", 0.0, 0.01, method="map"),
        run(tmp_path, "EmpCov", 0.02, 0.01, method="hmc", prior_sd=None),
    ]
    assert len(drawn(dead_pixels, shown)) == 3 * (2 + 2 * 6)
    figure = _figure(dead_pixel_numbers(shown), method_looks(shown))
    weights = figure.axes[0]
    ticks = [line.get_xdata()[0] for line in weights.lines if line.get_marker() == "|"]
    assert ticks == [0.45, 0.45]
    assert weights.get_xlim()[0] < 0


def test_runs_without_dead_pixels_or_noise_in_them_are_refused(tmp_path: Path) -> None:
    plain = written(tmp_path, "a", {"accuracy": 0.9}, {"fog1": {"accuracy": 0.5}})
    with pytest.raises(ValueError, match="'a' has no weight_sd_dead_inputs: there is no pixel that never varies"):
        dead_pixel_numbers([plain])
    weights = {"accuracy": 0.9, "weight_sd_dead_inputs": 0.4, "weight_sd_live_inputs": 0.3}
    clean = written(tmp_path, "b", weights, {"fog1": {"accuracy": 0.5}})
    with pytest.raises(ValueError, match="not scored under noise in these pixels; add dead_pixels1 to dead_pixels5"):
        dead_pixel_numbers([clean])
