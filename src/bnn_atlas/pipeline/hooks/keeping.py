"""Outputs that a job finds finished are not made again."""

from collections.abc import Collection, Sequence
from typing import Any


def keep_outputs(rules: Collection[str], argv: Sequence[str]) -> None:
    """Leave the outputs of these rules to their scripts, which know whether they are finished and up to date.

    Snakemake 9 removes the outputs of a job before it starts, of a job that was interrupted before it can know whether
    they were finished, and of a job that failed. A job can outlive its Snakemake, on this machine or on a cluster, and
    end well: its outputs would be made again. The scripts of these rules write whole files only, hold a lock while they
    work, and leave alone what was made of the same settings, data and code.

    Snakemake's mark of a job that has not been seen to end stays on its outputs until the Snakemake that started it has
    recorded what they were made of, also where the job has failed or the cluster has ended it; such outputs are always
    shown to the script again.

    Args:
        rules: names of rules.
        argv: the command line of Snakemake, `sys.argv`; the Snakemake that runs a job on a cluster has `--mode`.
    """
    from snakemake.jobs import Job
    from snakemake.persistence import PersistenceBase

    remove, clean, finished = Job.remove_existing_output, Job.cleanup, PersistenceBase.finished

    async def remove_existing_output(job: Any) -> None:
        if job.rule.name not in rules:
            await remove(job)
            return
        for file in job.log:
            await file.remove(remove_non_empty_dir=False)

    async def cleanup(job: Any, skip_outputs: Collection[Any]) -> None:
        if job.rule.name not in rules:
            await clean(job, skip_outputs)
            return
        job.dag.workflow.persistence.started(job)

    async def finish(persistence: Any, job: Any) -> None:
        if "--mode" not in argv:
            await finished(persistence, job)

    Job.remove_existing_output, Job.cleanup, PersistenceBase.finished = remove_existing_output, cleanup, finish
