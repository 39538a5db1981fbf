"""Pairs of networks of the runs of a figure: their tables together, how states are drawn, and means over pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes

from bnn_atlas.figures import style
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.files import LINE_SCHEMA, MATCH_SCHEMA, NORM_SCHEMA, read_frame
from bnn_atlas.symmetry.barriers import barrier_frame, with_transpositions

SCHEMAS = {"lines": LINE_SCHEMA, "matches": MATCH_SCHEMA, "norms": NORM_SCHEMA}
TEXTS = {"as_trained": "as trained", "planted": "start's permutation undone", "aligned": "aligned"}
"""State of the second network of a pair -> text in legends."""
LOOKS: dict[str, dict[str, Any]] = {
    "start": {"color": style.GREY, "marker": "x"},
    "as_trained": {"color": style.VERMILION, "marker": "o"},
    "planted": {"color": style.GREEN, "marker": "^"},
    "aligned": {"color": style.BLUE, "marker": "s"},
}
"""State -> colour and mark."""


def read_pairs(shown: Sequence[Shown], name: str) -> pd.DataFrame:
    """The table `lines`, `matches` or `norms` of all runs and splits, after the columns label, run and split."""
    schema: pa.Schema = SCHEMAS[name]
    parts = []
    for one in shown:
        frame = read_frame(one.files[name], schema)
        frame.insert(0, "label", one.label)
        frame.insert(1, "run", one.run)
        frame.insert(2, "split", one.split)
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def read_barriers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Barriers of all lines of all runs (`judgement.pairs.barrier_frame`), with the transpositions of each pair."""
    parts = []
    for one in shown:
        matches = read_frame(one.files["matches"], MATCH_SCHEMA)
        found = with_transpositions(barrier_frame(read_frame(one.files["lines"], LINE_SCHEMA)), matches)
        found.insert(0, "label", one.label)
        found.insert(1, "run", one.run)
        found.insert(2, "split", one.split)
        parts.append(found)
    return pd.concat(parts, ignore_index=True)


def over_pairs(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Mean, sd (n - 1; NaN of one) and number of the pairs, runs and splits of each group; not finite stays so."""
    groups = frame.groupby(list(by), sort=False)[value]
    found = groups.agg(
        mean=lambda v: v.to_numpy().mean(), sd=lambda v: v.to_numpy().std(ddof=1) if len(v) > 1 else np.nan
    )
    return found.assign(pairs=groups.size()).reset_index()


def band(ax: Axes, part: pd.DataFrame, x: str, colour: str, dash: Any = "-", label: str | None = None) -> None:
    """A line of means with a band of one standard deviation on either side where there are several pairs."""
    ordered = part.sort_values(x)
    places, mean, sd = (ordered[name].to_numpy(float) for name in (x, "mean", "sd"))
    ax.plot(places, mean, color=colour, ls=dash, label=label)
    if np.isfinite(sd).any():
        ax.fill_between(places, mean - sd, mean + sd, color=colour, alpha=0.15, lw=0)
