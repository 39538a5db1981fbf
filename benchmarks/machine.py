"""The machine a benchmark runs on, and how fast it multiplies matrices (which this file prints when it is run)."""

import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIZE = 2048
REPEATS = 30


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def processor() -> str:
    """Model name of the processor."""
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found.group(1).strip() if found else platform.machine()


def environment(**settings: str) -> dict[str, str]:
    """This environment without settings of JAX, with the programs beside Python found first, and with `settings`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, **settings}


def gradient_flop(widths: Sequence[int], rows: int) -> int:
    """Floating-point operations of one full-batch gradient of a dense network, 6 N W: N rows, W weights."""
    return 6 * rows * sum(a * b for a, b in pairwise(widths))


def matmul_gflops() -> float:
    """GFLOP/s of 2048 x 2048 products in float32 on all cores, measured now in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve())]
    run = subprocess.run(command, env=environment(JAX_PLATFORMS="cpu"), capture_output=True, text=True, check=True)
    return float(run.stdout)


def _measure() -> float:
    import jax

    matrix = jax.random.normal(jax.random.key(0), (SIZE, SIZE))
    product = jax.jit(lambda a: a @ a)
    seconds = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        product(matrix).block_until_ready()
        seconds.append(time.perf_counter() - begun)
    return 2 * SIZE**3 / statistics.median(seconds) / 1e9


if __name__ == "__main__":
    print(_measure())
