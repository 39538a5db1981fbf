"""Log files of jobs."""

import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bnn_atlas.logs import logged
from bnn_atlas.records import DamagedInput

log = logging.getLogger("bnn_atlas.example")


def test_records_and_the_traceback_reach_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs" / "job.log"

    def fail() -> None:
        with logged(path):
            log.info("half way")
            log.warning("careful")
            logging.getLogger("bnn_atlas.posterior.compiled").warning("not compiled")
            raise ValueError("no such chain")

    with pytest.raises(SystemExit) as ended:
        fail()
    assert ended.value.code == 1
    assert ended.value.__suppress_context__
    text = path.read_text()
    assert "INFO half way" in text
    assert "WARNING not compiled" in text
    assert "Traceback" in text
    assert "ValueError: no such chain" in text
    on_terminal = capsys.readouterr().err
    assert on_terminal == "job: careful\n"
    assert "half way" not in on_terminal
    assert "not compiled" not in on_terminal, "every job would repeat it"
    assert "no such chain" not in on_terminal  # Snakemake prints the log


def test_an_error_that_says_what_to_do_has_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), logged(tmp_path / "job.log"):
        raise DamagedInput("a.csv: damaged; make it again")
    lines = (tmp_path / "job.log").read_text().splitlines()
    assert [line.partition(" ")[2] for line in lines] == [
        "INFO started",
        "ERROR failed",
        "ERROR DamagedInput: a.csv: damaged; make it again",
    ]
    assert not capsys.readouterr().err


def test_attempts_follow_each_other_and_leave_no_handler(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    for word in ("first", "second"):
        with logged(tmp_path / "job.log"):
            log.info(word)
    lines = (tmp_path / "job.log").read_text().splitlines()
    assert [line.split()[-1] for line in lines] == ["started", "first", "started", "second"]
    assert logging.getLogger().handlers == before


def test_sigterm_ends_a_job_with_a_line_in_its_log(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom bnn_atlas.logs import logged\n"
        "with logged(sys.argv[1]):\n    print('ready', flush=True)\n    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "job.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 128 + signal.SIGTERM
    text = (tmp_path / "job.log").read_text()
    assert re.search(r"ended by SIGTERM after \d+ s, with nothing saved", text)
    assert "`runtime`" in text


def test_a_handler_of_sigterm_is_given_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with logged(tmp_path / "job.log"):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
