"""The limit on jobs per second, on Snakemake's own classes."""

from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
from snakemake.scheduling.job_scheduler import JobRateLimiter
from snakemake.settings.types import MaxJobsPerTimespan

from bnn_atlas.pipeline.hooks.rate_limit import without_default_limit


def test_the_default_limit_goes() -> None:
    default = get_argument_parser().parse_args([]).max_jobs_per_timespan
    limit = MaxJobsPerTimespan.parse_choice(default) if isinstance(default, str) else default
    scheduler = SimpleNamespace(job_rate_limiter=JobRateLimiter(limit))
    without_default_limit(scheduler)
    assert scheduler.job_rate_limiter is None


@pytest.mark.parametrize("given", ["10/1s", "100/1m"])
def test_a_limit_that_was_given_stays(given: str) -> None:
    limiter = JobRateLimiter(MaxJobsPerTimespan.parse_choice(given))
    scheduler = SimpleNamespace(job_rate_limiter=limiter)
    without_default_limit(scheduler)
    assert scheduler.job_rate_limiter is limiter


def test_no_limit_and_no_scheduler_are_left_alone() -> None:
    scheduler = SimpleNamespace(job_rate_limiter=None)
    without_default_limit(scheduler)
    without_default_limit(None)
    assert scheduler.job_rate_limiter is None
