"""Keeps Snakemake's scheduler from using a whole core in long runs."""

from typing import Any

DEFAULT_LIMIT = (100, 1)
"""Jobs and seconds of `--max-jobs-per-timespan` unless a user gives another limit."""


def without_default_limit(scheduler: Any) -> None:
    """Remove Snakemake's default limit of 100 jobs a second from its scheduler; a limit that a user gave stays.

    Because of that limit Snakemake 9 goes through all jobs that are ready once a second, and once more for every job
    that has ended: after a few hundred jobs it does nothing else. No run of this pipeline starts 100 jobs in a second,
    and Slurm's `sbatch` takes longer for each.
    """
    limiter = getattr(scheduler, "job_rate_limiter", None)
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == DEFAULT_LIMIT:
        scheduler.job_rate_limiter = None
