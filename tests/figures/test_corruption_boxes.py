"""Boxes over corruptions: what enters them, their quartiles, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.corruption_boxes import _statistics, corruption_boxes, corruption_numbers
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import Drawn
from tests.figures.set_files import written

KINDS = ("fog", "blur", "contrast", "pixelate")


def scored(fall: float) -> dict[str, Any]:
    return {"accuracy": (0.95 - fall, 0.01), "nll": (0.2 + fall, 0.02), "ece": 0.03 + fall}


def run(folder: Path, name: str, kinds: tuple[str, ...] = KINDS, severities: int = 5, **changes: Any) -> Shown:
    sets = {
        f"{kind}{level}": scored(0.02 * (i + 1) * level)
        for i, kind in enumerate(kinds)
        for level in range(1, severities + 1)
    }
    sets |= {"rotated30": scored(0.5), "dead_pixels2": scored(0.5), "ood-notmnist": {"auroc_confidence": 0.9}}
    return written(folder, name, scored(0), sets, **changes)


def test_corruptions_enter_by_severity_and_nothing_else_does(tmp_path: Path) -> None:
    numbers = corruption_numbers([run(tmp_path, "a")])
    assert set(numbers["corruption"]) == {"", *KINDS}
    assert sorted(numbers["severity"].unique()) == [0, 1, 2, 3, 4, 5]
    fog = numbers[(numbers["corruption"] == "fog") & (numbers["severity"] == 3)].set_index("metric")["value"]
    assert fog.to_dict() == pytest.approx({"accuracy": 0.89, "log_likelihood": -0.26, "ece": 0.09})
    clean = numbers[(numbers["severity"] == 0) & (numbers["metric"] == "accuracy")]
    assert clean[["value", "error"]].to_numpy().tolist() == [[0.95, 0.01]]


def test_boxes_are_quartiles_with_the_extremes_as_whiskers() -> None:
    found = _statistics(np.array([1.0, 2, 3, 4, 9]))
    assert found == {"q1": 2, "med": 3, "q3": 4, "whislo": 1, "whishi": 9}
    assert _statistics(np.array([1.0, 2, 3, -np.inf]))["whislo"] == 1


def test_the_picture_has_a_panel_for_each_score(drawn: Drawn, tmp_path: Path) -> None:
    shown = [run(tmp_path, "HMC", method="hmc"), run(tmp_path, "SGD", method="map"), run(tmp_path, "SGLD")]
    numbers = drawn(corruption_boxes, shown)
    assert len(numbers) == 3 * 3 * (1 + len(KINDS) * 5)


def test_labels_on_other_corruptions_are_refused(tmp_path: Path) -> None:
    shown = [run(tmp_path, "a"), run(tmp_path, "b", severities=4)]
    with pytest.raises(
        ValueError, match=r"'b' and 'a' differ in their corruptions \(blur5, contrast5, fog5, pixelate5\)"
    ):
        corruption_numbers(shown)
    plain = written(tmp_path, "c", scored(0), {"rotated30": scored(0.1)})
    with pytest.raises(ValueError, match=r"'c' was scored on no corruptions; give its runs some in evaluate\.shifts"):
        corruption_numbers([plain])
