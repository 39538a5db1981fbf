"""The process that local jobs are forks of."""

import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import sys
import bnn_atlas.pipeline.preload
from jax._src import xla_bridge
from pathlib import Path
threads = Path("/proc/self/status").read_text().partition("Threads:")[2].split()[0]
print(xla_bridge.backends_are_initialized(), "blackjax" in sys.modules, "rpy2" in sys.modules, threads)
print("bnn_atlas.pipeline.steps.sample" in sys.modules, "bnn_atlas.figures.kinds.fireball" in sys.modules)
"""


def test_everything_is_imported_and_nothing_started() -> None:
    """JAX has no device yet, since jobs differ in cores and precision; Arrow's allocator may have a thread."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    devices, blackjax, r, threads, sample, fireball = done.stdout.split()
    assert (devices, blackjax, r) == ("False", "False", "False")
    assert int(threads) <= 2
    assert (sample, fireball) == ("True", "True")


def test_ctrl_c_while_it_imports_says_nothing() -> None:
    """The signal is sent once JAX is being imported, after Python's handler has been taken away."""
    command = [sys.executable, "-c", "import bnn_atlas.pipeline.preload"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        libraries = Path(f"/proc/{process.pid}/maps")
        while process.poll() is None and "jaxlib" not in libraries.read_text():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGINT
