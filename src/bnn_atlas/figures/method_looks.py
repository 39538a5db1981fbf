"""How figures that compare methods distinguish them, the same in all of these figures."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb

from bnn_atlas.figures import style
from bnn_atlas.figures.page import check_fits
from bnn_atlas.figures.shown import Shown

MARKERS = ("o", "s", "^", "v", "P", "X", "*", "<", ">", "h", "p", "8")
PALER = 0.4
"""Share of white in the fill of a method; it is mixed in twice for a second method of the same colour, and so on."""


class Look(NamedTuple):
    """How a label is drawn."""

    colour: str
    dash: Any
    marker: str
    fill: str
    """Its colour in areas: paler, and paler still for each further method of the same family."""


def method_looks(shown: Sequence[Shown]) -> dict[str, Look]:
    """Label -> its look; labels of one family of methods share a colour and differ in dash, marker and fill.

    Raises ValueError for more labels than there are looks.
    """
    methods = {one.label: one.method for one in reversed(shown)}
    labels = list(dict.fromkeys(one.label for one in shown))
    check_fits(len(labels), len(MARKERS), "labels")
    used: dict[str, int] = {}
    looks = {}
    lines = style.lines([methods[label] for label in labels])
    for label, line, marker in zip(labels, lines, MARKERS, strict=False):
        earlier = used.get(line.colour, 0)
        used[line.colour] = earlier + 1
        looks[label] = Look(line.colour, line.dash, marker, paler(line.colour, 1 - (1 - PALER) ** (earlier + 1)))
    return looks


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


def paler(colour: str, white: float) -> str:
    """A colour mixed with a share of white."""
    red, green, blue = (channel + (1 - channel) * white for channel in to_rgb(colour))
    return to_hex((red, green, blue))
