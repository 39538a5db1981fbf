"""Log posterior, log-likelihood and log-prior on planes through three points of parameter space."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.figures import style
from bnn_atlas.figures.axes import colour_bar
from bnn_atlas.figures.page import Drawing, check_fits, rounded
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.arrays import load_surfaces

KIND = {
    "sections": ["surface"], "runs": "one",
    "columns": "plane kind label x y log_posterior log_likelihood log_prior",
}  # fmt: skip

DENSITIES = {"log_posterior": "log posterior", "log_likelihood": "log-likelihood", "log_prior": "log-prior"}
"""Column of the plotted numbers -> name of its panels."""
BANDS = 12
"""Colours between the largest value and the floor."""
MOST_PLANES = 4
PANEL, ROOM = 1.65, 0.85
"""Inches: width of a panel, and height of a row without its panels."""
ELONGATED = 2.5
"""Ratio of the sides of a plane above which its axes no longer have the same unit."""


class _Plane(NamedTuple):
    """A plane, its points, and tempered densities in nats."""

    title: str
    x: np.ndarray
    y: np.ndarray
    labels: list[str]
    points: np.ndarray
    """[3, 2]."""
    grid: dict[str, np.ndarray]
    """Column -> values [n, n], y first."""
    at_points: dict[str, np.ndarray]
    """Column -> values [3]."""

    @property
    def height(self) -> float | None:
        """Height of a panel divided by its width, if both axes have the same unit."""
        sides = float(np.ptp(self.x)), float(np.ptp(self.y))
        return sides[1] / sides[0] if max(sides) <= ELONGATED * min(sides) else None


def posterior_surface(shown: Sequence[Shown]) -> Drawing:
    """A row of three panels for each plane: its log posterior, log-likelihood and log-prior, divided by temperature.

    Colours are nats below the largest value of a panel and end at its floor (`floor_below`); lines are every second
    edge between colours. The three points are marked at their own coordinates. File: `surface`. Raises ValueError for
    more than four planes.
    """
    planes = [plane for one in shown for plane in _planes(one, several=len(shown) > 1)]
    check_fits(len(planes), MOST_PLANES, "planes", "show one split")
    heights = [ROOM + PANEL * (plane.height or 1) for plane in planes]
    figure = Figure(figsize=(style.TEXT_WIDTH, sum(heights)))
    rows = figure.subfigures(len(planes), 1, squeeze=False, height_ratios=heights)[:, 0]
    for row, plane in zip(rows, planes, strict=True):
        _row(row, plane)
    return Drawing(figure, pd.concat([_table(plane) for plane in planes], ignore_index=True))


def floor_below(values: np.ndarray, at_points: np.ndarray) -> float:
    """Nats below the largest value at which the colours of a panel end.

    Twice the drop at the lowest of the three points, but at least the median drop of the plane, so that half of it has
    colours of its own, and no more than its largest drop.
    """
    drops = _drops(values, at_points)
    finite = drops[np.isfinite(drops)]
    of_points = _top(values, at_points) - at_points
    lowest = float(np.max(of_points[np.isfinite(of_points)], initial=0.0))
    largest = float(finite.max())
    return min(max(2 * lowest, float(np.median(finite))), largest) or 1.0


def _planes(one: Shown, *, several: bool) -> list[_Plane]:
    stored = load_surfaces(one.files["surface"])
    temperature = float(stored.temperature)
    found = []
    for i, title in enumerate(stored.titles.tolist()):
        grid, at_points = (
            dict(zip(DENSITIES, (likelihood[i] + prior[i], likelihood[i], prior[i]), strict=True))
            for likelihood, prior in (
                (stored.log_likelihood / temperature, stored.log_prior / temperature),
                (stored.point_log_likelihood / temperature, stored.point_log_prior / temperature),
            )
        )
        name = f"{title}, split {one.split}" if several else title
        place = stored.x[i], stored.y[i], stored.labels[i].tolist(), stored.points[i]
        found.append(_Plane(name, *place, grid, at_points))
    return found


def _row(row: SubFigure, plane: _Plane) -> None:
    row.suptitle(plane.title, x=0.01, ha="left", fontsize=8, fontweight="bold")
    axes = row.subplots(1, len(DENSITIES), sharex=True, sharey=True)
    for ax, (column, name) in zip(axes, DENSITIES.items(), strict=True):
        top = _top(plane.grid[column], plane.at_points[column])
        ax.set_title(f"{name}, at most {style.thousands(top)}".replace(" -", " \N{MINUS SIGN}"))
        _panel(ax, plane, column)
    axes[0].set_ylabel("distance\nfrom that line")
    places = "   ".join(f"{number}: {label}" for number, label in enumerate(plane.labels, start=1))
    row.supxlabel(f"distance along the line through 1 and 2\n{places}", fontsize=7.5)


def _panel(ax: Axes, plane: _Plane, column: str) -> None:
    values, at_points = plane.grid[column], plane.at_points[column]
    floor = floor_below(values, at_points)
    # Drops grow with the square of the distance from a maximum, so edges at squares are evenly spaced.
    edges = -floor * np.linspace(1, 0, BANDS + 1) ** 2
    heights = np.clip(-_drops(values, at_points), -floor, 0)
    image = ax.contourf(plane.x, plane.y, heights, edges, cmap=style.DENSITY, norm=BoundaryNorm(edges, 256))
    ax.contour(plane.x, plane.y, heights, edges[2:-1:2], colors="white", linewidths=0.4, linestyles="-")
    _bar(ax, image, edges)
    for number, (x, y) in enumerate(plane.points, start=1):
        ax.plot(x, y, "o", ms=6.5, mfc="white", mec="black", mew=0.6, zorder=3)
        ax.annotate(str(number), (x, y), ha="center", va="center_baseline", fontsize=5.5, zorder=4)
    ax.set_aspect("equal" if plane.height else "auto", adjustable="box")
    ax.spines[:].set_visible(True)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def _bar(ax: Axes, image: QuadContourSet, edges: np.ndarray) -> None:
    """A colour bar as high as the panel; its lowest colour also stands for all values below."""
    bar = colour_bar(image, ax)
    ticks = edges[::3]
    bar.set_ticks(ticks.tolist(), labels=[_nats(tick) for tick in ticks])
    bar.ax.tick_params(labelsize=6, length=1.5)


def _nats(height: float) -> str:
    """A tick: nats relative to the largest value, with the digits that fit next to a panel."""
    number = style.short_count(float(f"{-height:.2g}"))
    return f"\N{MINUS SIGN}{number}" if height < 0 else "0"


def _top(values: np.ndarray, at_points: np.ndarray) -> float:
    every = np.append(values, at_points)
    finite = every[np.isfinite(every)]
    if not finite.size:
        raise ValueError("the density is finite nowhere on a plane; look at the log of the rule surface")
    return float(finite.max())


def _drops(values: np.ndarray, at_points: np.ndarray) -> np.ndarray:
    """Nats from the largest value down to each of the plane; infinite where it is not a number."""
    return np.nan_to_num(_top(values, at_points) - values, nan=np.inf, posinf=np.inf)


def _table(plane: _Plane) -> pd.DataFrame:
    """Plotted numbers: plane, kind (`grid`, or `point` with its label), x, y, and the tempered densities in nats."""
    x, y = np.meshgrid(plane.x, plane.y)
    places: dict[str, Any] = {"grid": (x.ravel(), y.ravel(), ""), "point": (*plane.points.T, plane.labels)}
    tables = [
        pd.DataFrame(
            {
                "plane": plane.title,
                "kind": kind,
                "label": labels,
                "x": rounded(across, 5),
                "y": rounded(up, 5),
                **{column: rounded(values[column].ravel(), 7) for column in DENSITIES},
            }
        )
        for (kind, (across, up, labels)), values in zip(places.items(), (plane.grid, plane.at_points), strict=True)
    ]
    return pd.concat(tables, ignore_index=True)
