"""Slurm jobs: a check that Slurm is available, made while the Snakefile is read, and the command of a job."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas.logs import FAILED, STARTED
from bnn_atlas.pipeline.hooks import slurm_job

SLURM_TOOLS = ("sbatch", "squeue", "sacct", "sinfo")
"""Commands with which the Slurm executor submits jobs, asks for their status and history, and lists partitions."""

SLURM_JOB = str(Path(slurm_job.__file__))
"""The file that a job's command runs; not a module, since a job's Python may find another copy of this package."""
SNAKEMAKE = "-m snakemake"
"""Part of the job's command that the hook replaces."""
SMALL = "small"
"""Name of all groups of small jobs in `group-components`."""
LONGEST_GROUP = 720
"""Longest run time of a group in minutes, unless one of its jobs may take longer or the profile gives `group_runtime`.

The limits of the jobs add up to far more than the jobs take, and a retry continues where the group was stopped.
"""
EVERY_JOB = "sbatch --signal=TERM@120 --nodes=1 "
"""Start of the command that submits a job; options from the profile or the command line follow, and the last counts.

SIGTERM comes two minutes before the limit: samplers finish their segment, save a checkpoint and end, and the retry
continues from it. It goes to the job's step, where the script runs; with `B:` it would only reach the batch shell,
which has nothing to save. One node also means one task: some clusters give jobs with GPUs several, and a script
would then run several times.
"""

RUNS_NOTHING = re.compile(
    r"-[a-zA-Z]*n[a-zA-Z]*|-l|--dry-?run|--lint|--report(-.*)?|--list(-.*)?|--unlock|--touch|--(d3)?dag"
    r"|--rulegraph|--filegraph|--(detailed-)?summary|--archive|--cleanup-metadata|--delete-(all|temp)-output|--containerize|--conda-.*-only"
)
"""Options of `snakemake` that submit no job."""

ARRAYS = re.compile(r"^(?:--)?slurm-array-jobs\b", re.MULTILINE)
GPU_MODEL = re.compile(r"^[^#\n]*\bgpu_model[:=]\s*['\"]?([\w.]+)", re.MULTILINE)
EXECUTOR_KEY = re.compile(r"^executor:\s*['\"]?([\w-]+)", re.MULTILINE)
PROFILE_FILE = re.compile(r"(profile|config)(\.v\d+\+)?\.yaml")


def require_slurm(
    argv: Sequence[str],
    which: Callable[[str], str | None] = shutil.which,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Stop with a one-line error if Snakemake was told to submit to Slurm in a way that cannot work here.

    Without Slurm's commands, Snakemake 9 with its Slurm plugin 2.8 would start, wait for its first status check and
    fail in some other command, or never end. A Snakefile does not know the executor, so this reads it from the command
    line and from profiles. Inside a Slurm job, Snakemake runs with another executor and passes.

    Args:
        argv: the command line of Snakemake, `sys.argv`.
        which: finds a command on PATH.
        environ: environment variables; `SNAKEMAKE_PROFILE` names a profile when `--profile` is not given.

    Raises:
        SystemExit: names what was asked for, what is missing and what to do.
    """
    arguments = list(argv[1:])
    if any(RUNS_NOTHING.fullmatch(argument.split("=")[0]) for argument in arguments):
        return
    source = slurm_requested_by(arguments, environ)
    if source is None:
        return
    start_once()
    submit_always_with(EVERY_JOB)
    quote_for_shell()
    retry_what_can_help()
    missing = [tool for tool in SLURM_TOOLS if which(tool) is None]
    if missing:
        raise SystemExit(
            f"{source} submits jobs to Slurm, but {', '.join(missing)} cannot be found here: "
            "start Snakemake on a login node of the cluster, or run on this machine with `snakemake --cores 2`."
        )
    files = [file for profile in profiles(arguments, environ) for file in profile.files(environ)]
    texts = [*(file.read_text(encoding="utf-8") for file in files), *arguments]
    if any(ARRAYS.search(text) for text in texts):
        raise SystemExit(
            "slurm-array-jobs is set, but jobs of an array are not told before their limit, so samplers could not save "
            "their chains: leave it out; small jobs share a Slurm job anyway (group-components in slurm/config.yaml)."
        )
    refuse_unknown_gpus(texts)


def refuse_unknown_gpus(texts: Sequence[str]) -> None:
    """Stop with a one-line error if a requested `gpu_model` is not listed by the cluster, which would reject it.

    Args:
        texts: the profiles, and each word of the command line.

    Raises:
        SystemExit: names the model and the types that the cluster has.
    """
    wanted = {model for text in texts for model in GPU_MODEL.findall(text)}
    if not wanted:
        return
    listed = subprocess.run(["sinfo", "--noheader", "--format=%G"], capture_output=True, text=True, check=False)
    types = set(re.findall(r"\bgpu:([^:,()\s]+):\d", listed.stdout))
    if listed.returncode == 0 and (unknown := sorted(wanted - types)):
        found = f"the types {', '.join(sorted(types))}" if types else "GPUs without types"
        raise SystemExit(
            f"gpu_model: {', '.join(unknown)} is asked for, but `sinfo --format=%G` lists {found}: "
            f"{'choose one of them' if types else 'leave gpu_model out, and choose the GPUs by slurm_partition'}."
        )


def start_once() -> None:
    """Let a Slurm job start only one Snakemake process, the one that runs its script, in a step of the job.

    Snakemake's Slurm plugin 2.8 starts two, which both read the whole workflow: the first, with the executor
    `slurm-jobstep`, only calls `srun` to start the second. Here, `slurm_job.py` calls `srun` instead, with the options
    that this executor would give it. Jobs that call `srun` themselves (with a resource `mpi`) and commands that are
    passed as a script keep the first process, which does more for them than call `srun`.
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
        if as_script or job.resources.get("mpi"):
            return command
        gpus = get_gpu_setting(job)
        words = [executor.get_python_executable(), "-I -S", shlex.quote(SLURM_JOB), "step"]
        options = [get_cpu_setting(job, bool(gpus)), gpus, get_node_setting(job)]
        step = command.replace(SNAKEMAKE, shlex.quote(SLURM_JOB), 1).replace(
            str(executor.additional_general_args()), ""
        )
        # The executor puts this between double quotes for a shell, and escapes only double quotes.
        return re.sub(r"[\\$`]", r"\\\g<0>", " ".join([*words, *filter(None, options), step]))

    Executor.format_job_exec = format_job_exec


def submit_always_with(command: str) -> None:
    """Let every submission start with `command` instead of `sbatch `.

    `default-resources` in the profile cannot do this: `--default-resources` on the command line replaces all of it.
    """
    import snakemake_executor_plugin_slurm as plugin

    usual = plugin.get_submit_command

    def get_submit_command(job: Any, *arguments: Any, **named: Any) -> str:
        if job.is_group():
            job._resources = None  # computed before its inputs were made, and some depend on their sizes
            if whole := job.resources.get("runtime"):
                single = max(member.resources.get("runtime", 0) for member in job.jobs)
                most = min(member.resources.get("group_runtime", LONGEST_GROUP) for member in job.jobs)
                job._resources["runtime"] = min(whole, max(single, most))
        return str(usual(job, *arguments, **named)).replace("sbatch ", command, 1)

    plugin.get_submit_command = get_submit_command


def group_jobs(workflow: Any, groups: Mapping[str, Callable[[Any], str]]) -> None:
    """Let connected jobs of a group share a Slurm job, and small groups share one too; only if jobs go to Slurm.

    `group-components: small=16` in the profile says how many runs share one. Snakemake asks for what the jobs that run
    at the same time within `--cores` need, and for the sum of their run times.

    Args:
        workflow: Snakemake's workflow, with all rules.
        groups: rule -> function from a job's wildcards to the name of its group, `small-...` for small jobs.
    """
    if slurm_requested_by(sys.argv[1:], os.environ) is not None:
        for rule, group in groups.items():
            workflow.get_rule(rule).group = partial(_group, group, workflow.parent_groupids)


def _group(group: Callable[[Any], str], parents: dict[str, str], wildcards: Any) -> str:
    """The name of a job's group; that of a small job is registered as one that `group-components` joins with others."""
    name = group(wildcards)
    if name.startswith(f"{SMALL}-"):
        parents[name] = SMALL
    return name


def retry_what_can_help() -> None:
    """Do not retry jobs whose script ended with an error of its own, such as a setting that it refuses.

    Jobs that were killed, ran out of time or lost their node, and those of rules with their own `retries`, are retried.
    """
    from snakemake.jobs import GroupJob, Job

    def restart_times(job: Any) -> int:
        may_be_retried = job.rule._restart_times is not None or not any(map(_failed, job.log))
        return int(job.rule.restart_times) if may_be_retried else 0

    Job.restart_times = property(restart_times)
    GroupJob.restart_times = property(lambda group: min(map(restart_times, group.jobs)))


def _failed(log: str) -> bool:
    """Whether the last attempt in a log ended with an error that the next attempt would meet again."""
    try:
        lines = Path(log).read_text(encoding="utf-8", errors="replace").rpartition(STARTED)[2].splitlines()
    except OSError:
        return False
    return any(line.endswith(FAILED) for line in lines)


def quote_for_shell() -> None:
    """Quote all parts of a job's command for the shell that reads it.

    Snakemake does not quote the interpreter, and quotes values as Python does, so that a shell misreads quotes and
    backslashes in them.
    """
    from snakemake_executor_plugin_slurm import Executor
    from snakemake_interface_executor_plugins import utils  # type: ignore[import-untyped]

    usual, interpreter = utils.format_cli_value, Executor.get_python_executable

    def format_cli_value(value: Any, quote: bool = False, base64_encode: bool = False) -> str:
        if isinstance(value, str) and quote and not base64_encode:
            return shlex.quote(value)
        return usual(value, quote=quote, base64_encode=base64_encode)

    utils.format_cli_value = format_cli_value
    Executor.get_python_executable = lambda executor: shlex.quote(interpreter(executor))


def slurm_requested_by(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The option that chooses the Slurm executor, or None; an executor on the command line overrides profiles.

    Args:
        arguments: the command line without the program.
        environ: environment variables.
    """
    executors = list(option_values(arguments, "--executor", "-e"))
    if executors:
        return f"--executor {executors[-1]}" if executors[-1] == "slurm" else None
    named = [
        (profile.source, executor)
        for profile in profiles(arguments, environ)
        if (executor := profile.executor(environ))
    ]
    return named[-1][0] if named and named[-1][1] == "slurm" else None


def profiles(arguments: Sequence[str], environ: Mapping[str, str]) -> list["Profile"]:
    """The profiles that a command line and the environment name; a later one overrides an earlier one."""
    named = [Profile(f"--profile {name}", name) for name in option_values(arguments, "--profile")]
    if not named and (name := environ.get("SNAKEMAKE_PROFILE")):
        named = [Profile(f"SNAKEMAKE_PROFILE={name}", name)]
    for name in option_values(arguments, "--workflow-profile"):
        named += [Profile(f"--workflow-profile {name}", path) for path in (name, f"profiles/{name}")]
    return named


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


class Profile(NamedTuple):
    """A profile as it is given to Snakemake: a file or a folder."""

    source: str
    """The option that names it."""
    name: str

    def files(self, environ: Mapping[str, str]) -> list[Path]:
        """The profile's files, looked up by path and then in the user's and the site's configuration folders.

        Args:
            environ: environment variables, for the configuration folders.
        """
        user = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
        site = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
        found: list[Path] = []
        for folder in (".", *(f"{parent}/snakemake" for parent in (user, *site))):
            path = Path(folder) / self.name
            found += [path] if path.is_file() else []
            if path.is_dir():
                found += sorted(file for file in path.iterdir() if PROFILE_FILE.fullmatch(file.name))
        return found

    def executor(self, environ: Mapping[str, str]) -> str | None:
        """The executor that it chooses; None if it chooses none or does not exist."""
        matches = (EXECUTOR_KEY.search(file.read_text(encoding="utf-8")) for file in self.files(environ))
        return next((match[1] for match in matches if match), None)
