from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.permutation_symmetry.aligned_marginals import aligned_marginals, marginal_table
from tests.figures.aligned_files import aligned_draws, of_alignments
from tests.figures.conftest import Drawn


def test_marginals_are_densities_of_a_weight_of_each_array(drawn: Drawn, tmp_path: Path) -> None:
    aligned_draws(tmp_path / "a.npz", draws=400)
    runs = [of_alignments("aligned_draws", {"weights": tmp_path / "a.npz"})]
    table = drawn(aligned_marginals, runs)
    names = set(table["weight"])
    assert len(names) == 4
    assert {"layer0.bias[0]", "layer0.weight[1,2]", "layer1.weight[2,0]"} <= names
    table["mass"] = table["density"] * (table["high"] - table["low"])
    np.testing.assert_allclose(table.groupby(["weight", "variant"])["mass"].sum(), 1, atol=0.01)
    middle = table["low"].between(1.5, 2.5) & (table["weight"] == "layer0.bias[0]")
    density = table[middle].groupby("variant")["density"].mean()
    assert density["sampled"] > 1.5 * density["aligned"], "the chain in the middle"
    with pytest.raises(ValueError, match="5 alignments: at most 4 fit in one figure; choose some by `alignments`"):
        marginal_table([of_alignments("aligned_draws", dict.fromkeys("abcde", tmp_path / "a.npz"))])
