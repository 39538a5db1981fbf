"""Log files of jobs."""

import logging
from pathlib import Path

import pytest

from bnn_atlas.logs import logged

log = logging.getLogger("bnn_atlas.example")


def test_records_and_the_traceback_reach_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs" / "job.log"

    def fail() -> None:
        with logged(path):
            log.info("half way")
            log.warning("careful")
            raise ValueError("no such chain")

    with pytest.raises(ValueError, match="no such chain"):
        fail()
    text = path.read_text()
    assert "INFO half way" in text
    assert "Traceback" in text
    assert "ValueError: no such chain" in text
    on_terminal = capsys.readouterr().err
    assert "careful" in on_terminal
    assert "half way" not in on_terminal


def test_attempts_stand_behind_each_other_and_leave_no_handler(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    for word in ("first", "second"):
        with logged(tmp_path / "job.log"):
            log.info(word)
    lines = (tmp_path / "job.log").read_text().splitlines()
    assert [line.split()[-1] for line in lines] == ["started", "first", "started", "second"]
    assert logging.getLogger().handlers == before
