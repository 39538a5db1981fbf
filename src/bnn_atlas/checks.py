"""Checks made while the Snakefile is read, so that a missing tool costs one line and no waiting."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

SLURM_TOOLS = ("sbatch", "squeue", "sacct")
"""What the Slurm executor calls for every run: submission, status, and the account of earlier jobs."""

RUNS_NOTHING = re.compile(
    r"-[a-zA-Z]*n[a-zA-Z]*|-l|--dry-?run|--lint|--report(-.*)?|--list(-.*)?|--unlock|--touch|--(d3)?dag"
    r"|--rulegraph|--filegraph|--(detailed-)?summary|--archive|--cleanup-metadata|--delete-(all|temp)-output|--containerize|--conda-.*-only"
)
"""Options of `snakemake` with which no job is submitted."""

EXECUTOR_KEY = re.compile(r"^executor:\s*['\"]?([\w-]+)", re.MULTILINE)
PROFILE_FILE = re.compile(r"(profile|config)(\.v\d+\+)?\.yaml")


def require_slurm(
    argv: Sequence[str],
    which: Callable[[str], str | None] = shutil.which,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Stop with one line if Snakemake was told to submit to Slurm where Slurm's commands are missing.

    Snakemake itself would start, wait for the first status check and then fail on another command, or never end.
    Jobs that Slurm already runs name their own executor (`slurm-jobstep`) and pass.

    :param argv: the command line of Snakemake, `sys.argv`
    :param which: finds a command on PATH
    :param environ: environment variables; `SNAKEMAKE_PROFILE` names a profile when `--profile` is not given
    :raises SystemExit: names what asked for Slurm, what is missing and what to do
    """
    arguments = list(argv[1:])
    if any(RUNS_NOTHING.fullmatch(argument.split("=")[0]) for argument in arguments):
        return
    source = slurm_requested_by(arguments, environ)
    if source is None:
        return
    missing = [tool for tool in SLURM_TOOLS if which(tool) is None]
    if missing:
        raise SystemExit(
            f"{source} submits jobs to Slurm, but {', '.join(missing)} cannot be found here: "
            "start it on a login node of the cluster, or run on this machine with `snakemake --cores 2`."
        )


def slurm_requested_by(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the option that chooses the Slurm executor, or None; an executor on the command line wins over profiles.

    :param arguments: the command line without the program
    :param environ: environment variables
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
    """Yield the values given to an option, as `--name value`, `--name=value` or, with a one-letter name, `-nvalue`."""
    for position, argument in enumerate(arguments):
        for name in names:
            if argument == name:
                yield from arguments[position + 1 : position + 2]
            elif argument.startswith(f"{name}="):
                yield argument.removeprefix(f"{name}=")
            elif len(name) == 2 and argument.startswith(name):
                yield argument.removeprefix(name)


def profile_executor(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the executor that a Snakemake profile chooses, None if it chooses none or is not found.

    A profile is a file or a folder, looked for by path and then in the user's and the site's configuration folders.

    :param name: the profile as given to Snakemake
    :param environ: environment variables, for the configuration folders
    """
    user = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    site = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    for folder in (".", *(f"{parent}/snakemake" for parent in (user, *site))):
        path = Path(folder) / name
        files = [path] if path.is_file() else []
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if PROFILE_FILE.fullmatch(file.name))
        for file in files:
            found = EXECUTOR_KEY.search(file.read_text(encoding="utf-8"))
            if found:
                return found[1]
    return None
