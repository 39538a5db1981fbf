"""The function of each rule, called with what has names in the rule."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bnn_atlas.pipeline import steps
from bnn_atlas.records import PUBLISHED, DamagedInput, environment, made_by, read, write
from bnn_atlas.sources import PACKAGE

RULES = Path(__file__).parents[3] / "workflow" / "rules"


def scripted() -> dict[str, tuple[str, str]]:
    """Name of each rule with a script, or of the function of rules made in a loop -> the rule's text, its function."""
    text = "\n\n".join(file.read_text(encoding="utf-8") for file in sorted(RULES.glob("*.smk")))
    found = {}
    for block in re.split(r"^(?=[ ]*rule\b)", text, flags=re.MULTILINE):
        if "script:" in block:
            own, given = re.match(r"\s*rule (\w+):", block), re.search(r'step="([\w.]+)"', block)
            function = given[1] if given else steps.FUNCTIONS[own[1]]
            found[own[1] if own else function] = (block.partition("script:")[0], function)
    return found


def test_rules_with_functions_are_those_that_there_are() -> None:
    assert {name for name in scripted() if "." not in name} == set(steps.FUNCTIONS)


@pytest.mark.parametrize("rule", sorted(scripted()))
def test_names_in_a_rule_are_arguments_of_its_function(rule: str) -> None:
    text, function = scripted()[rule]
    module, _, name = function.rpartition(".")
    parameters = inspect.signature(getattr(import_module(f"bnn_atlas.pipeline.steps.{module}"), name)).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    sections = dict(re.findall(r"^ *(input|output|params):\n(.*?)(?=^ *\w+:$)", text, flags=re.MULTILINE | re.DOTALL))
    depth = min(len(line) - len(line.lstrip()) for part in sections.values() for line in part.splitlines() if line)
    files = [
        name
        for part in ("input", "output")
        for name in re.findall(rf"^ {{{depth}}}(\w+)=", sections.get(part, ""), flags=re.MULTILINE)
    ]
    (params,) = ast.parse(f"f({sections.get('params', '').strip()})").body
    calls = [part.value for part in params.value.keywords if part.arg is None]
    given = [part.arg for call in calls if call.func.id in ("named", "told") for part in call.keywords]
    assert files or given
    assert {*files, *given} <= set(parameters)


def job_of(folder: Path, mark: str = "d") -> SimpleNamespace:
    """A job of the rule `table`, as Snakemake passes it to a script."""
    inputs, output = {"tables": [str(folder / "a"), str(folder / "b")]}, {"destination": str(folder / "c")}
    return SimpleNamespace(
        rule="table",
        input=Files(inputs),
        output=Files(output),
        params=Files({"marks": {"marks": mark}, "scale": "demo", "only": {"told:only": "here"}}),
        resources={},
        config={"results": str(folder.parent), "scale": folder.name},
    )


class Files(dict[str, Any]):
    """Files or params with names; looping gives the values."""

    def __iter__(self) -> Iterator[Any]:
        for value in self.values():
            yield from value if isinstance(value, list) else [value]

    def items(self) -> Any:
        return [(name, self[name]) for name in self.keys()]


def test_a_function_gets_the_files_and_params_with_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: dict[str, Any] = {}

    def work(**arguments: Any) -> dict[str, str]:
        given.update(arguments)
        Path(arguments["destination"]).write_text("made")
        return {"kernel": "xla"}

    for name in "ab":
        (tmp_path / name).write_text(name)
    job = job_of(tmp_path)
    named = {"tables": job.input["tables"], "destination": job.output["destination"], "marks": "d", "scale": "demo"}
    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.table", work)
    steps.run(job)
    assert given == {**named, "only": "here"}
    job.params["step"] = "tables.runs_table"
    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.runs_table", lambda **arguments: given.update(other=arguments))
    steps.run(job)
    assert given["other"] == {**named, "only": "here"}


@pytest.mark.parametrize(("rule", "shards"), [("sample", 2), ("predict", 1)])
def test_jobs_that_compute_with_jax_are_configured(monkeypatch: pytest.MonkeyPatch, rule: str, shards: int) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("bnn_atlas.runtime.configure", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(f"bnn_atlas.pipeline.steps.{rule}.{rule}", lambda **arguments: calls.append(arguments))
    posterior = {"float64": True, "data_shards": 2}
    job = SimpleNamespace(
        rule=rule,
        input={},
        output={},
        params={"posterior": {"posterior": posterior}},
        threads=3,
        resources={"gpu": 0},
    )
    steps.run(job)
    assert calls == [(3, "cpu", True, shards), {"posterior": posterior}]


def test_the_record_of_a_job_says_what_made_its_outputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results = tmp_path / "results" / "demo"
    (results / "c").mkdir(parents=True)
    for name in ("a", "b", "c/1", "c/.hidden"):
        (results / name).write_text(name)
    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.table", lambda **_: {"kernel": "xla"})
    steps.run(job_of(results))
    assert set(json.loads((results / ".c.record").read_text())) - {*(record := read(results / ".c.record"))} == {
        "checksum"
    }
    assert record == {
        "rule": "table",
        "settings": [{"marks": "d"}, "demo"],
        "inputs": {name: sha256(name.encode()).hexdigest() for name in "ab"},
        "outputs": {"c": sha256(f"{sha256(b'c/1').hexdigest()}  1\n".encode()).hexdigest()},
        "kernel": "xla",
        **environment(),
    }
    assert record["cache_kib"] == 0 or 8 <= record["cache_kib"] <= 512
    renamed = (tmp_path / "results").rename(tmp_path / "elsewhere") / "demo"
    assert made_by(renamed / "c", renamed) == record
    (renamed / "d").touch()
    steps.run(job := reader(renamed))
    assert read(renamed / ".d.record")["inputs"] == record["outputs"]
    (renamed / "c" / "1").write_text("changed since")
    with pytest.raises(DamagedInput, match=r"demo/c: .*check --config mend=true"):
        steps.run(job)
    monkeypatch.setattr("bnn_atlas.records.LARGE", 0)
    steps.run(job)
    assert read(renamed / ".d.record")["inputs"] == record["outputs"], "taken from its record"


def reader(folder: Path) -> SimpleNamespace:
    """A job that makes `d` from the output of the other one."""
    job = job_of(folder)
    job.input, job.output = Files({"tables": [str(folder / "c")]}), Files({"destination": str(folder / "d")})
    return job


def test_what_an_archive_gave_keeps_its_mark_and_so_does_what_is_made_from_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[str] = []

    def work(destination: str, marks: str, **_: object) -> None:
        made.append(Path(destination).name)
        Path(destination).write_text(marks)

    for name in "ab":
        (tmp_path / name).touch()
    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.table", work)
    steps.run(job_of(tmp_path))
    write(tmp_path / ".c.record", {**read(tmp_path / ".c.record"), PUBLISHED: "abc"})
    steps.run(job_of(tmp_path))
    steps.run(reader(tmp_path))
    assert made == ["c", "d"]
    assert [read(tmp_path / f".{name}.record").get(PUBLISHED) for name in "cd"] == ["abc", "abc"]
    steps.run(job_of(tmp_path, mark="another"))
    steps.run(reader(tmp_path))
    assert [read(tmp_path / f".{name}.record").get(PUBLISHED) for name in "cd"] == [None, None]


def test_a_job_that_is_interrupted_leaves_the_record_of_what_is_still_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / name).touch()
    made = []

    def work(destination: str, **_: object) -> None:
        made.append(destination)
        if len(made) == 2:
            raise KeyboardInterrupt
        Path(destination).write_text("made")

    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.table", work)
    steps.run(job_of(tmp_path))
    before = read(tmp_path / ".c.record")
    with pytest.raises(KeyboardInterrupt):
        steps.run(job_of(tmp_path))
    assert read(tmp_path / ".c.record") == before != {}
    (tmp_path / "c").write_text("damaged")
    steps.run(job_of(tmp_path))
    assert (tmp_path / "c").read_text() == "made"


def test_a_job_that_fails_leaves_no_record_and_the_next_one_clears_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a", "b", ".c.0123abcd", ".other.0123abcd"):
        (tmp_path / name).touch()
    monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.table", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        steps.run(job_of(tmp_path))
    assert (tmp_path / ".c.record").read_text() == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == [".c.record", ".other.0123abcd", "a", "b"]


ORPHAN = """
import sys, time
from pathlib import Path
from bnn_atlas.pipeline import steps
from bnn_atlas.records import environment, made_by
from bnn_atlas.sources import PACKAGE
from bnn_atlas.pipeline.steps import tables
from tests.pipeline.steps.test_steps import job_of

def work(destination, marks, **_):
    print("works", flush=True)
    sys.stdin.readline()
    Path(destination).write_text(str(marks))

tables.table = work
steps.run(job_of(Path(sys.argv[1]), mark=sys.argv[2]))
"""


@pytest.mark.parametrize(("setting", "again"), [("40", True), ("50", False)])
def test_a_job_waits_for_an_orphan_and_keeps_only_what_it_would_make(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str, again: bool
) -> None:
    for name in "ab":
        (tmp_path / name).touch()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", ORPHAN, str(tmp_path), "50"]
    variables = os.environ | {"PYTHONPATH": f"{PACKAGE.parent}{os.pathsep}{RULES.parents[1]}"}
    with subprocess.Popen(command, text=True, env=variables, **pipes) as orphan:
        assert orphan.stdout.readline() == "works\n"
        made = []

        def work(destination: str, marks: str, **_: Any) -> None:
            assert Path(destination).read_text() == "50", "the orphan has ended"
            made.append(Path(destination).write_text(str(marks)))

        monkeypatch.setattr("bnn_atlas.pipeline.steps.tables.table", work)
        monkeypatch.setattr("bnn_atlas.runner.signals.obey", lambda: orphan.communicate("\n"))
        steps.run(job_of(tmp_path, mark=setting))
    assert (tmp_path / "c").read_text() == setting
    assert bool(made) == again
    assert json.loads((tmp_path / ".c.record").read_text())["settings"][0] == {"marks": setting}
