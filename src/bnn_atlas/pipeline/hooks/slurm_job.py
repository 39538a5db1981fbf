"""What a Slurm job runs: `python slurm_job.py step SRUN-OPTIONS COMMAND`, with a command that calls Snakemake.

`step` starts the command in a step of the job. It takes 0.02 s, since this file imports only the standard library. The
command is `python slurm_job.py OPTIONS`, which does the same as `python -m snakemake OPTIONS` in less time: Snakemake
imports all of its plugins, and the one for submitting jobs, which a job does not need, takes 0.7 s to import pandas.
"""

import os
import pkgutil
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

IDENTITY = ("JOB_ID", "JOBID", "CLUSTER_NAME", "SUBMIT_DIR", "SUBMIT_HOST")
"""What a step needs to know about its job."""
SRUN = ("srun", "-n1", "--cpu-bind=q")
"""One task, on cores that Slurm chooses without saying which."""
LEFT_OUT = "snakemake_executor_plugin_slurm"


def without_defaults(environment: dict[str, str]) -> dict[str, str]:
    """Leave out the job's options, which `srun` would mistake for options of the step."""
    kept = {f"SLURM_{name}" for name in IDENTITY}
    return {
        name: value
        for name, value in environment.items()
        if name in kept or not name.startswith(("SLURM_", "SRUN_", "SBATCH_"))
    }


def run_snakemake() -> None:
    """Become `python -m snakemake` with the arguments of this process, without the plugin that submits jobs."""
    usual = pkgutil.iter_modules

    def iter_modules(*arguments: Any, **named: Any) -> Iterator[pkgutil.ModuleInfo]:
        return (module for module in usual(*arguments, **named) if module.name != LEFT_OUT)

    pkgutil.iter_modules = iter_modules
    sys.path[0] = str(Path.cwd())
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["step"]:
        os.execvpe(SRUN[0], [*SRUN, *sys.argv[2:]], without_defaults(dict(os.environ)))
    run_snakemake()
