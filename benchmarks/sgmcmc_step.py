"""Time per gradient of the stochastic-gradient samplers against optax's SGD, on the same network, rows and batches.

All loops run in turn on one core, each compiled as a whole: choosing the rows, computing their gradient, updating the
state. Times are CPU times of all threads together. SGLD and pSGLD are compared with plain SGD, SGHMC with SGD with
momentum, SMILE, whose steps take two gradients, with SGLD, and BAOAB with SGLD on all rows. `noise` only draws the
random numbers of a step.
"""

import argparse
import csv
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas.runtime import configure
from machine import matmul_gflops, processor
from report import BASES

# One core for all threads, or those that spin while they wait for work would be counted.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
configure(1)

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bnn_atlas.config.methods.hmc import BAOABConfig
from bnn_atlas.config.methods.mclmc import SMILEConfig
from bnn_atlas.config.methods.sgmcmc import PSGLDConfig, SGHMCCLRPrecConfig, SGHMCConfig, SGLDConfig
from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    HeteroscedasticLikelihood,
    LeNetConfig,
    LikelihoodConfig,
    MLPConfig,
    ModelConfig,
)
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.keys import Role, role_key, step_key
from bnn_atlas.methods import minibatch
from bnn_atlas.methods.contract import build_method
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.posterior.density import PosteriorData, Target, binder, build_posterior, posterior_data

RESULT = Path(__file__).parent / "results" / "sgmcmc_step.csv"
RATE = 1e-7
MOST_ROWS = 2000
"""Most rows of which every step of a sampler takes all."""
DECAY = 0.9


class Work(NamedTuple):
    """A network with its rows; `steps` of one call."""

    name: str
    model: ModelConfig
    likelihood: LikelihoodConfig
    shape: tuple[int, ...]
    classes: int
    rows: int
    batch: int
    steps: int


WORKS = (
    Work("16x4 MLP", MLPConfig(hidden=(16,) * 4), HeteroscedasticLikelihood(), (5,), 0, 1202, 80, 6000),
    Work("256x2 MLP", MLPConfig(hidden=(256, 256)), CategoricalLikelihood(), (784,), 10, 60000, 80, 300),
    Work("LeNet", LeNetConfig(), CategoricalLikelihood(), (28, 28, 1), 10, 4000, 80, 25),
)


class Loop(NamedTuple):
    """Steps of a method, with `steps` gradients: the state before the first, and (data, state) -> what they made."""

    start: Any
    run: Callable[[PosteriorData, Any], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="rounds (default 9)")
    parser.add_argument("--works", nargs="+", choices=[work.name for work in WORKS], help="default: all")
    parser.add_argument("--output", type=Path, help="default: results/sgmcmc_step.csv; nothing with --works")
    options = parser.parse_args()
    rows = [
        row for work in WORKS if work.name in (options.works or work.name) for row in measure(work, options.repeats)
    ]
    output = options.output or (None if options.works else RESULT)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def measure(work: Work, repeats: int) -> list[dict[str, object]]:
    """Microseconds per gradient of all loops, `repeats` times in turn."""
    loops, parameters = build(work)
    rows: list[dict[str, object]] = []
    for repeat in range(repeats):
        products = matmul_gflops()
        for name, loop in loops.items():
            rows.append(
                {
                    "repeat": repeat,
                    "network": work.name,
                    "rows": work.rows,
                    "batch": work.batch,
                    "parameters": parameters,
                    "loop": name,
                    "microseconds": round(loop(), 3),
                    "matmul_gflops": round(products, 1),
                    "processor": processor(),
                    "cores": 1,
                    "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax", "optax")),
                }
            )
    times = {name: np.array([row["microseconds"] for row in rows if row["loop"] == name]) for name in loops}
    print(f"{work.name}, {parameters:,} parameters, {work.rows:,} rows in batches of {work.batch}")
    for name, values in times.items():
        base = times[BASES.get(name, "sgd")]
        print(
            f"  {name:15} {np.median(values):9.2f} us   {np.median(values / base):6.3f} times {BASES.get(name, 'sgd')}"
        )
    return rows


def build(work: Work) -> tuple[dict[str, Callable[[], float]], int]:
    """Loops by name, compiled; a call measures microseconds per gradient."""
    generator = np.random.default_rng(0)
    posterior, prior = build_posterior(
        work.model,
        work.likelihood,
        NormalPrior(scale=0.3),
        temperature=1.0,
        shape=work.shape,
        classes=work.classes,
    )
    x = generator.normal(size=(work.rows, *work.shape))
    y = generator.integers(work.classes, size=work.rows) if work.classes else generator.normal(size=work.rows)
    data = posterior_data(x, y, prior)
    start = posterior.network.initialise(jax.random.key(0))
    bind, key = binder(posterior), role_key(0, Role.SAMPLE, 0)
    lengths = {"epochs": 20, "burn_in_epochs": 0, "ensemble_every": 10, "batch_size": work.batch, "step_size": RATE}
    samplers = {
        "sgld": SGLDConfig(**lengths),
        "psgld": PSGLDConfig(**lengths),
        "sghmc": SGHMCConfig(**lengths, momentum_decay=DECAY),
        "sghmc_clr_prec": SGHMCCLRPrecConfig(**lengths, momentum_decay=DECAY),
        "smile": SMILEConfig(burn_in=1, batch_size=work.batch, step_size=RATE),
    }
    if work.rows <= MOST_ROWS:
        samplers |= {
            "sgld, all rows": SGLDConfig(**{**lengths, "batch_size": None}),
            "baoab": BAOABConfig(burn_in=0, step_size=RATE),
        }
    loops: dict[str, Loop] = {
        "sgd": descent(optax.sgd(RATE), start, bind, key, work),
        "sgd momentum": descent(optax.sgd(RATE, momentum=DECAY), start, bind, key, work),
        **{name: chain(config, start, data, bind, key, work) for name, config in samplers.items()},
        "noise": noise(start, key, work),
    }

    def timer(loop: Loop) -> Callable[[], float]:
        compiled = jax.jit(loop.run)
        jax.block_until_ready(compiled(data, loop.start))

        def timed() -> float:
            begun = time.process_time()
            jax.block_until_ready(compiled(data, loop.start))
            return (time.process_time() - begun) / work.steps * 1e6

        return timed

    return {name: timer(loop) for name, loop in loops.items()}, posterior.layout.size


def descent(
    optimiser: optax.GradientTransformation,
    start: jax.Array,
    bind: Callable[[PosteriorData], Target],
    key: jax.Array,
    work: Work,
) -> Loop:
    """Optax on the negative log posterior."""

    def run(data: PosteriorData, carry: Any) -> Any:
        target = bind(data)

        def step(index: jax.Array, carry: Any) -> Any:
            theta, state, shuffle = carry
            shuffle, rows = minibatch.next_rows(step_key(key, 0, index), index, shuffle, work.batch)
            updates, state = optimiser.update(-target.estimate(theta, rows).gradient, state, theta)
            return optax.apply_updates(theta, updates), state, shuffle

        return jax.lax.fori_loop(0, work.steps, step, carry)

    return Loop((start, optimiser.init(start), minibatch.start(work.rows)), run)


def chain(
    config: Any,
    start: jax.Array,
    data: PosteriorData,
    bind: Callable[[PosteriorData], Target],
    key: jax.Array,
    work: Work,
) -> Loop:
    """The sampling phase with the sums of its statistics, as in the runner."""
    sampler = build_method(config, bind(data).posterior, data)
    *_, phase = sampler.phases
    steps = round(work.steps / (sampler.gradients_per_step or 1))

    def run(data: PosteriorData, state: Any) -> Any:
        target = bind(data)

        def step(index: jax.Array, carry: Any) -> Any:
            state, totals = carry
            state, values = phase.step(step_key(key, 0, index), index, state, target, phase.settings)
            for name, total in totals.items():
                value = values[name].astype(total.dtype)
                last = sampler.statistics[name].reduction == "last"
                totals = {**totals, name: value if last else total + value}
            return state, totals

        totals = {name: jnp.zeros((), statistic.dtype) for name, statistic in sampler.statistics.items()}
        return jax.lax.fori_loop(0, steps, step, (state, totals))

    return Loop(sampler.init(key, start, bind(data)), run)


def noise(start: jax.Array, key: jax.Array, work: Work) -> Loop:
    """One normal number per parameter, added to it."""

    def run(data: PosteriorData, theta: jax.Array) -> jax.Array:
        def step(index: jax.Array, theta: jax.Array) -> jax.Array:
            return theta + RATE * standard_normal(step_key(key, 0, index), theta)

        return jax.lax.fori_loop(0, work.steps, step, theta)

    return Loop(start, run)


if __name__ == "__main__":
    main()
