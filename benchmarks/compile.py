"""Time that a sampling job spends on tracing, compiling and loading programs, with an empty cache and with a warm one.

For each network and method three jobs, a process each, run a few steps one after another: the first finds an empty
compilation cache; the second is the same job; the third has other data of the same shape and another seed.
"""

import argparse
import csv
import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import report
from machine import cores, environment, processor

HERE = Path(__file__).parent
NETWORKS = ("16x4 regression", "784-256-256-10 classification")
METHODS = ("mclmc", "hmc")
JOBS = {"first": 0, "same": 0, "other data and seed": 1}
"""Kinds of job, in order, and their seeds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each job (default 2)")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--output", type=Path, default=HERE / "results" / "compile.csv")
    parser.add_argument(
        "--job", nargs=3, metavar=("NETWORK", "METHOD", "SEED"), help="run one job and print what it took"
    )
    options = parser.parse_args()
    if options.job:
        print(json.dumps(job(options.job[0], options.job[1], int(options.job[2]))))
        return
    jobs = options.rounds * len(options.networks) * len(options.methods) * len(JOBS)
    print(f"{jobs} jobs: about {jobs * 5 / 60:.0f} minutes")
    rows: list[dict[str, Any]] = []
    for repeat in range(options.rounds):
        for network in options.networks:
            for method in options.methods:
                rows += measure(network, method, repeat)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print("\n" + report.compile_time(pd.read_csv(options.output)))


def measure(network: str, method: str, repeat: int) -> list[dict[str, Any]]:
    """Run the three jobs, with a cache of their own."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for kind, seed in JOBS.items():
            command = [sys.executable, str(Path(__file__).resolve()), "--job", network, method, str(seed)]
            done = subprocess.run(
                command, env=environment(BNN_ATLAS_CACHE=cache), stdout=subprocess.PIPE, text=True, check=True
            )
            measured = json.loads(done.stdout)
            rows.append({"network": network, "method": method, "job": kind, "repeat": repeat, **measured})
            print(
                "{network}, {method}, {job}: {seconds:.2f} s for {programs} programs, of which {compiled} compiled "
                "in {compiling_seconds:.2f} s".format(**rows[-1]),
                flush=True,
            )
    return rows


class Compilation:
    """What JAX reports about tracing, lowering, compiling and loading in this process."""

    def __init__(self) -> None:
        from jax import monitoring

        self.spans: list[tuple[float, float]] = []
        self.compiled: list[float] = []
        self.loaded = 0
        self._was_loaded = threading.local()
        monitoring.register_event_time_span_listener(self._span)
        monitoring.register_event_listener(self._event)
        monitoring.register_event_duration_secs_listener(self._duration)

    def _span(self, event: str, begin: float, end: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            self.spans.append((begin, end))

    def _event(self, event: str, **_: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            self._was_loaded.now = True

    def _duration(self, event: str, seconds: float, **_: Any) -> None:
        if event != "/jax/core/compile/backend_compile_duration":
            return
        if getattr(self._was_loaded, "now", False):
            self._was_loaded.now = False
            self.loaded += 1
        else:
            self.compiled.append(seconds)


def job(network: str, method: str, seed: int) -> dict[str, Any]:
    """Sample a few steps; returns what their compilation took."""
    from bnn_atlas.runtime import configure

    configure(cores())
    watched = Compilation()
    from bnn_atlas.config.methods.hmc import HMCConfig
    from bnn_atlas.config.methods.mclmc import MCLMCConfig
    from bnn_atlas.methods.hmc import build_hmc
    from bnn_atlas.methods.mclmc_tuning import build_mile
    from bnn_atlas.runner.segments import Block, run_block
    from problems import classification, regression
    from work import Work

    logging.disable()
    begun = time.perf_counter()
    if network == NETWORKS[0]:
        posterior, data, starts = regression(Work((16,) * 4, 1202, cores()), seed=seed)
    else:
        posterior, data, starts = classification((256, 256), 784, 10, 128, cores(), seed)
    if method == "mclmc":
        settings = MCLMCConfig(warmup=100, steps=20, thinning=10, step_size_init=1e-4)
        sampler = build_mile(settings, posterior, data)
    else:
        short = HMCConfig(burn_in=2, steps=2, step_size=1e-4, trajectory_length=2e-4)
        sampler = build_hmc(short, posterior, data)
    with tempfile.TemporaryDirectory() as folder:
        block = Block(starts, np.arange(len(starts)), seed, Path(folder) / "trace.zarr", "benchmark", {})
        run_block(sampler, posterior, data, block, checkpoint_every=100)
    return {
        "seconds": round(covered(watched.spans), 3),
        "programs": watched.loaded + len(watched.compiled),
        "compiled": len(watched.compiled),
        "compiling_seconds": round(sum(watched.compiled), 3),
        "longest_compiled": round(max(watched.compiled, default=0.0), 3),
        "whole_seconds": round(time.perf_counter() - begun, 3),
        "processor": processor(),
        "cores": cores(),
        "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax")),
    }


def covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of some intervals."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


if __name__ == "__main__":
    main()
