"""The surface of transpositions over epochs and the line: what is read, refusals."""

from pathlib import Path

import pytest

from bnn_atlas.figures.permutation_symmetry.transpositions_surface import surface, transpositions_surface
from bnn_atlas.metrics.tables.files import MATCH_SCHEMA, read_frame, write_frame
from tests.figures.conftest import Drawn

from .pair_files import pair_run


def test_points_over_epochs_are_means_over_pairs(drawn: Drawn, tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 6])]
    of = drawn(transpositions_surface, shown).set_index(["state", "draw", "point"])["mean"]
    assert of["as_trained", 1, 0.5] == 4
    assert of["as_trained", 2, 1.0] == 5
    assert of["aligned", 2, 0.5] == 0
    assert of["as_trained", 0, 0.0] == 0


def test_lines_without_inner_points_are_refused(tmp_path: Path) -> None:
    run = pair_run(tmp_path, "pairs", [2])
    frame = read_frame(run.files["matches"], MATCH_SCHEMA)
    write_frame(run.files["matches"], frame[frame["point"] == 1.0].astype({"planted": "Int64"}), MATCH_SCHEMA)
    with pytest.raises(ValueError, match="surface: true"):
        surface([run])
