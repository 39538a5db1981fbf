"""Resources that jobs request: cores, memory and GPUs."""

from collections.abc import Callable
from functools import partial
from typing import Any

from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.pipeline.inputs import Inputs, Wildcards

MOST_CORES = 16
"""Largest number of cores of one job on a CPU."""
CORES_BESIDE_GPU = 4
FIXED_MEMORY = 4000
"""Megabytes for Python, JAX and a compilation."""
SMALL_RULES = ("subset", "layer_traces", "score_sets", "score_against")
"""Rules that only copy or compare numbers, whatever the network."""


def _rule_of_small_jobs(rule: str, w: Wildcards) -> str:
    return f"small-{rule}"


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

    @property
    def groups(self) -> dict[str, Callable[[Wildcards], str]]:
        """Rule -> the group of a job; groups of small jobs can share a Slurm job.

        Jobs count as small if their networks are for tables, or if they only compare or copy numbers. A run that
        depends on another run's draws is in a later group, since no group may wait for itself. GPU jobs do not share a
        Slurm job.
        """
        if self._gpu:
            return {}
        return {
            "warmstart": lambda w: self._group("warmstarts", self._inputs.shared_starts[w.key].split.dataset, w.key),
            "sample": lambda w: self._group_of_run("samples", w, f"-block{w.block}"),
            **dict.fromkeys(("predict", "metrics", "diagnostics_page"), lambda w: self._group_of_run("scores", w)),
            **{rule: partial(_rule_of_small_jobs, rule) for rule in SMALL_RULES},
        }

    def _group(self, what: str, dataset: str, single: str) -> str:
        is_small = self._inputs.atlas.datasets[dataset].kind == "table"
        return f"small-{what}" if is_small else f"{what}-{single}"

    def _group_of_run(self, what: str, w: Wildcards, block: str = "") -> str:
        run = self._inputs.run(w)
        single = f"{w.study}-{w.run}-split{w.split}{block}"
        return self._group(f"{what}{self._inputs.depth(run)}", run.config.dataset, single)

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
        """Megabytes for each device of a CPU: rows as 4-byte numbers, and the intermediate values of a gradient.

        The prepared file may hold single bytes, and rows are in memory twice while they are being copied to the device.
        """
        devices = 1 if self._gpu else threads
        kept = min(gradient_memory_mb, 1000 * input_mb)
        return int(FIXED_MEMORY + devices * (8 * input_mb + kept))
