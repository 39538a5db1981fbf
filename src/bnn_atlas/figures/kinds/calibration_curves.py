"""Whether methods are right as often as they say: calibration curves of class probabilities."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.method_looks import Look, draw_lines, line_entries, method_looks
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.set_scores import averaged, read_sets
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["table"], "files_if_any": ["sets"]}

METRICS = {"calibration_confidence": "confidence", "calibration_accuracy": "accuracy"}
SHIFTED = "shifted"
TITLES = {TEST: "test rows", SHIFTED: "shifted rows"}


def calibration_curves(shown: Sequence[Shown]) -> Drawing:
    """Accuracy less confidence against confidence, in bins of equally many rows, a line per label.

    Above zero a method is right more often than it says (not certain enough), below it less often (too certain). Bars
    are standard errors of the accuracy over the rows of a bin. The second panel, where runs have shifted sets in
    common, averages these bin by bin. Numbers are those of `curve_numbers`.
    """
    numbers = curve_numbers(shown)
    figure = _figure(numbers, method_looks(shown))
    return Drawing(figure, numbers)


def curve_numbers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns label, method, rows (`test` or `shifted`), sets, at, confidence, accuracy, gap, error, repetitions.

    `at` is the share of rows up to a bin's end, `gap` accuracy less confidence, and `error` the standard error of the
    accuracy; over `sets` shifted sets it is the mean of their errors, as they have the same rows.
    """
    means = averaged(shown, read_sets(shown, list(METRICS)))
    means = means[means["set"].isin([TEST, *_common(means)])]
    means = means.assign(rows=np.where(means["set"] == TEST, TEST, SHIFTED))
    keys = ["label", "method", "rows", "at"]
    accuracy = means[means["metric"] == "calibration_accuracy"].groupby(keys, sort=False)
    confidence = means[means["metric"] == "calibration_confidence"].groupby(keys, sort=False)["value"].mean()
    table = accuracy.agg(
        sets=("set", "nunique"), accuracy=("value", "mean"), error=("error", "mean"), repetitions=("repetitions", "max")
    )  # fmt: skip
    table = table.join(confidence.rename("confidence")).reset_index()
    table = table.assign(gap=table["accuracy"] - table["confidence"], at=table["at"].astype(float))
    columns = ["label", "method", "rows", "sets", "at", "confidence", "accuracy", "gap", "error", "repetitions"]
    return table[columns]


def _common(means: pd.DataFrame) -> list[str]:
    """Shifted sets that all labels have."""
    of_set = means[means["set"] != TEST].groupby("set")["label"].agg(set)
    labels = set(means["label"])
    return [str(name) for name, have in of_set.items() if have == labels]


def _figure(numbers: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    kinds = [rows for rows in TITLES if (numbers["rows"] == rows).any()]
    figure = Figure(figsize=(style.TEXT_WIDTH if len(kinds) > 1 else style.COLUMN_WIDTH, 3.0))
    axes = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for ax, rows in zip(axes, kinds, strict=True):
        part = numbers[numbers["rows"] == rows]
        _panel(ax, part, looks)
        sets = int(part["sets"].max())
        ax.set_title(TITLES[rows] + (f", mean over {sets} sets" if rows == SHIFTED and sets > 1 else ""))
        ax.set_xlabel("confidence (mean in the bin)")
    axes[0].set_ylabel("accuracy \N{MINUS SIGN} confidence")
    page.legend_below(figure, line_entries(looks))
    return figure


def _panel(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """One kind of rows."""
    ax.axhline(0, color=style.BLACK, lw=0.8)
    draw_lines(ax, part, looks, "confidence", "gap")
    ax.grid(axis="y")
    ax.xaxis.set_major_locator(MaxNLocator(5))
