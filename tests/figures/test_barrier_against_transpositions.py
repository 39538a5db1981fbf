"""Barriers against transpositions: one mark per pair and state, the correlation, published marks."""

from pathlib import Path

import pytest

from bnn_atlas.figures.permutation_symmetry.barrier_against_transpositions import (
    _figure,
    barrier_against_transpositions,
    correlation_text,
)
from tests.figures.conftest import Drawn

from .pair_files import pair_run


def test_marks_are_pairs_and_the_correlation_is_of_trained_ones(drawn: Drawn, tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 5, 9, 14])]
    numbers = drawn(barrier_against_transpositions, shown)
    trained = numbers[numbers["state"] == "as_trained"]
    assert trained["midpoint"].tolist() == pytest.approx([0.2, 0.5, 0.9, 1.4])
    assert trained["transpositions"].tolist() == [3, 6, 10, 15]
    assert correlation_text(trained) == "correlation 1.000, 4 pairs"
    assert correlation_text(trained[:3]) == ""
    marks = len(_figure(numbers).axes[0].lines)
    published = _figure(numbers.assign(units=512)).axes[0].lines
    assert len(published) > marks, "published numbers are for 512 units"
