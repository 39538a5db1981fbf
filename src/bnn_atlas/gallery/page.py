"""The folder of a study's gallery: README.md, pictures and tables."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from bnn_atlas.gallery.captions import markdown
from bnn_atlas.gallery.claims import MARK, claim_cells, counts, read_claims, with_sd, write_csv
from bnn_atlas.gallery.escape import cell, plain
from bnn_atlas.gallery.pictures import shrink
from bnn_atlas.gallery.tables import method_tables
from bnn_atlas.gallery.times import rule_times
from bnn_atlas.metrics.judgement.trust import UNCONVERGED, reference_word

WIDTH = 1300
"""Largest width of a picture, in pixels."""
LARGEST = 250_000
"""Largest size of a CSV file in bytes; a larger one is left out, and the page says how many rows it has."""
METRICS = (
    "accuracy",
    "rmse",
    "lppd",
    "nll",
    "ece",
    "auroc_entropy",
    "agreement",
    "total_variation",
    "rhat_function_max",
    "divergences",
)
"""Columns of the table of scores, one for each value of `at`; those that the study has."""


WORDS = ("point", "at", "note", "trust")
"""Columns of the summary that hold text and may be empty."""


def write_gallery(
    folder: str | Path,
    *,
    study: Mapping[str, Any],
    scale: str,
    command: str,
    figures: Sequence[str | Path],
    captions: Mapping[str, Mapping[str, str]],
    summary: str | Path,
    runs: str | Path,
    claims: str | Path | None,
    jobs: pd.DataFrame,
) -> None:
    """Write the gallery of one study at one scale into `folder`, which is made if it is not there.

    Args:
        folder: where README.md, the pictures and the CSV files go.
        study: `name`, `title`, `paper` and `differences` (a sentence each).
        scale: name of the scale.
        command: what makes the results and copies the folder, as a reader would type it.
        figures: the PNG, CSV and LaTeX files of all figures; each has the name of its figure.
        captions: figure -> its `caption` and `notes` (.rst files, as for Snakemake's report; either may be missing) and
            `text`, which follows the caption.
        summary: the study's summary table (.csv).
        runs: the table of its runs (.csv).
        claims: the table of claims (.parquet), of all studies; None for a study without claims.
        jobs: what the jobs took and on which machine (`gallery.times.jobs`).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(runs, folder / "runs.csv")
    pooled = pd.read_csv(summary, dtype=dict.fromkeys(WORDS, str)).fillna(dict.fromkeys(WORDS, ""))
    names = list(dict.fromkeys(Path(file).stem for file in figures))
    judged = read_claims(study["name"], claims) if claims else pd.DataFrame()
    if claims:
        write_csv(judged, folder / "claims.csv")
    pooled["column"] = pooled["metric"] + (" (" + pooled["at"] + ")").where(pooled["at"] != "", "")
    metrics = list(dict.fromkeys(name for m in METRICS for name in pooled.loc[pooled["metric"] == m, "column"]))
    text = _template().render(
        title=study["title"],
        paper=study["paper"].rstrip("."),
        differences=study["differences"],
        scale=scale,
        command=command,
        machine="; ".join(dict.fromkeys(jobs["machine"])),
        times=rule_times(jobs),
        claims=[claim_cells(row, names) for _, row in judged.iterrows()],
        counts=counts(judged),
        figures=_figures(folder, figures, captions),
        metrics=list(map(cell, metrics)),
        marks=list(dict.fromkeys(mark for note in pooled["note"] if (mark := _marks_of(note)))),
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
        autoescape=False,  # the page is Markdown: `plain` and `cell` escape
    )
    environment.filters |= {"duration": duration, "plain": plain}
    return environment.get_template("page.md.j2")


def _figures(
    folder: Path, files: Sequence[str | Path], captions: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Copy what is small enough and say what there is of each figure."""
    shown = []
    by_name = {(Path(file).stem, Path(file).suffix): Path(file) for file in files}
    for name in dict.fromkeys(stem for stem, _ in by_name):
        figure: dict[str, Any] = dict.fromkeys(("picture", "latex", "tables"), None)
        figure |= {"name": name, **_texts(captions.get(name, {}))}
        if picture := by_name.get((name, ".png")):
            shrink(picture, folder / picture.name, WIDTH)
            figure["picture"] = picture.name
        data = by_name.get((name, ".csv"))
        if table := by_name.get((name, ".tex")):
            shutil.copyfile(table, folder / table.name)
            figure |= {"latex": table.name, "tables": method_tables(data) if data else []}
        shown.append(figure | {"data": _copied(data, folder / data.name) if data else {"file": None, "rows": ""}})
    return shown


def _texts(files: Mapping[str, str]) -> dict[str, str]:
    """Caption and notes of a figure in Markdown, empty where there are none."""
    paths = {part: Path(files[part]) for part in ("caption", "notes") if part in files}
    texts = {"caption": "", "notes": ""} | {part: markdown(file) for part, file in paths.items() if file.is_file()}
    return texts | {"caption": "\n\n".join(filter(None, (texts["caption"], plain(files.get("text", "")))))}


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
    shown = pooled[pooled["column"].isin(metrics)]
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    trusts: dict[tuple[str, ...], str] = {}
    for row in shown.to_dict("records"):
        name = f"{row['entry']} ({row['point']})" if row["point"] else row["entry"]
        sizes = ["" if pd.isna(row[column]) else f"{row[column]:,.0f}" for column in ("chains", "draws")]
        name = cell(name) + (MARK if _marks_of(row["note"]) else "")
        setting = (name, *(cell(row[column]) for column in ("dataset", "model", "method")), *sizes)
        word = f" ({UNCONVERGED})" if reference_word(row["note"]) else ""
        rows.setdefault(setting, {})[row["column"]] = with_sd(row["mean"], row["sd"]) + word
        trusts[setting] = cell(row["trust"])
    return [
        [*setting, *(values.get(metric, "") for metric in metrics), trusts[setting]] for setting, values in rows.items()
    ]


def _marks_of(note: str) -> str:
    """The marks of the runs in a note, without what is said of a reference."""
    return "; ".join(part for part in note.split("; ") if not part.startswith(UNCONVERGED))
