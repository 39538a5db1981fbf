"""What results were made of is recorded beside them, and a copy, a checkout or `touch` is no change."""

import shutil
from pathlib import Path
from typing import Any


def keep_records(folder: Path) -> None:
    """Keep Snakemake's records of results in a folder, and take the times of results from them.

    Snakemake 9 records what a file was made of (settings, inputs, when) in `.snakemake/metadata`, which stays behind
    when results are copied: changed settings then go unnoticed. And it makes a file again when an input has a later
    modification time, which copying and unpacking change. Here the records are part of the results, and the time of a
    file that has one is the time at which it was made. Files without a record, such as a user's own data, have the
    time that the file system gives them.

    Args:
        folder: for the records of this run; in a clone without it, those that Snakemake kept before are copied there.
    """
    from snakemake.io import _IOFile
    from snakemake.jobs import Job
    from snakemake.persistence.file import FilePersistence

    begin = FilePersistence.__init__

    def init(persistence: Any, *arguments: Any, **named: Any) -> None:
        begin(persistence, *arguments, **named)
        usual = Path(persistence._metadata_path)
        if not folder.exists() and any(usual.iterdir()):
            shutil.copytree(usual, folder)
        folder.mkdir(parents=True, exist_ok=True)
        persistence._metadata_path = str(folder)

    async def output_mintime(job: Any) -> float | None:
        return min([await made_at(file) for file in job.output if await file.exists()], default=None)

    async def is_newer(file: Any, time: float) -> bool:
        return not file.is_ancient and await made_at(file) > time

    FilePersistence.__init__ = init
    Job.output_mintime = property(output_mintime)
    _IOFile.is_newer = is_newer


async def made_at(file: Any) -> float:
    """When a file was made, as recorded; its modification time where there is no record."""
    record = file.rule.workflow.persistence.metadata(file)
    if record is not None and record.endtime is not None:
        return float(record.endtime)
    return float((await file.mtime()).local_or_storage(follow_symlinks=True))
