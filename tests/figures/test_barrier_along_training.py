"""Barriers along training: means over pairs, the line after training, equal bytes."""

from pathlib import Path

import pytest

from bnn_atlas.figures.permutation_symmetry.barrier_along_training import _figure, barrier_along_training
from tests.figures.conftest import Drawn

from .pair_files import pair_run


def test_courses_and_lines_are_means_over_pairs(drawn: Drawn, tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "two_paths", [10, 5])]
    numbers = drawn(barrier_along_training, shown)
    of = numbers.set_index(["panel", "state", "rows", "x"])["mean"]
    assert of["loss", "as_trained", "train", 0] == pytest.approx(0)
    assert of["loss", "as_trained", "test", 2] == pytest.approx((1.0 + 0.5) / 2)
    assert of["error", "as_trained", "train", 1] == pytest.approx(0.075)
    assert of["loss", "aligned", "train", 2] == pytest.approx(0)
    assert of["line", "as_trained", "train", 0.5] == pytest.approx(0.3 + 0.75)
    assert set(numbers["pairs"]) == {2}
    assert "planted" not in set(numbers["state"])
    figure = _figure(numbers)
    assert [len(ax.lines) for ax in figure.axes] == [5, 5, 4], "two states on two kinds of rows, and zero"
