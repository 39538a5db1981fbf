"""Slurm jobs: a check that Slurm is available, made while the Snakefile is read, and the command of a job."""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.pipeline.hooks import slurm_job

SLURM_TOOLS = ("sbatch", "squeue", "sacct")
"""Commands that the Slurm executor calls in every run: submission, status, and the account of earlier jobs."""

SLURM_JOB = str(Path(slurm_job.__file__))
"""The file that a job's command runs; not a module, since a job's Python may find another copy of this package."""
SNAKEMAKE = "-m snakemake"
"""Part of the job's command that the hook replaces."""

RUNS_NOTHING = re.compile(
    r"-[a-zA-Z]*n[a-zA-Z]*|-l|--dry-?run|--lint|--report(-.*)?|--list(-.*)?|--unlock|--touch|--(d3)?dag"
    r"|--rulegraph|--filegraph|--(detailed-)?summary|--archive|--cleanup-metadata|--delete-(all|temp)-output|--containerize|--conda-.*-only"
)
"""Options of `snakemake` that submit no job."""

EXECUTOR_KEY = re.compile(r"^executor:\s*['\"]?([\w-]+)", re.MULTILINE)
PROFILE_FILE = re.compile(r"(profile|config)(\.v\d+\+)?\.yaml")


def require_slurm(
    argv: Sequence[str],
    which: Callable[[str], str | None] = shutil.which,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Stop with one line if Snakemake was told to submit to Slurm on a machine without Slurm's commands.

    Snakemake 9 with its Slurm plugin 2.8 would start, wait for the first status check and then fail in some other
    command, or never end. A Snakefile does not know the executor, so it is read from the command line and from
    profiles. The Snakemake of a job that Slurm already runs has another executor and passes.

    Args:
        argv: the command line of Snakemake, `sys.argv`.
        which: finds a command on PATH.
        environ: environment variables; `SNAKEMAKE_PROFILE` names a profile when `--profile` is not given.

    Raises:
        SystemExit: names what asked for Slurm, what is missing and what to do.
    """
    arguments = list(argv[1:])
    if any(RUNS_NOTHING.fullmatch(argument.split("=")[0]) for argument in arguments):
        return
    source = slurm_requested_by(arguments, environ)
    if source is None:
        return
    start_once()
    missing = [tool for tool in SLURM_TOOLS if which(tool) is None]
    if missing:
        raise SystemExit(
            f"{source} submits jobs to Slurm, but {', '.join(missing)} cannot be found here: "
            "start it on a login node of the cluster, or run on this machine with `snakemake --cores 2`."
        )


def start_once() -> None:
    """Let a Slurm job start only one Snakemake process, the one that runs its script, in a step of the job.

    Snakemake's Slurm plugin 2.8 starts two, which both read the whole workflow: the first, with the executor
    `slurm-jobstep`, only calls `srun` to start the second. Here, `slurm_job.py` calls `srun` instead, with the options
    that this executor would give it. Job arrays, jobs that call `srun` themselves (with a resource `mpi`) and commands
    that are passed as a script keep the first process, which has more to do for them.
    """
    from snakemake_executor_plugin_slurm import Executor  # type: ignore[import-untyped]
    from snakemake_executor_plugin_slurm_jobstep import (  # type: ignore[import-untyped]
        get_cpu_setting,
        get_gpu_setting,
        get_node_setting,
    )

    usual = Executor.format_job_exec

    def format_job_exec(executor: Any, job: Any) -> str:
        command = str(usual(executor, job))
        as_script = executor.workflow.executor_settings.pass_command_as_script
        if executor.array_jobs or as_script or job.resources.get("mpi"):
            return command
        gpus = get_gpu_setting(job)
        words = [executor.get_python_executable(), "-I", "-S", SLURM_JOB, "step"]
        options = [get_cpu_setting(job, bool(gpus)), gpus, get_node_setting(job)]
        step = command.replace(SNAKEMAKE, shlex.quote(SLURM_JOB), 1).replace(
            str(executor.additional_general_args()), ""
        )
        return " ".join([*map(shlex.quote, words), *filter(None, options), step])

    Executor.format_job_exec = format_job_exec


def slurm_requested_by(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The option that chooses the Slurm executor, or None; an executor on the command line overrides profiles.

    Args:
        arguments: the command line without the program.
        environ: environment variables.
    """
    executors = list(option_values(arguments, "--executor", "-e"))
    if executors:
        return f"--executor {executors[-1]}" if executors[-1] == "slurm" else None
    profiles = [(f"--profile {name}", name) for name in option_values(arguments, "--profile")]
    if not profiles and environ.get("SNAKEMAKE_PROFILE"):
        name = environ["SNAKEMAKE_PROFILE"]
        profiles = [(f"SNAKEMAKE_PROFILE={name}", name)]
    for name in option_values(arguments, "--workflow-profile"):
        profiles += [(f"--workflow-profile {name}", name), (f"--workflow-profile {name}", f"profiles/{name}")]
    chosen = [(source, executor) for source, name in profiles if (executor := profile_executor(name, environ))]
    return chosen[-1][0] if chosen and chosen[-1][1] == "slurm" else None


def option_values(arguments: Sequence[str], *names: str) -> Iterator[str]:
    """Values given to an option, as `--name value`, `--name=value` or, with a one-letter name, `-nvalue`."""
    for position, argument in enumerate(arguments):
        for name in names:
            if argument == name:
                yield from arguments[position + 1 : position + 2]
            elif argument.startswith(f"{name}="):
                yield argument.removeprefix(f"{name}=")
            elif len(name) == 2 and argument.startswith(name):
                yield argument.removeprefix(name)


def profile_executor(name: str, environ: Mapping[str, str]) -> str | None:
    """The executor that a Snakemake profile chooses; None if it chooses none or does not exist.

    A profile is a file or a folder, looked up by path and then in the user's and the site's configuration folders.

    Args:
        name: the profile as given to Snakemake.
        environ: environment variables, for the configuration folders.
    """
    user = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    site = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    for folder in (".", *(f"{parent}/snakemake" for parent in (user, *site))):
        path = Path(folder) / name
        files = [path] if path.is_file() else []
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if PROFILE_FILE.fullmatch(file.name))
        for file in files:
            if match := EXECUTOR_KEY.search(file.read_text(encoding="utf-8")):
                return match[1]
    return None
