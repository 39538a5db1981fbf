"""Starts the Snakemake that runs a job of Slurm in a step of that job: `python slurm_step.py SRUN-OPTIONS COMMAND`.

A file that Slurm's jobs run, with the standard library only: it takes 0.02 s.
"""

import os
import sys

IDENTITY = ("JOB_ID", "JOBID", "CLUSTER_NAME", "SUBMIT_DIR", "SUBMIT_HOST")
"""What a step needs to know of its job."""
SRUN = ("srun", "-n1", "--cpu-bind=q")
"""One task, on cores that Slurm chooses without saying which."""


def without_defaults(environment: dict[str, str]) -> dict[str, str]:
    """Leave out the options of the job, which `srun` would take for options of the step."""
    kept = {f"SLURM_{name}" for name in IDENTITY}
    return {
        name: value
        for name, value in environment.items()
        if name in kept or not name.startswith(("SLURM_", "SRUN_", "SBATCH_"))
    }


if __name__ == "__main__":
    os.execvpe(SRUN[0], [*SRUN, *sys.argv[1:]], without_defaults(dict(os.environ)))
