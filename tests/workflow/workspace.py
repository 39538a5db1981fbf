"""Copies of the repository with a small study, and Snakemake runs in them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.copies import copy_repository

STUDY = "config/studies/sampling_perspective.yaml"


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
    return destination


def snakemake(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Snakemake of this environment in `folder`; its two outputs are one text."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), path or os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": programs},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """Jobs that Snakemake would run, by rule; `all` and `total` left out."""
    run = snakemake(folder, "--dry-run", *arguments)
    assert run.returncode == 0, run.stdout
    table = run.stdout.rpartition("Job stats:")[2].partition("Reasons:")[0]
    jobs = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)}
    return {rule: count for rule, count in jobs.items() if rule not in ("all", "total")}
