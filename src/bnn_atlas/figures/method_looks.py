"""How the methods of a figure are told apart, the same in every figure that compares methods."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.colors import to_hex, to_rgb

from bnn_atlas.figures import style
from bnn_atlas.figures.page import check_fits
from bnn_atlas.figures.shown import Shown

MARKERS = ("o", "s", "^", "v", "P", "X", "*", "<", ">", "h", "p", "8")
PALER = 0.4
"""Share of white in the fill of a method; a second one of its colour has it twice over, and so on."""


class Look(NamedTuple):
    """How a label is drawn."""

    colour: str
    dash: Any
    marker: str
    fill: str
    """Its colour in areas: paler, and the more so for methods of one family after the first."""


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


def paler(colour: str, white: float) -> str:
    """A colour mixed with a share of white."""
    red, green, blue = (channel + (1 - channel) * white for channel in to_rgb(colour))
    return to_hex((red, green, blue))
