"""The folder of a study's gallery: README.md, pictures and tables."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from bnn_atlas.gallery.escape import cell, plain
from bnn_atlas.gallery.pictures import copied, figure_parts
from bnn_atlas.gallery.score_tables import marks_of, score_sections
from bnn_atlas.gallery.verdicts import (
    RULE,
    UNDECIDED,
    causes,
    claim_groups,
    counts,
    finding_cells,
    read_claims,
    write_csv,
)
from bnn_atlas.kept.jobs import by_machine, made_on, rule_times

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
    entries: Mapping[str, str],
    datasets: Mapping[str, str],
    steps: Sequence[Mapping[str, str]] | None = None,
) -> None:
    """Write the gallery of one study at one scale into `folder`, which is created if missing.

    Args:
        folder: folder for README.md, the pictures and the CSV files.
        study: `name`, `title`, `paper`, `differences` (a sentence each) and `findings` (fields of
            `config.claims.load.Finding`).
        scale: name of the scale.
        command: the command that makes the results and copies the folder.
        figures: the PNG, CSV and LaTeX files of all figures, named after the figure.
        captions: figure -> its `title`, its `caption` and `notes` (.rst files, as for Snakemake's report; either may be
            missing) and `text`, which follows the first sentence.
        summary: the study's summary table (.csv).
        runs: the table of its runs (.csv).
        claims: the table of claims of all studies (.parquet); None for a study without claims.
        jobs: time and machine of each job (`kept.jobs.jobs`).
        entries: run -> its entry in the study's file.
        datasets: data set -> its title.
        steps: commands for checking the study (`ladder`); None for the commands that every study has.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(runs, folder / "runs.csv")
    pooled = pd.read_csv(summary, dtype=dict.fromkeys(WORDS, str)).fillna(dict.fromkeys(WORDS, ""))
    names = list(dict.fromkeys(Path(file).stem for file in figures))
    made = made_on(jobs, study["name"], entries)
    text = _template().render(
        title=study["title"],
        paper=study["paper"].rstrip("."),
        differences=study["differences"],
        scale=scale,
        command=command,
        steps=ladder(study["name"]) if steps is None else steps,
        figures=figure_parts(folder, figures, captions, datasets),
        marks=list(dict.fromkeys(mark for note in pooled["note"] if (mark := marks_of(note)))),
        scores=score_sections(pooled, datasets),
        rounded="rounding_sd" in pooled and pooled["rounding_sd"].notna().any(),
        summary=copied(Path(summary), folder / "summary.csv"),
        study=study["name"],
        rule=RULE,
        undecided=UNDECIDED,
        **_claimed(folder, study, claims, names),
        times=rule_times(jobs),
        made=made,
        machines=by_machine(made),
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
    environment.filters |= {"duration": duration, "plain": plain, "cell": cell}
    return environment.get_template("page.md.j2")


def _claimed(
    folder: Path, study: Mapping[str, Any], claims: str | Path | None, figures: Sequence[str]
) -> dict[str, Any]:
    """What the page says about the claims of a study."""
    if claims is None:
        return {"counts": "", "findings": [], "groups": [], "misses": []}
    judged = read_claims(study["name"], claims)
    write_csv(judged, folder / "claims.csv")
    return {
        "counts": counts(judged["verdict"]),
        "findings": finding_cells(study["findings"], judged, figures),
        "groups": claim_groups(judged, figures, study["findings"]),
        "misses": causes(judged),
    }


def ladder(study: str, steps: Iterable[tuple[str, str, int]] = ()) -> list[Mapping[str, str]]:
    """Commands on a study's page, from short to long: `cost`, `command` (empty for the page itself) and `shows`.

    `steps` are the steps of its claims (`config.claims.load`), each with its name, duration and number of claims.
    """
    chosen = f"'studies=[{study}]'"
    return [
        {"cost": "1 s", "command": "", "shows": "Everything as it was measured here."},
        *(
            {"cost": takes, "command": f"snakemake --cores 2 {name}", "shows": f"{claims} claims, with their verdicts."}
            for name, takes, claims in steps
        ),
        {
            "cost": "1 day",
            "command": f"snakemake --cores 2 --config scale=laptop {chosen}",
            "shows": "All runs, reduced; a stopped run resumes.",
        },
        {
            "cost": "days on a GPU",
            "command": f"snakemake --cores 2 --config scale=paper {chosen}",
            "shows": "All runs at the paper's settings.",
        },
    ]
