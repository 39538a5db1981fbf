"""README.md, CONTRIBUTING.md and the pages of docs/: what they name is there, and what they count is so."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from bnn_atlas.config.methods.registry import METHODS, MethodConfig
from bnn_atlas.config.parts.evaluation import EvaluationConfig
from bnn_atlas.config.parts.priors import PriorConfig
from bnn_atlas.config.settings import load_atlas
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.pipeline.figures import rule_names
from tests import gpu_branches
from tests.copies import PUBLISHED, REPOSITORY, copy_config

TEXT = (REPOSITORY / "README.md").read_text(encoding="utf-8")
FRONT = [*REPOSITORY.glob("*.md"), REPOSITORY / "config" / "README.md"]
PAGES = [*FRONT, *(REPOSITORY / "docs").glob("*.md")]
VALUES = {"--cores": 1, "--profile": 1, "--report": 1, "--sdm": 1, "--resources": 1, "--config": 1, "--forcerun": 0}
"""Options of Snakemake on these pages, and how many values each has; those of --forcerun are rules, as targets are."""


@pytest.mark.parametrize("page", FRONT, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    """Those of docs/ are checked when the site is built."""
    text = page.read_text(encoding="utf-8")
    for target in [*re.findall(r"\]\(([^)#:]+)[)#]", text), *re.findall(r'src="([^"]+)"', text)]:
        assert (page.parent / target).exists(), target


def targets(page: Path) -> Iterator[str]:
    """What a page's commands ask of Snakemake, but for files and for studies that the reader is to write."""
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = iter(
                shlex.split(line, comments=True) if line.startswith("snakemake ") and "studies=" not in line else ()
            )
            for word in words:
                if word.startswith("-"):
                    for _ in range(VALUES.get(word, 0)):
                        next(words)
                elif not re.search(r"[=/.]|^snakemake$", word):
                    yield word


def test_targets_of_all_commands_exist(tmp_path: Path) -> None:
    atlas = load_atlas({"scale": "laptop", "studies": list(PUBLISHED)}, copy_config(tmp_path / "config"))
    known = rule_names(REPOSITORY) | {f"{study}_claims" for study in atlas.claims} | set(atlas.studies)
    for study in atlas.studies.values():
        known |= set(study.figures) | set(study.runs) | {run.entry for run in study.runs.values()}
    known |= {step for claims in atlas.claims.values() for step in claims.steps}
    named = {target: page.name for page in PAGES for target in targets(page)}
    assert len(named) >= 10
    assert {target: page for target, page in named.items() if target not in known} == {}


def test_steps_are_there_with_their_times(tmp_path: Path) -> None:
    atlas = load_atlas({"scale": "laptop", "studies": list(PUBLISHED)}, copy_config(tmp_path / "config"))
    rows = re.findall(r"^\| `snakemake --cores 2 (\w+)` \| (.*?) \|", TEXT, re.MULTILINE)
    steps = {name: step for claims in atlas.claims.values() for name, step in claims.steps.items()}
    times = {name: step.takes.replace(" on two cores", "") for name, step in steps.items() if step.scale == "laptop"}
    assert dict(rows) == times


def test_settings_in_examples_are_accepted() -> None:
    sections: dict[str, Any] = {"method": MethodConfig, "evaluate": EvaluationConfig, "prior": PriorConfig}
    blocks = [
        block for page in PAGES for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    ]
    given = [(key, value) for block in blocks for key, value in yaml.safe_load(block).items() if key in sections]
    assert len(given) >= 3
    for key, value in given:
        TypeAdapter(sections[key]).validate_python(value)


@pytest.mark.parametrize("study", PUBLISHED)
def test_it_counts_verdicts_as_the_short_pages_of_results_do(study: str) -> None:
    text = (REPOSITORY / "docs/results" / study / "README.md").read_text(encoding="utf-8")
    counts = re.search(
        r"^\*\*(\d+) published numbers?: (.+?); (\d+) statements? in words: (.+?)\.\*\*", text, re.MULTILINE
    )
    assert counts
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| [`{study}`]"))
    assert f"| {counts[1]}: {counts[2]} | {counts[3]}: {counts[4]} |" in row
    assert len(text.splitlines()) <= 200


@pytest.mark.parametrize(
    ("study", "run", "metric", "at", "shown"),
    [
        ("hmc_posteriors", "mnist1000_sghmc", "agreement", "mnist1000_hmc", "0.986"),
        ("implicit_vi", "mnist500_implicit", "elbo", "", "\N{MINUS SIGN}489,518"),
        ("implicit_vi", "mnist500_mean_field", "elbo", "", "\N{MINUS SIGN}3,135"),
        ("permutation_symmetry", "mnist_hmc", "transpositions_within", "hmc", "505"),
    ],
)
def test_numbers_of_its_first_table_are_those_of_the_kept_tables(
    study: str, run: str, metric: str, at: str, shown: str
) -> None:
    table = read_table(REPOSITORY / "docs/results" / study / "kept" / "metrics.parquet")
    rows = table[(table["run"] == run) & (table["metric"] == metric) & (table["at"] == at)]
    (value,) = rows[~rows["dataset"].str.contains("/")]["value"].unique()
    decimals = len(shown.partition(".")[2])
    assert f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}") == shown
    assert shown in next(line for line in TEXT.splitlines() if line.startswith(f"| [`{study}`]"))


def test_each_method_has_its_place_in_the_table() -> None:
    rows = [line.split("|")[1] for line in TEXT.partition("## Methods")[2].splitlines() if line.startswith("| `")]
    told = re.findall(r"`(\w+)` and `(\w+)` serve", TEXT)[0]
    assert sorted([*re.findall(r"`(\w+)`", " ".join(rows)), *told]) == sorted(METHODS)
    page = (REPOSITORY / "docs" / "which_method.md").read_text(encoding="utf-8")
    assert {kind for kind in METHODS if f"`{kind}`" not in page} == {
        "psgld",
        "sghmc_prec",
        "sghmc_clr_prec",
        "adaptive_sghmc",
    }


def test_it_says_how_many_programs_have_run_on_a_gpu() -> None:
    programs, missing = gpu_branches.programs(), gpu_branches.NOT_YET
    assert set(missing) <= programs.keys()
    assert f"{len(programs) - len(missing)} of {len(programs)} programs" in TEXT
    assert all(f"`{name.removeprefix('method: ')}`" in TEXT for name in missing)


def test_it_is_short() -> None:
    prose = re.sub(r"```.*?```|^\|.*?$|<.*?>", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= 750
