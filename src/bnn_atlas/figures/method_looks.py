"""How figures that compare methods distinguish them, the same in all of these figures."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from bnn_atlas.figures import style
from bnn_atlas.figures.shown import Shown

PALER = 0.4
"""Share of white in the fill of a method."""


class Look(NamedTuple):
    """How a label is drawn."""

    colour: str
    dash: Any
    marker: str
    fill: str
    """Its colour in areas."""


def method_looks(shown: Sequence[Shown]) -> dict[str, Look]:
    """Label -> its look, that of its method; ValueError for more labels than can be told apart."""
    methods = {one.label: one.drawn_as for one in reversed(shown)}
    labels = list(dict.fromkeys(one.label for one in shown))
    lines = style.lines([methods[label] for label in labels])
    return {label: Look(*line, style.mixed(line.colour, PALER)) for label, line in zip(labels, lines, strict=True)}


def draw_lines(
    ax: Axes, rows: pd.DataFrame, looks: Mapping[str, Look], x: str, y: str = "value", error: str = "error"
) -> None:
    """A line with marks and bars for each label, in the order of x; an error that is not known has no bar."""
    for label, look in looks.items():
        own = rows[rows["label"] == label].sort_values(x, kind="stable")
        ax.errorbar(
            own[x], own[y], own[error].fillna(0.0), color=look.colour, ls=look.dash, marker=look.marker, ms=2.8,
            mfc=look.fill, mew=0.6, lw=1.0, elinewidth=0.6,
        )  # fmt: skip


def label_rows(ax: Axes, looks: Mapping[str, Look]) -> None:
    """Give each label a row, the first one at the top, with its name at the y axis."""
    for y in range(len(looks)):
        ax.axhline(y, color="#E3E3E3", lw=0.5, zorder=0)
    ax.set_yticks(range(len(looks)), [" ".join(label.split()) for label in looks])
    ax.set_ylim(len(looks) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def draw_mark(ax: Axes, value: float, y: float, error: float, look: Look, *, is_open: bool = False) -> None:
    """A mark in a row, with a bar if the error is known."""
    ax.errorbar(
        value, y, xerr=error, color=look.colour, marker=look.marker, ms=4, mfc="white" if is_open else look.colour,
        mew=0.9, elinewidth=0.8,
    )  # fmt: skip


def line_entries(looks: Mapping[str, Look]) -> dict[str, dict[str, Any]]:
    """Entries of a legend for these lines."""
    common = {"ms": 3, "mew": 0.6, "lw": 1}
    return {
        label: {"color": look.colour, "ls": look.dash, "marker": look.marker, "mfc": look.fill, **common}
        for label, look in looks.items()
    }
