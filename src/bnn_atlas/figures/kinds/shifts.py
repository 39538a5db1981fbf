"""Class predictions on test rows and on shifted ones: calibration, corruptions, rotations, noise in dead pixels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, MultipleLocator

from bnn_atlas.config.data.shift import OF_SPLIT, ROTATION, SEVERITIES, parse_shift
from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import fence
from bnn_atlas.figures.method_looks import Look, draw_lines, label_rows, line_entries, method_looks
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.set_scores import averaged, check_same_sets, corruption_of, read_sets, with_signs
from bnn_atlas.figures.shown import Shown

KINDS = {
    "calibration_curves": {"files": ["table"], "files_if_any": ["sets"], "task": "classification", "most_labels": 8},
    "corruption_boxes": {"files": ["table", "sets"], "task": "classification"},
    "dead_pixels": {"files": ["table", "sets"], "task": "classification"},
    "rotated_mnist": {"files": ["table", "sets"]},
}

SHIFTED = "shifted"
TITLES = {TEST: "test rows", SHIFTED: "shifted rows"}


def calibration_curves(shown: Sequence[Shown]) -> Drawing:
    """Accuracy minus confidence against confidence, in bins of equally many rows, a line per label.

    Above zero a method is right more often than it says (not certain enough), below it less often (too certain). Bars
    are standard errors of the accuracy over the rows of a bin. If the runs have shifted sets in common, a second panel
    averages these bin by bin. Columns label, method, rows (`test` or `shifted`), sets, at, confidence, accuracy, gap,
    error, repetitions: `at` is the share of rows up to a bin's end, `gap` is accuracy minus confidence, and `error` is
    the standard error of the accuracy; for `sets` shifted sets it is the mean of their errors, since they have the same
    rows.
    """
    means = averaged(shown, read_sets(shown, ["calibration_confidence", "calibration_accuracy"]))
    of_set = means[means["set"] != TEST].groupby("set")["label"].agg(set)
    common = [str(name) for name, have in of_set.items() if have == set(means["label"])]
    means = means[means["set"].isin([TEST, *common])]
    means = means.assign(rows=np.where(means["set"] == TEST, TEST, SHIFTED))
    keys = ["label", "method", "rows", "at"]
    accuracy = means[means["metric"] == "calibration_accuracy"].groupby(keys, sort=False)
    confidence = means[means["metric"] == "calibration_confidence"].groupby(keys, sort=False)["value"].mean()
    table = accuracy.agg(
        sets=("set", "nunique"), accuracy=("value", "mean"), error=("error", "mean"), repetitions=("repetitions", "max")
    )  # fmt: skip
    table = table.join(confidence.rename("confidence")).reset_index()
    table = table.assign(gap=table["accuracy"] - table["confidence"], at=table["at"].astype(float))
    looks = method_looks(shown)
    figure, axes = page.panels(table["rows"].nunique(), 2, 3.0, sharey=True)
    for ax, rows in zip(axes.flat, [rows for rows in TITLES if (table["rows"] == rows).any()], strict=True):
        part = table[table["rows"] == rows]
        ax.axhline(0, color=style.BLACK, lw=0.8)
        draw_lines(ax, part, looks, "confidence", "gap")
        ax.grid(axis="y")
        ax.xaxis.set_major_locator(MaxNLocator(5))
        sets = int(part["sets"].max())
        ax.set_title(TITLES[rows] + (f", mean over {sets} sets" if rows == SHIFTED and sets > 1 else ""))
        ax.set_xlabel("confidence (mean in the bin)")
    axes[0, 0].set_ylabel("accuracy \N{MINUS SIGN} confidence")
    page.legend_below(figure, line_entries(looks))
    columns = ["label", "method", "rows", "sets", "at", "confidence", "accuracy", "gap", "error", "repetitions"]
    return Drawing(figure, table[columns])


ANGLES = {
    "accuracy": ("accuracy", 1),
    "nll": ("log-likelihood per row", -1),
    "ece": ("ECE", 1),
    "mean_maximum_confidence": ("mean confidence", 1),
}
"""Metric -> text at its axis, and the sign with which it is drawn."""


def rotated_mnist(shown: Sequence[Shown]) -> Drawing:
    """Accuracy, log-likelihood, ECE and mean confidence by angle, a line per label.

    Angle 0 stands for the unchanged test rows. Bars are one standard error, over rows, or over seeds and splits if
    there are several. The log-likelihood is the metric `nll` with its sign changed. Raises ValueError for labels that
    were not scored at the same angles, and if there are no angles.
    """
    means = averaged(shown, read_sets(shown, list(ANGLES)))
    kept = means[[name == TEST or name.startswith(ROTATION) for name in means["set"]]]
    kept = kept.assign(angle=[0 if name == TEST else int(name.removeprefix(ROTATION)) for name in kept["set"]])
    of_label = kept[kept["angle"] > 0].groupby("label")["angle"].agg(set).to_dict()
    check_same_sets(list(dict.fromkeys(means["label"])), of_label, "rotated images", "angles")
    numbers, looks = with_signs(kept, ANGLES), method_looks(shown)
    figure, axes = page.panels(len(ANGLES), 4, 2.2)
    for ax, (metric, (text, _)) in zip(axes.flat, ANGLES.items(), strict=True):
        draw_lines(ax, numbers[numbers["metric"] == metric.replace("nll", "log_likelihood")], looks, "angle")
        ax.set_title(text)
        ax.set_xlabel("angle in degrees")
        ax.xaxis.set_major_locator(MultipleLocator(60))
    page.legend_below(figure, line_entries(looks))
    columns = ["label", "method", "angle", "metric", "value", "error", "over", "repetitions"]
    return Drawing(figure, numbers[columns].reset_index(drop=True))


BOXES = {"accuracy": ("accuracy", 1), "nll": ("log-likelihood\nper row", -1), "ece": ("ECE", 1)}
"""Metric -> text at its axis, and the sign with which it is drawn."""
FENCES, NO_FENCE = {"nll": 6.0}, 1e6
"""Interquartile ranges from the quartiles within which a log-likelihood, which has no bound, sets the axis."""
WIDTH = 0.8
"""Width of all boxes at a severity; severities are 1 apart."""


def corruption_boxes(shown: Sequence[Shown]) -> Drawing:
    """Boxes over the kinds of corruption, by severity and label: a panel each for accuracy, log-likelihood and ECE.

    A box is from the first to the third quartile over the kinds, with the median as a line and whiskers to the smallest
    and the largest; severity 0 stands for the unchanged test rows, with their standard error and an empty `corruption`.
    The log-likelihood is the metric `nll` with its sign changed. Rotations and noise in chosen pixels do not count as
    corruptions. Raises ValueError for labels that were not scored on the same corruptions, and if there are none.
    """
    means = averaged(shown, read_sets(shown, list(BOXES)))
    kept = means[[name == TEST or corruption_of(name) is not None for name in means["set"]]]
    places = [corruption_of(name) or ("", 0) for name in kept["set"]]
    kept = kept.assign(corruption=[kind for kind, _ in places], severity=[level for _, level in places])
    of_label = kept[kept["severity"] > 0].groupby("label")["set"].agg(set).to_dict()
    check_same_sets(list(dict.fromkeys(means["label"])), of_label, "corruptions", "corruptions")
    numbers, looks = with_signs(kept, BOXES), method_looks(shown)
    figure = Figure(figsize=(style.TEXT_WIDTH, 5.0))
    axes = figure.subplots(len(BOXES), 1, sharex=True)
    for ax, (metric, (text, _)) in zip(axes, BOXES.items(), strict=True):
        part = numbers[numbers["metric"] == metric.replace("nll", "log_likelihood")]
        for place, (label, look) in enumerate(looks.items()):
            offset = WIDTH * ((place + 0.5) / len(looks) - 0.5)
            _boxes(ax, part[part["label"] == label], look, offset, 0.8 * WIDTH / len(looks))
        fence(ax, part["value"].to_numpy(), reach=FENCES.get(metric, NO_FENCE))
        ax.set_ylabel(text)
        for border in np.arange(0.5, SEVERITIES):
            ax.axvline(border, color="#E3E3E3", lw=0.5, zorder=0)
        ax.set_xlim(-0.5, SEVERITIES + 0.5)
    figure.align_ylabels(axes)
    axes[-1].set_xticks(range(SEVERITIES + 1), ["0 (none)", *map(str, range(1, SEVERITIES + 1))])
    axes[-1].set_xlabel("severity of the corruption")
    boxes = {label: Patch(facecolor=look.fill, edgecolor=look.colour, lw=0.7) for label, look in looks.items()}
    kinds = numbers.loc[numbers["severity"] > 0, "corruption"].nunique()
    median = {f"median over {kinds} kinds of corruption": {"color": style.BLACK, "lw": 1.0}}
    page.legend_below(figure, {**boxes, **median})
    columns = ["label", "method", "corruption", "severity", "metric", "value", "error", "over", "repetitions"]
    return Drawing(figure, numbers[columns].reset_index(drop=True))


def _boxes(ax: Axes, part: pd.DataFrame, look: Look, offset: float, width: float) -> None:
    clean = part[part["severity"] == 0]
    for value, error in clean[["value", "error"]].itertuples(index=False):
        ax.errorbar(
            offset, value, error, color=look.colour, marker=look.marker, ms=3.2, mfc=look.fill, mew=0.7, elinewidth=0.7,
        )  # fmt: skip
    outline: dict[str, Any] = {"color": look.colour, "lw": 0.7}
    severities = sorted(int(level) for level in part["severity"].unique() if level > 0)
    stats = [box_statistics(part.loc[part["severity"] == level, "value"].to_numpy()) for level in severities]
    ax.bxp(
        stats, [level + offset for level in severities], widths=width, showfliers=False, patch_artist=True,
        manage_ticks=False, boxprops={"facecolor": look.fill, "edgecolor": look.colour, "lw": 0.7},
        medianprops={"color": style.BLACK, "lw": 1.0}, whiskerprops=outline, capprops=outline,
    )  # fmt: skip


def box_statistics(values: np.ndarray) -> dict[str, float]:
    """What `Axes.bxp` draws; values that are not finite are pulled to the finite end nearest to them."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
    first, median, third = np.quantile(np.clip(values, low, high), (0.25, 0.5, 0.75))
    return {"q1": first, "med": median, "q3": third, "whislo": low, "whishi": high}


WEIGHTS = {"weight_sd_dead_inputs": "pixels that never vary", "weight_sd_live_inputs": "all other pixels"}
NOISE = {"dead_pixels": "noise in pixels that\nnever vary", "live_pixels": "noise in all\nother pixels"}


def dead_pixels(shown: Sequence[Shown]) -> Drawing:
    """Root mean square of the first layer's weights for dead and for live pixels, and accuracy under noise in each.

    Left, a line per label: filled marks are for weights of pixels that are the same in all training rows, white ones
    for the other weights, and ticks are the standard deviation of the run's prior, which a sampled posterior has for
    dead pixels. Right: accuracy by severity of the noise (0: unchanged test rows), with its standard error. Raises
    ValueError for a run without dead pixels and for one that was not scored under noise in them.
    """
    means = averaged(shown, read_sets(shown, [*WEIGHTS, "accuracy"]))
    noises = [_noise(name) for name in means["set"]]
    means = means.assign(noise_in=[kind for kind, _ in noises], severity=[level for _, level in noises])
    for label in dict.fromkeys(one.label for one in shown):
        own = means[means["label"] == label]
        if missing := [name for name in WEIGHTS if name not in set(own["metric"])]:
            raise ValueError(
                f"'{label}' has no {missing[0]}: there is no pixel that never varies in its rows, or its first layer "
                "is not dense; leave its runs out"
            )
        if lacking := [kind for kind in OF_SPLIT if not (own["noise_in"] == kind).any()]:
            raise ValueError(
                f"'{label}' was not scored under noise in these pixels; add {lacking[0]}1 to {lacking[0]}{SEVERITIES} "
                "to evaluate.shifts of its runs"
            )
    clean = means[(means["set"] == TEST) & (means["metric"] == "accuracy")]
    noisy = [pd.concat([clean.assign(noise_in=kind), means[means["noise_in"] == kind]]) for kind in OF_SPLIT]
    numbers = pd.concat([means[means["metric"].isin(list(WEIGHTS))], *noisy], ignore_index=True)
    of_label = {one.label: one.prior_sd for one in shown}
    numbers = numbers.assign(prior_sd=numbers["label"].map(of_label).astype(float)).sort_values(
        ["metric", "noise_in", "severity"], kind="stable", ignore_index=True
    )
    looks = method_looks(shown)
    figure = Figure(figsize=(style.TEXT_WIDTH, max(2.6, 1.2 + 0.2 * len(looks))))
    weights, *panels = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
    panels[1].sharey(panels[0])
    _weights(weights, numbers[numbers["metric"].isin(list(WEIGHTS))], looks)
    for ax, kind in zip(panels, OF_SPLIT, strict=True):
        draw_lines(ax, numbers[numbers["noise_in"] == kind], looks, "severity")
        ax.set_xticks(range(SEVERITIES + 1))
        ax.set_xlabel("severity")
        ax.grid(axis="y")
        ax.set_title(NOISE[kind])
    panels[0].set_ylabel("accuracy")
    entries = line_entries(looks)
    for text, face in zip(WEIGHTS.values(), (style.GREY, "white"), strict=True):
        entries[f"weights of {text}"] = {"color": style.GREY, "marker": "o", "mfc": face, "ms": 4.2, "ls": "none"}
    entries["sd of the prior"] = {"color": style.BLACK, "marker": "|", "ms": 9, "ls": "none"}
    page.legend_below(figure, entries)
    columns = ["label", "method", "prior_sd", "metric", "noise_in", "severity", "value", "error", "over", "repetitions"]
    return Drawing(figure, numbers[columns])


def _noise(name: str) -> tuple[str, int]:
    """The kind of pixels with noise in a set, and its severity; an empty text and 0 for any other set."""
    if name == TEST or "-" in name:
        return "", 0
    shift = parse_shift(name)
    return (shift.kind, shift.level) if shift.kind in OF_SPLIT else ("", 0)


def _weights(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    label_rows(ax, looks)
    for y, (label, look) in enumerate(looks.items()):
        own = part[part["label"] == label].set_index("metric")
        if np.isfinite(prior := float(own["prior_sd"].iloc[0])):
            ax.plot(prior, y, color=style.BLACK, marker="|", ms=11, mew=1.0, ls="none", zorder=1)
        mark: dict[str, Any] = {"color": look.colour, "marker": look.marker, "ms": 4.2, "mew": 0.9, "ls": "none"}
        for metric, face in zip(WEIGHTS, (look.colour, "white"), strict=True):
            ax.plot(float(own["value"][metric]), y, mfc=face, **mark)
    ax.set_xlim(left=min(0.0, -0.03 * float(part["value"].max())))
    ax.set_title("weights of the\nfirst layer")
    ax.set_xlabel("root mean square")
