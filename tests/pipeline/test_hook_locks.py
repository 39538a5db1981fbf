"""Locks that name their process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bnn_atlas.pipeline.hooks.locks import MARK, Holder, gone, holder_of, process, this_process

SNAKEFILE = """
from bnn_atlas.pipeline.hooks import release_stale_locks

release_stale_locks()

rule all:
    input: "a.txt"

rule one:
    output: "{name}.txt"
    shell: "touch {wildcards.name}.started; while [ ! -e go ]; do sleep 0.1; done; touch {output}"
"""


@pytest.fixture
def here() -> Holder:
    found = this_process()
    assert found is not None, "/proc is needed"
    return found


def test_this_process_is_not_gone(here):
    assert here.pid == os.getpid()
    assert not gone(here)


def test_a_process_that_has_ended_is_gone(here):
    child = subprocess.Popen(["sleep", "60"])
    running = process(child.pid)
    assert running is not None
    assert not gone(running)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert gone(running), "its parent has not asked for the exit code yet"
    child.wait()
    assert gone(running)


def test_a_number_that_is_used_again_is_another_process(here):
    assert gone(here._replace(started=here.started - 1))


def test_an_earlier_start_of_the_machine_has_ended_its_processes(here):
    assert gone(here._replace(boot="another"))


@pytest.mark.parametrize("field", ["host", "machine", "namespace"])
def test_of_another_machine_or_container_nothing_is_known(here, field):
    """Whatever the number and start, which are those of no process here."""
    assert not gone(here._replace(**{field: "another"}, started=here.started - 1))


@pytest.mark.parametrize("text", ["", "a.txt\n", MARK, f"{MARK}no list\n", f"{MARK}[1, 2]\n"])
def test_a_lock_that_names_no_process_has_no_holder(tmp_path, text):
    (tmp_path / "0.output.lock").write_text(text)
    assert holder_of(tmp_path / "0.output.lock") is None


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--rerun-incomplete", *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def finish(run: subprocess.Popen[str]) -> str:
    output, _ = run.communicate(timeout=300)
    return output


def await_file(file: Path) -> None:
    for _ in range(6000):
        if file.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{file.name} did not appear")


def locks(folder: Path) -> list[Path]:
    return sorted((folder / ".snakemake" / "locks").glob("*.lock"))


def test_the_next_run_goes_on_after_a_kill(tmp_path):
    killed = start(tmp_path)
    await_file(tmp_path / "a.started")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert len(locks(tmp_path)) == 2, "of inputs and of outputs"
    (tmp_path / "go").touch()
    second = start(tmp_path)
    output = finish(second)
    assert second.returncode == 0, output
    assert output.count(f"Released the lock of a Snakemake that is gone (process {killed.pid} on ") == 1
    assert locks(tmp_path) == []


def test_a_live_run_keeps_its_lock_while_another_works_beside_it(tmp_path):
    first = start(tmp_path)
    await_file(tmp_path / "a.started")
    same = start(tmp_path)
    assert "LockException" in finish(same)
    beside = start(tmp_path, "b.txt")
    await_file(tmp_path / "b.started")
    assert len(locks(tmp_path)) == 3, "the target that is one file has no inputs"
    (tmp_path / "go").touch()
    assert "Released" not in finish(beside)
    assert (first.wait(300), beside.returncode) == (0, 0)
    assert locks(tmp_path) == []
    finish(first)


def test_a_run_that_ends_leaves_the_locks_of_others_and_unlock_removes_them(tmp_path, here):
    folder = tmp_path / ".snakemake" / "locks"
    folder.mkdir(parents=True)
    other = folder / "0.output.lock"
    other.write_text(MARK + json.dumps(here._replace(host="another")) + "\na.txt\n")
    (tmp_path / "go").touch()
    assert "LockException" in finish(start(tmp_path))
    beside = start(tmp_path, "b.txt")
    output = finish(beside)
    assert beside.returncode == 0, output
    assert locks(tmp_path) == [other]
    finish(start(tmp_path, "--unlock"))
    assert locks(tmp_path) == []
