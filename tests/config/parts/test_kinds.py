"""Kinds of figures are found in their files, and say what they need without being imported."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.parts.figures import Kind, kinds


def written(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""A module."""\n\n{text}\n\n\ndef {path.stem}(): ...\n')
    return folder


def test_kinds_are_modules_with_the_literal(tmp_path: Path) -> None:
    cloud = 'KIND = {"sections": ["grid"], "files": ["sets"], "runs": "one", "columns": "x y"}'
    folder = written(
        tmp_path, kinds__cloud=cloud, study__rows='KIND = {"output": "table", "columns": "x"}', study__helpers="x = 1"
    )
    assert kinds(folder) == {
        name: Kind.model_validate({"name": name, "module": f"bnn_atlas.figures.{module}.{name}", **needs})
        for name, module, needs in (
            ("cloud", "kinds", {"sections": ["grid"], "files": ["sets"], "runs": "one", "columns": "x y"}),
            ("rows", "study", {"output": "table", "columns": "x"}),
        )
    }
    assert kinds(folder)["rows"].endings == ("tex", "csv")


def test_a_module_may_hold_several_kinds(tmp_path: Path) -> None:
    text = 'KINDS = {"low": {"runs": "one", "columns": "x"}, "high": {"columns": "x"}}\nlow = high = drawn()'
    found = kinds(written(tmp_path, kinds__both=text))
    assert {name: (kind.runs, kind.module) for name, kind in found.items()} == {
        "low": ("one", "bnn_atlas.figures.kinds.both"), "high": ("some", "bnn_atlas.figures.kinds.both"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (
            dict.fromkeys(("kinds__cloud", "study__cloud"), 'KIND = {"columns": "x"}'),
            "figures.kinds.cloud already has a kind of figure 'cloud'",
        ),
        ({"kinds__cloud": "KIND = {}"}, "columns"),
        ({"kinds__cloud": "KIND = make()"}, "read without running the code"),
        ({"kinds__cloud": 'KIND = {"section": ["grid"]}'}, r"unknown key 'section' \(did you mean 'sections'\?\)"),
        ({"kinds__cloud": 'KIND = {"files_if_any": ["table"]}'}, "every run has the file 'table'; name it in files"),
        ({"kinds__cloud": 'KIND = {"files": ["tabel"]}'}, r"no such file of a run \(did you mean 'table'\?\)"),
    ],
)
def test_what_is_wrong_with_a_kind_is_named(tmp_path: Path, modules: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        kinds(written(tmp_path, **modules))
    assert "cloud.py" in str(caught.value)


def test_a_kind_needs_a_function_with_the_name_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "kinds").mkdir()
    file = tmp_path / "kinds/interval_scores.py"
    file.write_text('"""A module."""\n\nKIND = {}\n\n\ndef interval_score(): ...\n')
    with pytest.raises(ConfigError, match=r"no function 'interval_scores'.*did you mean 'interval_score'\?") as caught:
        kinds(tmp_path)
    assert str(file) in str(caught.value)
    file.write_text('"""A module."""\n\nKIND = {"columns": "x"}\n\ninterval_scores = drawn(by="dataset")\n')
    assert list(kinds(tmp_path)) == ["interval_scores"]


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_each_kind_of_the_repository_has_a_function_of_its_name(kind: Kind) -> None:
    assert callable(getattr(import_module(kind.module), kind.name))


def test_the_rules_import_neither_matplotlib_nor_jax() -> None:
    code = (
        "import sys, bnn_atlas.pipeline.figures, bnn_atlas.pipeline.claims\n"
        "from bnn_atlas.config.parts.figures import kinds; kinds()\n"
        "print([name for name in ('matplotlib', 'jax', 'pandas', 'rpy2') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
