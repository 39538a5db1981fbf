"""Transpositions before and after training: changes by pair, refusals."""

from pathlib import Path

import pytest

from bnn_atlas.figures.permutation_symmetry.transpositions_stability import planted_and_found, transpositions_stability
from tests.figures.conftest import Drawn

from .pair_files import pair_run


def test_changes_are_those_of_each_pair(drawn: Drawn, tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [3, 9, 15])]
    numbers = drawn(transpositions_stability, shown)
    trained = numbers[numbers["state"] == "as_trained"]
    assert trained["planted"].tolist() == [3, 9, 15]
    assert trained["change"].tolist() == [1, 1, 1]
    assert numbers.loc[numbers["state"] == "start", "change"].tolist() == [0, 0, 0]
    assert numbers.loc[numbers["state"] == "planted", "change"].tolist() == [1, 1, 1]


def test_pairs_of_independent_starts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no pair of these runs started as permuted copies"):
        planted_and_found([pair_run(tmp_path, "paths", [None])])
