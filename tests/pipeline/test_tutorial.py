"""docs/tutorial.md, except what test_your_own_data.py follows, and the notebook that opens a run."""

import re
from pathlib import Path

import pytest

from bnn_atlas.pipeline import new
from tests.copies import REPOSITORY
from tests.test_site import execute

from .workspace import STUDY, edit, planned

PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8")
EDITS = dict(re.findall(r"sed -i 's/(.*?)/(.*?)/'", PAGE))


def test_what_it_edits_is_there_once() -> None:
    figure, steps = EDITS
    assert (REPOSITORY / STUDY).read_text(encoding="utf-8").count(figure) == 1
    assert new.STUDY.count(steps) == 1


def test_a_wider_range_of_the_figure_samples_nothing(workspace: Path) -> None:
    edit(workspace / STUDY, "bins: 50, limit: 4", "bins: 50, limit: 6")
    assert planned(workspace, "fireball") == {"density_grid": 1, "sampling_perspective_fireball": 1, "fireball": 1}


def test_its_table_is_that_of_the_page_on_own_data() -> None:
    own = (REPOSITORY / "docs" / "your_own_data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", own, re.DOTALL)
    assert len(blocks) == 3
    assert "".join(blocks) in PAGE


@pytest.mark.slow
def test_the_notebook_opens_a_run(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "results").symlink_to(finished / "results")
    runs = r"runs = [\"airfoil_mile-seed1\", \"airfoil_hmc\"]"
    execute("open_a_run.ipynb", tmp_path, runs, r"runs = [\"first-seed1\", \"second\"]")
