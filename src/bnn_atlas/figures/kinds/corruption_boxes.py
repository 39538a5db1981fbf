"""Accuracy, log-likelihood and calibration error of methods as corruptions of the test images get stronger."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bnn_atlas.config.data.shift import SEVERITIES
from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fenced_limits
from bnn_atlas.figures.method_looks import Look, method_looks
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.scores import off_scale_remark, remark
from bnn_atlas.figures.set_scores import averaged, check_same_sets, corruption_of, read_sets, with_signs
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["table", "sets"]}

METRICS = {"accuracy": ("accuracy", 1), "nll": ("log-likelihood\nper row", -1), "ece": ("ECE", 1)}
"""Metric -> text at its axis, and the sign with which it is drawn."""
FENCES, NO_FENCE = {"nll": 6.0}, 1e6
"""Interquartile ranges beyond which a value does not set the axis: of the log-likelihood, which has no bound."""
WIDTH = 0.8
"""Room of the boxes of a severity, where severities are 1 apart."""
COLUMNS = ["label", "method", "corruption", "severity", "metric", "value", "error", "over", "repetitions"]


def corruption_boxes(shown: Sequence[Shown]) -> Drawing:
    """Boxes over the kinds of corruption, by severity and label: a panel each for accuracy, log-likelihood and ECE.

    A box is from the first to the third quartile over the kinds, with the median as a line and whiskers to the smallest
    and the largest; severity 0 are the test rows as they are, with their standard error. Numbers are those of
    `corruption_numbers`.
    """
    numbers = corruption_numbers(shown)
    figure = _figure(numbers, method_looks(shown))
    return Drawing(figure, numbers)


def corruption_numbers(shown: Sequence[Shown]) -> pd.DataFrame:
    """COLUMNS: each metric of a label at each corruption and severity; `corruption` is empty at severity 0.

    The log-likelihood is the metric `nll` with its sign changed, under that name. Rotations and noise in chosen pixels
    are no corruptions here. Raises ValueError for labels that were not scored on the same corruptions, and where there
    are none.
    """
    means = averaged(shown, read_sets(shown, list(METRICS)))
    kept = means[[name == TEST or corruption_of(name) is not None for name in means["set"]]]
    places = [corruption_of(name) or ("", 0) for name in kept["set"]]
    kept = kept.assign(corruption=[kind for kind, _ in places], severity=[level for _, level in places])
    of_label = kept[kept["severity"] > 0].groupby("label")["set"].agg(set).to_dict()
    check_same_sets(list(dict.fromkeys(means["label"])), of_label, "corruptions", "corruptions")
    return with_signs(kept, METRICS)[COLUMNS].reset_index(drop=True)


def _figure(numbers: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    figure = Figure(figsize=(style.TEXT_WIDTH, 5.0))
    axes = figure.subplots(len(METRICS), 1, sharex=True)
    for ax, metric in zip(axes, METRICS, strict=True):
        part = numbers[numbers["metric"] == metric.replace("nll", "log_likelihood")]
        for place, (label, look) in enumerate(looks.items()):
            offset = WIDTH * ((place + 0.5) / len(looks) - 0.5)
            _boxes(ax, part[part["label"] == label], look, offset, 0.8 * WIDTH / len(looks))
        limits = fenced_limits(part["value"].to_numpy(), fence=FENCES.get(metric, NO_FENCE))
        ax.set_ylim(limits)
        remark(ax, [off_scale_remark(part["value"].to_numpy(), limits)])
        ax.set_ylabel(METRICS[metric][0])
        for border in np.arange(0.5, SEVERITIES):
            ax.axvline(border, color="#E3E3E3", lw=0.5, zorder=0)
        ax.set_xlim(-0.5, SEVERITIES + 0.5)
    figure.align_ylabels(axes)
    axes[-1].set_xticks(range(SEVERITIES + 1), ["0 (none)", *map(str, range(1, SEVERITIES + 1))])
    axes[-1].set_xlabel("severity of the corruption")
    kinds = numbers.loc[numbers["severity"] > 0, "corruption"].nunique()
    page.legend_below(figure, _legend(looks, kinds))
    return figure


def _boxes(ax: Axes, part: pd.DataFrame, look: Look, offset: float, width: float) -> None:
    """One metric of one label."""
    clean = part[part["severity"] == 0]
    for value, error in clean[["value", "error"]].itertuples(index=False):
        ax.errorbar(
            offset, value, error if np.isfinite(error) else None, color=look.colour, marker=look.marker, ms=3.2,
            mfc=look.fill, mew=0.7, elinewidth=0.7,
        )  # fmt: skip
    line: dict[str, Any] = {"color": look.colour, "lw": 0.7}
    severities = sorted(int(level) for level in part["severity"].unique() if level > 0)
    stats = [_statistics(part.loc[part["severity"] == level, "value"].to_numpy()) for level in severities]
    ax.bxp(
        stats, [level + offset for level in severities], widths=width, showfliers=False, patch_artist=True,
        manage_ticks=False, boxprops={"facecolor": look.fill, "edgecolor": look.colour, "lw": 0.7},
        medianprops={"color": style.BLACK, "lw": 1.0}, whiskerprops=line, capprops=line,
    )  # fmt: skip


def _statistics(values: np.ndarray) -> dict[str, float]:
    """What `Axes.bxp` draws; values that are not finite are pulled to the finite end nearest to them."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
    first, median, third = np.quantile(np.clip(values, low, high), (0.25, 0.5, 0.75))
    return {"q1": first, "med": median, "q3": third, "whislo": low, "whishi": high}


def _legend(looks: Mapping[str, Look], kinds: int) -> dict[str, Artist]:
    entries: dict[str, Artist] = {
        label: Patch(facecolor=look.fill, edgecolor=look.colour, lw=0.7) for label, look in looks.items()
    }
    entries[f"median over {kinds} kinds of corruption"] = Line2D([], [], color=style.BLACK, lw=1.0)
    return entries
