"""Gradients of dense networks: XLA on all rows at once, in pieces that stay in cache, of the network in Flax, compiled.

Bare loops over the gradient of one chain on one core, in turn. Times are processor time of the whole process, so that
other programs on the machine disturb them little.
"""

import argparse
import csv
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.runtime import configure
from machine import gradient_flop, processor

configure(1)

import jax
import pandas as pd
from flax import linen as nn
from jax import numpy as jnp

import bnn_atlas
import report

RESULT = Path(__file__).parent / "results" / "kernel.csv"
FEATURES, OUTPUTS, SIZE = 5, 2, 1024
WAYS = ("whole", "pieces", "flax", "compiled")
RATE = 1e-7


class Work(NamedTuple):
    """A network and its rows, or mini-batches of them."""

    hidden: tuple[int, ...]
    activation: str
    rows: int
    batch: int = 0

    @property
    def label(self) -> str:
        batch = f", batches of {self.batch}" if self.batch else ""
        return f"{self.hidden[0]}x{len(self.hidden)} {self.activation}, {self.rows:,} rows{batch}"


WORKS = (
    Work((16,) * 4, "relu", 1202, 80),
    Work((16,) * 4, "relu", 1202),
    Work((16,) * 4, "relu", 17_000),
    Work((16,) * 4, "relu", 60_000),
    Work((16,) * 4, "tanh", 1202),
    Work((8,) * 3, "relu", 1202),
    Work((32,) * 3, "relu", 1202),
    Work((50,), "relu", 1202),
    Work((64,) * 4, "relu", 300),
    Work((64,) * 4, "relu", 1202),
    Work((64,) * 4, "relu", 17_000),
)


class Network(nn.Module):
    """The network as a user writes it in Flax, with rows first."""

    hidden: tuple[int, ...]
    activation: str

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Outputs [rows, 2] for x [rows, features]."""
        for width in self.hidden:
            x = getattr(nn, self.activation)(nn.Dense(width)(x))
        return nn.Dense(OUTPUTS)(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each (default 7)")
    parser.add_argument("--flop", type=float, default=6e9, help="FLOP of a measurement (default 6e9)")
    parser.add_argument("--works", type=int, default=len(WORKS), help="number of works to time, from the first on")
    parser.add_argument("--output", type=Path, default=RESULT, help="default: results/kernel.csv")
    options = parser.parse_args()
    rows = [row for work in WORKS[: options.works] for row in measure(work, options.rounds, options.flop)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(report.kernel(pd.DataFrame(rows)))


def measure(work: Work, rounds: int, flop: float) -> list[dict[str, Any]]:
    """Microseconds per gradient of each way, in turn."""
    each = gradient_flop((FEATURES, *work.hidden, OUTPUTS), work.batch or work.rows)
    steps = max(1, int(flop / each))
    products, loops = product_rate(), {way: loop(work, way, steps) for way in WAYS}
    rows = []
    for repeat in range(rounds):
        yardstick = products()
        for way, seconds in loops.items():
            rows.append(
                {
                    "work": work.label,
                    "repeat": repeat,
                    "way": way,
                    "microseconds": round(seconds() * 1e6, 2),
                    "flop": each,
                    "matmul_gflops": round(yardstick, 1),
                    "processor": processor(),
                    "cores": 1,
                    "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax")),
                }
            )
    return rows


def product_rate() -> Callable[[], float]:
    """Measures the rate of matrix products on one core, in GFLOP/s."""
    product = jax.jit(lambda a: a @ a)
    matrix = jnp.asarray(np.random.default_rng(0).random((SIZE, SIZE), np.float32))
    product(matrix).block_until_ready()

    def run() -> float:
        begun = time.process_time()
        product(matrix).block_until_ready()
        return 2 * SIZE**3 / (time.process_time() - begun) / 1e9

    return run


def loop(work: Work, way: str, steps: int) -> Callable[[], float]:
    """A compiled loop; each call gives its seconds per gradient."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(work.rows, FEATURES)), random.normal(size=work.rows)
    likelihood = {"kind": "heteroscedastic", "head": "softplus"}
    if way == "flax":
        built = bnn_atlas.posterior_of(Network(work.hidden, work.activation), x, y, likelihood=likelihood)
    else:
        model = {"hidden": list(work.hidden), "activation": work.activation}
        kernel = "auto" if way == "compiled" else "xla"
        built = bnn_atlas.build_posterior(x, y, {"model": model, "likelihood": likelihood, "kernel": kernel})
    posterior, data = built.density, built.data
    if way == "whole":
        posterior = posterior._replace(network=posterior.network._replace(piece=None))
    start = jnp.asarray(0.2 * random.normal(size=posterior.layout.size), jnp.float32)
    batches = work.rows // work.batch if work.batch else 1
    order = jnp.asarray(random.permutation(work.rows)[: batches * work.batch].reshape(batches, -1), jnp.int32)

    def climb(theta: Any, data: Any) -> Any:
        arranged = posterior.arrange(data)

        def step(index: Any, theta: Any) -> Any:
            if work.batch:
                return theta + RATE * posterior.estimate(theta, data, order[index % batches]).gradient
            return theta + RATE * posterior.evaluate(theta, arranged).gradient

        return jax.lax.fori_loop(0, steps, step, theta)

    climbing = jax.jit(climb)
    climbing(start, data).block_until_ready()

    def run() -> float:
        begun = time.process_time()
        climbing(start, data).block_until_ready()
        return (time.process_time() - begun) / steps

    return run


if __name__ == "__main__":
    main()
