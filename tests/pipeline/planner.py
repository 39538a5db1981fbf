"""A process that has imported Snakemake and becomes it in forks of itself, by `planner.serve()`.

A request on its input is a line of JSON: a folder, the arguments of Snakemake and a file for what it prints. The answer
is the exit code.
"""

import json
import os
import sys

# A fork would lose BLAS's pool of threads.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import jinja2
import jsonschema
import pandas
import PIL.Image
import pyarrow
import pydantic
import scipy.special
import snakemake.report.html_reporter
from snakemake.cli import main

IMPORTED = (jinja2, jsonschema, pandas, PIL.Image, pyarrow, pydantic, scipy.special, snakemake.report.html_reporter)
"""What a plan needs, without the library: each folder has its own."""


def become_snakemake(folder: str, arguments: list[str], output: str) -> None:
    """Become `python -m snakemake ARGUMENTS` in a folder."""
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv[1:] = arguments
    sys.exit(main())


def serve() -> None:
    """Answer requests until the input ends."""
    assert "bnn_atlas" not in sys.modules
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become_snakemake(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
