"""Standard deviations of the weights over the draws, before and after alignment, beside those of prior draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import chi2

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.frames import LOOKS, Aligned, alignments
from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.frame import VARIANTS, load_frame

KIND = {"files": ["frames"]}

MOST = 4
"""Panels."""
WIDTH = 0.01
"""Width of a bin, as published; a multiple of it where there would be more than `MOST_BINS`, or fewer weights in a bin
than `FEWEST_IN_BIN` on average."""
MOST_BINS, FEWEST_IN_BIN = 300, 50
FIT = ("fitted", {"color": style.PURPLE, "ls": "-", "lw": 1.2})
PRIOR = ("draws from the prior, as many and independent", {"color": style.GREY, "ls": "--", "lw": 1.0})


def sigma_histograms(shown: Sequence[Shown]) -> Drawing:
    """Share of all parameters in bins of their sd, a panel per alignment.

    As sampled (q_d of Xiao et al. 2023), aligned (q_r) and of the two controls; of an approximation its fitted sds; and
    what as many independent draws of the prior would give, s = sd sqrt(chi^2_{n-1} / (n - 1)). Numbers are those of
    `sigma_table`.
    """
    table = sigma_table(shown)
    return Drawing(_figure(table), table)


def sigma_table(shown: Sequence[Shown]) -> pd.DataFrame:
    """Rows `what`, `low`, `high`, `share` of a bin; what is below or above all bins is in the outermost ones.

    `what` is a variant of the frame, `fitted` or `prior`; raises ValueError as `frames.alignments` does.
    """
    return pd.DataFrame([row for one in alignments(shown, "frames", MOST) for row in _shares(one)])


def _shares(one: Aligned) -> list[dict[str, object]]:
    frame = load_frame(one.file)
    found = {name: frame.moment(name, "sd").astype(float) for name in VARIANTS}
    if frame.fit_sd is not None:
        found["fitted"] = frame.fit_sd[0].astype(float)
    largest = max(float(np.quantile(values, 0.9999)) for values in found.values())
    most = min(MOST_BINS, max(10, len(frame.mean) // FEWEST_IN_BIN))
    width = WIDTH * max(1, int(np.ceil(largest / most / WIDTH)))
    edges = np.arange(0, int(np.ceil(largest / width)) + 1) * width
    shares = {
        name: np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        for name, values in found.items()
    }
    count, sd = int(frame.finite.sum()), one.run.prior_sd
    if sd is not None:
        shares["prior"] = np.diff(chi2.cdf((edges / sd) ** 2 * (count - 1), count - 1))
    return [
        {"label": one.label, "alignment": one.alignment, "what": name, "low": low, "high": high, "share": share}
        for name, values in shares.items()
        for low, high, share in zip(edges[:-1], edges[1:], values, strict=True)
    ]


def _figure(table: pd.DataFrame) -> Figure:
    labels = list(dict.fromkeys(table["label"]))
    figure, axes = page.panels(len(labels), 2, 1.8, more=0.6)
    looks = {**LOOKS, "fitted": FIT, "prior": PRIOR}
    for label, ax in zip(labels, axes.flat, strict=False):
        _panel(ax, table[table["label"] == label], {name: look for name, (_, look) in looks.items()})
        ax.set_title(label)
        ax.set_xlabel("standard deviation of a weight")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of weights")
    drawn = set(table["what"])
    page.legend_below(figure, {text: Line2D([], [], **look) for n, (text, look) in looks.items() if n in drawn})
    return figure


def _panel(ax: Axes, table: pd.DataFrame, looks: dict[str, dict[str, Any]]) -> None:
    """Shares on a logarithmic axis, which leaves out empty bins."""
    positive = table.loc[(table["share"] > 0) & (table["what"] != "prior"), "share"]
    for name, look in looks.items():
        part = table[table["what"] == name]
        if len(part):
            edges = np.append(part["low"].to_numpy(), part["high"].to_numpy()[-1])
            shares = part["share"].where(part["share"] > 0).to_numpy()
            ax.stairs(shares, edges, baseline=None, **look)
    ax.set_yscale("log")
    ax.set_ylim(float(positive.min()) / 2, 2 * float(table["share"].max()))
    ax.set_xlim(0, float(table["high"].max()))
