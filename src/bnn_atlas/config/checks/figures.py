"""Whether the figures of a study have what their kinds need, and planes points of one posterior."""

from collections.abc import Mapping
from typing import get_args

from bnn_atlas.config.checks.alignments import alignments_of
from bnn_atlas.config.checks.sources import check_same
from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.language.base import ConfigError, near_or_all
from bnn_atlas.config.parts.figures import FigureConfig, PlaneConfig, PointConfig, SurfaceConfig
from bnn_atlas.config.parts.kinds import FILES, OF_SETS, Kind, Section, kinds
from bnn_atlas.config.runs.studies import Run, Study, shown_runs

SAME = ("dataset", "split", "model", "likelihood", "prior", "temperature")
"""Fields of a run that decide its posterior: two runs with equal ones differ in how they look for it only."""


def other_runs(studies: Mapping[str, Study], run: Run, surface: SurfaceConfig) -> dict[str, Run]:
    """Name of each further run that a surface takes points from -> the run, in order; `run` is the figure's own.

    Names that stand for no run are passed over, and one that stands for several is taken as the first of them.
    """
    names = dict.fromkeys(point.run for plane in surface.planes for point in plane.points if point.run is not None)
    found = {name: list(shown_runs(studies, run.study, (name,)).values()) for name in names}
    return {name: runs[0] for name, runs in found.items() if runs}


def check_points(studies: Mapping[str, Study], run: Run, surface: SurfaceConfig, where: str) -> None:
    """Refuse points of runs that do not exist or have another posterior, and chains and draws that they do not have.

    Raises ConfigError.
    """
    for i, plane in enumerate(surface.planes):
        for j, point in enumerate(plane.points):
            place = f"{where}.surface.planes.{i}.points.{j}"
            _check_draw(_source(studies, run, point, plane, place), point, place)


def _source(studies: Mapping[str, Study], run: Run, point: PointConfig, plane: PlaneConfig, where: str) -> Run:
    """The run of a point."""
    if point.run is None:
        return run
    found = list(shown_runs(studies, run.study, (point.run,)).values())
    if not found:
        raise ConfigError(
            f"{where}.run = '{point.run}': no such run at scale {run.scale} among the loaded studies; the plane "
            f"'{plane.title}' goes through draws of runs with the posterior of '{run.name}'"
        )
    if len(found) > 1:
        names = ", ".join(each.name for each in found[:12])
        raise ConfigError(f"{where}.run = '{point.run}': {len(found)} runs of this entry; name one of {names}")
    conclusion = "so that its draws are points of another posterior: leave it out"
    check_same(run, found[0], SAME, f"{where}.run = '{point.run}'", conclusion)
    return found[0]


def _check_draw(run: Run, point: PointConfig, where: str) -> None:
    """Refuse a chain or a draw beyond the last; how many draws a stopping rule leaves is known to the job only."""
    if point.chain >= run.config.chains:
        raise ConfigError(
            f"{where}.chain = {point.chain}: run '{run.name}' has {run.config.chains} chains, with numbers from 0"
        )
    draws = int(getattr(run.config.method, "draws", 1))
    if isinstance(point.draw, int) and point.draw >= draws:
        raise ConfigError(
            f"{where}.draw = {point.draw}: run '{run.name}' keeps {draws:,} draws of each chain, with numbers from 0"
        )


def check_figure(
    studies: Mapping[str, Study], study: str, figure: str, datasets: Mapping[str, DatasetEntry], where: str
) -> None:
    """Refuse a figure of an unknown kind or unknown runs, and one that lacks what its kind needs.

    `studies` are all that are loaded, at one scale; `where` names the file and the figure. Raises ConfigError.
    """
    config = studies[study].figures[figure]
    if config.draw not in kinds():
        raise ConfigError(
            f"{where}.draw = '{config.draw}': no such kind of figure{near_or_all(config.draw, 'there are', kinds())}"
        )
    kind = kinds()[config.draw]
    runs = _check_runs(studies, study, config, kind, where)
    _check_sections(config, kind, where)
    labelled = {*config.runs, *runs}
    for name, text in config.labels.items():
        if name not in labelled:
            raise ConfigError(
                f"{where}.labels.{name} = '{text}': not among the figure's runs; those are {', '.join(config.runs)}"
            )
    of_alignments = [file for file in (*kind.files, *kind.files_if_any, *config.files) if "{alignment}" in FILES[file]]
    if config.alignments and not of_alignments:
        raise ConfigError(f"{where}.alignments: a figure of the kind '{kind.name}' shows no alignments; leave it out")
    there = list(dict.fromkeys(name for run in runs.values() for name in alignments_of(studies[run.study], run)))
    for name in config.alignments:
        if name not in there:
            near = near_or_all(name, "there are", there)
            raise ConfigError(f"{where}.alignments: '{name}': no alignment of the figure's runs{near}")
    for name, run in runs.items():
        if kind.generated is not None:
            _check_generated(run, kind, datasets, where)
        _check_files(run, name, (*kind.files, *config.files), where)
        shown = [each for each in alignments_of(studies[run.study], run) if each in (config.alignments or there)]
        if not shown and any("{alignment}" in FILES[file] for file in (*kind.files, *config.files)):
            raise ConfigError(
                f"{where}.runs: '{name}' has no alignment that it shows; add one to the study's alignments"
            )
        if config.functions is not None and config.functions.inputs == "line":
            _check_line(run, datasets, where)
        if config.surface is not None:
            check_points(studies, run, config.surface, where)


def _check_runs(
    studies: Mapping[str, Study], study: str, config: FigureConfig, kind: Kind, where: str
) -> dict[str, Run]:
    """The figure's runs by their names in it."""
    if bool(config.runs) != (kind.runs != "none"):
        wanted = "at least one run is needed" if kind.runs != "none" else "this figure shows no runs; leave them out"
        raise ConfigError(f"{where}.runs = {list(config.runs)}: {wanted}")
    runs = shown_runs(studies, study, config.runs)
    known = {f"{run.study}/{name}" for run in runs.values() for name in (run.name, run.entry)}
    for name in config.runs:
        if (name if "/" in name else f"{study}/{name}") not in known:
            raise ConfigError(f"{where}.runs: {_missing(studies, study, name)}")
    if kind.runs == "one" and len(runs) > 1:
        raise ConfigError(
            f"{where}.runs = {list(config.runs)}: this figure shows one run; choose one of {', '.join(runs)}"
        )
    return runs


def _missing(studies: Mapping[str, Study], study: str, name: str) -> str:
    """Why a name stands for no run."""
    other, slash, run = name.rpartition("/")
    if slash and other not in studies:
        return (
            f"'{name}': the study '{other}' is not loaded"
            f"{near_or_all(other, 'add it to studies in config.yaml, beside', studies)}"
        )
    source = studies[other if slash else study]
    entries = sorted({each.entry for each in source.runs.values()})
    of_study = f" in study '{other}'" if slash else ""
    return f"no run '{run}'{of_study}{near_or_all(run, 'there are', entries, source.runs)}"


def _check_sections(config: FigureConfig, kind: Kind, where: str) -> None:
    """Refuse a figure without a section that its kind needs, or with one that it does not read."""
    for section in get_args(Section):
        given = getattr(config, section) is not None
        if section in kind.sections and not given:
            (model,) = (k for k in get_args(FigureConfig.model_fields[section].annotation) if k is not type(None))
            raise ConfigError(
                f"{where}.{section}: this figure needs the section; its keys are {', '.join(model.model_fields)}"
            )
        if given and section not in kind.sections:
            reads = f"it reads {', '.join(kind.sections)}" if kind.sections else "it reads tables"
            raise ConfigError(f"{where}.{section}: a figure of the kind '{kind.name}' has no such section; {reads}")


def _check_files(run: Run, name: str, files: tuple[str, ...], where: str) -> None:
    """Refuse runs that do not have the files that a figure reads."""
    evaluate = run.config.evaluate
    for file in files:
        if file in OF_SETS and not evaluate.sets:
            raise ConfigError(
                f"{where}.runs: '{name}' has no further sets, and this figure reads their {file}; give the run "
                "evaluate.shifts or evaluate.out_of_distribution, or leave it out"
            )
        if "{reference}" in FILES[file] and not evaluate.references:
            raise ConfigError(
                f"{where}.runs: '{name}' has no references; give the run evaluate.references, or leave it out"
            )
    if {"referee", "referee_chains"} & {*files} and not run.referee:
        raise ConfigError(f"{where}.runs: '{name}' has no referee; give the run the section referee, or leave it out")
    if {"barriers", "lines", "matches", "norms"} & {*files} and run.config.evaluate.barriers is None:
        raise ConfigError(
            f"{where}.runs: '{name}' compares no chains; give the run the section evaluate.barriers, or leave it out"
        )
    if "pruning_curves" in files and run.config.evaluate.pruning is None:
        raise ConfigError(
            f"{where}.runs: '{name}' prunes no networks; give the run the section evaluate.pruning, or leave it out"
        )
    if "e_values" in files and (why := run.config.no_e_values()):
        raise ConfigError(f"{where}.runs: '{name}': {why}, or leave the run out")


def _check_line(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse functions on a line for a run whose data have more than one input."""
    dataset = run.config.dataset
    if datasets[dataset].shape != (1,):
        raise ConfigError(
            f"{where}.functions.inputs = 'line': a line is for data of one input, and a row of '{dataset}' "
            f"(run {run.name}) has the shape {list(datasets[dataset].shape)}; use 'test'"
        )


def _check_generated(run: Run, kind: Kind, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse runs on data of another function than that which the figure draws."""
    dataset = run.config.dataset
    generate = datasets[dataset].generate
    if generate is None or generate.kind != kind.generated:
        raise ConfigError(
            f"{where}.runs: '{run.name}' is on '{dataset}', and a figure of the kind '{kind.name}' draws the function "
            f"behind data sets with generate.kind '{kind.generated}'; leave the run out, or draw another kind"
        )
