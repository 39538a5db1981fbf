"""What a finished run of a small study leaves for its gallery."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from bnn_atlas.claims.table import write_claims
from bnn_atlas.claims.verdict import judge
from bnn_atlas.config.data.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.gallery.pictures import LARGEST, WIDTH
from bnn_atlas.kept.jobs import StudyJobs, jobs
from tests.claims.making import COMPARISON, RUNS, claimed, printed, row, seeds, table

STUDY = {
    "name": "small",
    "title": "A study",
    "paper": "Nobody, 2000.",
    "differences": ["Other rows.", "Other noise."],
    "findings": [
        {"statement": "Few errors are made", "claims": ["c0", "c1"], "cost": "10 min"},
        {"statement": "Errors are gone", "claims": ["c3", "c4"], "cost": "1 day"},
        {"statement": "None is small", "claims": ["c5"], "cost": "1 s"},
    ],
}
SUMMARY = [
    ("mile", "", "rmse", 0.5, 0.1),
    ("mile", "", "lppd", -1.25, 0.2),
    ("mile", "", "nll", 1.25, 0.2),
    ("priors", "prior.scale=2", "rmse", 0.75, np.nan),
    ("priors", "prior.scale=2", "rhat_function_max", np.nan, np.nan),
    ("mile", "", "agreement (hmc)", 0.875, np.nan),
    ("mile", "", "agreement_ceiling", 0.9, np.nan),
]
WORD = "reference not converged: R-hat of function values up to 3.80, ESS down to 4"
CAPTION = """**Few numbers.**

On *W*\\ :sub:`1`, in
``file.csv``. Compare.

{{ snakemake.params.figure.caption }}

Scale ``{{ snakemake.config["scale"] }}``.
"""
REDUCED = {"mile": ["chains: 1000 -> 10"], "ensemble": ["chains: 1000 -> 10", "method.steps: 50 -> 5"]}
CAUSE = {"cause": "another rule", "certainty": "likely", "decided_by": "a run", "result": "0.5"}


def benchmark(file: Path, seconds: float) -> None:
    """What Snakemake writes about a job."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"s\th:m:s\tcpu_time\n{seconds}\t0:00:01\t{seconds / 2}\n")


def timing(file: Path, **machine: Any) -> None:
    """What a block of chains leaves about its machine."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"device": "cpu cpu", "processor": "a processor", "cores": 2} | machine))


def study_jobs(folder: Path, sizes: dict[str, list[int]], **names: list[str]) -> pd.DataFrame:
    """The jobs of the study `small`, whose figure is `few`, by the benchmark and timing files in a folder."""
    of = {"figures": ["few"], "sections": [], "shared": []} | names
    return jobs(folder / "benchmarks", StudyJobs("small", sizes, **of))


def gallery_inputs(folder: Path) -> dict[str, Any]:
    """Arguments of `write_gallery`: two figures (one with many numbers), a LaTeX table, claims, a summary, times."""
    figures = folder / "figures"
    figures.mkdir()
    for name, rows in (("few", 3), ("many", LARGEST // 2)):
        Image.new("RGB", (2 * WIDTH, 1000), "white").save(figures / f"{name}.png")
        (figures / f"{name}.csv").write_text("a\n" + "1\n" * rows)
    (figures / "uci.csv").write_text(
        "metric,method,dataset,mean,sd,mean_rank,best\nlppd,A,airfoil,-1,0.25,1.5,True\nlppd,A,energy,2,,1.5,True\n"
        "lppd,B,energy,1,0.5,2,False\nrmse,A,airfoil,0.5,0.1,1,True\n"
    )
    (figures / "uci.tex").write_text("1 & 2")
    (folder / "few.rst").write_text(CAPTION)
    (folder / "notes.rst").write_text("Not needed at\nfirst.\n")
    _write_claims(folder)
    _write_summary(folder / "summary.csv")
    (folder / "runs.csv").write_text("run\nmile\n")
    benchmark(folder / "benchmarks/sample/small/mile/split0/block0.tsv", 100)
    benchmark(folder / "benchmarks/sample/small/gone/split0/block0.tsv", 1000)
    benchmark(folder / "benchmarks/figures/small/few.tsv", 3)
    benchmark(folder / "benchmarks/figures/small/gone.tsv", 1000)
    timing(folder / "small/mile/split0/block0/timing.json")
    caption = {"caption": folder / "few.rst", "notes": folder / "notes.rst", "text": "As in the paper."}
    return {
        "study": STUDY,
        "scale": "laptop",
        "command": "snakemake galleries",
        "figures": sorted(figures.iterdir()),
        "captions": {"few": {"title": "A few", **caption}},
        "summary": folder / "summary.csv",
        "runs": folder / "runs.csv",
        "claims": folder / "claims.parquet",
        "jobs": study_jobs(folder, {"mile": [1, 1]}),
        "entries": {"mile": "mile"},
        "datasets": {"airfoil": "air | foil"},
    }


def _write_claims(folder: Path) -> None:
    """Six claims: two that agree, one that holds, one that differs, one to run, and one that does not hold."""
    change = {"published": printed(-0.25321), "size": 0.01, "relation": "equals", "than": {"runs": ["ensemble"]}}
    study = claimed(
        {"figure": "few", "basis": "a quarter"},
        COMPARISON,
        {"figure": "absent", "cause": CAUSE, **change},
        {"runs": ["gone"], "statement": "a | b", "paper": "A program."},
        {"runs": ["single"], "statement": "a single run", "cause": CAUSE},
        {
            "runs": ["single"],
            "statement": "c < -1",
            "relation": "at_most",
            "bound": 0.1,
            "read_in": "own",
            "place": None,
        }
        | {"published": None, "size": None},
        runs={name: plan | {"reductions": REDUCED.get(plan["entry"], [])} for name, plan in RUNS.items()},
    )
    measured = table(
        folder,
        seeds("mile", 0.4, 0.5, 0.6)
        + seeds("ensemble", 0.7, 0.8, 0.9)
        + [row("single", 0.5, standard_error=0.02, note=SCALED_WITH_TEST_ROWS)],
    )
    write_claims(folder / "claims.parquet", [judge(name, study, measured) for name in study.claims.claims], {})


def _write_summary(path: Path) -> None:
    frame = pd.DataFrame(SUMMARY, columns=["entry", "point", "metric", "mean", "sd"])
    frame["at"] = frame["metric"].str.extract(r" \((.*)\)")[0]
    frame["metric"] = frame["metric"].str.removesuffix(" (hmc)")
    frame["note"] = frame["entry"].map({"priors": SCALED_WITH_TEST_ROWS}).astype(object)
    frame.loc[frame["at"] == "hmc", "note"] = WORD
    frame["trust"] = frame["entry"].map(
        {"mile": "do not trust: R-hat of function values at most 3.80", "priors": "fine"}
    )
    frame.assign(dataset="airfoil", model="mlp", method="mclmc", chains=10, draws=100).to_csv(path, index=False)
