"""Programs that several processes need at the same time are compiled once."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from jax import numpy as jnp

from bnn_atlas.compilation import compiled

CHILD = """
import sys, time
from pathlib import Path
from bnn_atlas.runtime import configure
configure(1)
import jax, numpy as np
from jax import numpy as jnp
from bnn_atlas.placement import Placement
from bnn_atlas import compilation

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
if len(sys.argv) > 4:
    lock = compilation._lock
    def held(path):
        stack = lock(path)
        stack.__enter__()
        print("holds", flush=True)
        time.sleep(600)
    compilation._lock = held
result = np.asarray(mapped(*arguments))
print(counted.count("cache_misses"), counted.count("cache_hits"), result.tobytes().hex())
"""


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


def test_a_folder_without_room_for_locks_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "locks").touch()
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        with caplog.at_level(logging.WARNING):
            assert compiled(jax.jit(lambda x: x + 3).lower(jnp.float32(1)))(jnp.float32(2)) == 5
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert "cannot lock" in caplog.text
