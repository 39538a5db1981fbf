"""Copies of the repository with a small study, and Snakemake runs in them."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.copies import copy_repository

STUDY = "config/studies/sampling_perspective.yaml"
RESULTS = Path("results/demo")
FIGURES = RESULTS / "figures" / "sampling_perspective"


def small_workspace(destination: Path) -> Path:
    """A copy of the repository whose only study is `small_study.yaml` and which has no claims."""
    copy_repository(destination)
    for study in (destination / STUDY).parent.iterdir():
        study.unlink()
    shutil.copy2(Path(__file__).parent / "small_study.yaml", destination / STUDY)
    settings = destination / "config" / "config.yaml"
    text = re.sub(r"^studies: .*$", f"studies: [{Path(STUDY).stem}]", settings.read_text(encoding="utf-8"), flags=re.M)
    settings.write_text(text, encoding="utf-8")
    shutil.rmtree(destination / "config" / "claims")
    for numbers in (destination / "config" / "published").iterdir():
        if numbers.stem != Path(STUDY).stem:
            numbers.unlink()
    return destination


def snakemake(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Snakemake of this environment in `folder`; its two outputs are one text.

    It is a fork of a process that has imported it already; with another `path` it is a process of its own.
    """
    options = ["--cores", "2", *arguments]
    if path is None:
        return _forked(folder, options)
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), path])}
    command, one = (
        [sys.executable, "-m", "snakemake", *options],
        {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
    )
    return subprocess.run(command, cwd=folder, env=environment, text=True, check=False, **one)


@cache
def _planner() -> subprocess.Popen[str]:
    """The process that is forked for all tests of this one; it ends with its input."""
    command = [sys.executable, "-c", "import planner; planner.serve()"]
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment, pipes = {**os.environ, "PATH": programs}, {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, cwd=Path(__file__).parent, env=environment, text=True, **pipes)


def _forked(folder: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    planner = _planner()
    assert planner.stdin is not None
    assert planner.stdout is not None
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
        planner.stdin.write(json.dumps([str(folder), options, output.name]) + "\n")
        planner.stdin.flush()
        code = planner.stdout.readline()
        assert code, "the process that plans has ended"
        return subprocess.CompletedProcess(options, int(code), output.read())


def dry_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Let Snakemake plan in `folder`."""
    return snakemake(folder, "--dry-run", *arguments)


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """Jobs that Snakemake would run, by rule; `all` and `total` left out."""
    run = dry_run(folder, *arguments)
    assert run.returncode == 0, run.stdout
    table = run.stdout.rpartition("Job stats:")[2].partition("Reasons:")[0]
    jobs = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)}
    return {rule: count for rule, count in jobs.items() if rule not in ("all", "total")}


def add_to_functions(path: Path, statement: str) -> None:
    """Write a module again without its comments, with a statement more at the end of every function."""
    tree = ast.parse(path.read_bytes())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            function.body += ast.parse(statement).body
    path.write_text(ast.unparse(tree), encoding="utf-8")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
