"""Errors that are found after a file was read have the line of the key that they name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.language.reading import with_lines
from bnn_atlas.config.settings import load_atlas
from tests.config.folders import CLAIM, REGISTRY, Edit, config_folder, run_edit

FILE = """
runs:
  a.b:
    files:
      - first
      - second
    model.hidden: 3
    scales:
      demo: { chains: 2 }
    chains: 4
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (": runs.a.b.files[1] = 'second': why", 6),
        (": runs.a.b.model.hidden: why", 7),
        (": runs.a.b.chains = 4: why", 10),
        (" at scale demo: runs.a.b.chains = 2: why", 9),
        (" at scale demo: runs.a.b.model.hidden: why", 7),
        (": runs.a.b.absent.key: why", 3),
        (": runs.a.b (grid seed: 1): why", 3),
    ],
)
def test_the_line_is_that_of_the_key(tmp_path: Path, said: str, line: int) -> None:
    file = tmp_path / "studies" / "s.yaml"
    file.parent.mkdir()
    file.write_text(FILE, encoding="utf-8")
    for name in (str(file), "config/studies/s.yaml"):
        with pytest.raises(ConfigError) as caught, with_lines(file):
            raise ConfigError(f"{name}{said}\nelsewhere: runs.a.b: why")
        assert str(caught.value) == f"{name}{said} (line {line})\nelsewhere: runs.a.b: why"


@pytest.mark.parametrize("said", [": absent.key: why", ": runs.a.b.chains: why (line 99)", ", a sentence"])
def test_errors_without_a_key_or_with_a_line_stay(tmp_path: Path, said: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(FILE, encoding="utf-8")
    with pytest.raises(ConfigError) as caught, with_lines(file):
        raise ConfigError(f"{file}{said}")
    assert str(caught.value) == f"{file}{said}"


def figure(**changes: Any) -> Edit:
    """Change the study's figure."""
    return lambda study: study["figures"]["curve"].update(changes)


def grids(study: dict[str, Any]) -> None:
    study["runs"]["two"] = {**study["runs"]["one"], "start": {"run": "none"}, "warmstart": None}


@pytest.mark.parametrize(
    ("edit", "key"),
    [
        (figure(runs=["absent"]), "figures.curve.runs"),
        (figure(labels={"absent": "text"}), "figures.curve.labels.absent"),
        (figure(draw="absent"), "figures.curve.draw"),
        (grids, "runs.two.start.run"),
        (run_edit(dataset="absent"), "runs.one.dataset"),
        (run_edit(grid={"seed": []}), "runs.one.grid.seed"),
    ],
)
def test_mistakes_in_figures_starts_and_runs_have_their_line(tmp_path: Path, edit: Edit, key: str) -> None:
    assert_line(tmp_path, config_folder(tmp_path, edit) / "studies" / "small.yaml", key)


def test_mistakes_in_claims_have_their_line(tmp_path: Path) -> None:
    path = config_folder(tmp_path) / "claims" / "small.yaml"
    path.write_text(yaml.safe_dump({"paper": "Nobody", "claims": {"c": {**CLAIM, "figure": "absent"}}}))
    assert_line(tmp_path, path, "claims.c.figure")


def test_mistakes_in_columns_have_their_line(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("x,y\n1,2\n2,3\n", encoding="utf-8")
    path = config_folder(tmp_path / "config") / "datasets.yaml"
    own = {"title": "Own", "task": "regression", "target": "z", "path": "own.csv"}
    path.write_text(yaml.safe_dump({**REGISTRY, "own": own}, sort_keys=False), encoding="utf-8")
    assert_line(path.parent, path, "own.target")


def assert_line(config: Path, path: Path, key: str) -> None:
    """Loading fails with the line that has the last part of the key."""
    with pytest.raises(ConfigError) as caught:
        load_atlas({"studies": ["small"]}, config)
    message = str(caught.value)
    assert key in message
    number = int(message.rpartition("(line ")[2].partition(")")[0])
    assert path.read_text(encoding="utf-8").splitlines()[number - 1].strip().startswith(key.rpartition(".")[2])
