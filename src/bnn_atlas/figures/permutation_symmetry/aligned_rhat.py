"""R-hat and variances of the weights as sampled, aligned, and in the controls."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.frames import LOOKS, alignments
from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.aligned_draws import load_aligned_draws, rhats

KIND = {"files": ["aligned_draws"]}

MOST = 4
"""Rows of panels."""
LOWEST, HIGHEST = 1e-3, 30.0
"""Limits of R-hat less 1; what is outside is drawn at them."""
TICKS = (1.001, 1.01, 1.1, 2.0, 11.0)


def aligned_rhat(shown: Sequence[Shown]) -> Drawing:
    """Shares of parameters up to an R-hat (left) and mean variances (right), a row per alignment, a line per variant.

    Numbers are those of `rhat_table`.
    """
    table = rhat_table(shown)
    return Drawing(_figure(table), table)


def rhat_table(shown: Sequence[Shown]) -> pd.DataFrame:
    """Rows of `kind` `quantile` (`value` is R-hat at the share `at`), `variance` and `variance within` a chain.

    Raises ValueError as `frames.alignments` does, and where no parameter has an R-hat (a single chain).
    """
    rows: list[dict[str, object]] = []
    shares = np.linspace(0, 1, 101)
    for one in alignments(shown, "aligned_draws", MOST):
        draws = load_aligned_draws(one.file)
        for variant, variances in zip(LOOKS, draws.variances.tolist(), strict=True):
            common = {"label": one.label, "alignment": one.alignment, "variant": variant}
            values = rhats(draws, variant)
            values = values[~np.isnan(values)]
            if not len(values):
                raise ValueError(f"{one.file}: no R-hat is defined; it needs two chains of four draws")
            for share, value in zip(shares, np.quantile(values, shares), strict=True):
                rows.append({**common, "kind": "quantile", "at": share, "value": value})
            for kind, value in zip(("variance", "variance within"), variances, strict=True):
                rows.append({**common, "kind": kind, "value": value})
    return pd.DataFrame(rows)


def _figure(table: pd.DataFrame) -> Figure:
    labels = list(dict.fromkeys(table["label"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.7 * len(labels) + 0.6))
    axes = figure.subplots(len(labels), 2, squeeze=False, width_ratios=(3, 2))
    for label, (left, right) in zip(labels, axes, strict=True):
        part = table[table["label"] == label]
        _shares(left, part)
        _variances(right, part)
        left.set_title(label)
        left.set_ylabel("share of weights")
    axes[-1][0].set_xlabel("R-hat")
    axes[-1][1].set_xlabel("mean variance")
    entries = {text: Line2D([], [], **look) for text, look in LOOKS.values()}
    page.legend_below(figure, entries)
    return figure


def _shares(ax: Axes, table: pd.DataFrame) -> None:
    for variant, (_, look) in LOOKS.items():
        part = table[(table["variant"] == variant) & (table["kind"] == "quantile")]
        place = np.log10(np.clip(part["value"].to_numpy() - 1, LOWEST, HIGHEST))
        ax.plot(place, part["at"], **look)
    ax.axvline(-1, color=style.GREY, lw=0.8, ls="--")
    ax.set_xlim(np.log10(LOWEST), np.log10(HIGHEST))
    ax.set_ylim(0, 1.02)
    ax.xaxis.set_major_locator(FixedLocator([float(np.log10(tick - 1)) for tick in TICKS]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{tick:g}" for tick in TICKS])


def _variances(ax: Axes, table: pd.DataFrame) -> None:
    """A bar from the variance within a chain (open) to that over all draws (filled) for each variant."""
    for place, (variant, (_, look)) in enumerate(LOOKS.items()):
        part = table[table["variant"] == variant].set_index("kind")["value"]
        pooled, within = float(part["variance"]), float(part["variance within"])
        ax.plot([within, pooled], [-place, -place], color=look["color"], lw=1.2)
        ax.plot(within, -place, "o", ms=4.5, mfc="white", mec=look["color"])
        ax.plot(pooled, -place, "o", ms=4.5, color=look["color"])
    ax.set_ylim(-len(LOOKS) + 0.5, 0.5)
    ax.set_yticks([])
    ax.set_xlim(left=0)
    ax.set_title("within chains (open), over all draws (filled)", fontsize=7)
