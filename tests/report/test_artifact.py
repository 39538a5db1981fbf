"""ARTIFACT.md is what the claims and the recorded results say."""

from pathlib import Path

from bnn_atlas.report.artifact import PAGE, write_artifact
from tests.config.folders import REPOSITORY


def test_the_page_is_up_to_date_and_short(tmp_path: Path) -> None:
    write_artifact(REPOSITORY, tmp_path / PAGE)
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert text == (REPOSITORY / PAGE).read_text(encoding="utf-8"), "run: make schema"
    assert len(text.splitlines()) <= 150
