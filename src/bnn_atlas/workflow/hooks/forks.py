"""Scripts of local jobs, run in forks of one process that has imported their packages once."""

import multiprocessing
import os
import runpy
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from bnn_atlas.sources import PACKAGE

PRELOAD = "bnn_atlas.workflow.preload"
SHORTEST_PLAN = 8
"""Jobs from which on importing everything once takes less time than importing what is needed in each."""


def fork_scripts(workflow: Any, argv: Sequence[str]) -> None:
    """Let Python scripts run as forks of a process that has imported `bnn_atlas.workflow.preload`.

    Snakemake starts a Python interpreter for every script, and importing what a script needs takes one to four
    seconds, longer than most jobs of scale demo and than many of larger scales. Each script still has a process of its
    own, with its own environment, memory, log and exit code. Jobs in a conda environment or a container, and jobs that
    a cluster runs, start as Snakemake starts them.

    So do all jobs of a short plan, for which it would not pay to import everything. All scripts take this package from
    the folder of the Snakefile, as the Snakefile itself does, whichever is installed; those in a conda environment or a
    container take the one that is installed there.

    Args:
        workflow: Snakemake's, with the plan of this run.
        argv: the command line of Snakemake, `sys.argv`.
    """
    _search_path()
    if "--mode" in argv:
        return
    from multiprocessing.connection import wait

    from snakemake.script import PythonScript

    usual = PythonScript.execute_script
    pays: list[bool] = []
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    starting = threading.Lock()

    def execute_script(script: Any, fname: str, edit: bool = False) -> None:
        with starting:
            if not pays:
                pays.append(sum(1 for _ in workflow.dag.needrun_jobs()) >= SHORTEST_PLAN)
        elsewhere = (script.conda_env, script.container_img, script.env_modules) != (None, None, None)
        if elsewhere or not pays[0]:
            usual(script, fname, edit=edit)
            return
        process = context.Process(target=run_script, args=(fname, environment(script.threads, script.resources)))
        with starting:
            process.start()
        with measured(process.pid, script.bench_record):
            wait([process.sentinel])
        # Starting a process reads the exit codes of all that have ended, and an exit code can be read only once.
        with starting:
            process.join()
        if process.exitcode:
            raise subprocess.CalledProcessError(process.exitcode, f"python {fname}")

    PythonScript.execute_script = execute_script


def _search_path() -> None:
    """Let processes that this one starts, which do not get its `sys.path`, find the package of this Snakefile first."""
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    here = str(PACKAGE.parent)
    if others[:1] != [here]:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *others])


def environment(threads: int, resources: Any) -> dict[str, str]:
    """Environment variables that Snakemake gives a script: cores of linear algebra, folder of scratch files."""
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
    """Snakemake's measurement of a process, where the job has a benchmark; of one that has ended, only its time."""
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
