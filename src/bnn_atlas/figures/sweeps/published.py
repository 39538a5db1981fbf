"""Published numbers of a sweep, which may be of other data than the runs: open black marks with a name of their own."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from bnn_atlas.figures import style

MARKERS = ("d", "s", "^")
"""Marks of the series, in their order."""


class Series(NamedTuple):
    """Numbers that a paper gives for one data set, of one or more metrics."""

    of: str
    """What they are of, such as `CIFAR-10`."""
    x: tuple[float | str, ...]
    values: dict[str, tuple[float, ...]]
    """Metric -> a value for each x."""
    read_off: bool = False
    """Whether they were read off a plot by eye."""

    @property
    def label(self) -> str:
        """Text in the legend."""
        return f"published, {self.of}{' (~)' if self.read_off else ''}"


def published_rows(series: Sequence[Series], field: str, metrics: Sequence[str]) -> pd.DataFrame:
    """The numbers as rows of the CSV: field, label, x, metric, value, approximate."""
    rows = [
        {"field": field, "label": one.label, "x": x, "metric": metric, "value": value, "approximate": one.read_off}
        for one in series
        for metric in metrics
        for x, value in zip(one.x, one.values.get(metric, ()), strict=False)
    ]
    return pd.DataFrame(rows, columns=["field", "label", "x", "metric", "value", "approximate"])


def draw_published(ax: Axes, rows: pd.DataFrame, places: dict[str, float] | None = None) -> None:
    """Marks of one panel; `places` says where words of the x axis are."""
    for i, (_, part) in enumerate(rows.groupby("label", sort=False)):
        x = [places[value] for value in part["x"]] if places else part["x"].astype(float)
        ax.plot(x, part["value"], **_look(i), clip_on=False, zorder=6)


def published_entries(series: Sequence[Series], rows: pd.DataFrame) -> dict[str, Artist]:
    """Entries of the legend for the series that are drawn."""
    drawn = [one.label for one in series if one.label in set(rows["label"])]
    return {label: Line2D([], [], **_look(i)) for i, label in enumerate(drawn)}


def _look(place: int) -> dict[str, Any]:
    return {"color": style.BLACK, "marker": MARKERS[place], "ls": "none", "ms": 4, "mfc": "none", "mew": 0.9}
