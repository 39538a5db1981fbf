"""Scores of methods as the test images are turned."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from bnn_atlas.config.data.shift import ROTATION
from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.method_looks import Look, draw_lines, line_entries, method_looks
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.set_scores import averaged, check_same_sets, read_sets, with_signs
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["table", "sets"]}

METRICS = {
    "accuracy": ("accuracy", 1),
    "nll": ("log-likelihood per row", -1),
    "ece": ("ECE", 1),
    "mean_maximum_confidence": ("mean confidence", 1),
}
"""Metric -> text at its axis, and the sign with which it is drawn."""
COLUMNS = ["label", "method", "angle", "metric", "value", "error", "over", "repetitions"]


def rotated_mnist(shown: Sequence[Shown]) -> Drawing:
    """Accuracy, log-likelihood, ECE and mean confidence by the angle, a line per label.

    Angle 0 are the test rows as they are. Bars are one standard error, over rows or over seeds and splits where there
    are several. Numbers are those of `rotation_numbers`.
    """
    numbers = rotation_numbers(shown)
    figure = _figure(numbers, method_looks(shown))
    return Drawing(figure, numbers)


def rotation_numbers(shown: Sequence[Shown]) -> pd.DataFrame:
    """COLUMNS: each metric of a label at each angle, in degrees; other sets are left out.

    The log-likelihood is the metric `nll` with its sign changed, under the name `log_likelihood`. Raises ValueError
    for labels that were not scored on the same angles, and where there are none.
    """
    means = averaged(shown, read_sets(shown, list(METRICS)))
    kept = means[[name == TEST or name.startswith(ROTATION) for name in means["set"]]]
    angles = [0 if name == TEST else int(name.removeprefix(ROTATION)) for name in kept["set"]]
    kept = kept.assign(angle=angles)
    of_label = kept[kept["angle"] > 0].groupby("label")["angle"].agg(set).to_dict()
    check_same_sets(list(dict.fromkeys(means["label"])), of_label, "rotated images", "angles")
    return with_signs(kept, METRICS)[COLUMNS].reset_index(drop=True)


def _figure(numbers: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.2))
    axes = figure.subplots(1, len(METRICS))
    for ax, (metric, (text, _)) in zip(axes, METRICS.items(), strict=True):
        name = "log_likelihood" if metric == "nll" else metric
        draw_lines(ax, numbers[numbers["metric"] == name], looks, "angle")
        ax.set_title(text)
        ax.set_xlabel("angle in degrees")
        ax.xaxis.set_major_locator(MultipleLocator(60))
    page.legend_below(figure, line_entries(looks))
    return figure
