"""Output of Snakemake for this workflow: short plans, changed settings, each error once, and the remaining time.

A logger plugin for Snakemake, chosen in profiles/default. Every Snakemake in this environment imports this plugin
before reading a Snakefile, so this module imports from `bnn_atlas` only when needed.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from logging import LogRecord
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from snakemake.common import get_appdirs
from snakemake.logging import ColorizingTextHandler, DefaultFormatter, format_percentage, logger, show_logs
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

UNFINISHED = (" ERROR ", "SIGTERM")
"""Texts that mark a line in the log of a job that failed or was stopped."""
LAST_LINES = 20
"""Number of log lines shown in the error of a group of jobs."""
LONGEST_LISTED = 50
"""Largest number of jobs that a dry run lists one by one."""
NAMED = 6
"""Number of rules that the first line of a run names."""
BETWEEN_LINES = (10.0, 0.05, 1800.0)
"""In a file, the next line of progress is written after the first number of seconds and this fraction of the work, or
after the second number of seconds."""
OF_SINGLE_JOBS = (LogEvent.JOB_INFO, LogEvent.GROUP_INFO, LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED)
SAID_PER_JOB = ("Select jobs to execute", "Handing over execution", "Touching output file", "Job ")
"""Beginnings of messages without an event that a run prints for every job."""
DRY_RUN = "This was a dry-run"


class LogHandler(LogHandlerBase):
    """Writes to the same place as Snakemake's own handler, with its colours and its filter.

    A run prints one line of progress, updated in place on a terminal, instead of several lines for each job.
    `--verbose` also prints the lines for each job; Snakemake's complete log file always has them.
    """

    describe: Callable[[Mapping[tuple[str, str], set[str]]], str] = staticmethod(lambda changed: "")
    """Function that turns (study, run) -> names of changed settings into a text; set by the Snakefile."""
    refusal: Callable[[], str] = staticmethod(lambda: "")
    """Function that describes what is wrong with the targets of this run; set by the Snakefile."""
    estimate: Callable[[], Any] = staticmethod(lambda: None)
    """Estimates the plan (`bnn_atlas.pipeline.estimate.Estimate`); set by the Snakefile."""
    writes_to_stream, writes_to_file = True, False
    has_filter, has_formatter = False, True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        require_cache()
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        self.formatter = Formatter(settings.quiet)
        if settings.show_failed_logs:
            logger.addFilter(read_logs)
        logger.addFilter(self._estimated)
        self._console = ColorizingTextHandler(settings.nocolor, stream, self.formatter)
        self._short = not (settings.verbose or settings.dryrun or "--mode" in sys.argv)
        self._progress = Progress(stream)
        self._jobs = 0
        self._changed: dict[tuple[str, str], set[str]] = {}

    def emit(self, record: LogRecord) -> None:
        """Write a record, unless it is about a single job of a long dry run or of a run.

        An error here is printed but not raised, since the calling thread prints all messages of the run.
        """
        try:
            self._print(record)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """End the line of progress."""
        self._progress.end()
        super().close()

    def _estimated(self, record: LogRecord) -> bool:
        """Estimate the plan in the thread that made it, when it is complete; every record passes this filter."""
        if getattr(record, "event", None) == LogEvent.RUN_INFO and self._progress.expected is None:
            self._progress.expected = self.estimate()
        return True

    def _print(self, record: LogRecord) -> None:
        event, settings = getattr(record, "event", None), self.common_settings
        match event:
            case LogEvent.RUN_INFO:
                stats = record.stats  # type: ignore[attr-defined]
                self._jobs = stats["total"]
                if self._short:
                    record.msg = _numbers(stats) + self._estimate()
                if text := self.describe(self._changed):
                    record.msg = f"{text}\n\n{record.msg}"
            case LogEvent.ERROR:
                record.msg = self.refusal() or record.msg
            case LogEvent.JOB_ERROR if record.indent and self._short:  # type: ignore[attr-defined]
                return  # the group's error has already named the failed jobs
            case LogEvent.JOB_INFO if settings.dryrun:
                self._remember(record)
                if self._jobs > LONGEST_LISTED and not settings.verbose:
                    return
            case LogEvent.GROUP_INFO if settings.dryrun and self._jobs > LONGEST_LISTED and not settings.verbose:
                return
            case None if str(record.msg).startswith(DRY_RUN):
                record.msg += self._estimate()
        if self._short and self._is_progress(record, event):
            return
        self._progress.clear()
        self._console.emit(record)

    def _is_progress(self, record: Any, event: LogEvent | None) -> bool:
        """Show a record of a single job as progress; False for other records."""
        match event:
            case LogEvent.JOB_INFO:
                self._progress.begin(record.rule_msg or record.rule_name)
            case LogEvent.JOB_FINISHED:
                self._progress.finish(record.job_id)
            case LogEvent.PROGRESS:
                self._progress.show(record.done, record.total)
        is_said = event is None and record.levelname == "INFO" and str(record.msg).startswith(SAID_PER_JOB)
        return event in (*OF_SINGLE_JOBS, LogEvent.PROGRESS) or is_said

    def _estimate(self) -> str:
        """A line for the end of a plan."""
        return f"\n{self._progress.expected}" if self._progress.expected else ""

    def _remember(self, record: Any) -> None:
        from bnn_atlas.pipeline.changes import changed_names

        place = tuple(record.wildcards.get(name) for name in ("study", "run"))
        if all(place) and (names := changed_names(record.rule_name, record.reason)):
            self._changed.setdefault(place, set()).update(names)


class Progress:
    """One line about a run: finished steps, remaining time, and the job that began last."""

    def __init__(self, stream: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.expected: Any = None
        """The estimate of the plan; without it, all jobs count the same."""
        self._stream, self._clock = stream, clock
        self._live = stream.isatty()
        self._begun = self._shown_at = clock()
        self._steps, self._total, self._done, self._shown = 0, 0, 0.0, 0.0
        self._job, self._is_on_screen = "", False

    def begin(self, job: str) -> None:
        """Note which job began last."""
        self._job = job
        if self._total:
            self.show(self._steps, self._total)

    def finish(self, job: int) -> None:
        """Note that a job is done."""
        self._done += self.expected.work.get(job, 0.0) if self.expected else 0.0

    def show(self, steps: int, total: int) -> None:
        """Show the line in place of the previous line; in a file, add a line now and then."""
        now, (shortest, part, longest) = self._clock(), BETWEEN_LINES
        self._steps, self._total = steps, total
        share, waited, is_last = self._share(), now - self._shown_at, steps == total
        if self._live:
            self._write(f"\r{self.line(now)[: shutil.get_terminal_size().columns - 1]}\x1b[K")
            self._is_on_screen = True
        elif is_last or (waited >= shortest and share - self._shown >= part) or waited >= longest:
            self._write(f"{time.strftime('%H:%M:%S')} {self.line(now)}\n")
            self._shown, self._shown_at = share, now
        if is_last:
            self.end()

    def line(self, now: float) -> str:
        """The steps and the time left, from the pace of this run; the estimate counts like a tenth of the work done."""
        from bnn_atlas.pipeline.estimate import duration

        text = f"{self._steps} of {self._total} steps ({format_percentage(self._steps, self._total)})"
        if self._steps == self._total:
            return f"{text} done in {duration(now - self._begun)}"
        share, (weight, seconds) = self._share(), (0.1, self.expected.seconds) if self.expected else (0.0, 0.0)
        if share + weight:
            whole = (now - self._begun + weight * seconds) / (share + weight)
            text = f"{text}, about {duration((1 - share) * whole)} left"
        return f"{text}, {self._job}" if self._job else text

    def clear(self) -> None:
        """Remove the line from a terminal, to make room for other lines."""
        if self._is_on_screen:
            self._write("\r\x1b[K")
            self._is_on_screen = False

    def end(self) -> None:
        """Leave the line on the terminal."""
        if self._is_on_screen:
            self._write("\n")
            self._is_on_screen = False

    def _share(self) -> float:
        whole = sum(self.expected.work.values()) if self.expected else 0.0
        return self._done / whole if whole else self._steps / max(self._total, 1)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Formatter(DefaultFormatter):
    """Snakemake's formatter, except that reasons name single settings and only a log's last attempt is shown."""

    def __init__(self, quiet: Any) -> None:
        super().__init__(quiet, show_failed_logs=False)

    def format_job_info(self, msg: dict[str, Any]) -> str:
        """Job information in which the reason names the changed settings, instead of their whole sections."""
        from bnn_atlas.pipeline.changes import shortened

        return str(super().format_job_info({**msg, "reason": shortened(msg["reason"])}))

    def _format_job_error(self, msg: dict[str, Any]) -> list[str]:
        """Job error without empty messages and without the errors of earlier attempts, which were already printed."""
        lines = [line for line in super()._format_job_error(msg) if line != "    message: None"]
        return [*lines, *msg.get("last_attempt", ())]

    def _format_group_error(self, msg: dict[str, Any]) -> list[str]:
        """The failed jobs of a group and the last lines of their logs; if no log has an error, where to look."""
        if "failed" not in msg:
            return list(super()._format_group_error(msg))
        lines = [str(msg["msg"])]
        for job, log in msg["failed"]:
            lines += [f"    failed: {job['rule_name']}, for {', '.join(job['output'])}", *log]
        if not msg["failed"]:
            names = ", ".join(dict.fromkeys(job["rule_name"] for job in msg["job_error_info"]))
            lines.append(f"    no log of its jobs ({names}) has an error: the cluster may have ended it")
        return [*lines, *(f"    log of the cluster: {log}" for log in msg["aux_logs"])]


def require_cache() -> None:
    """Stop with a one-line message if Snakemake cannot open its cache, which it does before reading a Snakefile.

    Raises:
        SystemExit: names the folder and what to do.
    """
    folder = Path(get_appdirs().user_cache_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryDirectory(dir=folder).cleanup()
    except OSError as error:
        raise SystemExit(
            f"{folder}: {error.strerror}. Snakemake keeps a cache there. If the home folder is read-only or missing, "
            "name another folder: export XDG_CACHE_HOME=/tmp/cache"
        ) from None


def read_logs(record: LogRecord) -> bool:
    """Put the log lines of a failed job's last attempt into its record; every record passes this filter.

    For a group of jobs, lines are taken from the jobs whose logs have an error or a signal. Records are printed in a
    separate thread, and by then the next attempt may have removed the log.
    """
    if getattr(record, "event", None) == LogEvent.JOB_ERROR:
        record.last_attempt = list(last_attempts(record.log))  # type: ignore[attr-defined]
    if getattr(record, "event", None) == LogEvent.GROUP_ERROR:
        jobs = record.job_error_info  # type: ignore[attr-defined]
        logs = [(job, list(last_attempts(job["log"]))) for job in jobs]
        record.failed = [
            (job, log[:1] + log[1:][-LAST_LINES:])
            for job, log in logs
            if any(word in line for line in log for word in UNFINISHED)
        ]
    return True


def last_attempts(logs: list[str]) -> Iterator[str]:
    """Lines in a job's logs, from where its last attempt began."""
    from bnn_atlas.logs import STARTED

    for log in logs:
        lines = list(show_logs([log]))
        starts = [i for i, line in enumerate(lines) if line.endswith(STARTED)]
        yield from (lines[:2] + lines[starts[-1] :] if Path(log).is_file() and starts else lines)


def _numbers(stats: Mapping[str, int]) -> str:
    """The number of jobs, and the rules with the most jobs."""
    rules = sorted(((count, rule) for rule, count in stats.items() if rule != "total"), reverse=True)
    named = [f"{count} {rule}" for count, rule in rules[:NAMED]]
    if rest := sum(count for count, _ in rules[NAMED:]):
        named.append(f"{rest} others")
    return f"{stats['total']} job{'s' * (stats['total'] > 1)}: {', '.join(named)}"
