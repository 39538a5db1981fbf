"""Families of claims (`for`), and claims that take their number from the published ones."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.claims.claim import Claim
from bnn_atlas.config.claims.load import load_claims
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Study
from bnn_atlas.config.settings import load_study
from bnn_atlas.published import COLUMNS

from .folders import CLAIM, DATASETS, study_file

NUMBERS = """
table,one,1,rmse,0.1250,0.01,,Table 1
table,one,4,rmse,0.0750,,,Table 1
"""
EQUALS = {key: value for key, value in CLAIM.items() if key != "bound"} | {"relation": "equals", "tolerance": 0.01}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return load_study(study_file(tmp_path_factory.mktemp("study")), "paper", DATASETS)


def claims(folder: Path, study: Study, **entries: Any) -> dict[str, Claim]:
    for name in ("claims", "published"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "published" / "small.csv").write_text(",".join(COLUMNS) + NUMBERS, encoding="utf-8")
    path = folder / "claims" / "small.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "claims": entries}, sort_keys=False), encoding="utf-8")
    return load_claims(path, study).claims


def test_rows_set_fields_and_fill_texts(tmp_path: Path, study: Study) -> None:
    rows = [{"chains": 1, "bound": 0.5}, {"chains": 4, "bound": 0.4, "statement": "All of them"}]
    found = claims(tmp_path, study, **{"error_{chains}": CLAIM | {"for": rows, "statement": "{chains:,} of {chains}"}})
    assert list(found) == ["error_1", "error_4"]
    assert [(one.chains, one.bound, one.statement) for one in found.values()] == [
        (1, 0.5, "1 of 1"),
        (4, 0.4, "All of them"),
    ]


def test_lists_are_combined_in_order_and_words_have_spaces(tmp_path: Path, study: Study) -> None:
    lists = {"set": ["wine_red", "yacht"], "number": [1, 10000]}
    entry = CLAIM | {"for": lists, "statement": "{set:words} {number:,}", "basis": "{set}"}
    found = claims(tmp_path, study, **{"{set}_{number}": entry})
    assert list(found) == ["wine_red_1", "wine_red_10000", "yacht_1", "yacht_10000"]
    assert found["wine_red_10000"].statement == "wine red 10,000"
    assert found["wine_red_10000"].basis == "wine_red"


def test_braces_of_other_claims_are_text(tmp_path: Path, study: Study) -> None:
    assert claims(tmp_path, study, error=CLAIM | {"statement": "{x}"})["error"].statement == "{x}"


def test_a_published_number_and_a_difference(tmp_path: Path, study: Study) -> None:
    one = EQUALS | {"published": "table/one/1/rmse", "statement": "{value} (sd {error})"}
    two = EQUALS | {"published": "table/one/4/rmse - table/one/1/rmse", "than": {"chains": 1}, "statement": "{value}"}
    first, second = claims(tmp_path, study, one=one, two=two).values()
    assert (first.paper_value, first.paper_sd, first.statement) == (0.125, 0.01, "0.1250 (sd 0.01)")
    assert (second.paper_value, second.paper_sd, second.statement) == (-0.05, None, "-0.0500")


def test_published_numbers_of_a_family(tmp_path: Path, study: Study) -> None:
    entry = EQUALS | {"for": [{"chains": 1}, {"chains": 4}], "published": "table/one/{chains}/rmse"}
    found = claims(tmp_path, study, **{"rmse_{chains}": entry})
    assert [one.paper_value for one in found.values()] == [0.125, 0.075]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"for": []}, "claims.error_{n}.for: give rows, such as [{ set: airfoil, bound: 0.1 }"),
        ({"for": {"n": 3}}, "claims.error_{n}.for: give rows"),
        ({"for": [{"m": 3}]}, "claims.error_{n}: {n} stands for nothing; known are m"),
        ({"for": [{"n": 1}, {"n": 1}]}, "claims.error_{n}: two claims have the name 'error_1': put a key of `for` in"),
        (
            {"for": [{"n": 1, "bond": 3}]},
            "claims.error_{n}.for: 'bond' is not a key of a claim (did you mean 'bound'?",
        ),
        ({"statement": "{set}"}, "claims.error_{n}: {set} stands for nothing; known are n (line 3)"),
        ({"for": [{"n": 1}, {"n": 2, "bound": "x"}]}, "claims.error_2.bound = 'x': a number is wanted"),
        ({"runs": ["two"]}, "claims.error_1.runs: no run 'two' in study 'small'"),
        ({"published": "table/one/2/rmse"}, "claims.error_{n}.published: no number 'table/one/2/rmse' in config/publ"),
        ({"published": 3}, "claims.error_{n}.published = 3: give the key of a published number, as text"),
        (
            {"published": "table/one/1/rmse", "paper_value": 1},
            "claims.error_{n}.paper_value: the claim takes its number from `published`; leave one of them out",
        ),
    ],
)
def test_mistakes(tmp_path: Path, study: Study, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        claims(tmp_path, study, **{"error_{n}": CLAIM | {"for": [{"n": 1}]} | changes})
    assert str(caught.value).startswith(f"{tmp_path}/claims/small.yaml: {expected}")
    assert "(line " in str(caught.value)


def test_a_mistake_in_a_row_has_its_line(tmp_path: Path, study: Study) -> None:
    with pytest.raises(ConfigError, match=r"claims.error_2.chains = 9: run 'one' has 4 chains \(line 7\)"):
        claims(tmp_path, study, **{"error_{n}": {"for": [{"n": 1}, {"n": 2, "chains": 9}]} | CLAIM})
