"""How close methods come to the reference posterior, and the ceiling of its chains: a picture and a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import PUBLISHED, fence, mark_published
from bnn_atlas.figures.hmc_posteriors.agreement import (
    CEILING,
    COMPARED,
    METRICS,
    OTHER,
    SAME,
    SHIFTED,
    TWO_VERSIONS,
    agreements,
)
from bnn_atlas.figures.latex import LatexTable, escape
from bnn_atlas.figures.page import SIGN, Drawing, Entries, sign_text, trusted
from bnn_atlas.figures.shown import Shown

KINDS = {
    "agreement_tv": {
        "repeats": ["label", "dataset"], "files": ["table"], "files_if_any": ["sets", "against"], "reference": "one",
        "columns": "label method group prior_sd rows sets metric value error over repetitions floor distrusted "
        "published published_sd",
    },
    "agreement_tv_table": {
        "repeats": ["label", "dataset"],
        "files": ["table"], "files_if_any": ["sets", "against"], "output": "table", "reference": "one",
        "columns": "label method group prior_sd rows sets metric value error over repetitions floor distrusted "
        "published published_sd",
    },
}  # fmt: skip

TITLES = {"agreement": "agreement", "total_variation": "total variation"}
ROWS = {TEST: "test rows", SHIFTED: "shifted rows"}
PUBLISHED_OFFSET = -0.3
"""Published marks are above the method's line."""
CHAINS_CEILING = "each chain of the reference against the others"
VERSIONS_CEILING = "the reference's two published versions"
FLOOR: dict[str, Any] = {"color": style.GREY, "marker": "|", "ms": 8, "mew": 1.2, "ls": "none", "zorder": 5}
CEILING_LINE: dict[str, Any] = {"color": style.BLACK, "lw": 0.9, "ls": (0, (4, 1.5))}
FENCE = 6.0
"""Interquartile ranges from the quartiles within which a value sets the axis."""


def agreement_tv(shown: Sequence[Shown]) -> Drawing:
    """Agreement and total variation of each method with the reference, a line per label.

    Single chains of the reference come first, then methods on its posterior, then those on another one. The vertical
    line is the ceiling, which compares each chain of the reference with the others (mean over chains), and the band is
    its standard error. For published predictions, the ceiling is how close their two versions are to each other. Ticks
    are the total variation of as many draws of the reference's posterior as a method has; what is beyond is bias. Bars
    are one standard error; marks of methods whose chains should not be trusted are white. Open black marks are the
    paper's numbers for CIFAR-10. Numbers are those of `agreement.agreements`.
    """
    numbers, reference = agreements(shown)
    table = numbers[numbers["metric"].isin(COMPARED)]
    lines = _lines(table)
    kinds = [which for which in ROWS if (table["rows"] == which).any()]
    panels = [(metric, which) for metric in COMPARED for which in kinds]
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.3 + 0.19 * (max(lines.values()) + 1)))
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for ax, (metric, which) in zip(axes, panels, strict=True):
        _panel(ax, table[(table["metric"] == metric) & (table["rows"] == which)], lines)
        ax.set_xlabel(f"{TITLES[metric]},\n{ROWS[which]}")
    _names(axes[0], lines)
    page.legend_below(figure, _legend(table))
    return Drawing(figure, table, notes=[reference])


def _lines(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Group and label -> place from the top, single chains of the reference first; a gap before each further group."""
    places: dict[tuple[str, str], float] = {}
    at = 0.0
    for group in (CEILING, SAME, OTHER):
        labels = dict.fromkeys(table.loc[table["group"] == group, "label"])
        for label in labels:
            places[group, label] = at
            at += 1
        at += 0.9 if labels else 0
    return places


def _names(ax: Axes, lines: Mapping[tuple[str, str], float]) -> None:
    """Labels at the lines, and the names of the groups where there are two."""
    names = [" ".join(label.split()) + _of_what(group, label) for group, label in lines]
    ax.set_yticks(list(lines.values()), names)
    ax.set_ylim(max(lines.values()) + 0.6, min(lines.values()) - 0.8)
    ax.tick_params(axis="y", length=0)
    if {SAME, OTHER} <= {group for group, _ in lines}:
        for group, text in ((SAME, "on the same posterior"), (OTHER, "on another posterior")):
            first = min(place for (of, _), place in lines.items() if of == group)
            ax.annotate(
                text, (0, first - 0.72), xycoords=("axes fraction", "data"), xytext=(-4, 0),
                textcoords="offset points", ha="right", va="center", fontsize=6, color=style.GREY,
            )  # fmt: skip


def _of_what(group: str, label: str) -> str:
    """Which part of a label's draws a line is about, if not all."""
    return ", single chains" if group == CEILING and label != TWO_VERSIONS else ""


def _panel(ax: Axes, part: pd.DataFrame, lines: Mapping[tuple[str, str], float]) -> None:
    of_chains = part[part["group"] == CEILING]
    for value, error in of_chains[["value", "error"]].itertuples(index=False):
        ax.axvline(value, **CEILING_LINE, zorder=1)
        if np.isfinite(error):
            ax.axvspan(value - error, value + error, color="#E3E3E3", lw=0, zorder=0)
    values = np.concatenate([part["value"], part["published"]])
    errors = np.nan_to_num(np.concatenate([part["error"], part["published_sd"]]))
    fence(ax, values, errors, FENCE, along="x")
    fields = ["group", "label", "method", "value", "error", "floor", "distrusted", "published", "published_sd"]
    for group, label, method, value, error, floor, distrusted, paper, sd in part[fields].itertuples(index=False):
        y = lines[group, label]
        ax.axhline(y, color="#E3E3E3", lw=0.5, zorder=0)
        colour, _, marker = style.METHODS[method]
        fill = "white" if distrusted else colour
        ax.errorbar(
            value, y, xerr=error, color=colour, marker=marker, ms=4.2, mfc=fill, mew=1, elinewidth=0.9, zorder=4
        )
        ax.plot(floor, y, **FLOOR)
        if np.isfinite(paper):
            mark_published(ax, paper, y + PUBLISHED_OFFSET, x_sd=sd or None)
    ax.xaxis.set_major_locator(MaxNLocator(4))


def _legend(table: pd.DataFrame) -> Entries:
    mark: dict[str, Any] = {"color": style.GREY, "marker": "o", "ms": 4.2, "mew": 1.0, "lw": 0.9}
    entries: dict[str, Any] = {"method ± 1 standard error": mark}
    if table["distrusted"].any():
        entries["its chains should not be trusted"] = {**mark, "mfc": "white"}
    ceiling = table[table["group"] == CEILING]
    if len(ceiling):
        of_versions = (ceiling["label"] == TWO_VERSIONS).all()
        entries[f"ceiling: {VERSIONS_CEILING if of_versions else CHAINS_CEILING}"] = CEILING_LINE
    if ceiling["error"].notna().any():
        entries["± 1 standard error over chains"] = Patch(color="#E3E3E3", lw=0)
    if table["floor"].notna().any():
        entries["as many draws of the reference's posterior"] = FLOOR
    if table["published"].notna().any():
        entries["published for CIFAR-10 ± sd"] = PUBLISHED
    return entries


HEADS = {"accuracy": "accuracy", "agreement": "agreement", "total_variation": "TV"}
BLOCKS = {
    CEILING: "Single chains of the reference: accuracy, and agreement and TV with the other chains",
    SAME: "On the same posterior",
    OTHER: "On the posterior with the prior that the method has in the paper",
}
OF_VERSIONS = "The two published versions of the reference: agreement and TV with each other"
DIGITS = 3


def agreement_tv_table(shown: Sequence[Shown]) -> LatexTable:
    """Accuracy, agreement and total variation on test rows and on shifted rows, as LaTeX (booktabs) and CSV.

    Cells are a value and its standard error; what the paper prints for CIFAR-10 follows in a separate block. Notes say
    whether the reference has converged. Numbers are those of `agreement.agreements`.
    """
    numbers, reference = agreements(shown)
    kinds = [which for which in (TEST, SHIFTED) if (numbers["rows"] == which).any()]
    columns = [(which, metric) for which in kinds for metric in METRICS]
    titles = BLOCKS | ({CEILING: OF_VERSIONS} if (numbers["label"] == TWO_VERSIONS).any() else {})
    blocks = [
        (title, _rows(part, columns, "value", "error"))
        for group, title in titles.items()
        if len(part := numbers[numbers["group"] == group])
    ]
    if len(paper := numbers[numbers["published"].notna()]):
        blocks.append(("Published for CIFAR-10", _rows(paper, columns, "published", "published_sd")))
    header = ["", *(f"{HEADS[metric]}{', shifted' if which == SHIFTED else ''}" for which, metric in columns)]
    notes = [*_notes(numbers), reference, *filter(None, [sign_text(trusted(shown))])]
    return LatexTable(header, blocks, notes, numbers, is_signed=True)


def _rows(part: pd.DataFrame, columns: Sequence[tuple[str, str]], value: str, error: str) -> list[list[str]]:
    rows = []
    for (group, label), own in part.groupby(["group", "label"], sort=False):
        found = {(row.rows, row.metric): (getattr(row, value), getattr(row, error)) for row in own.itertuples()}
        cells = [_cell(*found.get(column, (np.nan, np.nan))) for column in columns]
        chains = ", single chains" if group == CEILING and label != TWO_VERSIONS else ""
        sign = f" {SIGN}" if own["distrusted"].any() and value == "value" else ""
        rows.append([escape(f"{label}{chains}{sign}"), *cells])
    return rows


def _cell(value: float, error: float) -> str:
    if np.isnan(value):
        return "--"
    return f"${value:.{DIGITS}f}$" if np.isnan(error) else rf"${value:.{DIGITS}f} \pm {error:.{DIGITS}f}$"


def _notes(numbers: pd.DataFrame) -> list[str]:
    notes = ["Value ± standard error over test rows (single chains: over chains); published ± standard deviation."]
    if (shifted := numbers[numbers["rows"] == SHIFTED])["sets"].any():
        count = int(shifted["sets"].max())
        notes.append(f"Shifted: mean over {count} shifted set{'s' if count > 1 else ''} of the test rows.")
    return notes
