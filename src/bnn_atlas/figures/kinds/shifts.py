"""Class predictions on test rows and on shifted ones: calibration, corruptions, rotations, noise in dead pixels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from bnn_atlas.config.data.shift import OF_SPLIT, ROTATION, parse_shift
from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures import page, style
from bnn_atlas.figures.method_looks import Look, draw_lines, label_rows, line_entries, method_looks
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.set_scores import averaged, corruption_of, read_sets, with_signs
from bnn_atlas.figures.shown import Shown

KINDS = {
    "calibration_curves": {
        "files": ["table"], "files_if_any": ["sets"], "task": "classification", "most_labels": 8, "repeats": ["label"],
        "columns": "label method rows sets at confidence accuracy gap error repetitions",
    },
    "corruptions": {
        "files": ["table", "sets"], "files_if_any": ["against"], "task": "classification", "repeats": ["label"],
        "shifts": ["corruptions"],
        "columns": "label method corruption severity accuracy difference error repetitions",
    },
    "dead_pixels": {
        "files": ["table", "sets"], "task": "classification", "repeats": ["label"],
        "shifts": ["dead_pixels", "live_pixels"],
        "columns": "label method prior_sd metric noise_in severity value difference error over repetitions",
    },
    "rotated_mnist": {
        "files": ["table", "sets"], "repeats": ["label"], "shifts": ["rotations"],
        "columns": "label method angle metric value error over repetitions",
    },
}  # fmt: skip

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
    there are several. The log-likelihood is the metric `nll` with its sign changed.
    """
    means = averaged(shown, read_sets(shown, list(ANGLES)))
    kept = means[[name == TEST or name.startswith(ROTATION) for name in means["set"]]]
    kept = kept.assign(angle=[0 if name == TEST else int(name.removeprefix(ROTATION)) for name in kept["set"]])
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


ALL_KINDS = "mean over all kinds"
"""Name of the panel with the mean."""


def corruptions(shown: Sequence[Shown]) -> Drawing:
    """Accuracy by severity minus that of the first label, a panel per kind of corruption and one for their mean.

    Severity 0 stands for the unchanged test rows. Bars are one standard error of the difference (`from_first`); that of
    the mean is the mean of the errors, since all kinds have the same rows. Rotations and noise in chosen pixels do not
    count as corruptions. Columns label, method, corruption, severity, accuracy, difference, error, repetitions.
    """
    means = averaged(shown, read_sets(shown, ["accuracy"]))
    kept = means[[name == TEST or corruption_of(name) is not None for name in means["set"]]]
    places = [corruption_of(name) or ("", 0) for name in kept["set"]]
    kept = kept.assign(corruption=[kind for kind, _ in places], severity=[level for _, level in places])
    numbers = from_first(shown, kept)
    kinds = [kind for kind in dict.fromkeys(numbers["corruption"]) if kind]
    levels = numbers[numbers["severity"] > 0].groupby(["label", "method", "severity"], sort=False)
    means = levels[["accuracy", "difference", "error", "repetitions"]].mean().reset_index().assign(corruption=ALL_KINDS)
    numbers = pd.concat([numbers, means], ignore_index=True).astype({"repetitions": int})
    looks, clean = method_looks(shown), numbers[numbers["severity"] == 0]
    figure, axes = page.panels(len(kinds) + 1, 4, 1.75)
    for ax, kind in zip(axes.flat, [*kinds, ALL_KINDS], strict=False):
        _differences(ax, pd.concat([clean, numbers[numbers["corruption"] == kind]]), looks)
        ax.set_title(kind.replace("_", " "))
    figure.supylabel(_DIFFERENCE.format(shown[0].label), fontsize=7.5)
    page.legend_below(figure, line_entries(looks) | {_BELOW.format(shown[0].label): {"ls": "none"}})
    columns = ["label", "method", "corruption", "severity", "accuracy", "difference", "error", "repetitions"]
    return Drawing(figure, numbers[columns])


_DIFFERENCE = "accuracy \N{MINUS SIGN} that of {}"
_BELOW = "below the severities: accuracy of {}"


def from_first(shown: Sequence[Shown], accuracies: pd.DataFrame) -> pd.DataFrame:
    """The rows of `averaged` for `accuracy`, with its `difference` from that of the first label on the same set.

    Rows for which two runs predict the same class do not change the difference d, so its standard error is at most
    sqrt((1 - a - d^2) / n) with a their agreement; where that was not measured, the two are taken as independent. The
    first label has no errors.
    """
    first = shown[0]
    against = [one for one in shown if first.run in one.parts.get("against", {})]
    agreed: dict[Any, float] = {}
    if against:
        agreed = read_sets(against, ["agreement"], first.run).groupby(["label", "set"])["value"].mean().to_dict()
    base = accuracies[accuracies["label"] == first.label].set_index("set")[["value", "error"]].astype(float)
    p, se = (base[name].reindex(accuracies["set"]).to_numpy() for name in base)
    d = accuracies["value"].to_numpy(dtype=float) - p
    keys = zip(accuracies["label"], accuracies["set"], strict=True)
    apart = np.array([1 - agreed[key] if key in agreed else np.nan for key in keys])
    paired = se * np.sqrt(np.maximum(apart - d**2, 0) / (p * (1 - p)))
    error = np.where(np.isnan(apart), np.hypot(se, accuracies["error"].astype(float)), paired)
    error = np.where(accuracies["label"] == first.label, np.nan, error)
    return accuracies.rename(columns={"value": "accuracy"}).assign(difference=d, error=error)


def _differences(ax: Axes, part: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Differences by severity, with the accuracy of the first label below the severities."""
    draw_lines(ax, part, looks, "severity", "difference")
    first = part[part["label"] == next(iter(looks))].sort_values("severity")
    rows = first[["severity", "accuracy"]].itertuples(index=False)
    texts = [f"{level}\n{value:.3f}".replace("0.", ".") for level, value in rows]
    ax.set_xticks(first["severity"], texts, fontsize=6)
    ax.set_xlabel("severity")
    ax.grid(axis="y")


WEIGHTS = {"weight_sd_dead_inputs": "pixels that never vary", "weight_sd_live_inputs": "all other pixels"}
NOISE = {"dead_pixels": "noise in pixels that\nnever vary", "live_pixels": "noise in all\nother pixels"}


def dead_pixels(shown: Sequence[Shown]) -> Drawing:
    """Root mean square of the first layer's weights for dead and for live pixels, and accuracies under noise in each.

    Left, a line per label: filled marks are for weights of pixels that are the same in all training rows, white ones
    for the other weights, and ticks are the standard deviation of the run's prior, which a sampled posterior has for
    dead pixels. Right: accuracy minus that of the first label, by severity of the noise (0: unchanged test rows), with
    the standard error of `from_first`. Raises ValueError for a run without dead pixels.
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
    scored = from_first(
        shown, means[(means["metric"] == "accuracy") & ((means["set"] == TEST) | (means["noise_in"] != ""))]
    )
    clean = scored[scored["set"] == TEST]
    noisy = [pd.concat([clean.assign(noise_in=kind), scored[scored["noise_in"] == kind]]) for kind in OF_SPLIT]
    weights = means[means["metric"].isin(list(WEIGHTS))]
    numbers = pd.concat([weights, *(part.rename(columns={"accuracy": "value"}) for part in noisy)], ignore_index=True)
    of_label = {one.label: one.prior_sd for one in shown}
    numbers = numbers.assign(prior_sd=numbers["label"].map(of_label).astype(float)).sort_values(
        ["metric", "noise_in", "severity"], kind="stable", ignore_index=True
    )
    looks = method_looks(shown)
    figure = Figure(figsize=(style.TEXT_WIDTH, max(2.6, 1.2 + 0.2 * len(looks))))
    left, *panels = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
    _weights(left, numbers[numbers["metric"].isin(list(WEIGHTS))], looks)
    for ax, kind, part in zip(panels, OF_SPLIT, noisy, strict=True):
        _differences(ax, part, looks)
        ax.set_title(NOISE[kind])
    panels[0].set_ylabel(_DIFFERENCE.format(shown[0].label).replace(" \N{MINUS SIGN}", "\n\N{MINUS SIGN}"))
    entries = line_entries(looks)
    for text, face in zip(WEIGHTS.values(), (style.GREY, "white"), strict=True):
        entries[f"weights of {text}"] = {"color": style.GREY, "marker": "o", "mfc": face, "ms": 4.2, "ls": "none"}
    entries["sd of the prior"] = {"color": style.BLACK, "marker": "|", "ms": 9, "ls": "none"}
    page.legend_below(figure, entries | {_BELOW.format(shown[0].label): {"ls": "none"}})
    columns = [
        "label", "method", "prior_sd", "metric", "noise_in", "severity", "value", "difference", "error", "over",
        "repetitions",
    ]  # fmt: skip
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
        for metric, face, apart in zip(WEIGHTS, (look.colour, "white"), (-0.16, 0.16), strict=True):
            ax.plot(float(own["value"][metric]), y + apart, mfc=face, **mark)
    ax.set_xlim(left=min(0.0, -0.03 * float(part["value"].max())))
    ax.set_title("weights of the\nfirst layer")
    ax.set_xlabel("root mean square")
