"""Barriers against transpositions: one mark per pair and state, the correlation, published marks."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.permutation_symmetry.barrier_against_transpositions import (
    _figure,
    barrier_against_transpositions,
    correlation_text,
)
from bnn_atlas.provenance import Provenance

from .pair_files import pair_run

Outputs = Callable[[str], FigureOutputs]


def test_marks_are_pairs_and_the_correlation_is_of_trained_ones(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 5, 9, 14])]
    for folder in ("x", "y"):
        barrier_against_transpositions(shown, outputs(folder), provenance)
    assert outputs("x").png.read_bytes() == outputs("y").png.read_bytes()
    assert read_provenance(outputs("x").pdf) == provenance
    numbers = pd.read_csv(outputs("x").csv)
    trained = numbers[numbers["state"] == "as_trained"]
    assert trained["midpoint"].tolist() == pytest.approx([0.2, 0.5, 0.9, 1.4])
    assert trained["transpositions"].tolist() == [3, 6, 10, 15]
    assert correlation_text(trained) == "correlation 1.000, 4 pairs"
    assert correlation_text(trained[:3]) == ""
    marks = len(_figure(numbers).axes[0].lines)
    published = _figure(numbers.assign(units=512)).axes[0].lines
    assert len(published) > marks, "published numbers are for 512 units"
