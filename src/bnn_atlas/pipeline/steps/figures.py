"""Figures and diagnostics pages."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.figures.diagnostics import RunFiles, diagnostics_page
from bnn_atlas.figures.drawing import draw
from bnn_atlas.provenance import collect


def figure(outputs: Sequence[str | Path], *, figure: Mapping[str, Any]) -> None:
    """Draw a figure or write a table; `figure` is the result of `pipeline.figures.Figure.described`."""
    draw(figure, outputs)


def page(outputs: Sequence[str | Path], *, settings: Mapping[str, Any], **files: str | Path) -> None:
    """Draw the diagnostics page of a run; `files` are the tables of the rule `metrics`."""
    shown = RunFiles(*(files[name] for name in RunFiles._fields))
    diagnostics_page(shown, outputs, collect(settings, root="."))
