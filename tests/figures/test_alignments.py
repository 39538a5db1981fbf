"""Kinds that show alignments: what is read of them, what is drawn, refusals."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from bnn_atlas.figures.permutation_symmetry.alignments import (
    aligned_marginals,
    aligned_rhat,
    pair_plot,
    sigma_histograms,
    transpositions_within_across,
)
from bnn_atlas.metrics.formulas.rhat_ess import rhat
from bnn_atlas.symmetry.permutation import ceiling
from tests.figures.aligned_files import aligned_draws, frame, of_alignments


def test_marginals_are_densities_of_a_weight_of_each_array(tmp_path: Path) -> None:
    aligned_draws(tmp_path / "a.npz", draws=400)
    runs = [of_alignments("aligned_draws", {"weights": tmp_path / "a.npz"})]
    table = aligned_marginals(runs).numbers
    names = set(table["weight"])
    assert len(names) == 4
    assert {"layer0.bias[0]", "layer0.weight[1,2]", "layer1.weight[2,0]"} <= names
    table["mass"] = table["density"] * (table["high"] - table["low"])
    np.testing.assert_allclose(table.groupby(["weight", "variant"])["mass"].sum(), 1, atol=0.01)
    middle = table["low"].between(1.5, 2.5) & (table["weight"] == "layer0.bias[0]")
    density = table[middle].groupby("variant")["density"].mean()
    assert density["sampled"] > 1.5 * density["aligned"], "the chain in the middle"


def test_rhat_and_variances_of_all_variants(tmp_path: Path) -> None:
    draws = aligned_draws(tmp_path / "a.npz")
    aligned_draws(tmp_path / "b.npz", apart=0.0)
    runs = [of_alignments("aligned_draws", {"weights": tmp_path / "a.npz", "by_rows": tmp_path / "b.npz"})]
    table = aligned_rhat(runs).numbers.set_index(["label", "variant", "kind"])
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
        aligned_rhat([of_alignments("aligned_draws", {"one": tmp_path / "one.npz"})])


def test_pairs_of_methods_in_one_frame(tmp_path: Path) -> None:
    one = frame(tmp_path / "a.npz")
    frame(tmp_path / "b.npz", sd=0.5, shift=0.1)
    frame(tmp_path / "c.npz", fitted=True)
    runs = [of_alignments("frames", {"x": tmp_path / f"{file}.npz"}, name)
            for file, name in (("a", "hmc"), ("b", "ensemble"), ("c", "mean field"))]  # fmt: skip
    table = pair_plot(runs).numbers
    totals = table.groupby(["moment", "y_label", "x_label"])["count"].sum()
    assert (totals == 400).all()
    assert len(totals) == 6
    means = table[(table["moment"] == "mean") & (table["x_label"] == "ensemble")]
    assert means["y_label"].unique().tolist() == ["hmc"]
    assert means["correlation"].unique() == pytest.approx([1.0])
    assert means["y_low"].min() == pytest.approx(np.quantile(one.mean, 0.0005), rel=1e-6)
    frame(tmp_path / "d.npz", size=30)


def test_sds_beside_those_of_prior_draws(tmp_path: Path) -> None:
    frame(tmp_path / "a.npz")
    frame(tmp_path / "b.npz", sd=0.2, fitted=True)
    runs = [
        of_alignments("frames", {"first": tmp_path / "a.npz"}, "hmc"),
        of_alignments("frames", {"first": tmp_path / "b.npz"}, "mean_field")._replace(prior_sd=None),
    ]
    table = sigma_histograms(runs).numbers
    shares = table.groupby(["label", "what"])["share"].sum()
    np.testing.assert_allclose(shares.drop(("hmc", "prior")), 1)
    assert shares["hmc", "prior"] == pytest.approx(1, abs=0.05)
    assert set(shares["mean_field"].index) == {"sampled", "aligned", "scrambled", "chain_wise", "fitted"}
    prior = table[(table["label"] == "hmc") & (table["what"] == "prior")]
    np.testing.assert_allclose(
        prior["share"], chi2.cdf(prior["high"] ** 2 * 49, 49) - chi2.cdf(prior["low"] ** 2 * 49, 49), atol=1e-9
    )
    fitted = table.query("what == 'fitted' and share > 0")
    assert len(fitted) == 1
    assert fitted["low"].item() <= 0.1 <= fitted["high"].item()
    of_all = fitted[["mean", "least", "most", "near_one"]].to_numpy()
    np.testing.assert_allclose(of_all, [[0.1, 0.1, 0.1, 0]], rtol=1e-6)
    assert table.loc[table["what"] == "aligned", "near_one"].max() > 0
    assert prior["mean"].isna().all()


def test_transpositions_within_and_across_beside_the_ceiling(tmp_path: Path) -> None:
    aligned_draws(tmp_path / "a.npz")
    runs = [of_alignments("aligned_draws", {"x": tmp_path / "a.npz"}, run) for run in ("hmc", "mile")]
    table = transpositions_within_across(runs).numbers
    assert table.groupby(["label", "where"])["transpositions"].mean().to_dict() == {
        ("hmc", "within"): 1, ("hmc", "across"): 4, ("mile", "within"): 1, ("mile", "across"): 4,
    }  # fmt: skip
    np.testing.assert_allclose(table["ceiling"], ceiling(5))
    np.testing.assert_allclose(table["share"], table["transpositions"] / ceiling(5))
