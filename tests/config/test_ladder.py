"""Steps of checking claims: what they contain, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.base import ConfigError
from bnn_atlas.config.claims.load import ClaimsConfig, claims_of, figures_of, load_claims
from bnn_atlas.config.settings import load_study
from bnn_atlas.config.studies import Study

from .folders import CLAIM, DATASETS, study_file

NUMBER = {key: CLAIM[key] for key in ("section", "statement", "relation", "bound")}
CLAIMS = {
    "first": CLAIM,
    "second": CLAIM | {"chains": 2},
    "drawn": NUMBER | {"figure": "curve", "in_figure": {"column": "c"}},
    "elsewhere": CLAIM | {"runs": ["left_out"]},
    "other_data": CLAIM | {"runs": ["moved"]},
    "all_chains": CLAIM | {"runs": ["fewer"], "chains": 4},
    "figure_left_out": NUMBER | {"figure": "hidden", "in_figure": {"column": "c"}},
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


def loaded(folder: Path, study: Study, **steps: Any) -> ClaimsConfig:
    path = folder / "claims.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "steps": steps, "claims": CLAIMS}, sort_keys=False))
    return load_claims(path, study)


def step(*claims: str, **more: Any) -> dict[str, Any]:
    return {"takes": "a while", "claims": list(claims)} | more


def test_a_step_has_its_claims_and_those_of_the_steps_that_it_includes(tmp_path: Path, study: Study) -> None:
    quick, slow = step("second", "drawn"), step("first", includes=["quick"], figures=["curve"])
    config = loaded(tmp_path, study, quick=quick, slow=slow)
    assert claims_of(config, "quick") == ["second", "drawn"]
    assert claims_of(config, "slow") == ["first", "second", "drawn"], "in the order of the file"
    assert figures_of(config, "quick") == ["curve"], "the figure in which a claim finds its number"
    assert figures_of(loaded(tmp_path, study, quick=step("first")), "quick") == []
    assert config.steps["quick"].scale == "laptop"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (step("frist"), "steps.quick.claims: no claim 'frist' of this file (did you mean 'first'?)"),
        (step("first", includes=["later"]), "steps.quick.includes: no step 'later' before it"),
        (step("first", figures=["cruve"]), "steps.quick.figures: no figure 'cruve' in study 'small' (did you mean"),
        (step("first", figures=["hidden"]), "steps.quick.figures: scale laptop does not draw 'hidden'"),
        (step("elsewhere"), "scale laptop cannot answer 'elsewhere': it does not run 'left_out'; leave it out"),
        (step("other_data"), "cannot answer 'other_data': it runs 'moved' on other data (other)"),
        (step("all_chains"), "cannot answer 'all_chains': 'fewer' has 2 chains there, not 4"),
        (step("figure_left_out"), "cannot answer 'figure_left_out': it does not draw 'hidden'"),
        (step(), "steps.quick: it checks nothing; name some claims"),
        (step("first", taks="1"), "unknown key 'taks' (did you mean 'takes'?)"),
    ],
)
def test_mistakes_in_steps(tmp_path: Path, study: Study, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, study, quick=changes, later=step("first"))
    assert expected in str(caught.value)
    assert str(tmp_path / "claims.yaml") in str(caught.value)


def test_what_a_smaller_scale_cannot_answer_a_larger_one_can(tmp_path: Path, study: Study) -> None:
    config = loaded(tmp_path, study, quick=step("elsewhere", "other_data", "all_chains", scale="paper"))
    assert claims_of(config, "quick") == ["elsewhere", "other_data", "all_chains"]


def test_a_name_that_is_no_target_and_steps_of_two_scales(tmp_path: Path, study: Study) -> None:
    with pytest.raises(ConfigError, match="a step's name is a target"):
        loaded(tmp_path, study, **{"ten minutes": step("first")})
    with pytest.raises(ConfigError, match="'quick' is at scale paper, not laptop"):
        loaded(tmp_path, study, quick=step("first", scale="paper"), slow=step("second", includes=["quick"]))
