"""Imports of the process from which local jobs are forked: all packages that take long, but no threads or devices.

Jobs differ in cores and precision, which JAX fixes when it first computes, so nothing here may compute. BlackJAX
computes while it is imported, so it is left out.
"""

import os

# A fork would lose BLAS's pool of threads; each job sets its own number of threads.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import gc
import importlib
import re
import signal

from bnn_atlas.records import commit_here
from bnn_atlas.sources import code_of, read_sources

# Ctrl-C ends this process without a traceback of the import that it interrupts; jobs get Python's handler again.
INTERRUPTED = signal.signal(signal.SIGINT, signal.SIG_DFL)

PACKAGES = (
    "flax.linen",
    "jax",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "matplotlib.pyplot",
    "optax",
    "pandas",
    "pyarrow.parquet",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sklearn.datasets",
    "sklearn.model_selection",
    "snakemake.cli",
    "zarr",
)
LEFT_OUT = ("config", "library", "pipeline")
"""Rooms from which jobs need little except the steps. All other rooms are imported, except modules that use
BlackJAX."""


def without_blackjax(name: str) -> bool:
    """Whether a module of this package can be imported without importing BlackJAX."""
    return not any(re.search(rb"^(from|import) blackjax\b", file.read_bytes(), re.MULTILINE) for file in code_of(name))


gc.disable()
for name in PACKAGES:
    importlib.import_module(name)
for path in read_sources():  # jobs hash the code that is imported here
    parts = ("bnn_atlas", *path.removesuffix(".py").split("/"))
    needed = parts[1] not in LEFT_OUT or "steps" in parts
    if needed and parts[-1] != "__init__" and without_blackjax(".".join(parts)):
        importlib.import_module(".".join(parts))
commit_here()
gc.freeze()  # otherwise, a fork would copy every page that its first collection marks
gc.enable()
signal.signal(signal.SIGINT, INTERRUPTED)
