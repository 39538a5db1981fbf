"""What writing a trace costs the sampler, and how fast one layer of a large trace is read.

writing: MCLMC on the 16-wide network with 1,202 rows, 10 chains, in the runner; the same run with a
writer that does nothing, in turn. Every tenth draw is kept, as in the papers' setting, and then every draw.

reading: 1,000 chains x 1,000 draws x 946 parameters (3.8 GB, blocks of 100 chains), written into --folder; one layer of
the pooled trace, and the same number of bytes of the same files in plain reads, in turn, from the page cache and after
the system was asked to forget these files (which it does in this machine's memory; the host of a virtual machine may
still have them). Also how much the resident memory rises while the layer is read.
"""

import argparse
import csv
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import report
from machine import cores, processor
from memory import resident
from work import STEP_SIZE, Work

HERE = Path(__file__).parent
WORK = Work((16,) * 4, 1202, 10)
LAYER = 2
PIECE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("writing", "reading"), help="only one of the two")
    parser.add_argument("--rounds", type=int, default=3, help="(default 3)")
    parser.add_argument("--steps", type=int, default=1000, help="per segment when writing (default 1000)")
    parser.add_argument("--segments", type=int, default=4, help="of a run when writing (default 4)")
    parser.add_argument("--shape", nargs=2, type=int, default=(1000, 1000), metavar=("CHAINS", "DRAWS"))
    parser.add_argument("--block", type=int, default=100, help="chains of a block when reading (default 100)")
    parser.add_argument("--folder", type=Path, help="with space for the trace that is read (default: TMPDIR)")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder (default results/)")
    options = parser.parse_args()
    gradients = 4 * WORK.chains * options.steps * (options.segments + 1) * options.rounds * 2
    print(f"writing: about {gradients / 25_000 / 60:.0f} minutes on two cores; reading: about a minute on a local disk")
    options.output.mkdir(parents=True, exist_ok=True)
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    if options.only != "reading":
        finish(options.output / "trace_writing.csv", writing(options), report.trace_writing)
    if options.only != "writing":
        finish(options.output / "trace_reading.csv", reading(options), report.trace_reading)


def finish(path: Path, rows: list[dict[str, Any]], table: Callable[[pd.DataFrame], str]) -> None:
    about = {
        "processor": processor(),
        "cores": cores(),
        "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax", "numpy")),
    }
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0] | about, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | about for row in rows)
    print("\n" + table(pd.read_csv(path)) + "\n")


class Nothing:
    """Takes the place of `TraceWriter`."""

    @classmethod
    def create(cls, path: Path, **_: Any) -> "Nothing":
        path.mkdir()
        return cls()

    def write(self, *_: Any) -> None:
        """Keep nothing."""


def writing(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of the segments of a run but the first, with and without its writer."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.environ["BNN_ATLAS_CACHE"] = folder
        from bnn_atlas.runtime import configure

        configure(cores())
        from bnn_atlas.config.methods.mclmc import MCLMCConfig
        from bnn_atlas.methods.mclmc_tuning import build_mile
        from bnn_atlas.runner import segments
        from problems import regression

        logging.disable()
        posterior, data, starts = regression(WORK)
        writers, ends = {"written": segments.TraceWriter, "not written": Nothing}, []

        class Ends(segments.ProgressReport):
            """Notes when each segment has been written."""

            def advance(self, phase: str, steps: int) -> None:
                ends.append(time.perf_counter())

        segments.ProgressReport = Ends  # type: ignore[misc]

        def seconds(thinning: int, writer: str) -> float:
            ends.clear()
            segments.TraceWriter = writers[writer]  # type: ignore[misc]
            steps = options.steps * (options.segments + 1)
            settings = MCLMCConfig(warmup=100, steps=steps, thinning=thinning, step_size_init=STEP_SIZE)
            sampler = build_mile(settings, posterior, data)
            sampler = sampler._replace(phases=sampler.phases[-1:])
            with tempfile.TemporaryDirectory(dir=folder) as place:
                block = segments.Block(starts, np.arange(WORK.chains), 0, Path(place) / "trace.zarr", "benchmark", {})
                segments.run_block(sampler, posterior, data, block, options.steps)
            return ends[-1] - ends[0]

        rows = []
        for thinning in (10, 1):
            seconds(thinning, "written")
            for repeat in range(options.rounds):
                # Each is first in every other round.
                for writer in sorted(writers, reverse=bool(repeat % 2)):
                    taken = seconds(thinning, writer)
                    draws = options.steps * options.segments // thinning * WORK.chains
                    rows.append(
                        {
                            "thinning": thinning,
                            "repeat": repeat,
                            "trace": writer,
                            "seconds": round(taken, 4),
                            "megabytes_per_second": round(draws * posterior.layout.size * 4 / taken / 1e6, 2),
                        }
                    )
                    print(f"thinning {thinning}, {writer}: {taken:.3f} s", flush=True)
        return rows


def reading(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rates of one layer through the pool and of plain reads of as many bytes."""
    from bnn_atlas.runtime import configure

    configure(cores())
    from bnn_atlas.traces.pool import open_pool, pool_traces
    from problems import regression

    chains, draws = options.shape
    layout = regression(WORK._replace(chains=1)).posterior.layout
    with scratch(options.folder, chains * draws * 946 * 4 * 1.1) as folder:
        begun = time.perf_counter()
        paths = [write_block(folder, layout, first, options.block, draws) for first in range(0, chains, options.block)]
        pool_traces(paths, folder / "pool.json")
        written = chains * draws * 946 * 4 / (time.perf_counter() - begun)
        print(f"written at {written / 1e6:.0f} MB/s, to disk", flush=True)
        pool = open_pool(folder / "pool.json")
        layer = pool.locate(pool.select(layers=[LAYER]).parameter_names)
        files = sorted(file for path in paths for file in (path / "draws").rglob("c*") if file.is_file())
        wanted = chains * draws * len(layer) * 4

        def layer_of_pool() -> int:
            return sum(values.nbytes for *_, values in pool.batches(parameters=layer))

        def plain() -> int:
            return sum(read_whole(files, wanted))

        rows = []
        for repeat in range(options.rounds):
            for cache in ("cold", "warm"):
                for name, read in (("layer", layer_of_pool), ("plain", plain)):
                    if cache == "cold":
                        forget(files)
                    before = resident("VmRSS")
                    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # start a new peak
                    begun = time.perf_counter()
                    count = read()
                    rate = count / (time.perf_counter() - begun)
                    memory = (resident("VmHWM") - before) / 1e6
                    rows.append(
                        {
                            "chains": chains,
                            "draws": draws,
                            "parameters": pool.size,
                            "layer_parameters": len(layer),
                            "repeat": repeat,
                            "read": name,
                            "cache": cache,
                            "megabytes": round(count / 1e6, 1),
                            "megabytes_per_second": round(rate / 1e6, 1),
                            "written_megabytes_per_second": round(written / 1e6, 1),
                            "memory_megabytes": round(memory, 1),
                        }
                    )
                    print(
                        f"{name}, {cache}: {count / 1e6:.0f} MB at {rate / 1e6:.0f} MB/s, memory {memory:+.0f} MB",
                        flush=True,
                    )
        return rows


def write_block(folder: Path, layout: Any, first: int, chains: int, draws: int) -> Path:
    """Write a trace of `chains` chains: random numbers that repeat from segment to segment."""
    from bnn_atlas.traces.store import TraceWriter

    segment = min(100, draws)
    path = folder / f"block{first}.zarr"
    writer = TraceWriter.create(
        path,
        chains=chains,
        draws=draws,
        layout=layout,
        statistics={"log_likelihood": "float32"},
        segment=segment,
        chain_ids=range(first, first + chains),
        attributes={"fingerprint": str(first)},
    )
    values = np.random.default_rng(first).standard_normal((chains, segment, layout.size), np.float32)
    for number in range(writer.segments):
        count = min(segment, draws - number * segment)
        writer.write(number, values[:, :count], {"log_likelihood": np.zeros((chains, count), np.float32)})
    return path


@contextmanager
def scratch(parent: Path | None, needed: float) -> Iterator[Path]:
    """A folder with at least `needed` bytes free, removed afterwards."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        free = shutil.disk_usage(folder).free
        if free < needed:
            sys.exit(
                f"{folder} has {free / 1e9:.1f} GB free and {needed / 1e9:.1f} GB are needed; give another --folder"
            )
        yield Path(folder)


def read_whole(files: list[Path], most: int) -> Iterator[int]:
    """Sizes of plain reads of `most` bytes in all: of each file the same share from its start, piece by piece."""
    piece = bytearray(PIECE)
    share = most / sum(file.stat().st_size for file in files)
    for file in files:
        left = round(file.stat().st_size * share)
        with file.open("rb", buffering=0) as handle:
            while left > 0 and (count := handle.readinto(memoryview(piece)[: min(left, PIECE)])):
                left -= count
                yield count


def forget(files: list[Path]) -> None:
    """Ask the system to drop these files from its page cache."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    main()
