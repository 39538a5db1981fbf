"""Agreement and total variation with a reference: numbers, picture and table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.hmc_posteriors.agreement import agreements
from bnn_atlas.figures.hmc_posteriors.agreement_tv import agreement_tv, agreement_tv_table
from bnn_atlas.figures.page import sign_text, trusted
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import tex
from tests.figures.set_files import CONVERGED, UNCONVERGED, Values, written

SETS = ("fog1", "fog2", "rotated30")


def reference(folder: Path, diagnostics: Values = CONVERGED) -> Shown:
    own = {"accuracy": 0.95, "accuracy_chain_mean": (0.94, 0.002), "agreement_ceiling": (0.97, 0.003)}
    own |= {"total_variation_ceiling": (0.06, 0.002)}
    shifted = {name: {"agreement_ceiling": (0.9, 0.01), "total_variation_ceiling": (0.1, 0.01)} for name in SETS}
    return written(folder, "ref", {**own, **diagnostics}, shifted, label="HMC", method="hmc", chains=3)


def run(
    folder: Path, name: str, agreement: float, method: str = "sgld", note: str = "same posterior as ref", **changes: Any
) -> Shown:
    against = {
        where: {"agreement": (agreement - i / 10, 0.01), "total_variation": (1 - agreement + i / 10, 0.02)}
        for i, where in enumerate(("test", *SETS))
    }
    sets = {where: {"accuracy": (0.8, 0.01)} for where in SETS}
    own = {"accuracy": (0.93, 0.01), **CONVERGED}
    return written(folder, name, own, sets, {"ref": against}, note, **{"method": method, "chains": 5, **changes})


def runs(folder: Path) -> list[Shown]:
    return [
        reference(folder),
        run(folder, "SGLD", 0.94),
        run(folder, "SGD", 0.90, "map", chains=1),
        run(folder, "SGD-own", 0.88, "map", "another posterior than ref: prior; against ref", chains=1),
        run(folder, "MILE", 0.96, "mclmc"),
    ]


def number(numbers: pd.DataFrame, label: str, metric: str, rows: str = "test") -> pd.Series:
    found = numbers[(numbers["label"] == label) & (numbers["metric"] == metric) & (numbers["rows"] == rows)]
    assert len(found) == 1
    return found.iloc[0]


def test_values_are_those_of_the_tables_and_shifted_ones_means_over_corruptions(tmp_path: Path) -> None:
    numbers, said = agreements(runs(tmp_path))
    sgld = number(numbers, "SGLD", "agreement")
    assert (sgld["value"], sgld["error"], sgld["sets"]) == (0.94, 0.01, 1)
    shifted = number(numbers, "SGLD", "agreement", "shifted")
    # fog1 and fog2; rotations are no corruptions.
    assert (shifted["value"], shifted["sets"]) == (pytest.approx(0.94 - 0.15), 2)
    assert shifted["error"] == pytest.approx(0.01)
    ceiling = number(numbers, "HMC", "agreement")
    assert (ceiling["group"], ceiling["value"], ceiling["error"]) == ("ceiling", 0.97, 0.003)
    assert number(numbers, "HMC", "accuracy")["value"] == 0.94
    assert said.startswith("Reference: HMC, 3 chains × 100 draws, R-hat of function values 1.02 at most")


def test_runs_on_another_posterior_are_a_group_of_their_own_and_carry_the_published_numbers(tmp_path: Path) -> None:
    numbers, _ = agreements(runs(tmp_path))
    groups = numbers.drop_duplicates("label").set_index("label")["group"].to_dict()
    assert groups == {
        "HMC": "ceiling", "SGLD": "same posterior", "SGD": "same posterior", "SGD-own": "another posterior",
        "MILE": "same posterior",
    }  # fmt: skip
    published = {label: number(numbers, label, "agreement")["published"] for label in groups}
    assert published["SGD-own"] == 0.8548
    assert np.isnan(published["SGD"])
    assert published["SGLD"] == 0.9154
    assert published["HMC"] == 0.9401
    assert np.isnan(published["MILE"])
    assert number(numbers, "SGLD", "total_variation", "shifted")["published"] == 0.214
    without = agreements([one for one in runs(tmp_path) if one.run != "SGD-own"]).numbers
    assert number(without, "SGD", "agreement")["published"] == 0.8548


def test_the_floor_of_a_total_variation_is_that_of_as_many_draws(tmp_path: Path) -> None:
    numbers, _ = agreements([*runs(tmp_path), run(tmp_path, "HMC again", 0.97, "hmc", chains=1)])
    c = 0.06 / (1 / 100 + 1 / 200) ** 0.5  # three chains of 100 draws
    assert number(numbers, "SGLD", "total_variation")["floor"] == pytest.approx(c * (1 / 500 + 1 / 300) ** 0.5)
    again = number(numbers, "HMC again", "total_variation")["floor"]
    assert again == pytest.approx(c * (1 / 100 + 1 / 300) ** 0.5)
    assert np.isnan(number(numbers, "SGD", "total_variation")["floor"]), "an optimum has no draws"
    assert np.isnan(number(numbers, "SGLD", "agreement")["floor"])


def test_a_reference_that_has_not_converged_is_said_to(tmp_path: Path) -> None:
    word = "reference not converged: R-hat of function values up to 1.80, ESS down to 6"
    shown = [reference(tmp_path, UNCONVERGED), run(tmp_path, "SGLD", 0.94, note=f"{word}; against ref")]
    numbers, said = agreements(shown)
    assert said.endswith(f"; {word}.")
    assert sign_text(trusted(shown)).startswith("† not to be trusted: HMC (")
    assert number(numbers, "HMC", "agreement")["distrusted"]


def test_published_predictions_have_no_ceiling_and_no_numbers_of_other_data(tmp_path: Path) -> None:
    numbers, said = agreements([run(tmp_path, "SGLD", 0.94)])
    assert set(numbers["group"]) == {"same posterior"}
    assert said == "Reference: the published predictions ref."
    assert numbers["published"].isna().all()
    assert number(agreements([run(tmp_path, "SGLD", 0.94, dataset="cifar10")]).numbers, "SGLD", "agreement")[
        "published"
    ] == pytest.approx(0.9154)


def test_the_ceiling_of_published_predictions_is_that_of_their_two_versions(tmp_path: Path) -> None:
    against = {"hmc_imdb": {"test": {"agreement": 0.94, "total_variation": 0.08}}}
    shown = [written(tmp_path, "SGLD", {"accuracy": 0.86, **CONVERGED}, None, against, method="sgld")]
    numbers, said = agreements(shown)
    ceiling = numbers[numbers["group"] == "ceiling"].set_index("metric")["value"]
    assert ceiling.to_dict() == {"agreement": 0.9904, "total_variation": 0.0101}
    assert said == "Reference: the published predictions hmc_imdb."
    figure = agreement_tv(shown).figure
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["two published versions", "SGLD"]
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries == ["method ± 1 standard error", "ceiling: the reference's two published versions"]


def test_methods_without_shifted_sets_leave_the_others_theirs(tmp_path: Path) -> None:
    against = {"ref": {"test": {"agreement": 0.9, "total_variation": 0.1}}}
    own = {"accuracy": 0.9, **CONVERGED}
    plain = written(tmp_path, "MILE", own, None, against, method="mclmc")
    numbers, _ = agreements([reference(tmp_path), run(tmp_path, "SGLD", 0.94), plain])
    assert set(numbers.loc[numbers["label"] == "MILE", "rows"]) == {"test"}
    assert set(numbers.loc[numbers["label"] == "SGLD", "rows"]) == {"test", "shifted"}


def test_the_picture_has_a_panel_for_each_score_and_its_numbers(tmp_path: Path) -> None:
    shown = runs(tmp_path)
    table = agreement_tv(shown).numbers
    assert set(table["metric"]) == {"agreement", "total_variation"}
    figure = agreement_tv(shown).figure
    assert [ax.get_xlabel() for ax in figure.axes] == [
        "agreement,\ntest rows", "agreement,\nshifted rows", "total variation,\ntest rows",
        "total variation,\nshifted rows",
    ]  # fmt: skip
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names == ["HMC, single chains", "SGLD", "SGD", "MILE", "SGD-own"]
    notes = [text.get_text() for text in figure.axes[0].texts]
    assert notes == ["on the same posterior", "on another posterior"]


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
