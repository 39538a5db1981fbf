"""Checks made while the Snakefile is read."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_executor_plugin_slurm import Executor
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.settings import SharedFSUsage

from bnn_atlas.pipeline.hooks import slurm_job
from bnn_atlas.pipeline.hooks.slurm import require_slurm, slurm_requested_by, start_once


def nowhere(command: str) -> None:
    return None


def everywhere(command: str) -> str:
    return f"/usr/bin/{command}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two profiles, and another in the user's configuration."""
    profiles = {
        "slurm/config.yaml": "__use_yte__: true\nexecutor: slurm\njobs: 3\n",
        "here/profile.v9+.yaml": "cores: 2\nexecutor: 'local' # no cluster\n",
        "plain.yaml": "cores: 2\n",
        "profiles/site/config.yaml": "executor: slurm\n",
        "home/snakemake/cluster/config.v8+.yaml": 'jobs: 3\nexecutor: "slurm"\n',
    }
    for name, text in profiles.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "--cores 12 --profile slurm",
        "--cores 12 --profile=slurm/config.yaml",
        "--profile plain.yaml --profile slurm",
        "--workflow-profile site",
        "--profile cluster --jobs 4",
        "--executor slurm --jobs 4",
        "--executor=slurm",
        "-e slurm",
        "-eslurm",
        "--profile here -e slurm cumulative_lppd",
    ],
)
def test_slurm_without_its_commands_is_one_line(arguments: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        require_slurm(["snakemake", *arguments.split()], nowhere)
    message = str(stopped.value)
    assert "\n" not in message
    assert "sbatch, squeue, sacct" in message
    assert "snakemake --cores 2" in message
    require_slurm(["snakemake", *arguments.split()], everywhere)


def test_message_names_what_asked_and_what_is_missing() -> None:
    def only_sbatch(command: str) -> str | None:
        return everywhere(command) if command == "sbatch" else None

    with pytest.raises(SystemExit, match=r"^--profile slurm submits .* but squeue, sacct cannot be found here"):
        require_slurm(["snakemake", "--profile", "slurm"], only_sbatch)


@pytest.mark.parametrize(
    "arguments",
    [
        "--cores 2",
        "--cores 2 slurm",
        "--cores 2 --profile here",
        "--cores 2 --profile plain.yaml",
        "--cores 2 --profile missing",
        "--profile slurm --profile here",
        "--profile slurm --executor local",
        "--profile slurm -n",
        "--profile slurm -np",
        "--profile slurm --dry-run=all",
        "--profile slurm --lint",
        "--profile slurm --unlock",
        "--executor slurm-jobstep --jobs 1 --mode remote",
    ],
)
def test_silent_where_nothing_is_submitted(arguments: str) -> None:
    require_slurm(["snakemake", *arguments.split()], nowhere)


def test_profile_of_the_environment() -> None:
    environ = {"SNAKEMAKE_PROFILE": "slurm"}
    assert slurm_requested_by(["--cores", "2"], environ) == "SNAKEMAKE_PROFILE=slurm"
    assert slurm_requested_by(["--profile", "none"], environ) is None
    assert slurm_requested_by(["--executor", "slurm-jobstep"], environ) is None


class Resources(SimpleNamespace):
    """Resources of a job, as Snakemake gives them to executors."""

    def get(self, name: str) -> object:
        return vars(self).get(name)

    def keys(self) -> list[str]:
        return list(vars(self))


def command_of_a_job(
    monkeypatch: pytest.MonkeyPatch, resources: Resources, *, arrays: bool = False, as_script: bool = False
) -> str:
    """The command that the executor gives to `sbatch`, with what Snakemake's own part of it would be."""

    def usual(executor: Executor, job: object) -> str:
        general = executor.additional_general_args()
        return f"{sys.executable} -m snakemake --target-jobs 'one:n=1' {general} --mode 'remote'"

    monkeypatch.setattr(RealExecutor, "format_job_exec", usual)
    monkeypatch.setattr(Executor, "format_job_exec", usual)
    start_once()
    executor = object.__new__(Executor)
    executor.array_jobs = {"one"} if arrays else set()
    executor.workflow = SimpleNamespace(
        executor_settings=SimpleNamespace(pass_command_as_script=as_script),
        storage_settings=SimpleNamespace(shared_fs_usage=frozenset(SharedFSUsage)),
    )
    return str(Executor.format_job_exec(executor, SimpleNamespace(threads=3, resources=resources)))


def test_a_job_starts_one_snakemake_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command_of_a_job(monkeypatch, Resources(gpu=1, nodes=1)))
    assert words == [
        *(sys.executable, "-I", "-S", slurm_job.__file__, "step", "--cpus-per-task=3", "--gpus=1", "--nodes=1"),
        *(sys.executable, slurm_job.__file__, "--target-jobs", "one:n=1", "--mode", "remote"),
    ]


@pytest.mark.parametrize(
    "changes", [{"arrays": True}, {"as_script": True}, {"resources": Resources(mpi="srun")}], ids=str
)
def test_jobs_for_which_the_first_snakemake_has_more_to_do(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    words = shlex.split(command_of_a_job(monkeypatch, **{"resources": Resources(), **changes}))
    assert words[:3] == [sys.executable, "-m", "snakemake"]
    assert words[words.index("--executor") + 1] == "slurm-jobstep"


def test_a_step_gets_the_options_of_its_command_only(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\necho "$@"\nenv\n')
    srun.chmod(0o755)
    given = {
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "9",
        "SBATCH_GPUS": "2",
        "SRUN_DEBUG": "3",
        "BNN_ATLAS_CACHE": "c",
    }
    command = [sys.executable, "-I", "-S", slurm_job.__file__, "step", "--cpus-per-task=1", "echo", "two words"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **given}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, *variables = done.stdout.splitlines()
    assert first == "-n1 --cpu-bind=q --cpus-per-task=1 echo two words"
    assert [name for name in given if f"{name}={given[name]}" in variables] == ["SLURM_JOB_ID", "BNN_ATLAS_CACHE"]


def test_a_job_runs_without_what_only_submitting_needs(folder: Path) -> None:
    (folder / "Snakefile").write_text(
        "import sys\n\nrule one:\n    output: '{n}.txt'\n    script: 'one.py'\n\nonstart:\n    print(sys.argv)\n"
        "print('pandas' in sys.modules, sys.path[0])\n"
    )
    (folder / "one.py").write_text("open(snakemake.output[0], 'w').write(snakemake.wildcards.n)")
    command = [sys.executable, slurm_job.__file__, "--cores", "1", "--target-jobs", "one:n=5", "--allowed-rules", "one"]
    command += ["--force", "--nolock", "--mode", "remote"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "5.txt").read_text() == "5"
    assert done.stdout.splitlines()[0] == f"False {folder}"
