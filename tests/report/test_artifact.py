"""ARTIFACT.md is what the claims and the recorded results say."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.claims.rules import Verdict
from bnn_atlas.config.settings import load_atlas, read_settings
from bnn_atlas.report.artifact import PAGE, SHARED, artifact, takes, write_artifact
from bnn_atlas.report.text import KINDS
from tests.config.folders import REPOSITORY


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    return artifact(REPOSITORY)


def test_all_deviations_are_listed(said: dict[str, Any]) -> None:
    rows = [
        row for step in said["steps"] if step["name"] == SHARED for group in step["groups"].values() for row in group
    ]
    failed = [row["claim"] for row in rows if KINDS[Verdict(row["verdict"])] in ("bad", "note")]
    assert [row["claim"] for _, row in said["deviations"]] == failed
    page = (REPOSITORY / PAGE).read_text(encoding="utf-8")
    assert [claim for claim in failed if f", `{claim}`: " not in page] == []


def test_steps_take_what_their_jobs_are_recorded_to_take(said: dict[str, Any]) -> None:
    settings = read_settings(REPOSITORY / "config" / "config.yaml") | {"scale": "laptop"}
    atlas = load_atlas(settings, REPOSITORY / "config")
    minutes: dict[str, float] = defaultdict(float)
    for step in said["steps"]:
        minutes[step["name"]] += step["minutes"]
    told = {(name, step.takes) for claims in atlas.claims.values() for name, step in claims.steps.items()}
    assert {one for one in told if one[0] in minutes} == {(name, takes(of)) for name, of in minutes.items()}


def test_hosts_are_those_of_evaluate(said: dict[str, Any]) -> None:
    names = {name for names in said["hosts"].values() for name in names}
    assert {"airfoil", "mnist"} <= names
    assert not names & {"svhn", "cifar10c", "imdb", "adult"}


def test_the_page_is_up_to_date_and_short(tmp_path: Path) -> None:
    write_artifact(REPOSITORY, tmp_path / PAGE)
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert text == (REPOSITORY / PAGE).read_text(encoding="utf-8"), "run: make schema"
    assert len(text.splitlines()) <= 150
