"""What a figure shows: runs, each with the files that were made for the figure."""

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.metrics.summary import REPETITION
from bnn_atlas.provenance import Provenance


class Shown(NamedTuple):
    """One run and split of a figure."""

    run: str
    entry: str
    """The entry of the study's file from which the run was expanded."""
    label: str
    """Text in the legend."""
    point: dict[str, Any]
    """Field of the entry's grid -> value of this run, such as `prior.scale` -> 0.5."""
    dataset: str
    dataset_title: str
    """Name of the data set in figures."""
    task: str
    """`regression` or `classification`."""
    model: str
    hidden: tuple[int, ...]
    """Widths of the hidden layers; empty for a linear model and for one that is not fully connected."""
    method: str
    likelihood: str
    prior_sd: float | None
    """Standard deviation of a prior N(0, sd^2) that all parameters share; None for any other prior."""
    split: int
    chains: int
    files: dict[str, Path]
    """Name of an input of the figure -> file."""


def check_repetitions(shown: Sequence[Shown], names: Sequence[str]) -> None:
    """Refuse to average over anything but seeds and splits; `names` says of each run into what it is averaged."""
    seen: dict[str, tuple[str, str]] = {}
    for one, name in zip(shown, names, strict=True):
        fixed = {field: value for field, value in one.point.items() if field not in REPETITION}
        setting = json.dumps([one.entry, one.model, one.likelihood, fixed], sort_keys=True)
        run, known = seen.setdefault(name, (one.run, setting))
        if known != setting:
            raise ValueError(
                f"{name} has the runs '{run}' and '{one.run}', which differ in more than their seeds; give them "
                "different labels"
            )


FigureFunction = Callable[[Sequence[Shown], FigureOutputs, Provenance], None]


def figure_function(module: str, figure: str) -> FigureFunction:
    """The function that draws a figure; `module` is below this package."""
    function: FigureFunction = getattr(import_module(f"bnn_atlas.figures.{module}"), figure)
    return function


def shown_runs(described: Sequence[dict[str, Any]], files: dict[str, Sequence[str]]) -> list[Shown]:
    """Runs as the workflow describes them, in order, each with its place in every list of files."""
    return [
        Shown(**{**run, "hidden": tuple(run["hidden"])}, files={name: Path(paths[i]) for name, paths in files.items()})
        for i, run in enumerate(described)
    ]
