from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.permutation_symmetry.pair_plot import pair_plot, pair_table
from tests.figures.aligned_files import frame, of_alignments
from tests.figures.conftest import Drawn


def test_pairs_of_methods_in_one_frame(drawn: Drawn, tmp_path: Path) -> None:
    one = frame(tmp_path / "a.npz")
    frame(tmp_path / "b.npz", sd=0.5, shift=0.1)
    frame(tmp_path / "c.npz", fitted=True)
    runs = [of_alignments("frames", {"x": tmp_path / f"{file}.npz"}, name)
            for file, name in (("a", "hmc"), ("b", "ensemble"), ("c", "mean field"))]  # fmt: skip
    table = drawn(pair_plot, runs)
    totals = table.groupby(["moment", "y_label", "x_label"])["count"].sum()
    assert (totals == 400).all()
    assert len(totals) == 6
    means = table[(table["moment"] == "mean") & (table["x_label"] == "ensemble")]
    assert means["y_label"].unique().tolist() == ["hmc"]
    assert means["correlation"].unique() == pytest.approx([1.0])
    assert means["y_low"].min() == pytest.approx(np.quantile(one.mean, 0.0005), rel=1e-6)
    with pytest.raises(ValueError, match="it compares two to 4"):
        pair_table(runs[:1])
    frame(tmp_path / "d.npz", size=30)
    with pytest.raises(ValueError, match="networks of different sizes"):
        pair_table([runs[0], of_alignments("frames", {"x": tmp_path / "d.npz"}, "other")])
