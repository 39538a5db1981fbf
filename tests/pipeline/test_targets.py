"""Targets by name: with a sentence each, and answered when they are mistyped."""

import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.config.parts.figures import kinds
from bnn_atlas.config.settings import load_atlas
from bnn_atlas.pipeline.figures import Figures
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.targets import Targets, about, check_studies, steps
from bnn_atlas.pipeline.targets_page import SHARED, targets_page
from tests.config.folders import CLAIM, refused
from tests.copies import PUBLISHED, REPOSITORY

from .test_figures import atlas, drawn

STEPS = {"evaluate": {"takes": "ten minutes", "claims": ["error"]}}
RULES = ("all", "claims", "small", "my_lppd", "small_my_lppd", "sample")


@pytest.fixture
def targets(tmp_path: Path) -> Targets:
    loaded = atlas(tmp_path, drawn(my_lppd={"draw": "cumulative_lppd", "runs": ["one"]}))
    claims = {"small": ClaimsConfig.model_validate({"paper": "p", "steps": STEPS, "claims": {"error": CLAIM}})}
    loaded, paths = loaded._replace(claims=claims), Paths("results/paper")
    return Targets(loaded, paths, Figures(loaded, paths, None), {"one": ["table"]})


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["sample"], "sample.yaml: 'sample' is the name of a rule or of a folder of results; rename the file"),
        (["figures"], "'figures' is the name of a rule or of a folder of results"),
        (["one", "small_claims"], "'small_claims' is the name of a rule or of a folder of results"),
        (["a-b"], "a-b.yaml: its name is a target: a letter, then letters, digits and '_'"),
        (["one", "One"], "One.yaml: its name differs from 'one' in case only"),
        (["small"], None),
    ],
)
def test_names_of_studies_that_are_taken(names: list[str], why: str | None) -> None:
    atlas: Any = SimpleNamespace(studies=dict.fromkeys(names), claims={"small": None})
    with refused("config/studies/", why) if why else nullcontext():
        check_studies(atlas, {"sample", "all"})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("my_lpd", ["no target 'my_lpd'", "did you mean 'my_lppd'?", "`snakemake --list-rules` shows all"]),
        ("smal", ["did you mean 'small'?"]),
        ("fireball", ["'fireball' is of the study 'sampling_perspective'; add it to `studies` in config/config.yaml"]),
        ("diabetis", ["did you mean 'diabetes'?"]),
        ("diabetes", ["is a data set, not a target", "results/paper/data/diabetes/prepared.npz"]),
        ("results/paper/data/diabetis/prepared.npz", ["no data set 'diabetis'", "did you mean 'diabetes'?"]),
        ("results/paper/small/ones/split0/pool/pool.json", ["no run 'ones'", "did you mean 'one'?"]),
        ("results/paper/smal/one/split0/pool/pool.json", ["no study 'smal'", "did you mean 'small'?"]),
        ("results/paper/figures/small/my_lpd.png", ["no figure 'my_lpd'", "did you mean 'my_lppd'?"]),
        ("results/paper/export/small/ones-split0.zip", ["no run 'ones'", "did you mean 'one'?"]),
        ("results/paper/export/smal/one-split0.zip", ["no study 'smal'", "did you mean 'small'?"]),
        ("results/demo/tables/small.parquet", ["a file of scale demo", "--config scale=demo"]),
        ("hmc_posteriors", ["the study 'hmc_posteriors' is not loaded", "config/config.yaml"]),
    ],
)
def test_a_mistyped_target_is_answered(targets: Targets, target: str, expected: list[str]) -> None:
    refusal = targets.refusal(target, RULES)
    assert refusal is not None
    for part in expected:
        assert part in refusal


def test_only_a_near_name_is_suggested(targets: Targets) -> None:
    names = (*RULES, "hmc_posteriors", "fireball")
    assert targets.refusal("posterior_surfce", names) == (
        "no target 'posterior_surfce'; `snakemake --list-rules` shows all"
    )
    assert targets.refusal("posterior_surfce", (*names, "posterior_surface")) == (
        "no target 'posterior_surfce' (did you mean 'posterior_surface'?); `snakemake --list-rules` shows all"
    )
    assert "did you mean 'fireball'?" in (targets.refusal("firebal", names) or "")


@pytest.mark.parametrize(
    "target",
    [*RULES, "results/paper/small/one/split0/pool/pool.json", "results/paper/tables/small.parquet", "Snakefile"],
)
def test_what_exists_is_let_through(targets: Targets, target: str) -> None:
    assert targets.refusal(target, RULES) is None


def test_each_figure_run_and_step_has_a_sentence(targets: Targets) -> None:
    said = targets.sentences
    assert sorted(said) == ["evaluate", "my_lppd", "one", "small_my_lppd"]
    assert said["evaluate"] == "Check 1 of the papers' claims and print their verdicts: ten minutes."
    assert said["my_lppd"].startswith("small. The log pointwise predictive density (LPPD)")
    assert said["one"].startswith("Scores of small.")


def test_each_kind_of_figure_has_a_text_of_its_own() -> None:
    texts = {about(SimpleNamespace(kind=kind)) for kind in kinds().values()}  # type: ignore[arg-type]
    assert len(texts) == len(kinds())
    assert not any("*" in text or "\n" in text for text in texts)


def test_a_step_at_another_scale_is_refused(targets: Targets) -> None:
    wrong = targets.refusal("evaluate", [*RULES, "evaluate"])
    assert wrong == "evaluate is at scale laptop: leave out scale=paper, or say scale=laptop"
    assert targets.refusal("keep", [*RULES, "keep"]) is None


def test_the_page_of_targets_is_that_of_the_code_and_has_what_snakemake_offers() -> None:
    page = (REPOSITORY / "docs/targets.md").read_text(encoding="utf-8")
    assert page == targets_page(REPOSITORY), "run `make schema` after changing rules, studies, claims or the Makefile"
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--list-target-rules",
        "--config",
        "scale=demo",
        f"studies={[*PUBLISHED]}",
    ]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    offered = {line.partition(" ")[0] for line in listed.splitlines()}
    assert len(offered) > 100
    tables = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    loaded = load_atlas({"scale": "demo", "studies": [*PUBLISHED]}, REPOSITORY / "config")
    studies = loaded.studies.items()
    named = {*tables, *(f"{study}_{figure}" for study, of in studies for figure in of.figures)}
    named |= {run.name for _, of in studies for run in of.runs.values() if run.entry in tables}
    assert offered - named == {"write_site"}, "the part of `site` that draws it"
    assert {*SHARED, *loaded.studies, *steps(loaded.claims)} <= offered & {*tables}
