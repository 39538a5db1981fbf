"""How many draws a second one core aligns: matching alone, and a whole alignment with its moments and controls.

Draws of 784-512-10 are read from a trace, and are near the reference (one chain: the prior's noise around one network)
or unrelated to it (chains of independent starts), by weights and by centred activations of --rows rows. Those of four
hidden layers of 16 units are in memory. Seconds are CPU time of a process with one thread, so that other work on the
machine hardly matters.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # NumPy reads them when it is imported

import argparse
import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import report
from machine import cores, processor

HERE = Path(__file__).parent
NOISE = 0.3
"""Standard deviation of draws near the reference, that of the reference's parameters being 1."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="(default 3)")
    parser.add_argument("--wide", type=int, default=40, help="draws of the wide network in a round (default 40)")
    parser.add_argument("--narrow", type=int, default=2000, help="draws of the narrow network (default 2000)")
    parser.add_argument("--units", type=int, default=512, help="hidden units of the wide network (default 512)")
    parser.add_argument("--rows", type=int, default=5000, help="rows of activations (default 5000)")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "alignment.csv")
    options = parser.parse_args()
    about = {
        "processor": processor(),
        "cores": cores(),
        "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "numpy", "scipy", "jax")),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="", encoding="utf-8") as handle:
        writer: csv.DictWriter[str] | None = None
        for row in measured(options):
            writer = writer or csv.DictWriter(handle, row | about, lineterminator="\n")
            if handle.tell() == 0:
                writer.writeheader()
            writer.writerow(row | about)
    print("\n" + report.alignment(pd.read_csv(options.output)))


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of the table: works in turn, round after round."""
    from bnn_atlas.runtime import configure

    configure(1)
    with tempfile.TemporaryDirectory() as folder:
        works = [*_wide(options, Path(folder)), *_narrow(options)]
        for repeat in range(options.rounds):
            for work, criterion, relation, draws, job in works:
                begun = time.process_time()
                job()
                seconds = time.process_time() - begun
                row = {"work": work, "criterion": criterion, "draws": relation, "repeat": repeat, "count": draws}
                yield row | {"seconds": seconds, "per_second": draws / seconds}


Work = tuple[str, str, str, int, Callable[[], Any]]


def _wide(options: argparse.Namespace, folder: Path) -> list[Work]:
    from bnn_atlas.config.parts.posterior import MLPConfig
    from bnn_atlas.models.networks import build_network
    from bnn_atlas.symmetry.alignment import Aligner, Checkpoint, Plan
    from bnn_atlas.symmetry.features import activation_features, weight_features
    from bnn_atlas.symmetry.groups import symmetry_of
    from bnn_atlas.symmetry.matching import match_networks
    from bnn_atlas.traces.store import TraceWriter, open_trace

    config = MLPConfig(hidden=(options.units,))
    layout = build_network(config, (784,), 10).layout
    symmetry = symmetry_of(config, layout)
    numbers = np.random.default_rng(0)
    reference = numbers.standard_normal(layout.size).astype(np.float32)
    x = numbers.random((options.rows, 784)).astype(np.float32)
    centred = activation_features(config, symmetry, (784,), x, "centred", outputs=10)
    works: list[Work] = []
    for relation in ("near", "unrelated"):
        noise = numbers.standard_normal((1, options.wide, layout.size)).astype(np.float32)
        draws = reference + np.float32(NOISE) * noise if relation == "near" else noise
        writer = TraceWriter.create(
            folder / relation, chains=1, draws=options.wide, layout=layout, statistics={}, segment=10,
            chain_ids=range(1), attributes={"fingerprint": "benchmark"},
        )  # fmt: skip
        for number in range(writer.segments):
            writer.write(number, draws[:, 10 * number : 10 * (number + 1)], {})
        trace = open_trace(folder / relation)
        name = f"784-{options.units}-10"
        rows = f"centred activations, {options.rows:,} rows"
        for criterion, features, count in (
            ("weights", weight_features(symmetry), options.wide),
            (rows, centred, max(1, options.wide // 5)),
        ):

            def job(trace: Any = trace, features: Any = features, count: int = count) -> None:
                for start in range(0, count, 10):
                    theta = trace.read([0], slice(start, min(start + 10, count)))[0]
                    match_networks(features, reference, theta)

            works.append((name, criterion, relation, count, job))

        def whole(trace: Any = trace, relation: str = relation) -> None:
            checkpoint = Checkpoint(folder / f"{relation}.npz")
            Aligner(trace, symmetry, weight_features(symmetry), Plan(reference="first"), checkpoint).run()

        works.append((name, "weights, with moments and controls", relation, options.wide, whole))
    return works


def _narrow(options: argparse.Namespace) -> list[Work]:
    from bnn_atlas.config.parts.posterior import MLPConfig
    from bnn_atlas.models.networks import build_network
    from bnn_atlas.symmetry.groups import symmetry_of
    from bnn_atlas.symmetry.matching import match

    config = MLPConfig(hidden=(16, 16, 16, 16))
    symmetry = symmetry_of(config, build_network(config, (5,), 2).layout)
    numbers = np.random.default_rng(1)
    reference = numbers.standard_normal(symmetry.layout.size).astype(np.float32)
    noise = numbers.standard_normal((options.narrow, symmetry.layout.size)).astype(np.float32)
    of = {"near": reference + np.float32(NOISE) * noise, "unrelated": noise}
    return [
        ("5-16-16-16-16-2", "weights", relation, options.narrow, lambda draws=draws: match(symmetry, reference, draws))
        for relation, draws in of.items()
    ]


if __name__ == "__main__":
    main()
