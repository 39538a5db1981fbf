"""Devices, precision and compilation cache of a job; call `configure` before JAX computes."""

import importlib.util
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

MOST_DEVICES = 4096
"""Devices that a process can have."""


def configure(threads: int = 1, device: str = "cpu", float64: bool = False, shards: int = 1) -> None:
    """Set up JAX for one job.

    On a CPU every core of the job is one XLA device, and the devices share a pool of as many threads. XLA divides long
    sums and products among that pool: above some ten thousand parameters or rows, the rounding of a chain depends on
    `threads`, but never on the machine's other cores. Compiled programs are kept in the user's cache folder, separately
    for each processor type. Other flags in XLA_FLAGS are not changed.

    Args:
        threads: cores of this job.
        device: `cpu` or `gpu`.
        float64: compute in double precision.
        shards: devices that share the data of a chain; a CPU gets at least this many devices, whatever its cores.

    Raises:
        ValueError: an argument is none of the values that it can have.
        RuntimeError: JAX cannot use GPUs here, or has already computed with other settings.
    """
    for name, number in (("threads", threads), ("shards", shards)):
        if isinstance(number, bool) or not hasattr(number, "__index__") or not 1 <= number <= MOST_DEVICES:
            raise ValueError(f"{name} is {number!r:.80}, but a whole number from 1 to {MOST_DEVICES} is needed")
    if device not in ("cpu", "gpu"):
        raise ValueError(f"device is {device!r:.80}, but 'cpu' or 'gpu' is needed")
    if not isinstance(float64, bool):
        raise ValueError(f"float64 is {float64!r:.80}, but True or False is needed")
    if device == "gpu" and not any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13)):
        raise RuntimeError(
            "device: gpu needs JAX for CUDA, which this environment does not have: run `make setup DEVICE=gpu` "
            "(with --sdm conda, envs/python-gpu.yaml has it), or set device: cpu in config/config.yaml"
        )
    flags = (
        f"--xla_force_host_platform_device_count={max(threads, shards)} --xla_cpu_multi_thread_eigen=false "
        "--xla_cpu_prefer_vector_width=512"
    )
    set_here = [flag.partition("=")[0] for flag in flags.split()]
    others = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag.partition("=")[0] not in set_here]
    settings = {
        "XLA_FLAGS": " ".join([*others, flags]),
        "NPROC": "1",  # the pool has one thread per device, and none for other cores
        "JAX_PLATFORMS": "cpu" if device == "cpu" else "cuda",
        "JAX_ENABLE_X64": "1" if float64 else "0",
    }
    if device == "gpu":
        # GPUs would multiply in TF32, whose rounding errors make leapfrog steps inaccurate.
        settings["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
        # JAX would reserve three quarters of the memory at once and leave none for a second job or program.
        settings["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if _computes():
        for name, value in settings.items():
            if os.environ.get(name) != value:
                raise RuntimeError(
                    f"configure() must be called before JAX computes: {name} is {os.environ.get(name)!r} "
                    f"and cannot become {value!r} any more"
                )
    settings["JAX_COMPILATION_CACHE_DIR"] = str(cache_folder() / "xla" / _folder_name(processor()))
    settings["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ.update(settings)
    if "jax" in sys.modules:
        _update_jax(settings)


def on_cpu() -> bool:
    """Whether this process computes on CPUs, one chain at a time on each device, and not all chains at once on a GPU.

    Everything that differs between the two asks here: how chains are mapped, how convolutions are computed, and how
    many rows or points are taken together.
    """
    import jax

    return jax.default_backend() == "cpu"


def _computes() -> bool:
    """Whether JAX has initialised its devices."""
    if "jax" not in sys.modules:
        return False
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()


def _update_jax(settings: Mapping[str, str]) -> None:
    """Pass on to JAX the settings that it reads from the environment only during its import."""
    import jax

    for name, value in settings.items():
        if name.startswith("JAX_"):
            kind = type(getattr(jax.config, name.lower()))
            jax.config.update(name.lower(), kind(float(value)) if kind in (bool, float) else value)


def cache_folder() -> Path:
    """Folder shared by all clones of a user: BNN_ATLAS_CACHE, or else bnn_atlas in the user's cache folder."""
    if folder := os.environ.get("BNN_ATLAS_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bnn_atlas"


def processor() -> str:
    """Name of this machine's processor type."""
    try:
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        match = None
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def _folder_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
