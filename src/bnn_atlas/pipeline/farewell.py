"""What Snakemake prints when everything is made: where to look, how long it took, what to do next."""

from collections.abc import Collection

from bnn_atlas.config.claims.load import claims_of
from bnn_atlas.config.settings import Atlas
from bnn_atlas.native.build import LOST, library
from bnn_atlas.pipeline.claims import claim_targets
from bnn_atlas.pipeline.figures import Figures
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.study_page import KEPT, so_far
from bnn_atlas.pipeline.targets import Targets, steps
from bnn_atlas.report.console import columns, count_line, read_rows, score_lines, verdict_lines

NEXT = {
    "demo": (
        ("snakemake --cores 2 diagnostics", "a page per run on which to decide whether to trust it"),
        ("snakemake --cores 2 --config scale=laptop -n", "what the papers' own data would take"),
    ),
    "laptop": (("snakemake --cores 2 keep --config scale=laptop", "a folder of results per study, in docs/results"),),
    "paper": (("snakemake --cores 2 keep --config scale=paper", "a folder of results per study, in docs/results"),),
}
"""Scale -> commands to try next, each with what it makes."""


def farewell(
    atlas: Atlas,
    paths: Paths,
    figures: Figures,
    known: Targets,
    missing_r: str | None,
    targets: Collection[str],
    seconds: float,
) -> str:
    """The last lines of a run; if only some targets were asked for, they say what was made for these.

    Args:
        atlas: the configuration.
        paths: where the results of its scale are.
        figures: the figures of its studies.
        known: all existing targets.
        missing_r: what to install if R cannot draw; else None.
        targets: what was asked for; empty for everything.
        seconds: since Snakemake started.
    """
    if targets and "all" not in targets:
        made = [line for target in sorted(targets) for line in _made(target, atlas, paths, known)]
        return "\n".join([f"Made in {_duration(seconds)}:", *made, *_not_compiled()]) if made else ""
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
    return "\n".join(lines)


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
        return [f"  {paths.results}/{pages[target][1]}.parquet", "  as pages: snakemake --cores 2 site"]
    if target == "site":
        return [f"  {paths.results}/site/index.html"]
    if target in ("so_far", "keep"):
        folder = KEPT if target == "keep" else so_far(paths)
        start = [f"  {folder}/index.html"] if target == "so_far" else []
        return start + [line for study in atlas.studies for line in _judged(f"{folder}/{study}")]
    if target in (of := steps(atlas.claims)):
        return [line for study in of[target] for line in _checked(f"{so_far(paths)}/{study}", atlas, study, target)]
    if target in known.runs:
        folders = dict.fromkeys(f"  {file.rpartition('/')[0]}/" for file in known.runs[target])
        return [*folders, f"  judged by: snakemake --cores 2 so_far --config scale={atlas.settings.scale}"]
    return []


def _scored(paths: Paths, study: str) -> list[str]:
    """The scores of a study's runs, and whether to trust them."""
    return [f"  {line}" for line in score_lines(f"{paths.results}/tables/{study}-summary.csv")]


def _judged(page: str) -> list[str]:
    """The lines for a page: its path, and the number of claims with each verdict."""
    rows = read_rows(f"{page}/claims.csv")
    return [f"  {page}/README.md" + (f"  ({count_line(rows)})" if rows else "")]


def _checked(page: str, atlas: Atlas, study: str, step: str) -> list[str]:
    """The verdicts of a step's claims, and the page."""
    table = verdict_lines(read_rows(f"{page}/claims.csv"), claims_of(atlas.claims[study], step))
    return ["", *(f"  {line}".rstrip() for line in table), "", f"  {page}/README.md"]


def _indented(rows: Collection[tuple[str, str]]) -> list[str]:
    return [f"  {line}" for line in columns([(f"{left} ", right) for left, right in rows])]


def _duration(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
