"""Chain-gradients per second against the number of chains, and what the papers' largest runs would take, on one device.

The 16-wide network with four hidden layers on 1,202 rows. First the device's values are compared with a CPU's: one
gradient, some steps of MCLMC, a transition of HMC. Then gradients alone and MCLMC inside the runner are measured for
each number of chains, beside the device's rate of matrix products; then every phase of the run with 10,000 chains,
50,000 tuning steps and 10,000 steps thinned by 10 is timed in part, and the whole estimated. At the end come the
full-data gradients of the networks with which Izmailov et al. (2021) ran HMC, on random rows as many as theirs.
"""

import argparse
import csv
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import report
from machine import cores, environment
from work import Work

if TYPE_CHECKING:
    from bnn_atlas.methods.contract import Phase

HERE = Path(__file__).parent
HIDDEN, ROWS = (16, 16, 16, 16), 1202
WARMUP, STEPS, THINNING = 50_000, 10_000, 10
CALL_FLOP = 2e12
LONGEST_CALL = 10_000
"""Gradients of each chain in a call at most, since few chains leave a GPU waiting for itself."""
SIZES = {"cpu": 1024, "gpu": 8192}
"""Rows and columns of the matrices that are multiplied."""
SEGMENT_BYTES = 2e9
"""Bytes that the kept draws of a segment may take on the device."""
COMPARED_CHAINS, COMPARED_STEPS = 8, 5
NETWORKS = {
    "ResNet-20 on CIFAR-10": ({"kind": "resnet_frn"}, (32, 32, 3), 50_000, 10, 0),
    "CNN-LSTM on IMDB": ({"kind": "cnn_lstm"}, (100,), 20_000, 2, 20_000),
}
"""Name -> model, shape of a row, rows, classes and vocabulary."""
GRADIENT_BYTES = 4e9
"""That a gradient may take, the default of `gradient_memory_mb`."""
TOLERANCE = 1e-3
"""Largest difference from a CPU, relative to the largest value; rounding in float32 stays far below it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="gpu")
    parser.add_argument("--chains", nargs="+", type=int, default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each (default 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a measurement, about (default 2)")
    parser.add_argument("--call-flop", type=float, default=CALL_FLOP, help="FLOP of a call of a loop (default 2e12)")
    parser.add_argument("--precision", help="of matrix products, as jax_default_matmul_precision; default: JAX's")
    parser.add_argument(
        "--run-chains", type=int, default=10_000, help="chains of the run that is estimated (default 10000)"
    )
    parser.add_argument(
        "--run-part",
        nargs=2,
        type=int,
        default=(5000, 1000),
        metavar=("WARMUP", "STEPS"),
        help="the part of it that is timed",
    )
    parser.add_argument("--network-rows", type=int, help="rows of the large networks (default: all of the papers')")
    parser.add_argument("--folder", type=Path, help="with space for the run's draws (default: TMPDIR)")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder (default results/)")
    parser.add_argument("--part", choices=PARTS, help="do one part in this process and print its rows")
    options = parser.parse_args()
    if options.part:
        answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        answers.write(json.dumps(PARTS[options.part](options)))
        answers.close()
        return
    options.output.mkdir(parents=True, exist_ok=True)
    finish(options.output / "gpu_values.csv", compare(options))
    for part in ("rates", "run", "networks"):
        finish(options.output / f"gpu_{part}.csv", child(part, options.device))
    names = ("gpu_values", "gpu_rates", "gpu_run", "gpu_networks")
    print("\n" + report.gpu(*(pd.read_csv(options.output / f"{name}.csv") for name in names)))


def child(part: str, device: str) -> Any:
    """The output of a part, run in a process of its own with the other arguments of this process."""
    command = [sys.executable, *sys.argv, "--part", part, "--device", device]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def finish(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def start(options: argparse.Namespace) -> dict[str, str]:
    """Set up JAX; what is measured on."""
    from bnn_atlas.runtime import configure

    configure(cores(), options.device)
    if options.precision:
        os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = options.precision
    import jax

    logging.disable()
    device = jax.devices()[0]
    return {
        "device": f"{device.platform} {device.device_kind}",
        "precision": options.precision or "default",
        "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax")),
    }


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Largest relative differences between the device and a CPU; ends the program where they are not rounding."""
    results, expected = child("values", options.device), child("reference", "cpu")
    rows = []
    for name, values in expected["values"].items():
        reference = np.array(values)
        difference = float(np.abs(np.array(results["values"][name]) - reference).max() / np.abs(reference).max())
        rows.append({"value": name, "difference": float(f"{difference:.3g}"), **results["about"]})
        print(f"{name}: differs by {difference:.2g} of the largest value", flush=True)
        if not (np.abs(reference).max() > 0 and difference < TOLERANCE):
            sys.exit(f"{name} differs from the CPU's by more than {TOLERANCE:g}: try --precision highest")
    return rows


def values(options: argparse.Namespace, batched: bool = True) -> dict[str, Any]:
    """Values of some chains, batched as they are on a GPU."""
    about = start(options)
    import jax

    from bnn_atlas.placement import Placement
    from bnn_atlas.posterior.density import PosteriorData, binder
    from problems import regression

    work = Work(HIDDEN, ROWS, COMPARED_CHAINS)
    posterior, data, starts = regression(work)
    bind = binder(posterior)
    samplers = {"MCLMC": mclmc(100, 10, 10, posterior, data), "HMC": hmc(10, 1e-3, posterior, data)}

    def one(data: PosteriorData, theta: jax.Array) -> dict[str, jax.Array]:
        target, key = bind(data), jax.random.key(0)
        evaluation = target.evaluate(theta)
        results = {"log-likelihood": evaluation.density.log_likelihood, "gradient": evaluation.gradient}
        for name, sampler in samplers.items():
            phase = sampler.phases[-1]

            def step(index: jax.Array, state: Any, phase: Any = phase) -> Any:
                return phase.step(jax.random.fold_in(key, index), index, state, target, phase.settings)[0]

            state = jax.lax.fori_loop(0, COMPARED_STEPS, step, sampler.init(key, theta, target))
            results[f"way of {COMPARED_STEPS} steps of {name}"] = sampler.position(state) - theta
        return results

    place = Placement(COMPARED_CHAINS, batched=batched)
    results = place.get(place.map(one)(place.share(data), place.put(starts)))
    return {"values": {name: value.tolist() for name, value in results.items()}, "about": about}


def reference(options: argparse.Namespace) -> dict[str, Any]:
    """The same, one chain after another."""
    return values(options, batched=False)


def mclmc(warmup: int, steps: int, thinning: int, posterior: Any, data: Any) -> Any:
    """MILE, with a step size at which nothing diverges before it is tuned."""
    from bnn_atlas.config.methods.mclmc import MCLMCConfig
    from bnn_atlas.methods.mclmc_tuning import build_mile

    settings = MCLMCConfig(warmup=warmup, steps=steps, thinning=thinning, step_size_init=0.01)
    return build_mile(settings, posterior, data)


def hmc(leapfrog_steps: int, step_size: float, posterior: Any, data: Any) -> Any:
    """Trajectories of fixed length."""
    from bnn_atlas.config.methods.hmc import HMCConfig
    from bnn_atlas.methods.hmc import build_hmc

    length = (leapfrog_steps - 0.5) * step_size
    settings = HMCConfig(burn_in=0, step_size=step_size, trajectory_length=length, jitter=0.0)
    return build_hmc(settings, posterior, data)


def rates(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Chain-gradients per second alone and inside the runner, and the share of the matrix-product rate."""
    about = start(options)
    from loops import bare, inside_runner
    from problems import regression

    rows = []
    for chains in options.chains:
        work = Work(HIDDEN, ROWS, chains)
        work = work._replace(call_flop=min(options.call_flop, LONGEST_CALL * chains * work.flop))
        problem = regression(work)
        loops = {
            "gradients alone": bare(problem, work),
            "MCLMC inside the runner": inside_runner(problem, work, "mclmc", options.folder),
        }
        for loop in loops.values():
            loop.run(1)
        once = {name: loop.run(1) for name, loop in loops.items()}
        for repeat in range(options.rounds):
            limit = products()
            for name, loop in loops.items():
                calls = max(1, round(options.seconds / once[name]))
                rate = loop.gradients * calls / loop.run(calls)
                rows.append(
                    {
                        "chains": chains,
                        "loop": name,
                        "repeat": repeat,
                        "gradients_per_second": float(f"{rate:.5g}"),
                        "gflops": float(f"{rate * work.flop / 1e9:.4g}"),
                        "matmul_gflops": float(f"{limit:.4g}"),
                        "share": round(rate * work.flop / 1e9 / limit, 4),
                        **about,
                    }
                )
                print(f"{chains:6} chains, {name}: {rate:.5g} chain-gradients/s, {rows[-1]['share']:.1%}", flush=True)
    return rows


def products() -> float:
    """GFLOP/s of matrix products in float32 on the device, at the precision of the sampler."""
    import jax

    size = SIZES[jax.default_backend()]
    matrix = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(matrix))
    seconds = []
    for _ in range(10):
        begun = time.perf_counter()
        jax.block_until_ready(product(matrix))
        seconds.append(time.perf_counter() - begun)
    return 2 * size**3 / float(np.median(seconds)) / 1e9


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of each stretch of the run, estimated from the time that a part of it takes."""
    about = start(options)
    from bnn_atlas.runner import segments as runner
    from problems import regression

    chains = options.run_chains
    posterior, data, starts = regression(Work(HIDDEN, ROWS, chains))
    part, whole = (mclmc(*steps, THINNING, posterior, data) for steps in (options.run_part, (WARMUP, STEPS)))
    shortest = min(phase.steps for phase in part.phases)
    segment = max(10, min(1000, shortest // 2, int(SEGMENT_BYTES / (4 * posterior.layout.size * chains))) // 10 * 10)
    ends: list[End] = []
    begun = time.perf_counter()

    class Ends(runner.ProgressReport):
        """Notes when each segment has been written."""

        def advance(self, phase: str, steps: int) -> None:
            ends.append(End(phase, steps, time.perf_counter() - begun))

    runner.ProgressReport = Ends  # type: ignore[misc]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        block = runner.Block(starts, np.arange(chains), 0, Path(folder) / "trace.zarr", "benchmark", {})
        runner.run_block(part, posterior, data, block, segment)
    rows = []
    for name, in_part, in_whole in stretches(ends, part.phases, whole.phases):
        rows.append(
            {
                "chains": chains,
                "stretch": name,
                "part_seconds": round(in_part, 3),
                "seconds": round(in_whole, 2),
                **about,
            }
        )
        print(f"{name}: {in_part:.2f} s of the part, so {in_whole:.1f} s of the whole", flush=True)
    return rows


def networks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of a full-data gradient of one chain for the networks and both precisions."""
    about = start(options)
    import jax
    from pydantic import TypeAdapter

    from bnn_atlas.config.parts.posterior import CategoricalLikelihood, ModelConfig
    from bnn_atlas.config.parts.priors import NormalPrior
    from bnn_atlas.inference.problem import within_budget
    from bnn_atlas.posterior.density import binder, build_posterior, posterior_data

    rows, rng = [], np.random.default_rng(0)
    for name, (settings, shape, papers, classes, vocabulary) in NETWORKS.items():
        count = options.network_rows or papers
        x = rng.integers(vocabulary, size=(count, *shape)) if vocabulary else rng.normal(size=(count, *shape))
        y = rng.integers(classes, size=count)
        about_rows = {"shape": shape, "classes": classes, "vocabulary": vocabulary}
        for dtype in ("float32", "float64"):
            with jax.enable_x64(dtype == "float64"):
                model = TypeAdapter(ModelConfig).validate_python(settings)
                posterior, prior = build_posterior(
                    model,
                    CategoricalLikelihood(),
                    NormalPrior(scale=0.1),
                    temperature=1.0,
                    dtype=jax.numpy.dtype(dtype),
                    **about_rows,
                )
                data = posterior_data(x, y, prior, vocabulary=vocabulary)
                posterior = within_budget(posterior, data, GRADIENT_BYTES)
                bind = binder(posterior)
                gradient = jax.jit(lambda data, theta, bind=bind: bind(data).evaluate(theta).gradient)
                theta = posterior.network.initialise(jax.random.key(0)).astype(dtype)
                data = jax.device_put(data)
                jax.block_until_ready(gradient(data, theta))
                for repeat in range(options.rounds):
                    begun = time.perf_counter()
                    jax.block_until_ready(gradient(data, theta))
                    seconds = time.perf_counter() - begun
                    taken = {"repeat": repeat, "seconds": float(f"{seconds:.4g}")}
                    pieces = {"rows": count, "micro_batches": posterior.micro_batches}
                    rows.append({"network": name, "dtype": dtype, **pieces, **taken, **about})
                print(f"{name}, {dtype}: {rows[-1]['seconds']} s a gradient of {count} rows", flush=True)
    return rows


class End(NamedTuple):
    """A segment of this many steps was written at this time."""

    phase: str
    steps: int
    time: float


def stretches(
    ends: Sequence[End], part: "Sequence[Phase]", whole: "Sequence[Phase]"
) -> Iterator[tuple[str, float, float]]:
    """(name, seconds in the part, seconds in the whole) of each phase, and of the time before and between phases.

    The rate of a phase is measured from the end of its first segment. The time between two phases is what the first one
    computes on the host at its end, which grows with that phase if it uses its draws; the time before all phases is the
    start, with compilation.
    """
    gap, reached, growth = "start and compilation", 0.0, 1.0
    for timed, phase in zip(part, whole, strict=True):
        first, *others = (end for end in ends if end.phase == phase.name)
        per_step = (others[-1].time - first.time) / sum(end.steps for end in others)
        waited = max(0.0, first.time - per_step * first.steps - reached)
        yield gap, waited, waited * growth
        yield phase.name, per_step * timed.steps, per_step * phase.steps
        gap, reached = f"ending of '{phase.name}'", others[-1].time
        growth = phase.steps / timed.steps if phase.keep else 1.0


PARTS = {"values": values, "reference": reference, "rates": rates, "run": run, "networks": networks}

if __name__ == "__main__":
    main()
