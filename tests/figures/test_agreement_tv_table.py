"""The table of accuracy, agreement and total variation: blocks, cells and notes."""

from pathlib import Path

import pandas as pd

from bnn_atlas.figures.hmc_posteriors.agreement_tv import agreement_tv_table
from tests.figures.conftest import tex
from tests.figures.set_files import UNCONVERGED
from tests.figures.test_agreement_tv import reference, run, runs


def test_blocks_are_the_ceiling_both_priors_and_the_paper(tmp_path: Path) -> None:
    text = tex(agreement_tv_table, runs(tmp_path), tmp_path)
    body = text.partition(r"\begin{tabular}{lrrrrrr}")[2]
    assert " & accuracy & agreement & TV & accuracy, shifted & agreement, shifted & TV, shifted" in body
    order = [
        "Single chains of the reference",
        r"HMC, single chains & $0.940 \pm 0.002$ & $0.970 \pm 0.003$ & $0.060 \pm 0.002$ & -- & $0.900 \pm 0.010$",
        "On the same posterior",
        r"SGLD & $0.930 \pm 0.010$ & $0.940 \pm 0.010$ & $0.060 \pm 0.020$ & $0.800 \pm 0.010$ & $0.790 \pm 0.010$",
        "On the posterior with the prior that the method has in the paper",
        "SGD-own",
        "Published for CIFAR-10",
        r"HMC, single chains & $0.896 \pm 0.003$ & $0.940 \pm 0.003$",
    ]
    places = [body.index(part) for part in order]
    assert places == sorted(places)
    assert "Shifted: mean over 2 shifted sets of the test rows." in body
    assert r"Reference: HMC, 3 chains $\times$ 100 draws, R-hat of function values 1.02 at most" in body
    csv = pd.read_csv(tmp_path / "table.csv")
    assert set(csv["metric"]) == {"accuracy", "agreement", "total_variation"}


def test_chains_that_should_not_be_trusted_have_a_dagger(tmp_path: Path) -> None:
    shown = [reference(tmp_path, UNCONVERGED), run(tmp_path, "SGLD", 0.94, note="reference not converged: R-hat 1.8")]
    text = tex(agreement_tv_table, shown, tmp_path)
    assert r"HMC, single chains $\dagger$ &" in text
    assert r"SGLD &" in text
    assert r"reference not converged: R-hat 1.8. $\dagger$ not to be trusted: HMC (" in text
