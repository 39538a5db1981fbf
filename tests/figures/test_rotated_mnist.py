"""Scores by the angle of rotated images: what is read, how it is drawn, refusals."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bnn_atlas.figures.implicit_vi.rotated_mnist import rotated_mnist, rotation_numbers
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import Drawn
from tests.figures.set_files import CONVERGED, UNCONVERGED, Values, written


def run(folder: Path, name: str, angles: Sequence[int], diagnostics: Values = CONVERGED, method: str = "map") -> Shown:
    def scores(angle: int) -> Values:
        return {
            "accuracy": (0.9 - angle / 400, 0.01), "nll": (0.2 + angle / 100, 0.02), "ece": 0.05,
            "mean_maximum_confidence": 0.8,
        }  # fmt: skip

    sets = {f"rotated{angle}": scores(angle) for angle in angles} | {"ood-letters": {"auroc_confidence": 0.9}}
    return written(folder, name, {**diagnostics, **scores(0)}, sets, method=method)


def test_a_line_per_method_over_the_angles(drawn: Drawn, tmp_path: Path) -> None:
    shown = [run(tmp_path, "MAP", (90, 45)), run(tmp_path, "HMC", (45, 90), UNCONVERGED, "hmc")]
    numbers = drawn(rotated_mnist, shown)
    assert set(numbers["angle"]) == {0, 45, 90}
    of_map = numbers[(numbers["label"] == "MAP") & (numbers["angle"] == 90)].set_index("metric")
    assert of_map["value"].to_dict() == pytest.approx(
        {"accuracy": 0.675, "log_likelihood": -1.1, "ece": 0.05, "mean_maximum_confidence": 0.8}
    )
    assert of_map["error"]["log_likelihood"] == 0.02


def test_runs_without_rotations_or_with_other_angles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'flat' was scored on no rotated images"):
        rotation_numbers([run(tmp_path, "flat", ())])
    with pytest.raises(ValueError, match=r"'b' and 'a' differ in their angles \(45\)"):
        rotation_numbers([run(tmp_path, "a", (90,)), run(tmp_path, "b", (45, 90))])
