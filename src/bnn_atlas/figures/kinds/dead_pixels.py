"""Weights of pixels that never vary, and what noise in such pixels does to predictions."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnn_atlas.config.data.shift import OF_SPLIT, SEVERITIES, parse_shift
from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.method_looks import Look, draw_lines, line_entries, method_looks
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.set_scores import averaged, read_sets
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["table", "sets"]}

WEIGHTS = {"weight_sd_dead_inputs": "pixels that never vary", "weight_sd_live_inputs": "all other pixels"}
NOISE = {"dead_pixels": "noise in pixels that\nnever vary", "live_pixels": "noise in all\nother pixels"}
COLUMNS = ["label", "method", "prior_sd", "metric", "noise_in", "severity", "value", "error", "over", "repetitions"]


def dead_pixels(shown: Sequence[Shown]) -> Drawing:
    """Root mean square of the first layer's weights of dead and of live pixels, and the accuracy under noise in each.

    Left, a line per label: filled marks are weights of pixels that are the same in all training rows, white ones those
    of the others, and ticks the standard deviation of the run's prior, which a sampled posterior has for dead pixels.
    Right: accuracy by severity of the noise, 0 for test rows as they are, with its standard error. Numbers are those of
    `dead_pixel_numbers`.
    """
    numbers = dead_pixel_numbers(shown)
    figure = _figure(numbers, method_looks(shown))
    return Drawing(figure, numbers)


def dead_pixel_numbers(shown: Sequence[Shown]) -> pd.DataFrame:
    """COLUMNS: `weight_sd_dead_inputs` and `weight_sd_live_inputs`, and `accuracy` by `noise_in` and severity.

    Raises ValueError for a run without dead pixels and for one that was not scored under noise in them.
    """
    means = averaged(shown, read_sets(shown, [*WEIGHTS, "accuracy"]))
    noises = [_noise(name) for name in means["set"]]
    means = means.assign(noise_in=[kind for kind, _ in noises], severity=[level for _, level in noises])
    clean = means[(means["set"] == TEST) & (means["metric"] == "accuracy")]
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
    parts = [
        means[means["metric"].isin(list(WEIGHTS))],
        *(pd.concat([clean.assign(noise_in=kind), means[means["noise_in"] == kind]]) for kind in OF_SPLIT),
    ]
    table = pd.concat(parts, ignore_index=True)
    of_label = {one.label: one.prior_sd for one in shown}
    return table.assign(prior_sd=table["label"].map(of_label).astype(float))[COLUMNS].sort_values(
        ["metric", "noise_in", "severity"], kind="stable", ignore_index=True
    )


def _noise(name: str) -> tuple[str, int]:
    """Where the noise of a set is, and its severity; nowhere and 0 for any other set."""
    if name == TEST or "-" in name:
        return "", 0
    shift = parse_shift(name)
    return (shift.kind, shift.level) if shift.kind in OF_SPLIT else ("", 0)


def _figure(numbers: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    figure = Figure(figsize=(style.TEXT_WIDTH, max(2.6, 1.2 + 0.2 * len(looks))))
    weights, *panels = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
    panels[1].sharey(panels[0])
    _weights(weights, numbers[numbers["metric"].isin(list(WEIGHTS))], looks)
    weights.set_yticks(range(len(looks)), list(looks))
    for ax, kind in zip(panels, OF_SPLIT, strict=True):
        _accuracy(ax, numbers[numbers["noise_in"] == kind], looks)
        ax.set_title(NOISE[kind])
    panels[0].set_ylabel("accuracy")
    page.legend_below(figure, _legend(looks))
    return figure


def _weights(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Size of the weights, a line per label."""
    for y, (label, look) in enumerate(looks.items()):
        ax.axhline(y, color="#E3E3E3", lw=0.5, zorder=0)
        own = part[part["label"] == label].set_index("metric")
        if np.isfinite(prior := float(own["prior_sd"].iloc[0])):
            ax.plot(prior, y, color=style.BLACK, marker="|", ms=11, mew=1.0, ls="none", zorder=1)
        for metric, face in zip(WEIGHTS, (look.colour, "white"), strict=True):
            ax.plot(
                float(own["value"][metric]),
                y,
                color=look.colour,
                marker=look.marker,
                ms=4.2,
                mew=0.9,
                mfc=face,
                ls="none",
            )
    ax.set_ylim(len(looks) - 0.5, -0.5)
    ax.set_xlim(left=min(0.0, -0.03 * float(part["value"].max())))
    ax.tick_params(axis="y", length=0)
    ax.set_title("weights of the\nfirst layer")
    ax.set_xlabel("root mean square")


def _accuracy(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Accuracy by severity."""
    draw_lines(ax, part, looks, "severity")
    ax.set_xticks(range(SEVERITIES + 1))
    ax.set_xlabel("severity")
    ax.grid(axis="y")


def _legend(looks: Mapping[str, Look]) -> dict[str, Artist]:
    entries = line_entries(looks)
    for (_, text), face in zip(WEIGHTS.items(), (style.GREY, "white"), strict=True):
        entries[f"weights of {text}"] = Line2D([], [], color=style.GREY, marker="o", mfc=face, ms=4.2, ls="none")
    entries["sd of the prior"] = Line2D([], [], color=style.BLACK, marker="|", ms=9, ls="none")
    return entries
