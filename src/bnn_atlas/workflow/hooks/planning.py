"""Plans of thousands of jobs: made in less time, and printed as a summary."""

import warnings
from functools import cache
from typing import Any

LONGEST_LISTED = 50
"""Jobs up to which a dry run lists them one by one."""


def remember_signatures() -> None:
    """Look at the signature of each function in a rule once.

    Snakemake 9 inspects the functions of a rule (inputs, params, resources) again for every job: a tenth of the time
    that a plan of a few thousand jobs takes.
    """
    import snakemake.common
    import snakemake.rules

    remembered = cache(snakemake.common.get_function_params)
    snakemake.common.get_function_params = snakemake.rules.get_function_params = remembered


def remember_paths() -> None:
    """Take the path of each script apart once.

    Snakemake 9 does so three times for every job, to find its copy of the script: a tenth of the time of a plan, too.
    """
    import snakemake.sourcecache

    snakemake.sourcecache.parse_uri = cache(snakemake.sourcecache.parse_uri)


def shorten_plans() -> None:
    """Leave the list of jobs out of a long dry run, which then ends with the numbers of jobs by rule alone.

    Snakemake 9 prints eight lines for each job, 27,000 for the plan of scale paper. `--verbose` brings them back. Its
    warning of a coroutine of its own, where memory depends on files that are not made yet, goes too.
    """
    warnings.filterwarnings("ignore", r"coroutine 'InputFiles\._predicated_size_files", RuntimeWarning)
    from snakemake.executors.dryrun import Executor

    usual = Executor.printjob
    listed: list[bool] = []

    def printjob(executor: Any, job: Any) -> None:
        workflow = executor.workflow
        if not listed:
            jobs = sum(1 for _ in workflow.dag.needrun_jobs())
            listed.append(workflow.output_settings.verbose or jobs <= LONGEST_LISTED)
        if listed[0]:
            usual(executor, job)

    Executor.printjob = printjob
