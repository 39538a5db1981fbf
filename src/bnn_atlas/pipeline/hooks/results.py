"""Existing results count as made, with Snakemake's records of what they were made from."""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any


def keep_outputs(rules: Collection[str], argv: Sequence[str]) -> None:
    """Leave the outputs of these rules to their scripts, which know whether they are finished and up to date.

    Snakemake 9 removes the outputs of every job that it is about to start, of jobs that were interrupted (without
    checking whether the outputs were finished), and of jobs that failed. But a job can outlive the Snakemake that
    started it, on this machine or on a cluster, and still succeed; its outputs would then be made a second time. The
    scripts of these rules write only complete files, hold a lock while they work, and leave alone whatever was made
    from the same settings, data and code.

    Snakemake marks the outputs of a job as incomplete until it has seen the job end. Here the mark stays until the
    Snakemake that started the job has recorded what they were made from, even if the job failed or the cluster killed
    it. The script always gets to check marked outputs again.

    Of a job that `--touch` only pretends to run, Snakemake also records outputs that do not exist; here it does not.

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
        if "--mode" in argv:
            return
        if all([await file.exists() for file in job.output]):
            await finished(persistence, job)
        else:  # with --touch
            for file in job.output:
                persistence._unmark_incomplete(persistence._get_key(file))

    Job.remove_existing_output, Job.cleanup, PersistenceBase.finished = remove_existing_output, cleanup, finish


def keep_records(results: str) -> None:
    """Keep Snakemake's records in the folder `records` of the results, and take the times of results from them.

    Snakemake 9 records how a file was made (settings, inputs, time) in `.snakemake/metadata`, which stays behind when
    results are copied: changed settings then go unnoticed. And it makes a file again when an input has a later
    modification time, which copying and unpacking change. Here the records are part of the results, and the time of a
    file that has one is the time at which it was made. Files without a record, such as a user's own data, have the time
    that the file system gives them. Records know files by their paths below the results, however these are spelled; a
    file without one has the settings that its job recorded next to it (`bnn_atlas.records`).

    Args:
        results: of this scale; where they have no records, those that Snakemake kept before are copied there.
    """
    from snakemake.io import _IOFile
    from snakemake.jobs import Job
    from snakemake.persistence import RECORD_FORMAT_VERSION
    from snakemake.persistence.file import FilePersistence

    from bnn_atlas.pipeline.paths import in_records
    from bnn_atlas.records import made_by

    folder = Path(results) / "records"
    begin, read, write, delete = (
        getattr(FilePersistence, name) for name in ("__init__", "_io_read", "_io_write", "_io_delete")
    )

    def init(persistence: Any, *arguments: Any, **named: Any) -> None:
        begin(persistence, *arguments, **named)
        usual = Path(persistence._metadata_path)
        if not folder.exists() and any(usual.iterdir()):
            shutil.copytree(usual, folder)
        folder.mkdir(parents=True, exist_ok=True)
        persistence._metadata_path = str(folder)

    def io_read(persistence: Any, subject: str, name: str) -> dict[str, Any]:
        if subject != str(folder):
            return dict(read(persistence, subject, name))
        if record := read(persistence, subject, in_records(name, results)):
            return {**record, "input": _renamed(record.get("input"), results, back=True)}
        if "settings" in (own := made_by(name, results)):
            params = sorted(map(repr, own["settings"]))
            return {"rule": own["rule"], "params": params, "record_format_version": RECORD_FORMAT_VERSION}
        return {}

    def io_write(persistence: Any, subject: str, value: Any, name: str, *mode: int) -> None:
        if subject == str(folder):
            value = {**value, "input": _renamed(value["input"], results)}
            name = in_records(name, results)
        write(persistence, subject, value, name, *mode)

    def io_delete(persistence: Any, subject: str, name: str) -> bool:
        return bool(delete(persistence, subject, in_records(name, results) if subject == str(folder) else name))

    async def output_mintime(job: Any) -> float | None:
        return min([await made_at(file) for file in job.output if await file.exists()], default=None)

    async def is_newer(file: Any, time: float) -> bool:
        return not file.is_ancient and await made_at(file) > time

    FilePersistence.__init__ = init
    FilePersistence._io_read, FilePersistence._io_write, FilePersistence._io_delete = io_read, io_write, io_delete
    Job.output_mintime = property(output_mintime)
    _IOFile.is_newer = is_newer


def _renamed(paths: Any, results: str, *, back: bool = False) -> list[str] | None:
    from bnn_atlas.pipeline.paths import in_records

    return None if paths is None else sorted(in_records(path, results, back=back) for path in paths)


async def made_at(file: Any) -> float:
    """When a file was made, as recorded; its modification time where there is no record."""
    record = file.rule.workflow.persistence.metadata(file)
    if record is not None and record.endtime is not None:
        return float(record.endtime)
    return float((await file.mtime()).local_or_storage(follow_symlinks=True))
