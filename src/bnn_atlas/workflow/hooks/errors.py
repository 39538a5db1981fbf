"""Errors of failed jobs, printed once."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bnn_atlas.logs import STARTED


def shorten_errors() -> None:
    """Print of a failed job's log only the last attempt, and no message where Snakemake has none.

    Snakemake 9 prints `message: None`, and the whole log: with the errors of earlier attempts, which it has printed.
    """
    import snakemake.logging as target

    usual_logs, usual_error = target.show_logs, target.DefaultFormatter._format_job_error

    def show_logs(logs: Iterable[str]) -> Iterator[str]:
        for log in logs:
            lines = list(usual_logs([log]))
            starts = [i for i, line in enumerate(lines) if line.endswith(STARTED)]
            yield from (lines[:2] + lines[starts[-1] :] if Path(log).is_file() and starts else lines)

    def format_job_error(formatter: Any, message: dict[str, Any]) -> list[str]:
        return [line for line in usual_error(formatter, message) if line != "    message: None"]

    target.show_logs, target.DefaultFormatter._format_job_error = show_logs, format_job_error
