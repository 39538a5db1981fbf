"""The runs whose draws a figure's planes go through, and whether they are points of one posterior."""

from collections.abc import Mapping

from bnn_atlas.config.base import ConfigError
from bnn_atlas.config.figures import PlaneConfig, PointConfig, SurfaceConfig
from bnn_atlas.config.sources import check_same
from bnn_atlas.config.studies import Run, Study, shown_runs

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
