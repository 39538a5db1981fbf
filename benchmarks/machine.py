"""The machine a benchmark runs on, and how fast it multiplies matrices (run as a program: once per line of input)."""

import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIZE = 2048
REPEATS = 15


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def processor() -> str:
    """Model name of the processor."""
    match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return match.group(1).strip() if match else platform.machine()


def environment(**settings: str) -> dict[str, str]:
    """This environment without JAX's settings, with Python's folder first on the path, and with `settings`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, **settings}


def gradient_flop(widths: Sequence[int], rows: int) -> int:
    """Floating-point operations of one full-batch gradient of a dense network, 6 N W: N rows, W weights."""
    return 6 * rows * sum(a * b for a, b in pairwise(widths))


def matmul_gflops() -> float:
    """GFLOP/s of 2048 x 2048 products in float32 on all cores, measured now in a process of its own."""
    child = _multiplier()
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return float(child.stdout.readline())


@cache
def _multiplier() -> subprocess.Popen[str]:
    """The process, which waits between measurements and ends with this one."""
    command = [sys.executable, str(Path(__file__).resolve())]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(JAX_PLATFORMS="cpu"), stdin=pipe, stdout=pipe, text=True)


def _measure() -> None:
    import jax

    matrix = jax.random.normal(jax.random.key(0), (SIZE, SIZE))
    product = jax.jit(lambda a: a @ a)
    product(matrix).block_until_ready()
    for _ in sys.stdin:
        seconds = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            product(matrix).block_until_ready()
            seconds.append(time.perf_counter() - begun)
        print(2 * SIZE**3 / statistics.median(seconds) / 1e9, flush=True)


if __name__ == "__main__":
    _measure()
