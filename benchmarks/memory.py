"""Memory of one full-data gradient against the number of micro-batches and the budget that asked for them.

A 784-256-256-10 classifier on 60,000 rows. Every gradient is computed in a process of its own, whose resident memory is
noted before it and at its peak, together with the temporary memory that the compiler reports.
"""

import argparse
import csv
import json
import logging
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import report
from machine import environment, processor

HERE = Path(__file__).parent
HIDDEN, FEATURES, CLASSES = (256, 256), 784, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000, help="(default 60000)")
    parser.add_argument(
        "--budgets",
        nargs="*",
        type=float,
        default=[64, 128, 256, 512, 1024],
        help="MB for a gradient's temporary arrays",
    )
    parser.add_argument("--micro-batches", nargs="*", type=int, default=[1, 4, 16, 64], help="numbers given directly")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "memory.csv")
    parser.add_argument("--gradient", type=json.loads, help="compute one gradient and print what it took")
    options = parser.parse_args()
    if options.gradient:
        print(json.dumps(gradient(options.rows, **options.gradient)))
        return
    asked: list[dict[str, Any]] = [{"pieces": pieces} for pieces in options.micro_batches]
    asked += [{"budget": budget} for budget in options.budgets]
    print(f"{len(asked)} gradients of {options.rows:,} rows: about {len(asked) * 6 / 60:.0f} minutes")
    rows = []
    for what in asked:
        command = [sys.executable, str(Path(__file__).resolve()), "--rows", str(options.rows)]
        done = subprocess.run(
            [*command, "--gradient", json.dumps(what)],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows.append(json.loads(done.stdout))
        print(
            "budget {budget_mb} MB, {micro_batches} micro-batches: {temporary_mb} MB temporary, {measured_mb} MB "
            "measured, {seconds} s".format(**rows[-1]),
            flush=True,
        )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print("\n" + report.memory(pd.read_csv(options.output)))


def gradient(rows: int, budget: float | None = None, pieces: int = 1) -> dict[str, Any]:
    """Memory and seconds of one gradient, on one device."""
    from bnn_atlas.runtime import configure

    configure(1)
    import jax

    from problems import classification

    logging.disable()
    posterior, data, starts = classification(HIDDEN, FEATURES, CLASSES, rows, 1, micro_batches=pieces)
    if budget is not None:
        from bnn_atlas.inference.problem import micro_batches

        posterior = posterior._replace(micro_batches=micro_batches(posterior, data, int(budget * 1e6)))
    batch = jax.block_until_ready(jax.jit(posterior.arrange)(data))
    theta = jax.numpy.asarray(starts[0])
    compiled = jax.jit(posterior.evaluate).lower(theta, batch).compile()
    jax.block_until_ready(jax.numpy.ones((FEATURES, FEATURES)) @ jax.numpy.ones((FEATURES, FEATURES)))  # libraries
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # start a new peak
    begun = time.perf_counter()
    result = jax.block_until_ready(compiled(theta, batch))
    seconds = time.perf_counter() - begun
    peak = resident("VmHWM")
    assert np.isfinite(np.asarray(result.gradient)).all()
    return {
        "rows": rows,
        "budget_mb": "" if budget is None else budget,
        "micro_batches": posterior.micro_batches,
        "temporary_mb": round(compiled.memory_analysis().temp_size_in_bytes / 1e6, 1),
        "measured_mb": round((peak - before) / 1e6, 1),
        "data_mb": round(sum(leaf.nbytes for leaf in jax.tree.leaves(batch)) / 1e6, 1),
        "seconds": round(seconds, 3),
        "processor": processor(),
        "cores": 1,
        "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax")),
    }


def resident(name: str) -> int:
    """Resident memory of this process in bytes: `VmRSS` now, `VmHWM` at its peak."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    main()
