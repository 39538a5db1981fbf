"""Snakemake's scheduler, kept from taking a core of its own in long runs."""

from typing import Any

DEFAULT_LIMIT = (100, 1)
"""Jobs and seconds of `--max-jobs-per-timespan` where a user gives none."""


def without_default_limit(scheduler: Any) -> None:
    """Take Snakemake's default limit of 100 jobs a second off its scheduler; a limit that a user gave stays.

    For that limit Snakemake 9 looks through all jobs that are ready once a second, and from then on once more for every
    job that has ended: after a few hundred jobs it does nothing else. Nothing here starts 100 jobs in a second, and
    Slurm's `sbatch` takes longer for each.
    """
    limiter = getattr(scheduler, "job_rate_limiter", None)
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == DEFAULT_LIMIT:
        scheduler.job_rate_limiter = None
