from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.functions import names, read_functions
from bnn_atlas.figures.kinds.bands import under_over
from bnn_atlas.figures.kinds.distances import functional_diversity, wasserstein
from bnn_atlas.metrics.tables.arrays import load_functions

from .shown import shown
from .synthetic_functions import changed, functions_on_rows, networks, two_runs


def test_chains_that_are_not_finite_are_left_out_and_named(tmp_path: Path) -> None:
    (run,) = two_runs(tmp_path)[:1]
    source = load_functions(run.files["functions"])
    assert source.mean is not None
    mean = source.mean.copy()
    mean[2, 3, 4] = np.nan
    (found,) = read_functions([changed(run, mean=mean)])
    assert list(dict.fromkeys(found.chain)) == [0, 1, 3]
    assert found.remark == "not finite, left out: chain 2"
    np.testing.assert_array_equal(found.mean[50:100], mean[1])
    thinned = found.at_most(3)
    assert list(thinned.draw) == [0, 240, 490] * 3
    with pytest.raises(ValueError, match=r"Permuted has 0 finite draws \(4 chains of 50, 4 of them not finite\)"):
        read_functions([changed(run, mean=np.full_like(mean, np.nan))])


def test_names_tell_runs_and_splits_apart() -> None:
    assert names([shown("a", label="MILE"), shown("b", label="HMC")]) == ["MILE", "HMC"]
    splits = [shown("a", label="MILE", split=0), shown("a", label="MILE", split=1), shown("b", label="HMC")]
    assert names(splits) == ["MILE, split 0", "MILE, split 1", "HMC"]
    assert names([shown("a", label="MILE"), shown("b", label="MILE")]) == ["a", "b"]
    again = [shown(run, label="MILE", split=split) for run in "ab" for split in (0, 1)]
    assert names(again) == ["a, split 0", "a, split 1", "b, split 0", "b, split 1"]


def test_functions_that_do_not_fit_are_refused_in_words(tmp_path: Path) -> None:
    rows, lines = two_runs(tmp_path, draws=2), networks(tmp_path, 2)
    for figure in (functional_diversity, under_over):
        with pytest.raises(ValueError, match="not along a line"):
            figure(rows)
    one = shown("one", {"functions": functions_on_rows(tmp_path / "one.npz", chains=3, draws=1)})
    with pytest.raises(ValueError, match="one draw; distances need at least 2"):
        wasserstein([one])
    classes = changed(lines[0], mean=None, scale=None, probabilities=np.full((4, 50, 60, 2), 0.5, dtype=np.float32))
    with pytest.raises(ValueError, match="is a classification"):
        under_over([classes])
