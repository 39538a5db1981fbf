"""What the logger plugin prints, in small workflows."""

import io
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from bnn_atlas.pipeline.estimate import Estimate
from snakemake_logger_plugin_bnn_atlas import Formatter, Progress, _numbers, read_logs

from .workspace import snakemake

SHORT = """
for handler in workflow.logger_manager.get_log_handlers():
    handler.describe = lambda changed: "".join(f"{run} {sorted(names)};" for run, names in sorted(changed.items()))
    handler.refusal = lambda: "no such target" if "fist" in workflow.dag_settings.targets else ""

rule all:
    input: expand("small/{run}/draws", run=["one", "two", "three"])

rule sample:
    output: touch("{study}/{run}/draws")
    params:
        {"src/code.py": config.get("code", "1")},
        lambda w: {"posterior.prior": {"scale": config.get("scale", 1) if w.run != "three" else 1, "loc": 0}},
"""
LONG = """
rule many:
    input: expand("{n}.txt", n=range(config["jobs"] - 1))

rule one:
    output: touch("{n}.txt")
"""
FAILING = """
rule all:
    input: expand("{n}.txt", n=range(8))

rule one:
    output: "{n}.txt"
    log: "{n}.log"
    retries: 1
    script: "one.py"
"""
FAILS = """
from bnn_atlas.logs import logged
with logged(snakemake.log[0]):
    raise ValueError("the mean of no rows")
"""


def said(folder: Path, *arguments: str, code: int = 0) -> str:
    done = snakemake(folder, "--cores", "1", "--logger", "bnn-atlas", *arguments)
    assert done.returncode == code, done.stdout
    return done.stdout


def test_one_job_is_a_job() -> None:
    assert _numbers({"check": 1, "total": 1}) == "1 job: 1 check"


def test_a_plan_names_the_settings_that_changed(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SHORT)
    made = said(tmp_path)
    assert re.search(r"^4 jobs: 3 sample, 1 all$", made, re.MULTILINE)
    assert re.findall(r"(\d of 4) steps", made) == ["4 of 4"]
    assert "Job stats" not in said(tmp_path, "--dry-run")
    planned = said(tmp_path, "--dry-run", "--config", "scale=2", "code=2")
    expected = "('small', 'one') ['posterior.prior.scale'];('small', 'two') ['posterior.prior.scale'];\n\nJob stats:"
    assert expected in planned
    assert "posterior.prior.scale from 1 to 2" in planned
    assert "'loc'" not in planned


def test_a_target_that_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SHORT)
    assert said(tmp_path, "--dry-run", "--", "fist", code=1).splitlines()[-1] == "no such target"
    assert "No rule to produce first" in said(tmp_path, "--dry-run", "--", "first", code=1)


@pytest.mark.parametrize(("jobs", "listed"), [(50, True), (51, False)])
def test_long_plans_are_summaries(tmp_path: Path, jobs: int, listed: bool) -> None:
    (tmp_path / "Snakefile").write_text(LONG)
    text = said(tmp_path, "--dry-run", "--config", f"jobs={jobs}")
    assert ("output: 0.txt" in text) == listed
    assert re.search(rf"total +{jobs}\b", text)
    assert "output: 0.txt" in said(tmp_path, "--dry-run", "--verbose", "--config", f"jobs={jobs}")


def test_a_run_prints_few_lines_and_all_with_verbose(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(LONG)
    short = said(tmp_path, "--config", "jobs=40")
    assert len(short.splitlines()) < 40
    assert "Finished jobid" not in short
    assert "Finished jobid: 1 " in said(tmp_path, "--verbose", "--forceall", "--config", "jobs=3")
    assert any("Finished jobid: 39" in log.read_text() for log in (tmp_path / ".snakemake" / "log").iterdir())


class Screen(io.StringIO):
    """A stream that is a terminal or a file."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_follows_the_work_that_is_done(is_terminal: bool) -> None:
    """Of 40 jobs of 10 s each on one core, at a pace of 20 s; on a terminal in one line, in a file in at most 20."""
    seconds, screen = [0.0], Screen(is_terminal)
    progress = Progress(screen, lambda: seconds[0])
    progress.expected = Estimate(dict.fromkeys(range(40), 10.0), 40, 1, False)
    for job in range(40):
        progress.begin(f"job {job}")
        seconds[0] += 20
        progress.finish(job)
        progress.show(job + 1, 41)
    progress.show(41, 41)
    text = screen.getvalue()
    assert re.search(r"(20 of 41 steps \(49%\)|21 of 41 steps \(51%\)), about 6 min left, job (19|20)", text)
    assert "41 of 41 steps (100%) done in 13 min" in text
    assert text.count("\n") == 1 if is_terminal else text.count("\n") <= 21


@pytest.mark.parametrize("executor", ["local", "bnn-atlas"])
def test_each_attempt_of_a_failed_job_prints_its_error_once(tmp_path: Path, executor: str) -> None:
    (tmp_path / "Snakefile").write_text(FAILING)
    (tmp_path / "one.py").write_text(FAILS)
    text = said(tmp_path, "--show-failed-logs", "--executor", executor, code=1)
    assert text.count("ValueError: the mean of no rows") == 2, text
    assert text.count("Traceback") == 2
    assert "message: None" not in text
    (log,) = tmp_path.glob("*.log")
    assert log.read_text().count("ValueError") == 2


def test_the_log_of_an_attempt_may_be_gone_when_it_is_printed(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_text("12:00:00 INFO started\nearlier\n12:01:00 INFO started\nValueError: no rows\n")
    failed = {"event": LogEvent.JOB_ERROR, "rule_name": "one", "rule_msg": None, "jobid": 1, "log": [str(log)]}
    empty = dict.fromkeys(("input", "output", "conda_env", "container_img", "shellcmd"), "")
    record = logging.makeLogRecord({"msg": "Error in rule one", "aux": {}, "indent": False, **empty, **failed})
    assert read_logs(record)
    log.unlink()
    text = Formatter(quiet=None).format(record)
    assert "ValueError: no rows" in text
    assert "earlier" not in text


@pytest.mark.parametrize("last_line", ["ERROR failed", "INFO SIGTERM: finishing the current segment", "INFO half"])
def test_a_failed_group_names_the_job_and_its_last_lines(tmp_path: Path, last_line: str) -> None:
    """Of a group, only the job whose log has an error or a signal is shown, with the last attempt of many lines."""
    failed = last_line != "INFO half"
    jobs = []
    for name, last in (("fine", "INFO done"), ("broken", last_line)):
        log = tmp_path / f"{name}.log"
        told = "".join(f"12:00:00 INFO line {i}\n" for i in range(50))
        log.write_text(f"12:00:00 INFO started\n{told}12:00:01 {last}\nValueError: of {name}\n")
        jobs.append({"rule_name": name, "jobid": 1, "output": [f"{name}.npz"], "log": [str(log)]})
    group = {"event": LogEvent.GROUP_ERROR, "groupid": "g", "aux_logs": ["slurm/1.log"], "job_error_info": jobs}
    record = logging.makeLogRecord({**group, "msg": "Error in group g"})
    assert read_logs(record)
    text = Formatter(None).format(record)
    assert ("failed: broken, for broken.npz" in text) == ("ValueError: of broken" in text) == failed
    assert "ValueError: of fine" not in text
    assert "INFO line 1\n" not in text
    assert ("no log of its jobs (fine, broken) has an error" in text) == (not failed)
    assert "slurm/1.log" in text


def test_a_home_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(LONG)
    command = [sys.executable, "-m", "snakemake", "-n", "--logger", "bnn-atlas", "--config", "jobs=2"]
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | {"HOME": "/proc"}
    runs = [
        subprocess.run(command, cwd=tmp_path, env=environment | other, capture_output=True, text=True, check=False)
        for other in ({}, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    ]
    assert [run.returncode for run in runs] == [1, 0]
    assert "Traceback" not in runs[0].stderr
    assert "export XDG_CACHE_HOME=" in runs[0].stderr.splitlines()[-1]
