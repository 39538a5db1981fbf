"""Imports of the process that local jobs are forks of: all packages that take long, and no thread or device.

Jobs differ in cores and precision, which JAX takes when it first computes; nothing here may compute. BlackJAX computes
while it is imported, and so stays out.
"""

import os

# A fork would lose BLAS's pool of threads; each job sets its own number.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import gc
import importlib
import re

from bnn_atlas.sources import code_of, read_sources

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
"""Rooms of which jobs need little, but for the steps. All others are imported, except what imports BlackJAX."""


def without_blackjax(name: str) -> bool:
    """Whether importing a module of this package imports no BlackJAX."""
    return not any(re.search(rb"^(from|import) blackjax\b", file.read_bytes(), re.MULTILINE) for file in code_of(name))


gc.disable()
for name in PACKAGES:
    importlib.import_module(name)
for path in read_sources():  # the digests of jobs are of the code that is imported here
    parts = ("bnn_atlas", *path.removesuffix(".py").split("/"))
    needed = parts[1] not in LEFT_OUT or "steps" in parts
    if needed and parts[-1] != "__init__" and without_blackjax(".".join(parts)):
        importlib.import_module(".".join(parts))
gc.freeze()  # or a fork would copy every page that its first collection marks
gc.enable()
