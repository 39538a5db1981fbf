"""A figure from the archive of another clone: exported, unpacked into a fresh folder, and drawn without sampling."""

import shutil
from pathlib import Path

import pytest

from bnn_atlas import records

from .workspace import FIGURES, RESULTS, STUDY, add_to_functions, dry_run, edit, planned, small_workspace, snakemake

ARCHIVE = RESULTS / "export" / "cumulative_lppd.zip"
DRAW = {"sampling_perspective_cumulative_lppd": 1, "cumulative_lppd": 1}


@pytest.fixture(scope="module")
def exported(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished workspace with an archive of a figure."""
    folder = shutil.copytree(finished, tmp_path_factory.mktemp("exported") / "there", symlinks=True)
    run = snakemake(folder, "export", "--config", "what=cumulative_lppd")
    assert run.returncode == 0, run.stdout
    return folder


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    return small_workspace(tmp_path / "fresh")


def test_a_fresh_clone_draws_the_same_figure_and_nothing_else(exported: Path, fresh: Path) -> None:
    given = ("cumulative_lppd", "--config", f"published={exported / ARCHIVE}")
    assert planned(fresh, *given) == DRAW
    run = snakemake(fresh, *given)
    assert run.returncode == 0, run.stdout
    for ending in ("csv", "png", "pdf"):
        drawn = FIGURES / f"cumulative_lppd.{ending}"
        assert (fresh / drawn).read_bytes() == (exported / drawn).read_bytes()
    record = records.read((fresh / FIGURES / ".cumulative_lppd.pdf.record").resolve())
    assert record[records.PUBLISHED] == records.digest(exported / ARCHIVE)
    assert planned(fresh, *given) == {}
    assert planned(fresh, "cumulative_lppd") == {}
    assert "sample" not in planned(fresh, "fireball")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (STUDY, "steps: 200,", "steps: 250,", "method.steps from 200 to 250"),
        (
            "config/datasets.yaml",
            "target: disease_progression",
            "target: progression",
            "prepared.npz: entry.target from",
        ),
        ("src/bnn_atlas/methods/hmc.py", "", "", "trace.zarr: code"),
    ],
)
def test_an_archive_of_other_settings_data_or_code_is_refused(
    exported: Path, fresh: Path, file: str, old: str, new: str, message: str
) -> None:
    """And nothing of it stays."""
    edit(fresh / file, old, new) if old else add_to_functions(fresh / file, "edited = True")
    run = dry_run(fresh, "cumulative_lppd", "--config", f"published={exported / ARCHIVE}")
    assert run.returncode == 1
    assert f"{ARCHIVE} has results that today's settings, data or code would not make" in run.stdout
    assert message in run.stdout
    assert [path for path in (fresh / RESULTS / Path(STUDY).stem).rglob("*") if path.is_file()] == []


def test_an_unknown_name_and_a_missing_archive_are_refused(exported: Path) -> None:
    unknown = dry_run(exported, "export", "--config", "what=cumulative")
    assert "what = 'cumulative': no figure, study or other target that makes results" in unknown.stdout
    assert "did you mean 'cumulative_lppd'?" in unknown.stdout
    missing = dry_run(exported, "export", "--config", "published=none.zip")
    assert "published = none.zip: no such file" in missing.stdout
