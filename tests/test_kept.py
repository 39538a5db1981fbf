"""Results that are made once."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from bnn_atlas.files import atomic
from bnn_atlas.kept import locked, making

HOLD = """
import sys, time
from pathlib import Path
from bnn_atlas.kept import making
with making(sys.argv[1], "a"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
    Path(sys.argv[1]).write_text("by the other process")
"""


def make(path: Path, fingerprint: str, text: str) -> bool:
    """Whether the file was made."""
    with making(path, fingerprint) as needed:
        if needed:
            with atomic(path) as temporary:
                temporary.write_text(text)
    return needed


def test_a_file_is_made_again_only_from_something_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "start.npz"
    assert make(path, "a", "first")
    assert not make(path, "a", "again")
    assert path.read_text() == "first"
    assert make(path, "b", "second")
    assert path.read_text() == "second"
    assert not make(path, "b", "again")
    path.unlink()
    assert make(path, "b", "third")


def test_a_file_whose_making_failed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "start.npz"
    assert make(path, "a", "first")
    with pytest.raises(ValueError, match="no such data"), making(path, "b"):
        raise ValueError("no such data")
    assert path.read_text() == "first"
    assert make(path, "a", "nobody knows what the file is now"), "the record went before the work"


def hold(path: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that makes the file slowly."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_waits_and_keeps_what_the_first_has_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bnn_atlas")
    path = tmp_path / "start.npz"
    with hold(path, 1.0) as process:
        assert not make(path, "a", "by this process")
        assert process.wait() == 0
    assert path.read_text() == "by the other process"
    assert f"another process ({process.pid}) is making {path}" in caplog.text


def test_a_process_that_was_killed_holds_no_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "start.npz"
    with hold(path, 60) as process:
        process.kill()
    assert make(path, "a", "by this process")
    assert "another process" not in caplog.text


def test_waiting_can_be_given_up(tmp_path: Path) -> None:
    def give_up() -> None:
        raise TimeoutError

    path = tmp_path / "start.npz"
    with hold(path, 60) as process:
        with pytest.raises(TimeoutError), locked(path, give_up):
            pytest.fail("the lock is held")
        process.kill()
