"""What jobs ask for: cores, memory and GPUs."""

from typing import Any

from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.pipeline.inputs import Inputs, Wildcards

MOST_CORES = 16
"""Largest number of cores of one job on a CPU."""
CORES_BESIDE_GPU = 4
FIXED_MEMORY = 4000
"""Megabytes for Python, JAX and a compilation."""


class JobResources:
    """Resources of the rules that compute with JAX."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._gpu = inputs.atlas.settings.device == "gpu"
        self._demo = inputs.atlas.settings.scale == "demo"
        self.prediction_threads = 1 if self._demo else 4
        """Cores of a job that predicts."""
        self.environment = "python-gpu" if self._gpu else "python"
        """Name of the conda environment."""

    def gpus(self, w: Wildcards) -> int:
        """GPUs of a job of a run."""
        return self._gpus(self._inputs.run(w).config.data_shards)

    def start_gpus(self, w: Wildcards) -> int:
        """GPUs of a job that trains warm starts."""
        return self._gpus(1)

    def chain_threads(self, w: Wildcards) -> int:
        """Cores of a job that runs a block of chains."""
        config: RunConfig = self._inputs.run(w).config
        return self._threads(config.block_size, config.data_shards)

    def start_threads(self, w: Wildcards) -> int:
        """Cores of a job that trains warm starts."""
        return self._threads(len(self._inputs.shared_starts[w.key].members), 1)

    def chain_memory(self, w: Wildcards, input: Any, threads: int) -> int:
        """Megabytes of a job with a block of chains."""
        return self._memory(self._inputs.run(w).config.gradient_memory_mb, input.size_mb, threads)

    def start_memory(self, w: Wildcards, input: Any, threads: int) -> int:
        """Megabytes of a job that trains warm starts."""
        return self._memory(self._inputs.shared_starts[w.key].posterior.gradient_memory_mb, input.size_mb, threads)

    def prediction_memory(self, w: Wildcards) -> int:
        """Megabytes of a job that predicts."""
        return 3000 + self._inputs.run(w).config.gradient_memory_mb

    def _gpus(self, shards: int) -> int:
        return shards if self._gpu else 0

    def _threads(self, chains: int, shards: int) -> int:
        """One core for each chain and for each device that shares its data.

        At scale `demo`, one core for each device: such a job mostly compiles, which takes one core.
        """
        if self._demo:
            return shards
        return CORES_BESIDE_GPU if self._gpu else min(chains * shards, MOST_CORES)

    def _memory(self, gradient_memory_mb: int, input_mb: float, threads: int) -> int:
        """Megabytes for what each device of a CPU holds: rows as 4-byte numbers, and what a gradient over them keeps.

        The prepared file may hold single bytes, and rows are in memory twice while they are being copied to the device.
        """
        devices = 1 if self._gpu else threads
        kept = min(gradient_memory_mb, 1000 * input_mb)
        return int(FIXED_MEMORY + devices * (8 * input_mb + kept))
