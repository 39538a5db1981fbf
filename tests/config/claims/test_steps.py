"""Steps of checking claims: what they contain, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.claims.load import ClaimsConfig, claims_of, figures_of, load_claims
from bnn_atlas.config.runs.studies import Study
from bnn_atlas.config.settings import load_study
from tests.config.folders import CLAIM, DATASETS, refused, study_file

NUMBER = {key: CLAIM[key] for key in ("read_in", "place", "statement", "relation", "bound", "basis")}
CLAIMS = {
    "first": CLAIM,
    "second": CLAIM | {"chains": 2},
    "drawn": NUMBER | {"figure": "curve", "in_figure": {"column": "mean"}},
    "elsewhere": CLAIM | {"runs": ["left_out"]},
    "other_data": CLAIM | {"runs": ["moved"]},
    "all_chains": CLAIM | {"runs": ["fewer"], "chains": 4},
    "figure_left_out": NUMBER | {"figure": "hidden", "in_figure": {"column": "mean"}},
}


def scaled(study: dict[str, Any]) -> None:
    """Runs and a figure that laptop leaves out or changes."""
    one = study["runs"]["one"]
    study["runs"] |= {
        "left_out": one | {"scales": {"laptop": None}},
        "moved": one | {"scales": {"laptop": {"dataset": "other"}}},
        "fewer": one | {"scales": {"laptop": {"chains": 2}}},
    }
    study["figures"]["hidden"] = {"draw": "cumulative_lppd", "runs": ["one"], "scales": {"laptop": None}}
    study["figures"]["curve"]["draw"] = "cumulative_lppd"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return load_study(study_file(tmp_path_factory.mktemp("study"), scaled), "paper", DATASETS)


def loaded(folder: Path, study: Study, of: dict[str, str], **steps: Any) -> ClaimsConfig:
    """The claims, with the steps that `of` gives them."""
    path = folder / "claims.yaml"
    claims = {name: claim | ({"step": of[name]} if name in of else {}) for name, claim in CLAIMS.items()}
    path.write_text(yaml.safe_dump({"paper": "p", "steps": steps, "claims": claims}, sort_keys=False))
    return load_claims(path, study)


QUICK = {"takes": "a while"}


def test_a_step_has_its_claims_and_those_of_the_steps_that_it_includes(tmp_path: Path, study: Study) -> None:
    of = {"second": "quick", "drawn": "quick", "first": "slow"}
    config = loaded(tmp_path, study, of, quick=QUICK, slow=QUICK | {"includes": ["quick"]})
    assert claims_of(config, "quick") == ["second", "drawn"]
    assert claims_of(config, "slow") == ["first", "second", "drawn"], "in the order of the file"
    assert figures_of(config, "quick") == ["curve"], "the figure in which a claim finds its number"
    assert figures_of(loaded(tmp_path, study, {"first": "quick"}, quick=QUICK), "quick") == []


def test_questions_of_this_project_are_answered_on_other_data_too(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CLAIMS, "other_data", CLAIMS["other_data"] | {"read_in": "own", "place": None})
    assert claims_of(loaded(tmp_path, study, {"other_data": "quick"}, quick=QUICK), "quick") == ["other_data"]


@pytest.mark.parametrize(
    ("of", "changes", "expected"),
    [
        ({"first": "qiuck"}, {}, "claims.first.step: no step 'qiuck' in this file (did you mean 'quick'?)"),
        ({"first": "quick"}, {"includes": ["later"]}, "steps.quick.includes: no step 'later' before it"),
        ({"elsewhere": "quick"}, {}, "claims.elsewhere.step: scale laptop of step 'quick' cannot answer the claim"),
        ({"elsewhere": "quick"}, {}, "it does not run 'left_out'; leave the step out (line"),
        ({"other_data": "quick"}, {}, "it runs 'moved' on other data (other)"),
        ({"all_chains": "quick"}, {}, "'fewer' has 2 chains there, not 4"),
        ({"figure_left_out": "quick"}, {}, "it does not draw 'hidden'"),
        ({}, {}, "steps.quick: this step checks nothing; write `step: quick` in some claims (line"),
        ({"first": "quick"}, {"taks": "1"}, "unknown key 'taks' (did you mean 'takes'?)"),
    ],
)
def test_mistakes_in_steps(
    tmp_path: Path, study: Study, of: dict[str, str], changes: dict[str, Any], expected: str
) -> None:
    with refused(tmp_path / "claims.yaml", expected):
        loaded(tmp_path, study, {"second": "later"} | of, quick=QUICK | changes, later=QUICK)


def test_what_a_smaller_scale_cannot_answer_a_larger_one_can(tmp_path: Path, study: Study) -> None:
    of = dict.fromkeys(("elsewhere", "other_data", "all_chains"), "quick")
    config = loaded(tmp_path, study, of, quick=QUICK | {"scale": "paper"})
    assert claims_of(config, "quick") == ["elsewhere", "other_data", "all_chains"]


def test_a_name_that_is_no_target_and_steps_of_two_scales(tmp_path: Path, study: Study) -> None:
    of, paper = {"first": "quick"}, QUICK | {"scale": "paper"}
    with refused("'quick' is at scale paper, not laptop"):
        loaded(tmp_path, study, of, quick=paper, slow=QUICK | {"includes": ["quick"]})
    with refused("a step's name is a target"):
        loaded(tmp_path, study, {"first": "ten minutes"}, **{"ten minutes": QUICK})
