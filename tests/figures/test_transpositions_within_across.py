from pathlib import Path

import numpy as np

from bnn_atlas.figures.permutation_symmetry.transpositions_within_across import transpositions_within_across
from bnn_atlas.symmetry.permutation import ceiling
from tests.figures.aligned_files import aligned_draws, of_alignments
from tests.figures.conftest import Drawn


def test_transpositions_within_and_across_beside_the_ceiling(drawn: Drawn, tmp_path: Path) -> None:
    aligned_draws(tmp_path / "a.npz")
    runs = [of_alignments("aligned_draws", {"x": tmp_path / "a.npz"}, run) for run in ("hmc", "mile")]
    table = drawn(transpositions_within_across, runs)
    assert table.groupby(["label", "where"])["transpositions"].mean().to_dict() == {
        ("hmc", "within"): 1, ("hmc", "across"): 4, ("mile", "within"): 1, ("mile", "across"): 4,
    }  # fmt: skip
    np.testing.assert_allclose(table["ceiling"], ceiling(5))
    np.testing.assert_allclose(table["share"], table["transpositions"] / ceiling(5))
