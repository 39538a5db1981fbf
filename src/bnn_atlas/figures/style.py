"""The common look of all figures: sizes, colours, lines, and numbers as text."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.colors import to_hex, to_rgb

from bnn_atlas.config.methods.base import Family
from bnn_atlas.config.methods.registry import METHODS as SETTINGS

COLUMN_WIDTH = 3.25
"""Inches: one column of a two-column paper."""
TEXT_WIDTH = 6.75
"""Inches: the full width of a page."""
DPI = 300

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#5F5F5F"
"""Colour of secondary text."""
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Okabe and Ito's colours, for lines that do not stand for methods; yellow is left out, since it is too pale on
white."""
DENSITY = "plasma"
"""Colour map of densities."""


CHAINS = (BLUE, ORANGE, GREEN, PURPLE, SKY, BLACK)
"""Colours of up to six chains; vermilion is kept for what went wrong."""


class Line(NamedTuple):
    """How a method is drawn."""

    colour: str
    dash: Any
    marker: str = "o"


FAMILIES: dict[Family, tuple[str, str]] = {
    "hamiltonian": (BLACK, "o8h"),
    "microcanonical": (BLUE, "sHp"),
    "optimised": (VERMILION, "^v<"),
    "langevin": (SKY, "<>"),
    "stochastic_hamiltonian": (GREEN, "PXph8"),
    "approximation": (PURPLE, "DpXhH"),
    "implicit": (ORANGE, "*"),
}
"""Family -> its colour, and the mark of each variant."""
SHADES = (0.0, -0.5, 0.4, -0.65, 0.6)
"""How much white, or black if negative, is mixed into the colour of a family for each variant."""
MARKERS = ("o", "s", "^", "v", "P", "X", "*", "<", ">", "h", "p", "8")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1.5, 1, 1.5)))


def dash(variant: int) -> Any:
    """Line style number `variant`: first the `DASHES`, then a long dash with more and more dots."""
    return DASHES[variant] if variant < len(DASHES) else (0, (4, 1.5, *(1, 1.5) * (variant - 2)))


def mixed(colour: str, white: float) -> str:
    """A colour mixed with a share of white, or of black if the share is negative."""
    red, green, blue = (channel * (1 - abs(white)) + max(white, 0.0) for channel in to_rgb(colour))
    return to_hex((red, green, blue)).upper()


def look(family: Family, variant: int) -> Line:
    """Line and mark of a variant of a family, with marks of other families where a family has too few of its own."""
    colour, own = FAMILIES[family]
    marks = (*own, *(mark for mark in MARKERS if mark not in own))
    return Line(mixed(colour, SHADES[variant % len(SHADES)]), dash(variant), marks[variant % len(marks)])


METHODS = {kind: look(each.family, each.variant) for kind, each in SETTINGS.items()}
"""Look of each method, the same in all figures."""

RC: dict[str, Any] = {
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.h_pad": 0.03,
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.borderaxespad": 0.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=CYCLE),
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "image.cmap": DENSITY,
    "pdf.fonttype": 42,
    "pdf.compression": 9,
}
_FIXED = {"backend", "backend_fallback", "interactive", "toolbar", "timezone", "webagg.port"}


def context() -> AbstractContextManager[None]:
    """The common look, whatever a user's matplotlibrc says; figures are made and saved inside it (also a decorator)."""
    settings: Any = {key: value for key, value in mpl.rcParamsDefault.items() if key not in _FIXED}
    return mpl.rc_context(settings | RC)


def lines(methods: Sequence[str]) -> list[Line]:
    """How to draw one line per entry.

    The first line of each method looks as in `METHODS`; the others get the colours of `CYCLE`, and the marks, that are
    still free. Raises ValueError for more lines than can be told apart.
    """
    chosen = {methods.index(method): METHODS[method] for method in dict.fromkeys(methods) if method in METHODS}
    free = iter([colour for colour in CYCLE if colour not in {line.colour for line in chosen.values()}])
    marks = iter([mark for mark in MARKERS if mark not in {line.marker for line in chosen.values()}])
    try:
        return [chosen[i] if i in chosen else Line(next(free), "-", next(marks)) for i in range(len(methods))]
    except StopIteration:
        raise ValueError(f"{len(methods)} lines in one figure cannot be told apart; show fewer runs") from None


def chain_colours(count: int, few: Sequence[str] = CHAINS) -> list[Any]:
    """One colour per chain: those of `few` if there are enough, else colours along a colour map."""
    if count <= len(few):
        return list(few[:count])
    return [mpl.colormaps["viridis"](place) for place in np.linspace(0.0, 0.92, count)]


def thousands(number: float) -> str:
    """10000 as `10,000`."""
    return f"{number:,.0f}"


def short_count(number: float) -> str:
    """10000 as `10k`, for ticks."""
    for factor, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= factor:
            return f"{number / factor:g}{suffix}"
    return f"{number:g}"
