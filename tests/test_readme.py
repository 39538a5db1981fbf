"""README.md: what it names is there, and it stays short."""

import re
from pathlib import Path

import pytest

from bnn_atlas.config.claims.load import claims_of
from bnn_atlas.config.settings import load_atlas
from bnn_atlas.pipeline.figures import rule_names
from tests.copies import PUBLISHED, REPOSITORY

TEXT = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in [*re.findall(r"\]\(([^)#:]+)[)#]", text), *re.findall(r'src="([^"]+)"', text)]:
        assert (page.parent / target).exists(), target


def test_targets_of_its_commands_exist() -> None:
    atlas = load_atlas({"studies": ["sampling_perspective", "hmc_posteriors"]}, REPOSITORY / "config")
    figures = {name for study in atlas.studies.values() for name in study.figures}
    known = figures | set(atlas.studies) | {f"{study}_claims" for study in atlas.claims} | rule_names(REPOSITORY)
    named = set(re.findall(r"^snakemake --cores 2 (\w+)", TEXT, re.MULTILINE))
    assert len(named) >= 4
    assert named <= known


def test_steps_are_there_with_their_numbers_of_claims() -> None:
    config = load_atlas({"studies": ["sampling_perspective"]}, REPOSITORY / "config").claims["sampling_perspective"]
    said = dict(re.findall(r"`snakemake --cores 2 (\w+)` \|[^|]*?(\d+) claims", TEXT))
    assert said == {name: str(len(claims_of(config, name))) for name in config.steps}


@pytest.mark.parametrize("study", PUBLISHED)
def test_it_counts_verdicts_as_the_short_pages_of_results_do(study: str) -> None:
    text = (REPOSITORY / "docs/results" / study / "README.md").read_text(encoding="utf-8")
    counts = re.search(r"^\*\*(.+?)\.\*\* Scale", text, re.MULTILINE)
    assert counts
    assert f"At scale `laptop`: {counts[1]} |" in TEXT
    assert len(text.splitlines()) <= 200


def test_it_says_which_studies_are_complete() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (complete|to come)[^|]*\|$", TEXT, re.MULTILINE))
    complete = {name for name, state in rows.items() if state == "complete"}
    assert complete == set(PUBLISHED)
    assert len(rows) == 4


def test_it_is_short_and_words_come_before_methods() -> None:
    assert len(TEXT.splitlines()) <= 230
    order = ["git clone", "make demo   #", "Where to look first", "## Words", "## Changing something", "## Methods"]
    places = [TEXT.index(part) for part in order]
    assert places == sorted(places)
