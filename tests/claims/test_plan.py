"""What verdicts are told of a study."""

from pathlib import Path
from typing import Any

from bnn_atlas.claims.plan import claimed_study
from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.config.runs.studies import Scale
from bnn_atlas.config.settings import load_study
from tests.claims.making import COMPARISON, claimed, planned
from tests.config.folders import CLAIM, DATASETS, study_file

CLAIMS = ClaimsConfig.model_validate({"paper": "p", "claims": {"error": CLAIM}})


def two_seeds(study: dict[str, Any]) -> None:
    study["figures"] = {}
    study["runs"]["one"] |= {"grid": {"seed": [1, 2]}, "scales": {"laptop": {"chains": 2}, "demo": None}}
    study["runs"]["one"]["split"] = {"count": 3}


def test_runs_have_the_chains_of_their_scale_and_what_it_reduced(tmp_path: Path) -> None:
    path = study_file(tmp_path, two_seeds)
    cases: list[tuple[Scale, int, tuple[str, ...]]] = [("laptop", 2, ("chains: 4 -> 2",)), ("paper", 4, ())]
    for scale, chains, reductions in cases:
        found = claimed_study(load_study(path, scale, DATASETS), CLAIMS, scale)
        assert list(found.runs) == ["one-seed1", "one-seed2"]
        for plan in found.runs.values():
            assert (plan.entry, plan.chains, plan.splits, plan.reductions) == ("one", chains, 3, reductions)
    absent = claimed_study(load_study(path, "demo", DATASETS), CLAIMS, "demo")
    assert absent.runs == {}
    assert absent.scales_with("one", 2) == ["laptop", "paper"]
    assert absent.scales_with("one", 3) == ["paper"]


def test_a_shorter_grid_of_data_sets_is_no_other_data(tmp_path: Path) -> None:
    """Each run is compared with the one of its name at the paper's scale, not with its entry's lists."""

    def grid(study: dict[str, Any]) -> None:
        study["figures"] = {}
        scales = {"laptop": {"grid": {"dataset": ["diabetes"]}}, "demo": {"grid": {"dataset": ["third"]}}}
        study["runs"]["one"] |= {"grid": {"dataset": ["diabetes", "other"]}, "scales": scales}

    datasets = DATASETS | {"third": DATASETS["other"]}
    path = study_file(tmp_path, grid)
    claims = ClaimsConfig.model_validate({"paper": "p", "claims": {"e": CLAIM | {"runs": ["one-diabetes"]}}})
    laptop = claimed_study(load_study(path, "laptop", datasets), claims, "laptop")
    assert laptop.runs["one-diabetes"].other_data is None
    assert laptop.scales_with("one-diabetes") == ["paper"]
    demo = claimed_study(load_study(path, "demo", datasets), CLAIMS, "demo")
    assert demo.runs["one-third"].other_data == "dataset: diabetes, other -> third"
    assert demo.scales_with("one-third") == []
    assert demo.scales_with("one") == ["laptop", "paper"]


def test_how_jobs_are_cut_is_no_reduction(tmp_path: Path) -> None:
    def cut(study: dict[str, Any]) -> None:
        study["figures"] = {}
        study["runs"]["one"] |= {
            "chains_per_block": 4,
            "scales": {"laptop": {"chains_per_block": 2}, "demo": {"chains": 2, "chains_per_block": 1}},
        }

    path = study_file(tmp_path, cut)
    cases: list[tuple[Scale, tuple[str, ...]]] = [("laptop", ()), ("demo", ("chains: 4 -> 2",))]
    for scale, reductions in cases:
        found = claimed_study(load_study(path, scale, DATASETS), CLAIMS, scale)
        assert found.runs["one"].reductions == reductions


def test_chains_know_the_run_of_their_warm_starts(tmp_path: Path) -> None:
    """The deep ensemble with the same split, network, seed and training and as many members, or a few more."""

    def ensembles(study: dict[str, Any]) -> None:
        study["figures"] = {}
        one = study["runs"]["one"] | {"scales": {}}
        point = one | {"method": {"kind": "deep_ensemble"}}
        study["runs"] = {"one": one, "cold": one | {"temperature": 0.5}, "three": one | {"chains": 3}}
        study["runs"] |= {"fewer": point | {"chains": 2}, "other": point | {"seed": 9}, "more": point | {"chains": 8}}
        study["runs"] |= {"starts": point, "many": one | {"chains": 9}}

    named = {name: CLAIM | {"runs": [name]} for name in ("one", "cold", "three", "many")}
    claims = ClaimsConfig.model_validate({"paper": "p", "claims": named})
    found = claimed_study(load_study(study_file(tmp_path, ensembles), "paper", DATASETS), claims, "paper")
    assert {name: (plan.chained, plan.starts) for name, plan in found.runs.items()} == {
        "one": (True, "starts"),
        "cold": (True, "starts"),
        "three": (True, "starts"),
        "many": (True, None),
        "starts": (False, None),
    }


def test_figures_in_which_claims_find_numbers(tmp_path: Path) -> None:
    def figures(study: dict[str, Any]) -> None:
        study["runs"] = {"one": study["runs"]["one"] | {"scales": {}}}
        study["runs"]["two"] = dict(study["runs"]["one"])
        scales = {"demo": {"runs": ["two"]}, "laptop": None}
        study["figures"] = {"prior_depth": {"runs": ["one"], "scales": scales}}

    number = {"metric": None, "runs": [], "figure": "prior_depth", "in_figure": {"column": "mean", "take": "max"}}
    claims = ClaimsConfig.model_validate({"paper": "p", "claims": {"a": CLAIM | number}})
    path = study_file(tmp_path, figures)
    paper = claimed_study(load_study(path, "paper", DATASETS), claims, "paper")
    assert (paper.figures["prior_depth"].runs, paper.figures["prior_depth"].other) == (("one",), None)
    assert list(paper.runs) == ["one"]
    demo = claimed_study(load_study(path, "demo", DATASETS), claims, "demo")
    assert demo.figures["prior_depth"].other == "it shows two in place of one"
    assert claimed_study(load_study(path, "laptop", DATASETS), claims, "laptop").figures == {}


def test_pruned_networks_are_behind_a_claim() -> None:
    runs = {name: planned(name, reductions=["draws: 2 -> 1"]) for name in ("hmc", "maxima", "vi")}
    runs["hmc"]["pruned"] = {"HMC": "hmc", "ensemble": "maxima", "VI": "vi"}
    pruned = {"metric": "accuracy_pruned", "at": "ensemble mean by sd of HMC, 20 % kept", "runs": ["hmc"]}
    study = claimed(COMPARISON | pruned | {"than": {"at": "HMC mean by sd of HMC, 20 % kept"}}, runs=runs)
    claim = study.claims.claims["c0"]
    assert study.runs_behind(claim) == {"hmc", "maxima"}
    assert list(study.reductions_of(claim)) == ["hmc", "maxima"]


def test_a_run_that_this_scale_lacks_counts_with_its_problem() -> None:
    comparison = COMPARISON | {"runs": ["single"], "than": {"runs": ["gone"]}}
    study = claimed(comparison, problems={"single": ["as_published"], "gone": ["settings_unknown"]})
    assert study.identity(study.claims.claims["c0"]) == "settings unknown"
