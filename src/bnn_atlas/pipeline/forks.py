"""How jobs start: the scripts of local jobs run in forks of one process that has already imported their packages."""

import multiprocessing
import os
import runpy
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from multiprocessing.connection import wait
from typing import Any

SHORTEST_PLAN = 8
"""With at least this many jobs, importing everything once takes less time than importing in each job what it needs."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["bnn_atlas.pipeline.preload"])
STARTING = threading.Lock()

_OLDER_CODE = ("--xla_cpu_use_fusion_emitters=false",) if version("jaxlib").startswith("0.10.") else ()
"""XLA aborts at a flag that it does not know, and later versions have dropped this one."""
QUICKLY = (*_OLDER_CODE, "--xla_backend_optimization_level=1")


def compile_quickly() -> None:
    """Let XLA compile the programs of all jobs on CPUs in half the time; their steps take 1.1 to 1.7 times as long.

    This pays if the work takes less time than its compilation. XLA's older code generator, where there still is one,
    generates the fused operations, and LLVM optimises little. If XLA_FLAGS already sets one of these flags, it stays.
    """
    there = os.environ.get("XLA_FLAGS", "").split()
    named = {flag.partition("=")[0] for flag in there}
    os.environ["XLA_FLAGS"] = " ".join([*(flag for flag in QUICKLY if flag.partition("=")[0] not in named), *there])


def run_in_fork(path: str, threads: int, resources: Any, record: Any) -> None:
    """Run a job's script in a process of its own, with its own environment, memory and exit code.

    Args:
        path: the script that Snakemake has written for the job.
        threads: number of cores of the job.
        resources: the job's resources, an object of Snakemake.
        record: Snakemake's measurement of the job; None if it has no benchmark.

    Raises:
        subprocess.CalledProcessError: the script failed.
    """
    process = CONTEXT.Process(target=run_script, args=(path, environment(threads, resources)))
    with STARTING:
        process.start()
    with measured(process.pid, record):
        wait([process.sentinel])
    # Starting a process reads the exit codes of all processes that have ended, and an exit code can be read only once.
    with STARTING:
        process.join()
    if process.exitcode:
        raise subprocess.CalledProcessError(process.exitcode, f"python {path}")


def environment(threads: int, resources: Any) -> dict[str, str]:
    """Environment variables that Snakemake gives a script: cores for linear algebra, folder for scratch files."""
    pools = ("OMP", "GOTO", "OPENBLAS", "MKL", "VECLIB", "NUMEXPR")
    names = {f"{pool}_{'MAXIMUM' if pool == 'VECLIB' else 'NUM'}_THREADS": str(threads) for pool in pools}
    folder = resources.get("tmpdir")
    return names | (dict.fromkeys(("TMPDIR", "TMP", "TEMPDIR", "TEMP"), folder) if folder else {})


def run_script(path: str, variables: Mapping[str, str]) -> None:
    """Run a script in this process, a fork, as if it had been started with these environment variables."""
    from threadpoolctl import threadpool_limits

    os.environ.update(variables)
    threadpool_limits(int(variables["OMP_NUM_THREADS"]))
    runpy.run_path(path, run_name="__main__")


@contextmanager
def measured(process: int | None, record: Any) -> Iterator[None]:
    """Measure a process as Snakemake does, if the job has a benchmark; only its time, if it has already ended."""
    from psutil import NoSuchProcess
    from snakemake.benchmark import benchmarked

    begun = time.time()
    with ExitStack() as stack:
        ended = False
        if record is not None:
            try:
                stack.enter_context(benchmarked(process, record))
            except NoSuchProcess:
                ended = record.process_gone = True
        yield
    if ended:
        record.running_time = time.time() - begun
