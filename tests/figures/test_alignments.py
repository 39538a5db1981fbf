"""Figures of alignments: their numbers, equal bytes, and what they refuse."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from bnn_atlas.figures.permutation_symmetry.aligned_marginals import aligned_marginals, marginal_table
from bnn_atlas.figures.permutation_symmetry.aligned_rhat import aligned_rhat
from bnn_atlas.figures.permutation_symmetry.not_within_across import not_within_across
from bnn_atlas.figures.permutation_symmetry.pair_plot import pair_plot, pair_table
from bnn_atlas.figures.permutation_symmetry.sigma_histograms import sigma_histograms, sigma_table
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.metrics.formulas.rhat_ess import rhat
from bnn_atlas.provenance import Provenance
from bnn_atlas.symmetry.permutation import ceiling

from .aligned_files import aligned_draws, frame
from .shown import shown

Outputs = Callable[[str], FigureOutputs]


def of_alignments(name: str, files: dict[str, Path], run: str = "mile") -> Shown:
    return shown(run, parts={name: files})


def drawn(figure: Callable[..., None], runs: list[Shown], outputs: Outputs, provenance: Provenance) -> pd.DataFrame:
    """The plotted numbers of a figure that has the same bytes twice."""
    for folder in ("a", "b"):
        figure(runs, outputs(folder), provenance)
    assert outputs("a").png.read_bytes() == outputs("b").png.read_bytes()
    return pd.read_csv(outputs("a").csv)


def test_rhat_and_variances_of_all_variants(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    draws = aligned_draws(tmp_path / "a.npz")
    aligned_draws(tmp_path / "b.npz", apart=0.0)
    runs = [of_alignments("aligned_draws", {"weights": tmp_path / "a.npz", "by_rows": tmp_path / "b.npz"})]
    table = drawn(aligned_rhat, runs, outputs, provenance).set_index(["label", "variant", "kind"])
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
        aligned_rhat([of_alignments("aligned_draws", {"one": tmp_path / "one.npz"})], outputs("c"), provenance)


def test_marginals_are_densities_of_a_weight_of_each_array(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    aligned_draws(tmp_path / "a.npz", draws=400)
    runs = [of_alignments("aligned_draws", {"weights": tmp_path / "a.npz"})]
    table = drawn(aligned_marginals, runs, outputs, provenance)
    names = set(table["weight"])
    assert len(names) == 4
    assert {"layer0.bias[0]", "layer0.weight[1,2]", "layer1.weight[2,0]"} <= names
    table["mass"] = table["density"] * (table["high"] - table["low"])
    np.testing.assert_allclose(table.groupby(["weight", "variant"])["mass"].sum(), 1, atol=0.01)
    middle = table["low"].between(1.5, 2.5) & (table["weight"] == "layer0.bias[0]")
    density = table[middle].groupby("variant")["density"].mean()
    assert density["sampled"] > 1.5 * density["aligned"], "the chain in the middle"
    with pytest.raises(ValueError, match="5 alignments in one figure; one to 4 fit: choose some by `alignments`"):
        marginal_table([of_alignments("aligned_draws", dict.fromkeys("abcde", tmp_path / "a.npz"))])


def test_transpositions_within_and_across_beside_the_ceiling(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    aligned_draws(tmp_path / "a.npz")
    runs = [of_alignments("aligned_draws", {"x": tmp_path / "a.npz"}, run) for run in ("hmc", "mile")]
    table = drawn(not_within_across, runs, outputs, provenance)
    assert table.groupby(["label", "where"])["transpositions"].mean().to_dict() == {
        ("hmc", "within"): 1, ("hmc", "across"): 4, ("mile", "within"): 1, ("mile", "across"): 4,
    }  # fmt: skip
    np.testing.assert_allclose(table["ceiling"], ceiling(5))
    np.testing.assert_allclose(table["share"], table["transpositions"] / ceiling(5))


def test_sds_beside_those_of_prior_draws(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    frame(tmp_path / "a.npz")
    frame(tmp_path / "b.npz", sd=0.2, fitted=True)
    runs = [
        of_alignments("frames", {"first": tmp_path / "a.npz"}, "hmc"),
        of_alignments("frames", {"first": tmp_path / "b.npz"}, "mean_field")._replace(prior_sd=None),
    ]
    table = drawn(sigma_histograms, runs, outputs, provenance)
    shares = table.groupby(["label", "what"])["share"].sum()
    np.testing.assert_allclose(shares.drop(("hmc", "prior")), 1)
    assert shares["hmc", "prior"] == pytest.approx(1, abs=0.05)
    assert set(shares["mean_field"].index) == {"sampled", "aligned", "fitted"}
    prior = table[(table["label"] == "hmc") & (table["what"] == "prior")]
    place = prior["low"].round(2) == 1.0
    expected = np.diff(chi2.cdf(np.array([1.0, 1.01]) ** 2 * 49, 49)).item()
    assert prior.loc[place, "share"].item() == pytest.approx(expected)
    fitted = sigma_table(runs).query("what == 'fitted' and share > 0")
    assert fitted["low"].min() == pytest.approx(0.1, abs=0.011)


def test_pairs_of_methods_in_one_frame(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    one = frame(tmp_path / "a.npz")
    frame(tmp_path / "b.npz", sd=0.5, shift=0.1)
    frame(tmp_path / "c.npz", fitted=True)
    runs = [of_alignments("frames", {"x": tmp_path / f"{file}.npz"}, name)
            for file, name in (("a", "hmc"), ("b", "ensemble"), ("c", "mean field"))]  # fmt: skip
    table = drawn(pair_plot, runs, outputs, provenance)
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
