from pathlib import Path

import numpy as np

from bnn_atlas.figures.permutation_symmetry.transpositions_within_across import transpositions_within_across
from bnn_atlas.provenance import Provenance
from bnn_atlas.symmetry.permutation import ceiling

from .aligned_files import Outputs, aligned_draws, drawn, of_alignments


def test_transpositions_within_and_across_beside_the_ceiling(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    aligned_draws(tmp_path / "a.npz")
    runs = [of_alignments("aligned_draws", {"x": tmp_path / "a.npz"}, run) for run in ("hmc", "mile")]
    table = drawn(transpositions_within_across, runs, outputs, provenance)
    assert table.groupby(["label", "where"])["transpositions"].mean().to_dict() == {
        ("hmc", "within"): 1, ("hmc", "across"): 4, ("mile", "within"): 1, ("mile", "across"): 4,
    }  # fmt: skip
    np.testing.assert_allclose(table["ceiling"], ceiling(5))
    np.testing.assert_allclose(table["share"], table["transpositions"] / ceiling(5))
