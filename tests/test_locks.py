"""Results that are made once, programs that are compiled once, and cache entries that are whole."""

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax._src import compilation_cache

from bnn_atlas.compilation import compiled
from bnn_atlas.files import atomic
from bnn_atlas.locks import LockError
from bnn_atlas.records import held, making

HOLD = """
import sys, time
from pathlib import Path
from bnn_atlas.records import making
with making(sys.argv[1], "a"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
    Path(sys.argv[1]).write_text("by the other process")
"""


CHILD = """
import os, signal, sys, time
from pathlib import Path
from bnn_atlas.runtime import configure
configure(1)
import jax, numpy as np
from jax import numpy as jnp
from bnn_atlas.placement import Placement
from bnn_atlas import locks

folder, number, others = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
place = Placement(1)
counted = []
jax.monitoring.register_event_listener(lambda name, **_: counted.append(name.rpartition("/")[2]))

def wait(count):
    (folder / f"ready{number}").touch()
    while len(list(folder.glob("ready*"))) < count:
        time.sleep(0.01)

def function(shared, x):
    for size in range(2, 32):
        x = jnp.sort(jnp.sin(x * jnp.ones((size, 1))).sum(axis=0)) + shared
    return x

arguments = jnp.float32(0.5), place.put(np.ones((1, 50), np.float32))
mapped = place.map(function)
lower = mapped._mapped.lower

class Together:
    "Lowers a program and waits until all processes have."
    def lower(self, *given):
        program = lower(*given)
        counted.clear()
        wait(others)
        return program

mapped._mapped = Together()
if sys.argv[4:] == ["die in writing"]:
    write = Path.write_bytes
    def die(path, content):
        write(path, content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    Path.write_bytes = die
if sys.argv[4:] == ["hold"]:
    taken = locks._taken
    def held(path):
        file = taken(path)
        print("holds", flush=True)
        time.sleep(600)
    locks._taken = held
result = np.asarray(mapped(*arguments))
print(counted.count("cache_misses"), counted.count("cache_hits"), result.tobytes().hex())
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


def test_a_fingerprint_that_an_earlier_version_left_counts(tmp_path: Path) -> None:
    (tmp_path / "start.npz").touch()
    (tmp_path / ".start.npz.lock").write_text("a")
    assert not make(tmp_path / "start.npz", "a", "again")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".start.npz.record", "start.npz"]
    assert not make(tmp_path / "start.npz", "a", "again")


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
    assert f"waiting to make {path} until another process ({process.pid} on " in caplog.text


def test_a_process_that_was_killed_holds_no_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "start.npz"
    with hold(path, 60) as process:
        process.kill()
    assert make(path, "a", "by this process")
    assert "another process" not in caplog.text


def give_up() -> None:
    raise TimeoutError


def test_waiting_can_be_given_up(tmp_path: Path) -> None:
    path = tmp_path / "start.npz"
    with hold(path, 60) as process:
        with pytest.raises(TimeoutError), held(path, give_up):
            pytest.fail("the lock is held")
        process.kill()


def test_a_lock_whose_file_was_removed_is_another_lock(tmp_path: Path) -> None:
    """Who comes after the removal locks a new file; who waited for the old one must then wait for that."""
    path = tmp_path / "start.npz"
    with hold(path, 60) as first:
        (tmp_path / ".start.npz.record").unlink()
        with hold(path, 1.0) as second:
            first.kill()
            assert not make(path, "a", "by this process")
            assert second.wait() == 0


def test_threads_of_one_process_wait_for_each_other(tmp_path: Path) -> None:
    path, order = tmp_path / "start.npz", []

    def second() -> None:
        with held(path):
            order.append("second")

    with held(path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.5)
        with held(path, while_waiting=give_up):
            assert order == [], "a thread does not wait for itself"
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_file_system_without_locks_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(LockError, match=r"cannot lock .*\.start\.npz\.record .*file system with locks") as caught:
        make(tmp_path / "start.npz", "a", "text")
    assert caught.value.errno == errno.ENOLCK


def start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """A process that compiles the program."""
    environment = os.environ | {"BNN_ATLAS_CACHE": str(folder)}
    command = [sys.executable, "-c", CHILD, str(folder), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_compile_a_program_once(tmp_path: Path) -> None:
    answers = []
    for process in [start(tmp_path, number, 2) for number in range(2)]:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        answers.append(output.split())
    assert sorted(answer[:2] for answer in answers) == [["0", "1"], ["1", "0"]]
    assert answers[0][2] == answers[1][2]


@pytest.mark.slow
def test_a_process_that_is_killed_holds_nobody_up(tmp_path: Path) -> None:
    first = start(tmp_path, 0, 1, "hold")
    assert first.stdout is not None
    assert first.stdout.readline() == "holds\n"
    second = start(tmp_path, 1, 1)
    first.send_signal(signal.SIGKILL)
    output, errors = second.communicate(timeout=300)
    assert second.returncode == 0, errors
    assert output.split()[:2] == ["1", "0"]
    first.communicate()


@pytest.fixture
def cache(tmp_path: Path):
    """JAX's compilation cache in an empty folder."""
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: jax.config.values[name] for name in names}
    compilation_cache.reset_cache()
    for name, value in zip(names, (str(tmp_path), 0), strict=True):
        jax.config.update(name, value)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_a_folder_without_room_for_locks_is_a_warning(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    (cache / "locks").touch()
    with caplog.at_level(logging.WARNING):
        assert compiled(jax.jit(lambda x: x + 3).lower(jnp.float32(1)))(jnp.float32(2)) == 5
    assert "two jobs may compile the same program" in caplog.text


def entries(folder: Path) -> dict[str, bytes]:
    """Entries of the compilation cache."""
    return {path.name: path.read_bytes() for path in folder.glob("*-cache")}


def compile_again(number: int) -> None:
    """Compile a program, which JAX does not remember but may find in its cache."""
    jax.clear_caches()
    zero = np.zeros(3, np.float32)
    np.testing.assert_array_equal(compiled(jax.jit(lambda x: x + number).lower(zero))(zero), number)


def test_a_write_that_is_interrupted_leaves_no_entry(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def interrupted(path: Path, content: bytes) -> int:
        write(path, content[: len(content) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compile_again(1)
    assert entries(cache) == {}
    compile_again(1)
    assert len(entries(cache)) == 1


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_writes_leaves_no_entry(tmp_path: Path) -> None:
    killed = start(tmp_path, 0, 1, "die in writing")
    killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGKILL
    folder = next((tmp_path / "xla").iterdir())
    assert [name for name in entries(folder) if name.startswith("jit_local")] == []
    second = start(tmp_path, 1, 1)
    output, errors = second.communicate(timeout=300)
    assert second.returncode == 0, errors
    assert output.split()[:2] == ["1", "0"]


def test_half_an_entry_is_replaced(cache: Path) -> None:
    compile_again(2)
    ((name, whole),) = entries(cache).items()
    (cache / name).write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="persistent compilation cache"):
        compile_again(2)
    assert len(entries(cache)[name]) > len(whole) / 2
    compile_again(2)  # a warning would be an error
