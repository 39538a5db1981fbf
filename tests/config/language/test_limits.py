"""Claims whose limits hardly let them fail are refused, and claims about numbers of figures."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.claims.claim import Claim, cannot_fail
from bnn_atlas.config.claims.load import load_claims
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import load_study
from tests.config.folders import CLAIM, DATASETS, study_file

EQUALS = CLAIM | {"relation": "equals", "bound": None}
THAN = {"than": {"dataset": "other"}}
AT_LEAST = {"paper_value": 0.2, "tolerance": None, "relation": "at_least"}
IN_FIGURE = {"metric": None, "runs": [], "figure": "curve", "in_figure": {"column": "c", "where": {"kind": "zero"}}}


def claim(**changes: Any) -> Claim:
    return Claim.model_validate(EQUALS | {"paper_value": 1.0, "tolerance": 0.1} | changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tolerance": 0.5}, "half of the published value (1) or more"),
        ({"tolerance": 0.49}, ""),
        ({"paper_value": 0.0163, "tolerance": 0.014} | THAN, "published difference (0.0163)"),
        ({"paper_value": -0.0163, "tolerance": 0.0079} | THAN, ""),
        ({"paper_value": -0.2, "tolerance": None, "relation": "less_than"} | THAN, "the sign of a difference"),
        ({"paper_value": -0.2, "tolerance": None, "relation": "less_than", "bound": 0.1} | THAN, ""),
        ({"paper_value": None, "tolerance": None, "relation": "greater_than"} | THAN, ""),
        (
            {"paper_value": 0.2, "tolerance": None, "relation": "at_least", "bound": -0.1} | THAN,
            "the sign of a difference",
        ),
        ({"paper_value": 0.2, "tolerance": None, "relation": "at_least", "bound": 0.1} | THAN, ""),
        ({"paper_value": -0.2, "tolerance": None, "relation": "at_most", "bound": -0.1} | THAN, ""),
        ({"paper_value": 0.2, "tolerance": None, "relation": "at_least", "bound": -0.1}, ""),
        ({"paper_value": 0.0}, ""),
    ],
)
def test_limits_that_cannot_fail(changes: dict[str, Any], why: str) -> None:
    found = cannot_fail(claim(**changes))
    assert why in found if why else found == ""


def test_a_file_with_such_a_claim_is_refused_with_all_of_them(tmp_path: Path) -> None:
    study = load_study(study_file(tmp_path), "paper", DATASETS)
    file = tmp_path / "claims.yaml"
    wide = EQUALS | {"paper_value": 1.0, "tolerance": 2.0, "bound": None}
    file.write_text(yaml.safe_dump({"paper": "p", "claims": {"a": wide, "b": wide | {"tolerance": 0.1}, "c": wide}}))
    with pytest.raises(ConfigError) as error:
        load_claims(file, study)
    assert "claims.a: tolerance 2 is half" in str(error.value)
    assert "claims.c: tolerance 2 is half" in str(error.value)
    assert "claims.b" not in str(error.value)


def test_a_number_of_a_figure_takes_the_place_of_metric_and_runs() -> None:
    found = claim(**IN_FIGURE)
    assert found.measures == "curve.csv: c where kind = zero"
    assert found.own.in_figure == found.in_figure
    compared = claim(**IN_FIGURE, than={"in_figure": {"column": "c", "where": {"kind": "other"}}})
    assert compared.other is not None
    assert compared.other.metric == "curve.csv: c where kind = other"
    assert compared.other != compared.own


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": None}, "metric and runs are needed"),
        ({"runs": []}, "metric and runs are needed"),
        (IN_FIGURE | {"figure": None}, "has to be named"),
        (IN_FIGURE | {"metric": "rmse"}, "it takes no metric and no runs"),
        (IN_FIGURE | {"than": {"dataset": "other"}}, "both sides of a comparison need in_figure"),
        ({"than": {"in_figure": {"column": "c"}}, "figure": "curve"}, "both sides of a comparison need in_figure"),
        (IN_FIGURE | {"than": {"in_figure": IN_FIGURE["in_figure"]}}, "same value as the claim's own"),
    ],
)
def test_claims_about_figures_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        claim(**changes)
