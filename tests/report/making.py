"""What a finished run of a small study leaves for its page and its site."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from bnn_atlas.config.data.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.kept import Origin, StudyJobs, read_jobs
from bnn_atlas.report.pictures import LARGEST, WIDTH
from bnn_atlas.report.view import StudyView, study_view
from tests.claims.making import row, table

STUDY = {
    "name": "small",
    "title": "A study",
    "paper": "Nobody, 2000.",
    "differences": ["Other rows.", "Other noise."],
    "cites": "Nobody, 2000",
    "could_be_read": "Only Table 1 could be read.",
    "families": {},
    "no_claim": {"Table 2/*": "no run can have it"},
    "findings": [
        {"statement": "Few errors are made", "claims": ["error", "growth"], "caveat": "One seed."},
        {"statement": "Errors are gone", "claims": ["gone", "growth", "error"]},
        {"statement": "None is small", "claims": ["ours"]},
    ],
}  # fmt: skip
REDUCED = "mile: chains: 1000 -> 10"
ANSWER = {
    "side": "value", "run": "mile", "split": 0, "dataset": "airfoil", "metric": "rmse", "chains": 10, "excluded": 0,
    "draws": 100, "value": 0.5, "standard_error": 0.02, "note": "", "at": "", "over": "rows", "trust": "",
}  # fmt: skip
CLAIM: dict[str, Any] = {
    "study": "small", "paper": "Nobody, 2000", "read_in": "table", "place": "Table 1", "statement": "The error is 0.5",
    "metric": "rmse", "relation": "equals", "basis": "a quarter", "figure": "few", "finding": "", "step": "evaluate",
    "scale": "laptop", "identity": "reduced", "verdict": "agrees", "reason": "", "needed": "", "trust": "", "cause": "",
    "certainty": "", "decided_by": "", "result": "", "erratum": "", "paper_value": 0.5, "size": 0.25, "d": 0.02,
    "error": 0.02, "at_infinity": np.nan, "infinity_error": np.nan, "here": "0.52 ± 0.02", "paper_text": "0.5",
    "reductions": [REDUCED], "rows": [ANSWER], "difference_over": "",
}  # fmt: skip
NO_NUMBER = {"paper_value": np.nan, "paper_text": ""}
TO_RUN = {"verdict": "to run", "d": np.nan, "error": np.nan, "here": "", "rows": [], "reductions": []}
CLAIMS: dict[str, dict[str, Any]] = {
    "error": {"at_infinity": 0.515, "infinity_error": 0.03},
    "growth": NO_NUMBER
    | {"relation": "above", "identity": "same", "verdict": "does not hold", "statement": "It grows by -0.3", "d": 0.01,
       "reason": "no effect of 0.25", "cause": "another rule", "certainty": "proved", "decided_by": "a run",
       "result": "0.5", "figure": "", "read_in": "text", "place": "section 2"},
    "gone": TO_RUN | {"needed": "snakemake --cores 2 gone", "reason": "not run", "statement": "a | b"},
    "far": {"verdict": "differs", "identity": "same", "d": -9.0, "read_in": "file", "place": "x.csv"},
    "ours": NO_NUMBER
    | {"read_in": "own", "place": "", "relation": "at_most", "identity": "another problem", "verdict": "cannot tell",
       "reason": "too near", "needed": "40 splits", "reductions": [], "figure": "absent"},
}  # fmt: skip
SUMMARY = [
    ("mile", "", "rmse", 0.5, 0.1),
    ("mile", "", "lppd", -1.25, 0.2),
    ("mile", "", "nll", 1.25, 0.2),
    ("priors", "prior.scale=2", "rmse", 0.75, np.nan),
    ("mile", "", "agreement (hmc)", 0.875, np.nan),
]
CAPTION = """**Few numbers.**

On *W*\\ :sub:`1`, in
``file.csv``. Compare.

{{ snakemake.params.figure.caption }}

Scale ``{{ snakemake.config["scale"] }}``.
"""


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
    return read_jobs(folder / "benchmarks", StudyJobs("small", sizes, **of))


def study_inputs(folder: Path) -> dict[str, Any]:
    """Arguments of `study_view`: two figures (one with many numbers), a LaTeX table, claims, a summary, times."""
    figures = folder / "figures"
    figures.mkdir()
    for name, rows in (("few", 3), ("many", LARGEST // 2)):
        Image.new("RGB", (2 * WIDTH, 1000), "white").save(figures / f"{name}.png")
        (figures / f"{name}.csv").write_text("a\n" + "1\n" * rows)
    (figures / "uci.csv").write_text(
        "metric,method,dataset,mean,sd,mean_rank,best,distrusted\n"
        "lppd,A,airfoil,-1,0.25,1.5,True,True\nlppd,A,energy,2,,1.5,True,False\n"
        "lppd,B,energy,1,0.5,2,False,False\nrmse,A,airfoil,0.5,0.1,1,True,False\n"
    )
    (figures / "uci.tex").write_text("1 & 2")
    (folder / "few.rst").write_text(CAPTION)
    (folder / "notes.rst").write_text("Not needed at\nfirst.\n")
    _write_summary(folder / "summary.csv")
    rows = [
        {"run": run, "entry": run, "dataset": "airfoil", "prior": None, "reductions": ""} for run in ("mile", "gone")
    ]
    pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    benchmark(folder / "benchmarks/sample/small/mile/split0/block0.tsv", 100)
    benchmark(folder / "benchmarks/figures/small/few.tsv", 3)
    timing(folder / "small/mile/split0/block0/timing.json")
    measured = [row("mile", 0.5, standard_error=0.02), row("mile", 1.5, metric="rhat_function_max")]
    caption = {"caption": folder / "few.rst", "notes": folder / "notes.rst", "text": "As in the paper."}
    return {
        "study": STUDY,
        "scale": "laptop",
        "command": "snakemake site",
        "files": sorted(figures.iterdir()),
        "captions": {"few": {"title": "A few", **caption}},
        "table": table(folder, measured),
        "summary": folder / "summary.csv",
        "runs": folder / "runs.csv",
        "rows": rows,
        "claims": write_judged(folder / "claims.parquet"),
        "jobs": study_jobs(folder, {"mile": [1, 1]}),
        "entries": {"mile": "mile"},
        "datasets": {"airfoil": "air | foil"},
        "steps": [("evaluate", "ten minutes", 7, ["mile"])],
        "shown": {"few": ["mile"]},
        "diagnostics": folder / "none",
        "origins": {("mile", 0): Origin.HERE},
        "drawn": {},
    }


def study(folder: Path, **changes: Any) -> StudyView:
    """The view of the study."""
    return study_view(**study_inputs(folder) | changes)


def partly_made_here(folder: Path) -> StudyView:
    """A view that counts what was made here: two claims of one run, with the rest from the run `gone` of the clone."""
    inputs = study_inputs(folder)
    of_clone = {"rows": [ANSWER | {"run": "gone"}]}
    measured = [row(run, 1.5, metric="rhat_function_max") for run in ("mile", "gone")]
    changes = {
        "claims": write_judged(folder / "both.parquet", growth=of_clone, ours=of_clone),
        "table": table(folder, measured),
        "origins": {("mile", 0): Origin.HERE, ("gone", 0): Origin.CLONE},
        "drawn": {"few": Origin.HERE, "many": Origin.EARLIER},
        "count_here": True,
    }
    return study_view(**inputs | changes)


def write_judged(path: Path, **changes: dict[str, Any]) -> Path:
    """Write the table of claims."""
    return write_claims(path, {name: {**claim, **changes.get(name, {})} for name, claim in CLAIMS.items()})


def write_claims(path: Path, claims: dict[str, dict[str, Any]]) -> Path:
    """Write a table of these claims."""
    pd.DataFrame([{**CLAIM, "claim": name, **claim} for name, claim in claims.items()]).to_parquet(path)
    return path


def _write_summary(path: Path) -> None:
    frame = pd.DataFrame(SUMMARY, columns=["entry", "point", "metric", "mean", "sd"])
    frame["at"] = frame["metric"].str.extract(r" \((.*)\)")[0]
    frame["metric"] = frame["metric"].str.removesuffix(" (hmc)")
    frame["note"] = frame["entry"].map({"priors": SCALED_WITH_TEST_ROWS}).astype(object)
    frame["trust"] = frame["entry"].map({"mile": "do not trust: R-hat of function values up to 3.80", "priors": "fine"})
    same = {"dataset": "airfoil", "model": "mlp", "method": "mclmc", "chains": 10, "draws": 100, "max": 1.0}
    frame.assign(**same).to_csv(path, index=False)
