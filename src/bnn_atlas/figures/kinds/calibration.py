"""Whether predictive intervals are calibrated: coverage, by number of chains, and PIT histogram of each run."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing, Entries
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import load_chosen
from bnn_atlas.metrics.formulas.reliability import coverage

KIND = {
    "files": ["table", "predictive"], "task": "regression", "repeats": ["label"], "most_labels": 6,
    "columns": "label run split metric chains at value rows",
}  # fmt: skip

METRICS = ("coverage", "pit_histogram")
FEWER = (1, 2, 5, 10, 100, 1000)
"""Numbers of chains whose averages are shown besides all chains."""
CHANCE = 1.96
"""Half width of the grey regions in standard errors: they hold 95% of calibrated predictions, if rows are
independent."""
ROOM = 0.06
"""Of two levels closer to each other than this, only the lower one has a label."""


def calibration(shown: Sequence[Shown]) -> Drawing:
    """Coverage of central predictive intervals against their level, and below it the histogram of PIT values.

    A column per label, with the mean over its seeds and splits as marks and bars, and single runs as steps. Paler lines
    are averages of fewer chains, as means over groups of so many. The grey region is where calibrated predictions for
    as many test rows lie 19 times in 20.

    Columns label, run, split, metric (`coverage`, `pit_histogram`), chains (of the average), at, value, rows (test rows
    of the run). Raises ValueError if a run lacks these metrics, which only regressions have.
    """
    parts = []
    for one in shown:
        rows = one.table()
        found = rows.loc[rows["metric"].isin(METRICS) & (rows["dataset"] == one.dataset), ["metric", "at", "value"]]
        if missing := [metric for metric in METRICS if metric not in set(found["metric"])]:
            raise ValueError(
                f"{one.files['table']}: no {' and no '.join(missing)} of run {one.run}; only regressions have them"
            )
        pit = load_chosen(one.files["predictive"], ["pit"], ValueError, "predictions")["pit"]
        found = found.assign(at=found["at"].astype(float), chains=one.chains)
        fewer = _coverage_of_fewer(pit[np.isfinite(pit).all(axis=1)], found.loc[found["metric"] == "coverage", "at"])
        common = {"label": one.label, "run": one.run, "split": one.split, "rows": pit.shape[-1]}
        parts.append(pd.concat([found, fewer]).assign(**common))
    table = pd.concat(parts, ignore_index=True)[["label", "run", "split", "metric", "chains", "at", "value", "rows"]]
    return Drawing(draw_calibration(table), table)


def _coverage_of_fewer(pit: np.ndarray, levels: pd.Series) -> pd.DataFrame:
    """Coverage of averages of fewer chains than all, from PIT values [chain, row]: that of a mixture is their mean."""
    rows = []
    for count in (each for each in FEWER if each < len(pit)):
        groups = pit[: len(pit) // count * count].reshape(-1, count, pit.shape[-1]).mean(axis=1)
        covered = np.mean([coverage(group, levels.to_numpy()) for group in groups], axis=0)
        rows.append(pd.DataFrame({"metric": "coverage", "chains": count, "at": levels.to_numpy(), "value": covered}))
    return pd.concat(rows) if rows else pd.DataFrame()


def draw_calibration(table: pd.DataFrame) -> Figure:
    """The figure of a table with the columns of `calibration`."""
    labels = list(dict.fromkeys(table["label"]))
    width = style.TEXT_WIDTH if len(labels) > 2 else style.COLUMN_WIDTH
    figure = Figure(figsize=(width, 3.6))
    axes = figure.subplots(2, len(labels), squeeze=False, sharey="row")
    for (upper, lower), label in zip(axes.T, labels, strict=True):
        part = table[table["label"] == label]
        _coverage(upper, part[part["metric"] == "coverage"])
        _histogram(lower, part[part["metric"] == "pit_histogram"])
        upper.set_title(label, fontsize=7)
        upper.set_xlabel("level of the interval")
        lower.set_xlabel("PIT value")
    axes[0, 0].set_ylabel("observed \N{MINUS SIGN} nominal\ncoverage")
    axes[1, 0].set_ylabel("share of rows\nper bin")
    page.legend_below(figure, _legend(table))
    return figure


def _coverage(ax: Axes, part: pd.DataFrame) -> None:
    line = np.linspace(0, 1, 101)
    chance = CHANCE * np.sqrt(line * (1 - line) / part["rows"].min())
    ax.fill_between(line, -chance, chance, color="#E3E3E3", lw=0)
    ax.axhline(0, color=style.BLACK, lw=0.8)
    excess = part.assign(value=part["value"] - part["at"])
    means = excess.groupby(["chains", "at"])["value"].mean()
    for count in excess["chains"].unique():
        if count < excess["chains"].max():
            ax.plot(means[count].index, means[count], color=_colour(count), lw=0.8)
    mean = means[excess["chains"].max()]
    ax.plot(mean.index, mean, color=style.BLUE, marker="o", ms=4, mfc="white", lw=1.0)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    named = -1.0
    for at, value in zip(mean.index.to_numpy(dtype=float), mean.to_numpy(dtype=float), strict=True):
        outside = abs(value) > CHANCE * np.sqrt(at * (1 - at) / part["rows"].min())
        if outside and at - named > ROOM:
            text = f"{100 * value:+.0f}".replace("-", "\N{MINUS SIGN}") + "%"
            ax.annotate(
                text, (at, value), xytext=(0, 5), textcoords="offset points", fontsize=5.5, ha="center",
                bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
            )  # fmt: skip
            named = at


def _histogram(ax: Axes, part: pd.DataFrame) -> None:
    edges = np.array([0.0, *np.sort(part["at"].unique())])
    width = float(np.diff(edges)[0])
    chance = CHANCE * np.sqrt(width * (1 - width) / part["rows"].min())
    mean = part.groupby("at")["value"].mean().to_numpy()
    ax.bar(edges[:-1], mean, np.diff(edges), align="edge", fill=False, ec=style.BLUE, lw=1.0)
    for _, one in part.groupby(["run", "split"]):
        if len(part) > len(one):
            ax.stairs(
                one.sort_values("at")["value"].to_numpy(), edges, color=style.BLUE, lw=0.4, alpha=0.6, baseline=None
            )
    ax.axhspan(width - chance, width + chance, color="#E3E3E3", lw=0, zorder=0)
    ax.axhline(width, color=style.BLACK, lw=0.8)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])


def _legend(table: pd.DataFrame) -> Entries:
    region = Patch(color="#E3E3E3", lw=0)
    entries: Entries = {
        "calibrated": {"color": style.BLACK, "lw": 0.8}, "95% of calibrated predictions of as many rows": region
    }  # fmt: skip
    last = table.groupby("label")["chains"].transform("max")
    for count in sorted(table.loc[table["chains"] < last, "chains"].unique()):
        entries = {**entries, f"{count} {'chain' if count == 1 else 'chains'}": {"color": _colour(count), "lw": 0.8}}
    entries = {**entries, "all chains": {"color": style.BLUE, "lw": 1.0, "marker": "o", "ms": 4, "mfc": "white"}}
    if len(table.drop_duplicates(["label", "run", "split"])) == table["label"].nunique():
        return entries
    return {**entries, "one of several runs": {"color": style.BLUE, "lw": 0.4}}


def _colour(chains: int) -> Any:
    """Colour of an average of fewer chains, darker with more of them."""
    return mpl.colormaps["viridis_r"](0.25 + 0.25 * np.log10(chains))
