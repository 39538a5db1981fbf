"""Rows of the metric table of an alignment."""

from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.metrics.formulas.rhat_ess import rhat
from bnn_atlas.metrics.tables.measurement import Row, RunIdentity
from bnn_atlas.symmetry.aligned_draws import alignment_rows, load_aligned_draws, save_aligned_draws
from bnn_atlas.symmetry.groups import SymmetryError
from bnn_atlas.symmetry.permutation import ceiling
from tests.figures.aligned_files import aligned_draws

WHOSE = RunIdentity("s", "r", "demo", 0, "small", "mlp", "hmc")


def by_name(rows: list[Row]) -> dict[tuple[str, str], Row]:
    return {(row.metric, row.at): row for row in rows}


def test_variants_stand_beside_each_other(tmp_path: Path) -> None:
    draws = aligned_draws(tmp_path / "draws.npz")
    rows = by_name(alignment_rows(WHOSE, "weights", load_aligned_draws(tmp_path / "draws.npz")))
    values = rhat(draws.values["sampled"].astype(float))
    assert rows["aligned_rhat_median", "weights/sampled"].value == pytest.approx(np.median(values))
    assert rows["aligned_rhat_q95", "weights/sampled"].value == pytest.approx(np.quantile(values, 0.95))
    assert rows["aligned_rhat_median", "weights/aligned"].value < 1.1
    assert rows["aligned_variance", "weights/aligned"].value == 1.5
    assert rows["aligned_variance_within", "weights/scrambled"].value == 2.0
    assert rows["alignment_fixed", "weights"].value == 1
    assert rows["alignment_gain", "weights"].value == 0
    save_aligned_draws(tmp_path / "draws.npz", draws._replace(gain=None))
    again = by_name(alignment_rows(WHOSE, "weights", load_aligned_draws(tmp_path / "draws.npz")))
    assert ("alignment_gain", "weights") not in again, "files of earlier versions do not have it"
    assert rows["draws_not_finite", "weights"].value == 0
    assert {row.chains for row in rows.values()} == {3}
    assert {row.draws for row in rows.values()} == {30}


def test_transpositions_carry_errors_over_pairs_and_stand_beside_the_ceiling(tmp_path: Path) -> None:
    draws = aligned_draws(tmp_path / "draws.npz")._replace(transpositions=np.array([[1], [3], [4], [4]]))
    rows = by_name(alignment_rows(WHOSE, "a", draws))
    within = rows["transpositions_within", "a"]
    assert (within.value, within.standard_error, within.over) == (2.0, pytest.approx(1.0), "pairs")
    assert rows["transpositions_across", "a"].value == 4
    assert rows["transpositions_ceiling", "a"].value == pytest.approx(ceiling(5))
    assert rows["transpositions_to_frame", "a"].value == 0
    consistency = rows["cycle_consistency", "a"]
    assert (consistency.value, consistency.over) == (pytest.approx(0.7), "triples")


def test_draws_that_are_not_finite_are_counted_and_said(tmp_path: Path) -> None:
    draws = aligned_draws(tmp_path / "draws.npz")
    draws.finite[1, 3] = False
    for values in draws.values.values():
        values[1, 3] = np.nan
    rows = by_name(alignment_rows(WHOSE, "a", draws))
    assert rows["draws_not_finite", "a"].value == 1
    rhats = rows["aligned_rhat_median", "a/aligned"]
    assert rhats.chains == 2
    assert "1 of 90 draws are not finite and left out" in rhats.note
    assert np.isfinite(rhats.value)


def test_single_chains_and_draws_have_no_rhat(tmp_path: Path) -> None:
    for chains, draws in ((1, 30), (5, 1)):
        found = aligned_draws(tmp_path / "draws.npz", chains, draws)
        names = {row.metric for row in alignment_rows(WHOSE, "a", found)}
        assert "aligned_rhat_median" not in names
        assert "transpositions_ceiling" in names


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "draws.npz").write_bytes(b"nothing")
    with pytest.raises(SymmetryError, match=r"draws\.npz: not aligned draws"):
        load_aligned_draws(tmp_path / "draws.npz")
