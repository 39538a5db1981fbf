"""Time our pipeline and sklearn-contrib-bde on the same work, from prepared data to scored predictions, in turn.

The work is the run airfoil_mile of config/studies/sampling_perspective.yaml. Every measurement is a
fresh process in a fresh folder, timed from outside: imports, compilation, warm start, tuning, sampling, predictions,
scores.
"""

import argparse
import csv
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

import report
from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.runs.studies import Run
from bnn_atlas.config.settings import load_study
from bnn_atlas.data import DownloadError
from bnn_atlas.data.dataset import save
from bnn_atlas.data.download import download
from bnn_atlas.data.prepare import prepare
from bnn_atlas.data.splitting import load_split, make_split, save_split
from machine import ROOT, cores, environment, gradient_flop, matmul_gflops, processor

HERE = Path(__file__).parent
PEERS = ROOT / ".venv-peers" / "bin" / "python"
STUDY, ENTRY = "sampling_perspective", "airfoil_mile"
SIDES = ("bde", "estimator", "atlas", "snakemake")
ESTIMATORS = ("bde", "estimator")
"""Sides that write scores.json."""
TARGET = f"results/paper/{STUDY}/{{run}}/split0/metrics/metrics.parquet"


class Work(NamedTuple):
    """What both sides do: settings, and FLOP of all gradients of the sampler."""

    job: dict[str, Any]
    flop: float


def main() -> None:
    options = parse()
    if "bde" in options.sides and not PEERS.exists():
        sys.exit(f"{PEERS.relative_to(ROOT)} is missing: run benchmarks/setup_peers.sh first")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that everything is cleared away
    logging.getLogger("bnn_atlas").setLevel(logging.ERROR)
    (ROOT / "results").mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=ROOT / "results") as folder:
        base = Path(folder) / "base"
        try:
            works = lay_out(base, options)
        except DownloadError as error:
            reason = str(error).splitlines()[0].rstrip(":")
            sys.exit(f"no data: {reason}; connect to the network or give --mirror FOLDER (or BNN_ATLAS_MIRROR)")
        for seed, work in works.items():
            for cache in options.cache:
                for side in options.sides:
                    rows.append(measure(Path(folder), base, side, cache, seed, work))
                    if options.output:
                        write(options.output, rows)
    print("\n" + report.mile_vs_bde(pd.DataFrame(rows)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3, help="rounds; round n has seed n (default 3)")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="what to time (default all)")
    parser.add_argument(
        "--cache",
        nargs="+",
        choices=("cold", "warm"),
        default=["cold", "warm"],
        help="cold: an empty compilation cache; warm: the one that the cold process left (default both)",
    )
    parser.add_argument("--mirror", help="folder or base URL with the data (default: BNN_ATLAS_MIRROR, then network)")
    parser.add_argument("--epochs", type=int, help="fewer epochs of the warm start, for a trial")
    parser.add_argument("--warmup", type=int, help="fewer tuning steps, for a trial")
    parser.add_argument("--output", type=Path, help="default: results/mile_vs_bde.csv; nothing for a part or a trial")
    options = parser.parse_args()
    if options.cache[0] == "warm":
        parser.error("--cache warm needs cold before it, which fills the cache")
    whole = set(options.sides) == set(SIDES) and options.pairs > 1
    if options.output is None and whole and not (options.epochs or options.warmup):
        options.output = HERE / "results" / "mile_vs_bde.csv"
    return options


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def lay_out(base: Path, options: argparse.Namespace) -> dict[int, Work]:
    """Make a copy of the workflow whose study has this work, and prepare the data in it; works by seed."""
    for name in ("config", "envs", "profiles", "workflow"):
        shutil.copytree(ROOT / name, base / name)
    for name in ("Snakefile", "requirements.lock"):
        shutil.copy2(ROOT / name, base / name)
    (base / "src").symlink_to(ROOT / "src")
    shutil.rmtree(base / "config" / "claims", ignore_errors=True)
    path = base / "config" / "studies" / f"{STUDY}.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    study["figures"] = {}
    entry = study["runs"][ENTRY]
    entry["grid"] = {"seed": list(range(1, options.pairs + 1))}
    entry["warmstart"]["max_epochs"] = options.epochs or entry["warmstart"]["max_epochs"]
    entry["method"]["warmup"] = options.warmup or entry["method"]["warmup"]
    path.write_text(yaml.safe_dump(study), encoding="utf-8")

    registry = load_registry(base / "config" / "datasets.yaml")
    runs = load_study(path, "paper", registry).runs_of((ENTRY,))
    return {run.config.seed: prepared(base, run, registry, options.mirror) for run in runs}


def prepared(base: Path, run: Run, registry: dict[str, Any], mirror: str | None) -> Work:
    """The work of a run, with its data prepared where the rules download, prepare and split put them."""
    config = run.config
    entry = registry[config.dataset]
    folder = Path("results/paper/data") / config.dataset
    table = Path(TARGET.format(run=run.name))
    dataset, split, arrays = folder / "prepared.npz", table.parents[1] / "split.npz", folder / "arrays.npz"
    raw = [download(file, base / folder / "raw" / file.name, mirror=mirror) for file in entry.files]
    data = prepare(config.dataset, entry, raw)
    if not (base / dataset).exists():
        save(base / dataset, data)
    save_split(base / split, data, make_split(len(data.x), config.split, 0), config.split.validation_in_likelihood)
    rows = load_split(base / dataset, base / split)
    np.savez(base / arrays, x_fit=rows.x_fit, y_fit=rows.y_fit, x_test=rows.x_test, y_test=rows.y_test)
    job: dict[str, Any] = {
        "cores": cores(),
        "seed": config.seed,
        "chains": config.chains,
        "validation": config.split.validation,
        "posterior": config.posterior.model_dump(mode="json"),
        "warmstart": config.warmstart.model_dump(mode="json"),
        "method": config.method.model_dump(mode="json"),
        "identity": {
            "study": run.study,
            "run": run.name,
            "scale": run.scale,
            "split": 0,
            "dataset": config.dataset,
            "model": config.model.label,
            "method": config.method.kind,
        },
        "dataset": str(dataset),
        "split": str(split),
        "arrays": str(arrays),
        "table": str(table),
    }
    steps = job["method"]["warmup"] + job["method"]["steps"]
    widths = [rows.x_fit.shape[1], *config.model.hidden, 2]
    return Work(job, 2 * steps * config.chains * gradient_flop(widths, len(rows.x_fit)))


def measure(folder: Path, base: Path, side: str, cache: str, seed: int, work: Work) -> dict[str, Any]:
    """Time one side in a fresh copy of the workflow's folder; a row of the results."""
    place = folder / f"{seed}-{side}-{cache}"
    shutil.copytree(base, place, symlinks=True)
    (place / "job.json").write_text(json.dumps(work.job), encoding="utf-8")
    programs = str(folder / f"{seed}-{side}-cache")
    variables = environment(
        BNN_ATLAS_CACHE=programs, JAX_COMPILATION_CACHE_DIR=programs, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0.2"
    )
    rate = matmul_gflops()
    seconds, cpu, code = timed(command(side, work), place, variables)
    if code:
        said = "".join(file.read_text(encoding="utf-8") for file in (place / "output.txt", *place.glob("*.log")))
        sys.exit(f"{side} failed; the end of its output:\n{said[-3000:]}")
    row: dict[str, Any] = {
        "seed": seed,
        "side": side,
        "cache": cache,
        "epochs": work.job["warmstart"]["max_epochs"],
        "warmup": work.job["method"]["warmup"],
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        **scores(side, place, work),
        "matmul_gflops": round(rate, 1),
        "share": round(work.flop / seconds / 1e9 / rate, 4),
        "processor": processor(),
        "cores": work.job["cores"],
        "versions": versions(side, place),
    }
    print(
        "seed {seed}  {side:9}  {cache}  {seconds:7.1f} s  {cpu_seconds:7.1f} s of cores  "
        "RMSE {rmse:.4f}  NLL {nll:.4f}  LPPD {lppd:.4f}  "
        "products {matmul_gflops:.0f} GFLOP/s, share {share:.1%}".format(**row),
        flush=True,
    )
    shutil.rmtree(place)
    return row


def timed(program: list[str], place: Path, variables: dict[str, str]) -> tuple[float, float, int]:
    """Seconds, seconds of cores and exit code of a program, which is ended with its children if this process is."""
    with (place / "output.txt").open("w", encoding="utf-8") as out:
        begun, used = time.perf_counter(), _cpu_seconds()
        child = subprocess.Popen(
            program, cwd=place, env=variables, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = child.wait()
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        return time.perf_counter() - begun, _cpu_seconds() - used, code


def _cpu_seconds() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command(side: str, work: Work) -> list[str]:
    match side:
        case "bde" | "estimator":
            python = str(PEERS) if side == "bde" else sys.executable
            return [python, str(HERE / "mile_estimators.py"), side, "job.json"]
        case "atlas":
            return [sys.executable, str(HERE / "mile_atlas.py"), "job.json"]
    workflow = [sys.executable, "-m", "snakemake", "--cores", str(cores()), "--config", "scale=paper"]
    return [*workflow, "--", work.job["table"]]


def scores(side: str, place: Path, work: Work) -> dict[str, float]:
    if side in ESTIMATORS:
        scores = json.loads((place / "scores.json").read_text(encoding="utf-8"))
        values = [scores[name] for name in ("rmse", "nll", "lppd")]
    else:
        table = pd.read_parquet(place / work.job["table"]).set_index("metric").value
        values = [table[name] for name in ("rmse", "nll_moment_matched", "lppd")]
    return {name: round(float(value), 4) for name, value in zip(("rmse", "nll", "lppd"), values, strict=True)}


def versions(side: str, place: Path) -> str:
    if side in ESTIMATORS:
        return str(json.loads((place / "scores.json").read_text(encoding="utf-8"))["versions"])
    return ", ".join(f"{name} {version(name)}" for name in ("bnn-atlas", "jax"))


if __name__ == "__main__":
    main()
