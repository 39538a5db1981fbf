"""Squared distances of pairs: states, published marks."""

from pathlib import Path

import pytest

from bnn_atlas.figures.permutation_symmetry.distance_against_transpositions import (
    _figure,
    distance_against_transpositions,
)
from tests.figures.conftest import Drawn

from .pair_files import pair_run


def test_distances_by_state(drawn: Drawn, tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 5])]
    numbers = drawn(distance_against_transpositions, shown)
    of = {state: part["squared_distance"].tolist() for state, part in numbers.groupby("state")}
    assert of == {"start": [20, 50], "as_trained": [22, 52], "planted": pytest.approx([4, 7])}
    assert len(_figure(numbers, True).axes[0].lines) > len(_figure(numbers, False).axes[0].lines)
