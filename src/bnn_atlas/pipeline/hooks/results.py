"""Existing results count as made, with the records of their jobs."""

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
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


def keep_metadata(results: str) -> None:
    """Let Snakemake believe the record that the job of a result has written (`bnn_atlas.records`), and copy its own.

    Snakemake 9 keeps how a file was made (settings, inputs, time) in `.snakemake/metadata`, as planned by the Snakemake
    that started the job, not as done by the last job that wrote the file; and it stays behind when results are copied,
    so that changed settings go unnoticed. Here the rule, settings and inputs are those in the record. The rest (times,
    hashes of software environments) is in the folder `records` of the results, by paths that do not depend on how the
    results are spelled.

    Snakemake makes a file again when an input has a later modification time, which copying and unpacking change. Here
    an input has changed when its record states another SHA-256 than the result's record does. Files without a record
    that states it count by the time at which they were made, or the one that the file system gives them.

    Args:
        results: of this scale; where they have no such folder, what Snakemake kept before is copied there.
    """
    from snakemake.io import _IOFile
    from snakemake.jobs import Job
    from snakemake.persistence import RECORD_FORMAT_VERSION
    from snakemake.persistence.file import FilePersistence

    from bnn_atlas.pipeline.made import as_metadata
    from bnn_atlas.pipeline.paths import in_metadata
    from bnn_atlas.records import made_by, name_of, stated

    folder = Path(results) / "records"
    begin, read, write, delete, serialize = (
        getattr(FilePersistence, name)
        for name in ("__init__", "_io_read", "_io_write", "_io_delete", "_serialize_param_builtin")
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
        found = {**read(persistence, subject, in_metadata(name, results))}
        if recorded := as_metadata(name, results):
            found |= {**recorded, "input_checksums": {}, "record_format_version": RECORD_FORMAT_VERSION}
        return {**found, "input": _renamed(found.get("input"), results, back=True)} if found else {}

    def io_write(persistence: Any, subject: str, value: Any, name: str, *mode: int) -> None:
        if subject == str(folder):
            value = {**value, "input": _renamed(value["input"], results)}
            name = in_metadata(name, results)
        write(persistence, subject, value, name, *mode)

    def io_delete(persistence: Any, subject: str, name: str) -> bool:
        return bool(delete(persistence, subject, in_metadata(name, results) if subject == str(folder) else name))

    def as_recorded(persistence: Any, value: Any) -> Any:
        text = serialize(persistence, value)
        return repr(json.loads(json.dumps(value))) if isinstance(text, str) else text

    async def output_mintime(job: Any) -> Made | None:
        there = [file for file in job.output if await file.exists()]
        if not there:
            return None
        return Made(min([await made_at(file) for file in there]), made_by(there[0], results).get("inputs", {}))

    async def is_newer(file: Any, made: float) -> bool:
        if file.is_ancient:
            return False
        used = made.used.get(name_of(file, results)) if isinstance(made, Made) else None
        now = stated(file, results) if used else None
        return await made_at(file) > made if now is None else now != used

    FilePersistence.__init__ = init
    FilePersistence._io_read, FilePersistence._io_write, FilePersistence._io_delete = io_read, io_write, io_delete
    FilePersistence._serialize_param_builtin = as_recorded
    Job.output_mintime = property(output_mintime)
    _IOFile.is_newer = is_newer


class Made(float):
    """When a job made its outputs, and the SHA-256 of what it `used`, by name."""

    used: Mapping[str, str]

    def __new__(cls, time: float, used: Mapping[str, str]) -> "Made":
        """The time, with what was used."""
        made = super().__new__(cls, time)
        made.used = used
        return made


def _renamed(paths: Any, results: str, *, back: bool = False) -> list[str] | None:
    from bnn_atlas.pipeline.paths import in_metadata

    return None if paths is None else sorted(in_metadata(path, results, back=back) for path in paths)


async def made_at(file: Any) -> float:
    """When a file was made, as recorded; its modification time where there is no record."""
    record = file.rule.workflow.persistence.metadata(file)
    if record is not None and record.endtime is not None:
        return float(record.endtime)
    return float((await file.mtime()).local_or_storage(follow_symlinks=True))
