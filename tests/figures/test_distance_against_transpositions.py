"""Squared distances of pairs: states, published marks."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.permutation_symmetry.distance_against_transpositions import (
    _figure,
    distance_against_transpositions,
)
from bnn_atlas.provenance import Provenance

from .pair_files import pair_run

Outputs = Callable[[str], FigureOutputs]


def test_distances_by_state(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 5])]
    for folder in ("x", "y"):
        distance_against_transpositions(shown, outputs(folder), provenance)
    assert outputs("x").png.read_bytes() == outputs("y").png.read_bytes()
    assert read_provenance(outputs("x").pdf) == provenance
    numbers = pd.read_csv(outputs("x").csv)
    of = {state: part["squared_distance"].tolist() for state, part in numbers.groupby("state")}
    assert of == {"start": [20, 50], "as_trained": [22, 52], "planted": pytest.approx([4, 7])}
    assert len(_figure(numbers, True).axes[0].lines) > len(_figure(numbers, False).axes[0].lines)
