"""The folder of a study's gallery: README.md, pictures and tables."""

import fnmatch
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from bnn_atlas.gallery.captions import caption
from bnn_atlas.gallery.claims import cell, claim_cells, counts, read_claims, with_sd, write_csv
from bnn_atlas.gallery.pictures import shrink
from bnn_atlas.gallery.tables import method_tables
from bnn_atlas.gallery.times import machine, rule_times

WIDTH = 1300
"""Of a picture, in pixels."""
LARGEST = 250_000
"""Bytes of a CSV file; a larger one is left out, and the page says how many rows it has."""
METRICS = (
    "accuracy",
    "rmse",
    "lppd",
    "nll",
    "ece",
    "auroc_entropy",
    "agreement_*",
    "total_variation_*",
    "rhat_function_max",
    "divergences",
)
"""Columns of the table of scores, as patterns; those that the study has."""


def write_gallery(
    folder: str | Path,
    *,
    study: Mapping[str, Any],
    scale: str,
    command: str,
    figures: Sequence[str | Path],
    captions: Sequence[str | Path],
    summary: str | Path,
    runs: str | Path,
    claims: str | Path | None,
    benchmarks: str | Path,
    sizes: Mapping[str, Sequence[int]],
) -> None:
    """Write the gallery of one study at one scale into `folder`, which is made.

    Args:
        folder: where README.md, the pictures and the CSV files go.
        study: `name`, `title`, `paper` and `differences` (a sentence each).
        scale: name of the scale.
        command: what makes the results and copies the folder, as a reader would type it.
        figures: the PNG, CSV and LaTeX files of all figures; each CSV has the name of its figure.
        captions: captions for Snakemake's report with the names of their figures (.rst); a figure need not have one.
        summary: the study's summary table (.csv).
        runs: the table of its runs (.csv).
        claims: the table of claims (.parquet), of all studies; None for a study without claims.
        benchmarks: folder of the benchmark files.
        sizes: numbers of splits and of blocks of each run; files of other jobs in `benchmarks` are old.
    """
    folder = Path(folder)
    folder.mkdir(parents=True)
    shutil.copyfile(runs, folder / "runs.csv")
    pooled = pd.read_csv(summary)
    names = list(dict.fromkeys(Path(file).stem for file in figures))
    judged = read_claims(study["name"], claims) if claims else pd.DataFrame()
    if claims:
        write_csv(judged, folder / "claims.csv")
    had = [metric for metric in pooled["metric"].unique() if not metric.endswith("_ceiling")]
    metrics = [metric for pattern in METRICS for metric in fnmatch.filter(had, pattern)]
    text = _template().render(
        title=study["title"],
        paper=study["paper"].rstrip("."),
        differences=study["differences"],
        scale=scale,
        command=command,
        machine=machine(),
        times=rule_times(benchmarks, study["name"], sizes, names),
        claims=[claim_cells(row, names) for _, row in judged.iterrows()],
        counts=counts(judged),
        figures=_figures(folder, figures, {Path(file).stem: file for file in captions}),
        metrics=metrics,
        scores=_scores(pooled, metrics),
        summary=_copied(Path(summary), folder / "summary.csv"),
        summary_path=str(summary),
    )
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")


def duration(seconds: float) -> str:
    """`1 h 05 min`, or `12 min`, or `40 s`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown
    )
    environment.filters["duration"] = duration
    return environment.get_template("page.md.j2")


def _figures(folder: Path, files: Sequence[str | Path], captions: Mapping[str, str | Path]) -> list[dict[str, Any]]:
    """Copy what is small enough and say what there is of each figure."""
    shown = []
    by_name = {(Path(file).stem, Path(file).suffix): Path(file) for file in files}
    for name in dict.fromkeys(stem for stem, _ in by_name):
        figure: dict[str, Any] = dict.fromkeys(("picture", "latex", "tables"), None)
        figure |= {"name": name, "caption": caption(captions[name]) if name in captions else None}
        if picture := by_name.get((name, ".png")):
            shrink(picture, folder / picture.name, WIDTH)
            figure["picture"] = picture.name
        data = by_name[name, ".csv"]
        if table := by_name.get((name, ".tex")):
            shutil.copyfile(table, folder / table.name)
            figure |= {"latex": table.name, "tables": method_tables(data)}
        shown.append(figure | {"data": _copied(data, folder / data.name)})
    return shown


def _copied(data: Path, destination: Path) -> dict[str, Any]:
    """Copy a CSV file that is small enough and give its name; of one that is too large, its rows and megabytes."""
    size = data.stat().st_size
    if size <= LARGEST:
        shutil.copyfile(data, destination)
        return {"file": destination.name}
    with data.open(encoding="utf-8") as lines:
        rows = sum(1 for _ in lines) - 1
    return {"file": None, "rows": f"{rows:,}", "megabytes": round(size / 1e6, 1)}


def _scores(pooled: pd.DataFrame, metrics: Sequence[str]) -> list[list[str]]:
    """Cells of the table of scores: one row per setting and data set."""
    shown = pooled[pooled["metric"].isin(metrics)].fillna({"point": ""})
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in shown.to_dict("records"):
        name = f"{row['entry']} ({row['point']})" if row["point"] else row["entry"]
        sizes = ["" if pd.isna(row[column]) else f"{row[column]:,.0f}" for column in ("chains", "draws")]
        setting = (cell(name), row["dataset"], row["model"], row["method"], *sizes)
        rows.setdefault(setting, {})[row["metric"]] = with_sd(row["mean"], row["sd"])
    return [[*setting, *(values.get(metric, "") for metric in metrics)] for setting, values in rows.items()]
