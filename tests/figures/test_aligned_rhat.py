from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.permutation_symmetry.aligned_rhat import aligned_rhat, rhat_table
from bnn_atlas.metrics.formulas.rhat_ess import rhat
from tests.figures.aligned_files import aligned_draws, of_alignments
from tests.figures.conftest import Drawn


def test_rhat_and_variances_of_all_variants(drawn: Drawn, tmp_path: Path) -> None:
    draws = aligned_draws(tmp_path / "a.npz")
    aligned_draws(tmp_path / "b.npz", apart=0.0)
    runs = [of_alignments("aligned_draws", {"weights": tmp_path / "a.npz", "by_rows": tmp_path / "b.npz"})]
    table = drawn(aligned_rhat, runs).set_index(["label", "variant", "kind"])
    assert list(dict.fromkeys(table.index.get_level_values("label"))) == ["mile, weights", "mile, by rows"]
    sampled = table.loc[("mile, weights", "sampled", "quantile")]
    expected = rhat(draws.values["sampled"].astype(float))
    assert sampled.loc[sampled["at"] == 0.5, "value"].item() == pytest.approx(np.median(expected))
    assert expected.min() > 1.5
    assert table.loc[("mile, weights", "aligned", "quantile"), "value"].max() < 1.2
    assert table.loc[("mile, weights", "chain_wise", "variance"), "value"].item() == 1.7
    assert table.loc[("mile, weights", "scrambled", "variance within"), "value"].item() == 2.0
    aligned_draws(tmp_path / "one.npz", chains=1)
    with pytest.raises(ValueError, match="no R-hat is defined"):
        rhat_table([of_alignments("aligned_draws", {"one": tmp_path / "one.npz"})])
