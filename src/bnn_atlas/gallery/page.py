"""The folder of a study's gallery: README.md, pictures and tables."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from bnn_atlas.claims.page import number
from bnn_atlas.claims.verdict import Verdict
from bnn_atlas.gallery.pictures import shrink
from bnn_atlas.gallery.times import machine, rule_times

WIDTH = 1300
"""Of a picture, in pixels."""
LARGEST = 250_000
"""Bytes of a CSV file; a larger one is left out, and the page says how many rows it has."""
METRICS = ("accuracy", "rmse", "lppd", "ece", "rhat_function_max", "rhat_weight_max")
"""Columns of the table of scores, those of them that the study has."""


def write_gallery(
    folder: str | Path,
    *,
    study: Mapping[str, Any],
    scale: str,
    command: str,
    figures: Sequence[str | Path],
    summary: str | Path,
    runs: str | Path,
    claims: str | Path | None,
    benchmarks: str | Path,
) -> None:
    """Write the gallery of one study at one scale into `folder`, which is made.

    Args:
        folder: where README.md, the pictures and the CSV files go.
        study: `name`, `title` and `paper`.
        scale: name of the scale.
        command: what made the results, as a reader would type it.
        figures: the PNG, CSV and LaTeX files of all figures; each CSV has the name of its figure.
        summary: the study's summary table (.csv).
        runs: the table of its runs (.csv).
        claims: the table of claims (.parquet), of all studies; None for a study without claims.
        benchmarks: folder of the benchmark files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True)
    shutil.copyfile(runs, folder / "runs.csv")
    pooled = pd.read_csv(summary)
    pooled.to_csv(folder / "summary.csv", index=False, lineterminator="\n", float_format="%.6g")
    judged = _claims(folder, study["name"], claims) if claims else pd.DataFrame()
    metrics = [metric for metric in METRICS if (pooled["metric"] == metric).any()]
    text = _template().render(
        title=study["title"],
        paper=study["paper"].rstrip("."),
        scale=scale,
        command=command,
        machine=machine(),
        times=rule_times(benchmarks, study["name"]),
        claims=[_claim(row) for _, row in judged.iterrows()],
        counts=_counts(judged),
        figures=_figures(folder, figures),
        metrics=metrics,
        scores=_scores(pooled, metrics),
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


def _claims(folder: Path, study: str, table: str | Path) -> pd.DataFrame:
    """The study's claims, which are also written as CSV: nested columns as text."""
    judged = pd.read_parquet(table)
    judged = judged[judged["study"] == study].reset_index(drop=True)
    flat = judged.assign(
        reductions=["; ".join(texts) for texts in judged["reductions"]],
        rows=["; ".join(_row_text(row) for row in rows) for rows in judged["rows"]],
    )
    flat.to_csv(folder / "claims.csv", index=False, lineterminator="\n", float_format="%.6g")
    return judged


def _row_text(row: Mapping[str, Any]) -> str:
    excluded = f" ({row['excluded']} excluded)" if row["excluded"] else ""
    return (
        f"{row['side']}: {row['run']} split {row['split']} {row['dataset']} {row['metric']}, {row['chains']} chains"
        f"{excluded}, {row['draws']} draws = {row['value']:.6g}"
    )


def _claim(row: pd.Series) -> dict[str, str]:
    """What the page shows of one claim; `ours` is the difference where the claim is about one."""
    compared = pd.notna(row["difference"])
    value, sd = (row["difference"], row["difference_sd"]) if compared else (row["value"], row["sd"])
    ours = "" if pd.isna(value) else _with_sd(value, sd)
    paper = "" if pd.isna(row["paper_value"]) else number(row["paper_value"])
    verdict = row["verdict"] + (f": {row['reason']}" if row["reason"] else "")
    cells = {"statement": row["statement"], "section": row["section"], "paper": paper, "verdict": verdict}
    return {key: _cell(text) for key, text in cells.items()} | {"ours": ours}


def _cell(text: str) -> str:
    """Text that stays within its cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


def _counts(judged: pd.DataFrame) -> str:
    if judged.empty:
        return ""
    counts = judged["verdict"].value_counts()
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in map(str, Verdict) if verdict in counts)


def _figures(folder: Path, files: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Copy what is small enough and say what there is of each figure."""
    shown = []
    by_name = {(Path(file).stem, Path(file).suffix): Path(file) for file in files}
    for name in dict.fromkeys(stem for stem, _ in by_name):
        figure: dict[str, Any] = {"name": name, "picture": None, "data": None, "rows": None, "megabytes": None}
        if picture := by_name.get((name, ".png")):
            shrink(picture, folder / picture.name, WIDTH)
            figure["picture"] = picture.name
        if table := by_name.get((name, ".tex")):
            shutil.copyfile(table, folder / table.name)
        data = by_name[name, ".csv"]
        if data.stat().st_size <= LARGEST:
            shutil.copyfile(data, folder / data.name)
            figure["data"] = data.name
        else:
            with data.open(encoding="utf-8") as lines:
                figure["rows"] = f"{sum(1 for _ in lines) - 1:,}"
            figure["megabytes"] = round(data.stat().st_size / 1e6, 1)
        shown.append(figure)
    return shown


def _scores(pooled: pd.DataFrame, metrics: Sequence[str]) -> list[list[str]]:
    """Cells of the table of scores: one row per setting and data set."""
    shown = pooled[pooled["metric"].isin(metrics)].fillna({"point": ""})
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in shown.to_dict("records"):
        name = f"{row['entry']} ({row['point']})" if row["point"] else row["entry"]
        counts = ["" if pd.isna(row[column]) else f"{row[column]:,.0f}" for column in ("chains", "draws")]
        setting = (_cell(name), row["dataset"], row["model"], row["method"], *counts)
        rows.setdefault(setting, {})[row["metric"]] = _with_sd(row["mean"], row["sd"])
    return [[*setting, *(values.get(metric, "") for metric in metrics)] for setting, values in rows.items()]


def _with_sd(value: float, sd: float) -> str:
    return number(value) + ("" if pd.isna(sd) else f" ± {number(sd)}")
