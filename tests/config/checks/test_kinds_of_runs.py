"""Runs that a kind of figure does not fit are refused when the configuration is read."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.checks.figures import _wrong_kinds_of_runs, _wrong_sets, conditions
from bnn_atlas.config.pages.schema import figures_page
from bnn_atlas.config.parts.figures import FigureConfig, kinds
from bnn_atlas.config.runs.studies import Run, RunConfig, Study
from tests.config.folders import HMC, REPOSITORY, RUN, refused, studies

WORDS = RUN | {"dataset": "words", "likelihood": {"kind": "categorical"}}
ENSEMBLE = RUN | {"method": {"kind": "deep_ensemble"}, "warmstart": {"max_epochs": 5}}
SAMPLED = RUN | {"method": HMC | {"burn_in": 10, "steps": 10}}
SCALES = RUN | {"prior": {"kind": "normal"}, "grid": {"prior.scale": [0.3, 1, 3]}}
SEEDS = RUN | {"grid": {"seed": [1, 2]}}
SPLITS = RUN | {"split": RUN["split"] | {"count": 3}}
FUNCTIONS = {"functions": {"inputs": "test"}}
LINE = {"functions": {"inputs": "line"}}
SUBSET = {"subset": {}}
TEMPERATURES = RUN | {"grid": {"temperature": [0.3, 1]}}
STEPS = SAMPLED | {"grid": {"method.step_size": [0.1, 0.2]}}
TO_A = {"evaluate": {"references": ["a"]}}
TO_B = {"evaluate": {"references": ["b"]}}
WIDE = WORDS | {"model": {"kind": "mlp", "hidden": [8]}}
NARROW = RUN | {"model": {"kind": "mlp", "hidden": [4]}}
NUTS = NARROW | {"method": {"kind": "nuts", "step_size": 0.1, "warmup": 20, "steps": 10}, "prior": {"kind": "normal"}}


def checked(folder: Path, runs: dict[str, Any], /, **figure: Any) -> None:
    studies(folder, deepcopy(runs), figures={"f": {"runs": list(runs)} | figure})


@pytest.mark.parametrize(
    ("runs", "figure", "message"),
    [
        ({"a": WORDS}, {"draw": "uci_table"}, "'uci_table' is for a regression, and 'a' is a classification"),
        ({"a": WORDS}, {"draw": "calibration"}, "'calibration' is for a regression, and 'a' is a classification"),
        ({"a": RUN}, {"draw": "calibration_curves"}, "is for a classification, and 'a' is a regression"),
        ({"a": RUN, "b": WORDS}, {"draw": "uci_table"}, "is for a regression, and 'b' is a classification"),
        ({"a": RUN}, {"draw": "entropy_estimators"}, "is for implicit, and 'a' is of method.kind 'mclmc'"),
        ({"a": RUN}, {"draw": "sampling_vs_ensemble"}, "and these are no ensemble; list both"),
        ({"a": ENSEMBLE}, {"draw": "sampling_vs_ensemble"}, "and these are ensembles only; list both"),
        (
            {"a": SCALES, "b": ENSEMBLE},
            {"draw": "sampling_vs_ensemble", "labels": {"a": "x"}},
            "'a-scale0.3' and 'a-scale1' have the same label and method in 'sampling_vs_ensemble' but differ in more",
        ),
        ({"a": SEEDS, "b": ENSEMBLE}, {"draw": "sampling_vs_ensemble"}, None),
        ({"a": RUN, "b": SAMPLED}, {"draw": "prior_depth"}, "shows one sampling method, not mclmc, hmc"),
        ({"a": ENSEMBLE}, {"draw": "prior_depth"}, "shows one sampling method, not none"),
        ({"a": ENSEMBLE}, {"draw": "burn_in"} | FUNCTIONS, "is for runs of Markov chains, and 'a' is none of them"),
        ({"a": SPLITS}, {"draw": "burn_in"} | FUNCTIONS, "is for runs with split.count 1, and 'a' is none of them"),
        ({"a": RUN}, {"draw": "one_m_one"} | SUBSET, "is for fully connected networks with one hidden layer"),
        (
            {"a": SAMPLED | {"referee": SAMPLED["method"]}},
            {"draw": "step_size_bias"},
            "is for methods that are tuned to an energy variance",
        ),
        ({"a": SPLITS}, {"draw": "wasserstein"} | FUNCTIONS, "3 runs, each split counted, and at most 2 fit"),
        ({"a": RUN}, {"draw": "under_over"} | LINE, "is for data sets with one input, and 'a' is none of them"),
        (
            dict.fromkeys("abcdefghi", WORDS),
            {"draw": "calibration_curves"},
            "9 labels, and 'calibration_curves' can",
        ),
        ({"a": RUN | {"chains": 1}}, {"draw": "rhat_histograms"}, "is for runs of at least two chains"),
        (
            {"a": RUN, "b": SAMPLED},
            {"draw": "cumulative_lppd", "labels": {"a": "MILE", "b": "MILE"}},
            "'a' and 'b' have the same label and dataset in 'cumulative_lppd' but differ in more than their seeds",
        ),
        ({"a": SEEDS}, {"draw": "cumulative_lppd", "labels": {"a": "MILE"}}, None),
        ({"a": RUN}, {"draw": "cumulative_lppd", "runs": ["a", "a"]}, "'a' is named twice, by 'a' and 'a'"),
        ({"a": SEEDS}, {"draw": "cumulative_lppd", "runs": ["a", "a-seed2"]}, "named twice, by 'a' and 'a-seed2'"),
        ({"a": RUN}, {"draw": "cold_posterior"}, "runs by temperature, and its runs do not differ in it"),
        ({"a": TEMPERATURES}, {"draw": "cold_posterior"}, None),
        ({"a": TEMPERATURES, "b": ENSEMBLE}, {"draw": "cold_posterior"}, None),
        ({"a": STEPS, "b": RUN}, {"draw": "step_size_acceptance"}, "by method.step_size, a number, and 'b' has none"),
        ({"a": TEMPERATURES, "b": WORDS}, {"draw": "cold_posterior"}, "'a-temperature0.3' has regression but 'b' has"),
        (
            {"a": TEMPERATURES, "b": SAMPLED},
            {"draw": "cold_posterior", "labels": {"a": "x", "b": "x"}},
            "'a-temperature1' and 'b' have the same label and x value",
        ),
        (
            {"a": RUN, "b": RUN, "c": RUN | TO_A, "d": RUN | TO_B},
            {"draw": "agreement_tv"},
            "needs runs with exactly one reference in common, and these have none",
        ),
        ({"a": RUN}, {"draw": "agreement_tv"}, "needs runs with exactly one reference in common, and these have none"),
        ({"a": RUN, "c": RUN | TO_A}, {"draw": "agreement_tv"}, None),
        (
            {"a": RUN, "b": RUN, "c": RUN | {"evaluate": {"references": ["a", "b"]}}},
            {"draw": "compact_agreement"},
            "'c' is compared with a, b; give it one reference",
        ),
        ({"a": RUN, "b": NARROW}, {"draw": "weight_densities"} | SUBSET, "runs of one network, and 'a' has"),
        ({"a": RUN, "b": WORDS}, {"draw": "weight_densities"} | SUBSET, "runs of one network, and 'a' has"),
        (
            {"a": RUN, "b": RUN},
            {"draw": "marginal_densities", "labels": {"a": "x", "b": "x"}} | SUBSET,
            "'a' and 'b' have one label in 'marginal_densities'; show one of them",
        ),
        ({"a": SPLITS}, {"draw": "marginal_densities"} | SUBSET, "the splits of 'a' have one label"),
        ({"a": SPLITS}, {"draw": "parallel_coordinates"} | SUBSET, None),
        (
            {"a": RUN},
            {"draw": "bias_ridges"} | SUBSET,
            "and 'bias_ridges' compares at least 2",
        ),
        ({"a": NUTS}, {"draw": "nuts_vs_mean_field"} | SUBSET, "no run by mean_field with the prior scale 1"),
        (
            {"a": NUTS, "b": NUTS},
            {"draw": "nuts_vs_mean_field"} | SUBSET,
            "'a' and 'b' have one prior scale and method",
        ),
        (
            {"a": RUN | {"evaluate": {"barriers": {}}}},
            {"draw": "distance_against_transpositions"},
            "needs runs with initial.transpositions, and there are none",
        ),
        ({"a": RUN, "b": SAMPLED}, {"draw": "cumulative_lppd"}, None),
    ],
)
def test_runs_that_a_kind_does_not_fit(
    runs: dict[str, Any], figure: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    if message is None:
        checked(tmp_path, runs, **figure)
        return
    with refused("small.yaml: figures.f.runs: ", message, "(line "):
        checked(tmp_path, runs, **figure)


AVERAGE = [
    *(name for name, kind in kinds().items() if "repetitions" in kind.columns),
    "barrier_along_training", "calibration", "compact_agreement", "generator_sizes", "loss_surface", "rhat_histograms",
    "step_size_bias", "transpositions_along_line", "weight_densities",
]  # fmt: skip
"""Kinds that put all runs of one setting together."""


@pytest.mark.parametrize("name", AVERAGE)
def test_runs_of_one_label_that_are_no_repetitions_are_never_averaged(name: str, tmp_path: Path) -> None:
    slow = RUN | {"method": RUN["method"] | {"warmup": 2000}}
    study = studies(tmp_path, {"a": RUN, "b": slow, "c": SEEDS})["small"]
    config = FigureConfig(draw=name, runs=("a", "b"), labels=dict.fromkeys("ab", "x"))
    together = re.compile(f"'a' and 'b' (have the same|are averaged).* in '{name}' but differ in more than")
    assert any(together.search(each) for each in _wrong_kinds_of_runs(config, kinds()[name], shown_of(study, "ab")))
    config = FigureConfig(draw=name, runs=("c",), labels={"c": "x"})
    assert not any("differ" in each for each in _wrong_kinds_of_runs(config, kinds()[name], shown_of(study, "c")))


def shown_of(study: Study, entries: str) -> dict[str, Run]:
    return {name: run for name, run in study.runs.items() if run.entry in entries}


SHIFTED = WORDS | {"evaluate": {"shifts": ["fog1", "dead_pixels1"]}}
OTHER = WORDS | {"evaluate": {"shifts": ["fog2"]}}


@pytest.mark.parametrize(
    ("name", "runs", "message"),
    [
        ("corruptions", {"a": SHIFTED, "b": OTHER}, "'b' and 'a' differ in their corruptions (fog1, fog2)"),
        ("corruptions", {"a": SHIFTED, "b": SHIFTED}, None),
        ("corruptions", {"a": WORDS}, "'a' has no corruptions in evaluate.shifts"),
        ("rotated_mnist", {"a": SHIFTED}, "'a' has no rotations in evaluate.shifts"),
        ("dead_pixels", {"a": SHIFTED}, "'a' has no live_pixels in evaluate.shifts"),
        (
            "entropy_histograms",
            {"a": WORDS | {"evaluate": {"out_of_distribution": [f"d{i}" for i in range(4)]}}},
            "4 data sets in evaluate.out_of_distribution, and at most 3 fit",
        ),
        ("uci_comparison", {f"r{i}": RUN | {"dataset": f"d{i}"} for i in range(7)}, "7 data sets, and at most 6 fit"),
    ],
)
def test_sets_that_a_kind_cannot_compare_or_show(name: str, runs: dict[str, Any], message: str | None) -> None:
    made = {each: Run("s", each, each, "paper", {}, RunConfig.model_validate(run), ()) for each, run in runs.items()}
    found = " ".join(_wrong_sets(kinds()[name], made))
    assert message in found if message else not found


@pytest.mark.parametrize("name", kinds())
def test_no_condition_of_a_kind_says_what_another_says_already(name: str) -> None:
    found, sets = conditions(kinds()[name]), "runs with evaluate.shifts or evaluate.out_of_distribution"
    assert len(found) == len(set(found))
    named = [each for each in found if re.search(r"evaluate\.(shifts|out_of_distribution)", each)]
    assert sets not in named or named == [sets]


def test_functions_are_at_the_inputs_that_a_kind_draws(tmp_path: Path) -> None:
    with refused("small.yaml: figures.f.functions.inputs = 'line': 'burn_in' needs 'test'", "(line "):
        checked(tmp_path, {"a": SAMPLED}, draw="burn_in", **LINE)


def test_the_page_has_every_kind_and_its_conditions() -> None:
    text = (REPOSITORY / "docs" / "figures.md").read_text(encoding="utf-8")
    assert text == figures_page(REPOSITORY), "run make schema"
    for kind in kinds().values():
        part = text.partition(f"## {kind.name}\n")[2].partition("\n## ")[0]
        assert all(condition in part for condition in conditions(kind)), kind.name
