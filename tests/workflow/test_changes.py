"""A plan says which runs are made again because their settings changed, and through which anchor."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bnn_atlas.config.settings import load_atlas
from bnn_atlas.workflow.changes import SHARED, changes_text
from tests.config.folders import REGISTRY
from tests.config.language.test_anchors import STUDY

SNAKEFILE = """
from bnn_atlas.workflow.hooks import announce_changes
announce_changes(lambda changed: "".join(f"{run} {sorted(names)};" for run, names in sorted(changed.items())))
rule all:
    input: expand("small/{run}/split0/draws", run=["one", "two", "three"])
rule sample:
    input: lambda w: f"warmstarts/data-{config.get('start', 1)}.npz"
    output: "{study}/{run}/split0/draws"
    params:
        {"src/code.py": config.get("code", "1")},
        lambda w: {"posterior.prior": {"scale": config.get("scale", 1) if w.run != "three" else 1, "loc": 0}},
        lambda w: {"seed": 0},
    shell: "touch {output}"
rule warmstart:
    output: "warmstarts/data-{key}.npz"
    params:
        lambda w: {"warmstart": {"kind": "adam", "learning_rate": int(w.key) / 10}},
    shell: "touch {output}"
"""


def atlas_in(folder: Path) -> tuple[object, Path]:
    (folder / "studies").mkdir()
    (folder / "studies" / "small.yaml").write_text(STUDY, encoding="utf-8")
    (folder / "datasets.yaml").write_text(yaml.safe_dump(REGISTRY), encoding="utf-8")
    return load_atlas({"studies": "small"}, folder), folder / "studies"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {
                "one": {"posterior.prior.scale"},
                "two": {"posterior.prior.scale"},
                "four": {"posterior.prior.scale", "method.epochs"},
            },
            [
                "Settings changed since the results of small were made: prior.scale of one, two; "
                "method.epochs, prior.scale of four",
                "  the anchor 'wide' of runs.one is also used by two, four",
            ],
        ),
        (
            {"two": {"method.kind"}},
            ["Settings changed since the results of small were made: method.kind of two"],
        ),
        (
            {"one": {"training.max_epochs"}, "two": {"training.max_epochs"}},
            [
                "Settings changed since the results of small were made: warmstart.max_epochs of one, two",
                "  the anchor 'epochs' of runs.one is also used by two",
            ],
        ),
        (
            {"one": {"method.step_size"}, "two": {"method.step_size"}},
            [
                "Settings changed since the results of small were made: method.step_size of one, two",
                "  the anchor 'one' of runs.one is also used by two",
            ],
        ),
        ({"one": {SHARED}}, [f"Settings changed since the results of small were made: {SHARED} of one"]),
        ({}, []),
    ],
)
def test_runs_and_anchors_are_named(tmp_path: Path, changed: dict[str, set[str]], said: list[str]) -> None:
    atlas, studies = atlas_in(tmp_path)
    text = changes_text(atlas, studies, {("small", run): names for run, names in changed.items()})  # type: ignore[arg-type]
    assert text.splitlines() == said


def test_a_plan_begins_with_them(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
        shown = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout + shown.stderr

    run("--quiet", "all")
    assert "Job stats" not in run("--dry-run")
    planned = run("--dry-run", "--config", "scale=2", "code=2")
    before, _, after = planned.partition("Job stats:")
    assert "('small', 'one') ['posterior.prior.scale'];('small', 'two') ['posterior.prior.scale'];" in before
    assert "'three'" not in before
    assert "sample" in after
    assert "posterior.prior.scale from 1 to 2" in planned, planned
    assert "'loc'" not in planned
    assert "('small', 'three') ['warmstart.learning_rate'];" in run("--dry-run", "--config", "start=2")
    run("--cleanup-metadata", "warmstarts/data-1.npz")
    assert f"('small', 'three') ['{SHARED}'];" in run("--dry-run", "--config", "start=2")
