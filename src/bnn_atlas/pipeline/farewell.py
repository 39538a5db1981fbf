"""What Snakemake prints when everything is made: where to look, how long it took, what to do next."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from bnn_atlas.config.claims.load import claims_of, figures_of
from bnn_atlas.config.language.base import plural
from bnn_atlas.config.settings import Atlas
from bnn_atlas.files import read_parquet
from bnn_atlas.native.build import LOST, library
from bnn_atlas.pipeline.claims import claim_targets
from bnn_atlas.pipeline.figures import Figures
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.study_page import KEPT, so_far
from bnn_atlas.pipeline.targets import Targets, steps
from bnn_atlas.report.console import Checked, checked, checks, columns, count_line, read_rows, score_lines
from bnn_atlas.report.text import signed

CHECKS = "checks"
"""The step with the claims that hold at any scale."""
FEW = 10
"""Largest number of claims that are printed after the target of their table."""
NEXT = {
    "demo": (
        ("snakemake --cores 2 diagnostics", "a page per run on which to decide whether to trust it"),
        ("snakemake --cores 2 --config scale=laptop -n", "what the papers' own data would take"),
    ),
    "laptop": (("snakemake --cores 2 keep --config scale=laptop", "a folder of results per study, in docs/results"),),
    "paper": (("snakemake --cores 2 keep --config scale=paper", "a folder of results per study, in docs/results"),),
}
"""Scale -> commands to try next, each with what it makes."""


class Farewell(NamedTuple):
    """The last lines of a run."""

    text: str
    lost: list[str]
    """Claims that did not come out as expected: of the steps that were asked for, or of the demo's checks."""


def farewell(
    atlas: Atlas,
    paths: Paths,
    figures: Figures,
    known: Targets,
    missing_r: str | None,
    targets: Collection[str],
    seconds: float,
) -> Farewell:
    """The last lines of a run; if only some targets were requested, these lines list what was made for them.

    Args:
        atlas: the configuration.
        paths: where the results of its scale are.
        figures: the figures of its studies.
        known: all existing targets.
        missing_r: what to install if R cannot draw; else None.
        targets: the requested targets; empty for everything.
        seconds: since Snakemake started.
    """
    if targets and "all" not in targets:
        steps_asked = {target: _checked(target, atlas, paths) for target in targets if target in steps(atlas.claims)}
        made = [
            line
            for target in sorted(targets)
            for line in (steps_asked[target].lines if target in steps_asked else _made(target, atlas, paths, known))
        ]
        text = "\n".join([f"Made in {_duration(seconds)}:", *made, *_not_compiled()]) if made else ""
        return Farewell(text, [name for step in steps_asked.values() for name in step.lost])
    first = next(iter(atlas.studies))
    looks = [(f"{paths.results}/site/index.html", "what the papers say and what came out, with figures and runs")]
    looks += [(f"{paths.results}/figures/{first}/", f"the figures of {first}: PDF, PNG and the plotted numbers")]
    looks += [(f"{paths.results}/tables/{first}-summary.csv", "scores of its runs, pooled over seeds and splits")]
    lines = [f"Made in {_duration(seconds)}. Where to look first:", *_indented(looks)]
    lines += [line for study in atlas.studies if study not in atlas.claims for line in _scored(paths, study)]
    if figures.not_made:
        lines.append(f"Not made: {', '.join(figures.not_made)}. {missing_r}")
    lines += _not_compiled()
    lines += [
        "What to do next:",
        *_indented(NEXT[atlas.settings.scale]),
        "  docs/index.md, all that can be done from here",
    ]
    lost: list[str] = []
    if atlas.settings.scale == "demo" and CHECKS in steps(atlas.claims):
        found = _checks(atlas, f"{paths.results}/site")
        lines, lost = lines + found.lines, found.lost
    return Farewell("\n".join(lines), lost)


def _not_compiled() -> list[str]:
    """What is lost without the compiled gradient; empty if it is built."""
    return [] if library().is_file() else [f"No compiled gradient: {LOST}. `make setup` builds it or says why not."]


def _made(target: str, atlas: Atlas, paths: Paths, known: Targets) -> list[str]:
    """What to open after making a named target; empty for other targets."""
    if figure := known.figure(target):
        return [f"  {figure.outputs[-1]}"]
    if target in atlas.studies:
        made = [f"  {paths.results}/figures/{target}/", f"  {paths.results}/tables/{target}-summary.csv"]
        return made if target in atlas.claims else [*made, *_scored(paths, target)]
    if target in (pages := claim_targets(atlas)):
        studies, stem = pages[target]
        options = f"--config scale={atlas.settings.scale} 'studies=[{','.join(studies)}]'"
        return [*_verdicts(f"{paths.results}/{stem}.parquet"), f"  as pages: snakemake --cores 2 so_far {options}"]
    if target == "site":
        return [f"  {paths.results}/site/index.html"]
    if target in ("so_far", "keep"):
        folder = KEPT if target == "keep" else so_far(paths)
        start = [f"  {folder}/index.html"] if target == "so_far" else []
        return start + [line for study in atlas.studies for line in _judged(f"{folder}/{study}")]
    if target == "traces":
        return [f"  {file}" for file in Inputs(atlas, paths).layer_traces(None)]
    if target in known.runs:
        folders = dict.fromkeys(f"  {file.rpartition('/')[0]}/" for file in known.runs[target])
        return [*folders, f"  judged by: snakemake --cores 2 so_far --config scale={atlas.settings.scale}"]
    return []


def _verdicts(table: str) -> list[str]:
    """A table of claims with the number of each verdict, and the claims themselves if they are few."""
    rows = []
    if Path(table).is_file():
        found = read_parquet(table, ["verdict", "statement"])
        rows = [{"verdict": str(verdict), "statement": signed(text)} for verdict, text in found.to_numpy()]
    head = f"  {table}" + (f"  ({count_line(rows)})" if rows else "")
    few = rows if len(rows) <= FEW else []
    return [head, *(f"  {row['verdict']}: {row['statement']}" for row in few)]


def _scored(paths: Paths, study: str) -> list[str]:
    """The scores of a study's runs, and whether to trust them."""
    return [f"  {line}" for line in score_lines(f"{paths.results}/tables/{study}-summary.csv")]


def _judged(page: str) -> list[str]:
    """The lines for a page: its path, and the number of claims with each verdict."""
    rows = read_rows(f"{page}/claims.csv")
    return [f"  {page}/README.md" + (f"  ({count_line(rows)})" if rows else "")]


def _checked(step: str, atlas: Atlas, paths: Paths) -> Checked:
    """The claims of a step, those of each study before its page, and how many came out as expected."""
    if step == CHECKS:
        return _checks(atlas, so_far(paths))
    lines: list[str] = []
    found = []
    for study in steps(atlas.claims)[step]:
        config, page = atlas.claims[study], f"{so_far(paths)}/{study}"
        names = claims_of(config, step)
        shown = {
            figure: [run.name for run in atlas.studies[study].runs_of(atlas.studies[study].figures[figure].runs)]
            for figure in figures_of(config, step)
        }
        one = checked(Path(page), Path(KEPT) / study, names, shown)
        lines += ["", f"{study}:", *(f"  {line}" for line in one.lines), f"  {page}/README.md"]
        found.append(one)
    number, lost = sum(one.number for one in found), [name for one in found for name in one.lost]
    lines += ["", *dict.fromkeys(line for one in found for line in one.machines)]
    open_ = sum(one.unexpected for one in found)
    if number:
        lines.append(f"{number - len(lost)} of {number} claims came out as expected{_named(lost)}")
    lines += [f"{plural(open_, 'further claim')}: nothing expected yet"] * bool(open_)
    return Checked(lines, number, lost, [])


def _checks(atlas: Atlas, pages: str) -> Checked:
    """How many of the claims that hold at any scale do so, by the pages of the studies in a folder."""
    named = {study: claims_of(atlas.claims[study], CHECKS) for study in steps(atlas.claims)[CHECKS]}
    rows = [row for study in named for row in read_rows(f"{pages}/{study}/claims.csv") if row["claim"] in named[study]]
    return checks(rows, sum(map(len, named.values())))


def _named(lost: Collection[str]) -> str:
    return f"; not: {', '.join(lost)}" if lost else ""


def _indented(rows: Collection[tuple[str, str]]) -> list[str]:
    return [f"  {line}" for line in columns([(f"{left} ", right) for left, right in rows])]


def _duration(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
