"""What Snakemake prints about this workflow: short plans, changed settings, each error once, and the remaining time.

A logger plugin for Snakemake, chosen in profiles/default. Every Snakemake in this environment imports it before it
reads a Snakefile, so this module imports nothing from `bnn_atlas` before it is used.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from logging import LogRecord
from pathlib import Path
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFormatter, logger, show_logs
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

LONGEST_LISTED = 50
"""Largest number of jobs that a dry run lists one by one."""


class LogHandler(LogHandlerBase):
    """Writes to the same place as Snakemake's own handler, with its colours and its filter."""

    describe: Callable[[Mapping[tuple[str, str], set[str]]], str] = staticmethod(lambda changed: "")
    """Makes a text from (study, run) -> names of changed settings; set by the Snakefile."""
    refusal: Callable[[], str] = staticmethod(lambda: "")
    """Says what is wrong with the targets of this run; set by the Snakefile."""
    writes_to_stream, writes_to_file = True, False
    has_filter, has_formatter = False, True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        self.formatter = Formatter(settings.quiet)
        if settings.show_failed_logs:
            logger.addFilter(read_logs)
        self._console = ColorizingTextHandler(settings.nocolor, stream, self.formatter)
        self._jobs = 0
        self._changed: dict[tuple[str, str], set[str]] = {}

    def emit(self, record: LogRecord) -> None:
        """Write a record, unless it is about one of the many jobs of a long dry run.

        An error here is printed but does not propagate, since the thread that calls this prints the messages of the
        whole run.
        """
        try:
            self._print(record)
        except Exception:
            self.handleError(record)

    def _print(self, record: LogRecord) -> None:
        event, settings = getattr(record, "event", None), self.common_settings
        match event:
            case LogEvent.RUN_INFO:
                self._jobs = record.stats["total"]  # type: ignore[attr-defined]
                if text := self.describe(self._changed):
                    record.msg = f"{text}\n\n{record.msg}"
            case LogEvent.ERROR:
                record.msg = self.refusal() or record.msg
            case LogEvent.JOB_INFO if settings.dryrun:
                self._remember(record)
                if self._jobs > LONGEST_LISTED and not settings.verbose:
                    return
        self._console.emit(record)

    def _remember(self, record: Any) -> None:
        from bnn_atlas.pipeline.changes import changed_names

        place = tuple(record.wildcards.get(name) for name in ("study", "run"))
        if all(place) and (names := changed_names(record.rule_name, record.reason)):
            self._changed.setdefault(place, set()).update(names)


class Formatter(DefaultFormatter):
    """Snakemake's formatter, but reasons name single settings, and of a log only the last attempt is shown."""

    def __init__(self, quiet: Any) -> None:
        super().__init__(quiet, show_failed_logs=False)
        self._begun: float | None = None

    def format_job_info(self, msg: dict[str, Any]) -> str:
        """The reason names the settings that changed, instead of the sections that they are in."""
        from bnn_atlas.pipeline.changes import shortened

        return str(super().format_job_info({**msg, "reason": shortened(msg["reason"])}))

    def format_progress(self, msg: dict[str, Any]) -> str:
        """The steps that are done, and the time for the others if they take as long on average."""
        done, total, text = msg["done"], msg["total"], str(super().format_progress(msg))
        now = time.monotonic()
        self._begun, first = (now, True) if self._begun is None else (self._begun, False)
        left = (now - self._begun) / max(done - 1, 1) * (total - done)
        return text if first or done == total else f"{text}, {_duration(left)} left at this pace"

    def _format_job_error(self, msg: dict[str, Any]) -> list[str]:
        """Leave out an empty message, and the errors of earlier attempts, which were already printed."""
        lines = [line for line in super()._format_job_error(msg) if line != "    message: None"]
        return [*lines, *msg.get("last_attempt", ())]


def read_logs(record: LogRecord) -> bool:
    """Put the log lines of a failed job's last attempt into its record; every record passes this filter.

    Records are printed in a separate thread, and by then the next attempt may have removed the log.
    """
    if getattr(record, "event", None) == LogEvent.JOB_ERROR:
        record.last_attempt = list(last_attempts(record.log))  # type: ignore[attr-defined]
    return True


def last_attempts(logs: list[str]) -> Iterator[str]:
    """Lines in a job's logs, from where its last attempt began."""
    from bnn_atlas.logs import STARTED

    for log in logs:
        lines = list(show_logs([log]))
        starts = [i for i, line in enumerate(lines) if line.endswith(STARTED)]
        yield from (lines[:2] + lines[starts[-1] :] if Path(log).is_file() and starts else lines)


def _duration(seconds: float) -> str:
    """Seconds, minutes or hours and minutes."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
