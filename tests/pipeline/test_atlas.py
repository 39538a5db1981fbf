"""The configuration that an earlier start has checked."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.settings import load_atlas
from bnn_atlas.pipeline import atlas
from bnn_atlas.pipeline.atlas import KEPT, checked_atlas
from tests.config.folders import REGISTRY, STUDY, config_folder

SETTINGS = {"studies": ["small"], "scale": "paper"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BNN_ATLAS_CACHE", str(tmp_path / "cache"))
    config_folder(tmp_path / "config")
    study = yaml.safe_dump(STUDY | {"figures": {}}, sort_keys=False)
    (tmp_path / "config" / "studies" / "small.yaml").write_text(study)
    return tmp_path / "config"


def checks(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> int:
    """How often the files are checked in one start; what is found is what they say."""
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(atlas, "load_atlas", lambda *given: calls.append(given) or load_atlas(*given))
        found = checked_atlas(SETTINGS | changes, folder)
    assert found == load_atlas(SETTINGS | changes, folder)
    return len(calls)


def test_the_same_files_are_checked_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [checks(folder, monkeypatch) for _ in range(2)] == [1, 0]
    assert checks(folder, monkeypatch, scale="demo") == 1
    study = folder / "studies" / "small.yaml"
    study.write_text(study.read_text() + "# a comment\n")
    assert checks(folder, monkeypatch) == 1
    monkeypatch.setattr(atlas, "state", lambda: "other code")
    assert checks(folder, monkeypatch) == 1


def test_a_damaged_file_of_the_cache_is_written_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks(folder, monkeypatch)
    (kept,) = (folder.parent / "cache" / "atlas").iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert [checks(folder, monkeypatch) for _ in range(2)] == [1, 0]


def test_what_others_can_write_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks(folder, monkeypatch)
    (kept,) = (folder.parent / "cache" / "atlas").iterdir()
    assert not kept.stat().st_mode & 0o077
    kept.chmod(0o620)
    assert [checks(folder, monkeypatch) for _ in range(2)] == [1, 0]


def test_data_of_this_machine_are_read_every_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine.csv").write_text("a,b\n1,2.5\n3,4.5\n5,6\n")
    own = {"path": str(folder / "mine.csv"), "target": "b", "task": "regression"}
    (folder / "datasets.yaml").write_text(yaml.safe_dump(REGISTRY | {"mine": own}))
    assert [checks(folder, monkeypatch) for _ in range(2)] == [1, 1]


def test_old_files_of_the_cache_go_and_no_cache_is_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(KEPT + 2):
        checks(folder, monkeypatch, results=f"results{number}")
    assert len(list((folder.parent / "cache" / "atlas").iterdir())) == KEPT
    monkeypatch.setenv("BNN_ATLAS_CACHE", str(folder / "datasets.yaml"))
    assert checks(folder, monkeypatch) == 1
