"""Published numbers in pictures: open black marks with the standard deviation that the paper gives."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

LOOK: dict[str, Any] = {"color": "#000000", "marker": "d", "ls": "none", "ms": 4, "mfc": "none", "mew": 0.9}
LABEL = "published ± sd (where given)"


class Published(NamedTuple):
    """A number that a paper gives for a run, from the claims of its study."""

    metric: str
    value: float
    sd: float | None
    """Standard deviation that the paper gives with it."""
    chains: int | None
    """Chains of the average; None for all."""
    at: str = ""
    """What a metric with a parameter is taken at."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Published":
        """The same from plain data."""
        return cls(**plain)


def mark_published(ax: Axes, x: float, y: float, *, x_sd: float | None = None, y_sd: float | None = None) -> None:
    """Draw a published number with its bar."""
    ax.errorbar(x, y, xerr=x_sd, yerr=y_sd, elinewidth=0.8, ecolor=LOOK["color"], zorder=6, clip_on=False, **LOOK)


def published_handle() -> Line2D:
    """Its entry of a legend."""
    return Line2D([], [], **LOOK)
