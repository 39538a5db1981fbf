"""docs/your_own_data.md, followed to the letter."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bnn_atlas.figures.metadata import read_provenance
from tests.copies import REPOSITORY, copy_repository

from .workspace import planned, snakemake

PAGE = (REPOSITORY / "docs" / "your_own_data.md").read_text(encoding="utf-8")
FIGURES = Path("results/demo/figures/my_study")


def block(language: str, number: int) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository after the page's commands and three edits."""
    folder = copy_repository(tmp_path_factory.mktemp("own"))
    script = block("sh", 0).replace("python -", f"'{sys.executable}' -")
    subprocess.run(["bash", "-euc", script], cwd=folder, check=True)
    config = folder / "config"
    with (config / "datasets.yaml").open("a", encoding="utf-8") as registry:
        registry.write(block("yaml", 0))
    (config / "studies" / "my_study.yaml").write_text(block("yaml", 1), encoding="utf-8")
    settings = (config / "config.yaml").read_text(encoding="utf-8")
    chosen = re.sub(r"^studies:.*\n", block("yaml", 2), settings, flags=re.MULTILINE)
    (config / "config.yaml").write_text(chosen, encoding="utf-8")
    command = block("sh", 1).split()
    assert command[:3] == ["snakemake", "--cores", "2"]
    run = snakemake(folder, *command[3:])
    assert run.returncode == 0, run.stdout
    assert (folder / "results" / "demo" / "data" / "mine" / "raw" / "mine.csv").is_file()
    return folder


@pytest.mark.slow
def test_three_edits_lead_to_figures_and_scores(followed: Path) -> None:
    for name in ("my_lppd", "my_weights"):
        for ending in ("pdf", "png", "csv"):
            assert (followed / FIGURES / f"{name}.{ending}").stat().st_size > 100
    assert "rmse" in (followed / "results/demo/tables/my_study-summary.csv").read_text(encoding="utf-8")


@pytest.mark.slow
def test_figures_record_the_checksum(followed: Path) -> None:
    import hashlib

    checksum = hashlib.sha256((followed / "data/mine.csv").read_bytes()).hexdigest()
    record = read_provenance(followed / FIGURES / "my_lppd.png")
    assert record.settings["own_data"] == {"mine": {"mine.csv": checksum}}
    assert str(followed) not in json.dumps(record.settings)


@pytest.mark.slow
def test_an_edited_file_is_read_again(followed: Path) -> None:
    assert planned(followed, "my_study") == {}
    file = followed / "data" / "mine.csv"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "0.5,0.5,1.0\n", encoding="utf-8")
    jobs = planned(followed, "my_study")
    file.write_text(text, encoding="utf-8")
    assert {"download", "prepare", "split", "warmstart", "sample", "metrics", "my_study_my_lppd"} <= jobs.keys()
    assert planned(followed, "my_study") == {}  # a new time of the file alone changes nothing


def test_the_tests_of_the_project_still_pass(followed: Path) -> None:
    """Those that read the whole of config/."""
    tests = [
        "tests/config/test_add_a_study.py::test_the_study_and_its_claim_are_accepted[demo]",
        "tests/config/test_repository.py::test_config_loads_at_every_scale[demo]",
        "tests/data/test_dataset_registry.py::test_registry_has_the_papers_data_sets",
        "tests/gallery/test_front.py::test_a_setting_that_shows_changes_the_origin",
        "tests/test_readme.py::test_it_says_which_studies_are_complete",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(followed / "src")}
    run = subprocess.run(command, cwd=followed, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_page_fits_on_a_screen_or_two() -> None:
    assert len(PAGE.splitlines()) < 110
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (REPOSITORY / "docs" / target).is_file(), target
