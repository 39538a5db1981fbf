"""Full-batch gradients per second of HMC and MCLMC: ours inside the runner, BlackJAX's and NumPyro's kernels, in turn.

All sample the same posterior of a network with four hidden layers and heteroscedastic noise, on random rows, with the
same step sizes, so that a step has the same gradients for everyone. The table's two parts are the 16-wide network on
1,202 rows (airfoil's training set) with 1, 10 and 100 chains, and networks of three widths on four numbers of rows.
Works that are already in the output are skipped.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

import report
from machine import ROOT, cores, matmul_gflops, processor
from work import CALL_FLOP, Work
from workers import HERE, Worker

CHAINS = (1, 10, 100)
WIDTHS = (16, 64, 512)
ROWS = (300, 1202, 17_000, 60_000)
MOST_DEVICES = 16
"""A device for each chain is tried with at most this many chains."""
CACHE = ROOT / "results" / "benchmark-cache"
SLOPE_TOLERANCE = 1e-3


class Contestant(NamedTuple):
    """Whose sampler, and how the chains are arranged."""

    package: str
    method: str
    arrangement: str
    devices: Callable[[int], int]
    """Number of chains -> number of XLA devices; 0 where the arrangement does not suit this many chains."""
    large: bool = False
    """Whether it also runs on the grid of widths and rows."""

    @property
    def name(self) -> str:
        return f"{self.package} {self.method} {self.arrangement}"

    def variables(self, devices: int, cache: Path) -> dict[str, str]:
        """Environment of its process."""
        compiled = {
            "BNN_ATLAS_CACHE": str(cache),
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(cache / "peers"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        }
        if self.package == "atlas" or devices == 1:
            return compiled
        flags = f"--xla_force_host_platform_device_count={devices}"
        if self.arrangement == "pmap of map":
            flags += " --xla_cpu_multi_thread_eigen=false"
        return {**compiled, "XLA_FLAGS": flags}


def shared(chains: int) -> int:
    """The largest number of devices, one per core, that can have equally many chains; 0 if it is below two."""
    return max((count for count in range(2, cores() + 1) if chains % count == 0), default=0)


def each(chains: int) -> int:
    return chains if 1 < chains <= MOST_DEVICES else 0


def one(chains: int) -> int:
    return 1


def split(chains: int) -> int:
    """Devices that share the rows of a chain, where there are fewer chains than cores."""
    return cores() if chains < cores() else 0


CONTESTANTS = (
    Contestant("atlas", "gradient", "chains", one, large=True),
    Contestant("atlas", "hmc", "chains", one, large=True),
    Contestant("atlas", "mclmc", "chains", one, large=True),
    Contestant("atlas", "hmc", "shards", split),
    Contestant("atlas", "mclmc", "shards", split),
    Contestant("blackjax", "hmc", "vmap", one, large=True),
    Contestant("blackjax", "hmc", "pmap of vmap", shared),
    Contestant("blackjax", "hmc", "pmap of map", shared, large=True),
    Contestant("blackjax", "hmc", "pmap", each),
    Contestant("blackjax", "mclmc", "vmap", one),
    Contestant("blackjax", "mclmc", "pmap of vmap", shared),
    Contestant("blackjax", "mclmc", "pmap of map", shared, large=True),
    Contestant("blackjax", "mclmc", "pmap", each),
    Contestant("numpyro", "hmc", "vectorized", one, large=True),
    Contestant("numpyro", "hmc", "parallel of vectorized", shared),
    Contestant("numpyro", "hmc", "parallel", each),
)


def main() -> None:
    options = parse()
    done = pd.read_csv(options.output) if options.output and options.output.exists() else pd.DataFrame()
    works = [work for work in options.works if options.again or not is_done(done, work)]
    if options.again and len(done):
        done = done[[not any(matches(done, work)[i] for work in works) for i in range(len(done))]]
    rows = done.to_dict("records")
    duels = [(work, [c for c in CONTESTANTS if takes_part(c, work, options)]) for work in works]
    seconds = sum(len(entrants) * expected_seconds(work, options) for work, entrants in duels)
    print(f"{len(works)} works, {sum(len(e) for _, e in duels)} measurements a round: about {seconds / 60:.0f} minutes")
    workers: dict[tuple[str, str], Worker] = {}
    try:
        for work, entrants in duels:
            rows += measure(work, entrants, options, workers)
            if options.output and not options.prepare:
                write(options.output, rows)
    finally:
        for worker in workers.values():
            worker.close()
    if rows and not options.prepare:
        print("\n" + report.chains(pd.DataFrame(rows)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=3, help="measurements of each (default 3; fewer of the two largest)"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a measurement, about (default 1)")
    parser.add_argument(
        "--work",
        nargs=3,
        type=int,
        action="append",
        metavar=("WIDTH", "ROWS", "CHAINS"),
        help="instead of the table's works; can be given several times",
    )
    parser.add_argument("--only", nargs="+", default=[], help="only contestants with one of these words in their names")
    parser.add_argument("--depth", type=int, default=4, help="hidden layers (default 4)")
    parser.add_argument("--call-flop", type=float, default=CALL_FLOP, help="FLOP of a call of a loop (default 2e11)")
    parser.add_argument("--prepare", action="store_true", help="compile everything into --cache and measure nothing")
    parser.add_argument("--again", action="store_true", help="also measure what is already in the output")
    parser.add_argument("--cache", type=Path, default=CACHE, help="compiled programs (default results/benchmark-cache)")
    parser.add_argument("--output", type=Path, help="default: results/chains.csv; nothing with --work or --only")
    options = parser.parse_args()
    if options.output is None and not (options.work or options.only or options.depth != 4):
        options.output = HERE / "results" / "chains.csv"
    given = [Work((width,) * options.depth, rows, chains) for width, rows, chains in options.work or ()]
    options.works = [work._replace(call_flop=options.call_flop) for work in given or table()]
    return options


def table() -> Iterator[Work]:
    """Works of the README's tables; the grid's largest have two chains."""
    for chains in CHAINS:
        yield Work((16,) * 4, 1202, chains)
    for width in WIDTHS:
        for rows in ROWS:
            if (width, rows) != (16, 1202):
                yield Work((width,) * 4, rows, 2 if width == 512 and rows > 10_000 else 10)


def takes_part(contestant: Contestant, work: Work, options: argparse.Namespace) -> bool:
    if options.only and not any(word in contestant.name for word in options.only):
        return False
    main_work = bool(options.work) or (work.hidden[0], work.rows) == (16, 1202)
    return (contestant.large or main_work) and contestant.devices(work.chains) > 0


def measure(
    work: Work, entrants: list[Contestant], options: argparse.Namespace, workers: dict[tuple[str, str], Worker]
) -> list[dict[str, Any]]:
    """Rates of all contestants in a work, measured in turn; each process waits while another computes."""
    print(f"\n{work.label}", flush=True)
    place = {entrant.name: worker_of(entrant, work, options.cache, workers) for entrant in entrants}
    for entrant in entrants:
        place[entrant.name].send(build=entrant.name, work=work, method=entrant.method, arrangement=entrant.arrangement)
    built = {entrant.name: place[entrant.name].receive() for entrant in entrants}
    check(built)
    rows = []
    if not options.prepare:
        calls = dict.fromkeys(place, 1)
        if not work.is_heavy:
            for name, worker in place.items():
                calls[name] = max(1, round(options.seconds / worker.ask(run=name, calls=1)["seconds"]))
        for repeat in range(rounds_of(work, options)):
            products = matmul_gflops()
            for entrant in entrants:
                name, ready = entrant.name, built[entrant.name]
                seconds = place[name].ask(run=name, calls=calls[name])["seconds"]
                rate = ready["gradients"] * calls[name] / seconds
                rows.append(row(work, entrant, repeat, rate, products, ready["versions"]))
                print(f"{name:40} {rate:10.1f} chain-gradients/s, {rows[-1]['share']:.0%}", flush=True)
    for worker in workers.values():
        worker.ask(forget=True)
    return rows


def rounds_of(work: Work, options: argparse.Namespace) -> int:
    if not work.is_heavy:
        return options.rounds
    return min(options.rounds, 2 if work.rows < 20_000 else 1)


def expected_seconds(work: Work, options: argparse.Namespace) -> float:
    """Seconds of one contestant in a work on two cores, with everything compiled in advance."""
    call = 5 * work.flop * work.chains / 3e11 if work.is_heavy else options.seconds
    return 1.5 + call + rounds_of(work, options) * (call + 0.5)


def worker_of(contestant: Contestant, work: Work, cache: Path, workers: dict[tuple[str, str], Worker]) -> Worker:
    """The process for a contestant's package and settings of XLA, kept between works."""
    variables = contestant.variables(contestant.devices(work.chains), cache)
    key = (contestant.package, variables.get("XLA_FLAGS", ""))
    if key not in workers:
        workers[key] = Worker(f"chains_{contestant.package}.py", variables)
    return workers[key]


def check(built: dict[str, Any]) -> None:
    """Check that all sample the same posterior."""
    slopes = {name: ready["slope"] for name, ready in built.items()}
    if max(slopes.values()) > min(slopes.values()) * (1 + SLOPE_TOLERANCE):
        sys.exit(f"these do not sample the same posterior, as the lengths of their gradients show: {slopes}")


def row(work: Work, contestant: Contestant, repeat: int, rate: float, products: float, versions: str) -> dict[str, Any]:
    return {
        "width": work.hidden[0],
        "depth": len(work.hidden),
        "rows": work.rows,
        "chains": work.chains,
        "package": contestant.package,
        "method": contestant.method,
        "arrangement": contestant.arrangement,
        "repeat": repeat,
        "gradients_per_second": float(f"{rate:.5g}"),
        "gflops": float(f"{rate * work.flop / 1e9:.4g}"),
        "matmul_gflops": round(products, 1),
        "share": round(rate * work.flop / 1e9 / products, 4),
        "processor": processor(),
        "cores": cores(),
        "versions": versions,
    }


def matches(done: pd.DataFrame, work: Work) -> list[bool]:
    key = (work.hidden[0], len(work.hidden), work.rows, work.chains)
    return [row == key for row in done[["width", "depth", "rows", "chains"]].itertuples(index=False, name=None)]


def is_done(done: pd.DataFrame, work: Work) -> bool:
    return bool(len(done)) and any(matches(done, work))


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    begun = time.perf_counter()
    main()
    print(f"{(time.perf_counter() - begun) / 60:.1f} minutes")
