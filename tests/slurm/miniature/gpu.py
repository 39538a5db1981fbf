"""Adds one line for each time that it is run: the number of tasks of its job and the GPUs that it has."""

# ruff: noqa: F821 (Snakemake defines `snakemake`)

import os
import subprocess
from pathlib import Path

job = subprocess.run(
    ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]], capture_output=True, text=True, check=True
).stdout
(tasks,) = [field for field in job.split() if field.startswith("NumTasks=")]
with Path(snakemake.params.tasks).open("a", encoding="utf-8") as lines:
    lines.write(f"{tasks} gpus={os.environ['SLURM_GPUS_ON_NODE']}\n")
Path(snakemake.output[0]).touch()
