from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from bnn_atlas.figures.permutation_symmetry.sigma_histograms import sigma_histograms, sigma_table
from tests.figures.aligned_files import frame, of_alignments
from tests.figures.conftest import Drawn


def test_sds_beside_those_of_prior_draws(drawn: Drawn, tmp_path: Path) -> None:
    frame(tmp_path / "a.npz")
    frame(tmp_path / "b.npz", sd=0.2, fitted=True)
    runs = [
        of_alignments("frames", {"first": tmp_path / "a.npz"}, "hmc"),
        of_alignments("frames", {"first": tmp_path / "b.npz"}, "mean_field")._replace(prior_sd=None),
    ]
    table = drawn(sigma_histograms, runs)
    shares = table.groupby(["label", "what"])["share"].sum()
    np.testing.assert_allclose(shares.drop(("hmc", "prior")), 1)
    assert shares["hmc", "prior"] == pytest.approx(1, abs=0.05)
    assert set(shares["mean_field"].index) == {"sampled", "aligned", "scrambled", "chain_wise", "fitted"}
    prior = table[(table["label"] == "hmc") & (table["what"] == "prior")]
    np.testing.assert_allclose(
        prior["share"], chi2.cdf(prior["high"] ** 2 * 49, 49) - chi2.cdf(prior["low"] ** 2 * 49, 49), atol=1e-9
    )
    fitted = sigma_table(runs).query("what == 'fitted' and share > 0")
    assert len(fitted) == 1
    assert fitted["low"].item() <= 0.1 <= fitted["high"].item()
