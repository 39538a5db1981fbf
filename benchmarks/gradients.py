"""Full-batch gradients per second: the sampler inside the runner, and a bare loop over gradients, in turn.

A 5-16-16-16-16-2 network on 1,202 rows (the size of airfoil's training set; the numbers are random), 10 chains. The
rate of the sampler is that of MCLMC with everything around it: random numbers, integrator, trace, checkpoints.
"""

import argparse
import csv
import logging
import os
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import report
from machine import cores, gradient_flop, matmul_gflops, processor

FEATURES, HIDDEN, ROWS, CHAINS = 5, (16, 16, 16, 16), 1202, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--gradients", type=int, default=4000, help="per chain and round (default 4000)")
    parser.add_argument("--output", type=Path, help="default: results/gradients.csv for the default work, else nothing")
    options = parser.parse_args()
    if options.output is None and options.gradients == parser.get_default("gradients"):
        options.output = Path(__file__).parent / "results" / "gradients.csv"
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options.repeats, options.gradients, Path(folder))
    print("\n" + report.gradients(pd.DataFrame(rows)))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with options.output.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def measure(repeats: int, gradients: int, folder: Path) -> list[dict[str, object]]:
    """Rates of both loops, `repeats` times in turn."""
    loops = build(gradients, folder)
    flop = gradient_flop([FEATURES, *HIDDEN, 2], ROWS)
    rows: list[dict[str, object]] = []
    for repeat in range(repeats):
        for name, loop in loops.items():
            products, rate = matmul_gflops(), loop()
            rows.append(
                {
                    "repeat": repeat,
                    "loop": name,
                    "gradients_per_second": round(rate, 1),
                    "gflops": round(rate * flop / 1e9, 2),
                    "matmul_gflops": round(products, 1),
                    "share": round(rate * flop / 1e9 / products, 4),
                    "processor": processor(),
                    "cores": cores(),
                    "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax")),
                }
            )
            print(f"{name:8} {rate:8.0f} chain-gradients/s, products {products:.0f} GFLOP/s", flush=True)
    return rows


def build(gradients: int, folder: Path) -> dict[str, Callable[[], float]]:
    """Loops by name; a call of one measures its rate, without compilation."""
    os.environ["BNN_ATLAS_CACHE"] = str(folder)
    from bnn_atlas.runtime import configure

    configure(cores())
    import jax

    from bnn_atlas.config.methods import MCLMCConfig
    from bnn_atlas.config.posterior import HeteroscedasticLikelihood, MLPConfig, StandardNormalPrior
    from bnn_atlas.placement import Placement
    from bnn_atlas.posterior.density import PosteriorData, build_posterior, posterior_data
    from bnn_atlas.samplers import run
    from bnn_atlas.samplers.mile import build_mile

    logging.disable()
    generator = np.random.default_rng(0)
    posterior, prior = build_posterior(
        MLPConfig(hidden=HIDDEN),
        HeteroscedasticLikelihood(head="softplus"),
        StandardNormalPrior(),
        temperature=1.0,
        shape=(FEATURES,),
    )
    data = posterior_data(generator.normal(size=(ROWS, FEATURES)), generator.normal(size=ROWS), prior)
    keys = jax.random.split(jax.random.key(0), CHAINS)
    starts = np.stack([posterior.network.initialise(key) for key in keys])

    def climb(data: PosteriorData, theta: jax.Array) -> jax.Array:
        batch = posterior.arrange(data)

        def step(_: jax.Array, theta: jax.Array) -> jax.Array:
            return theta + 1e-6 * posterior.evaluate(theta, batch).gradient

        return jax.lax.fori_loop(0, gradients, step, theta)

    place = Placement(CHAINS)
    climbing = place.map(climb)
    arguments = place.share(data), place.put(starts)
    jax.block_until_ready(climbing(*arguments))

    def bare() -> float:
        begun = time.perf_counter()
        jax.block_until_ready(climbing(*arguments))
        return CHAINS * gradients / (time.perf_counter() - begun)

    segments = 5
    segment = gradients // 2 // segments // 10 * 10
    method = MCLMCConfig(
        warmup=100, steps=(segments + 1) * segment, thinning=10, step_size_init=1e-3, checkpoint_every=segment
    )
    sampler = build_mile(method, posterior.layout.size, temperature=1.0)
    ends: list[float] = []

    class Ends(run.ProgressReport):
        """Notes when each segment of the last phase has been written."""

        def advance(self, phase: str, steps: int) -> None:
            if phase == "sampling":
                ends.append(time.perf_counter())

    run.ProgressReport = Ends  # type: ignore[misc]

    def inside_runner() -> float:
        ends.clear()
        with tempfile.TemporaryDirectory(dir=folder) as trace:
            block = run.Block(starts, np.arange(CHAINS), 0, Path(trace) / "trace.zarr", "benchmark", {})
            run.run_block(sampler, posterior, data, block, method.checkpoint_every)
        return 2 * CHAINS * segment * segments / (ends[-1] - ends[0])

    return {"bare": bare, "sampler": inside_runner}


if __name__ == "__main__":
    main()
