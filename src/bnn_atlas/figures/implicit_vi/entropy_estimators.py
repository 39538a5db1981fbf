"""Errors of the different forms of the entropy against their cost."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown, panel_title
from bnn_atlas.files import read_parquet

KIND = {
    "files": ["entropies"], "methods": ["implicit"], "most": 9, "apart": ["title"],
    "columns": "run split form setting products exact error sd stated_sd bracket noise weights",
}  # fmt: skip

FORMS = {
    "lanczos": ("Lanczos, one probe", style.BLUE, "o", "-"),
    "smallest": ("smallest singular value", style.ORANGE, "s", (0, (4, 1.5))),
    "published": ("as published", style.VERMILION, "^", (0, (1, 1))),
}
"""Form -> text, colour, marker and dash."""
LINEAR = 1.0
"""Nats up to which the axis of errors is linear."""


def entropy_estimators(shown: Sequence[Shown]) -> Drawing:
    """Difference from the exact value against products with the Jacobian: mean and sd over random starts.

    A band reaches down from the mean by the bracket that the form itself gives: with Lanczos quadrature, the exact
    value is in it, apart from the error of its probe. A panel for each run and split. Input `entropies`: the rows of
    `methods.implicit.compare` for its fit.
    """
    titles = [panel_title(one) for one in shown]
    tables = [read_parquet(one.files["entropies"]).assign(run=one.run, split=one.split) for one in shown]
    figure, grid = page.panels(len(shown), 3, 2.1, more=0.35, sharey=True)
    for ax, title, table in zip(grid.flat, titles, tables, strict=False):
        _panel(ax, table)
        noise, weights = (style.thousands(table[name].iloc[0]) for name in ("noise", "weights"))
        ax.set_title(f"{title}\nd = {noise}, D = {weights}", fontsize=7)
    for ax in grid[:, 0]:
        ax.set_ylabel("value − exact value (nats)")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    page.legend_below(figure, dict(zip(labels, handles, strict=True)))
    data = pd.concat(tables, ignore_index=True)
    return Drawing(figure, data[["run", "split", *data.columns[:-2]]], names=titles)


def _panel(ax: Axes, table: pd.DataFrame) -> None:
    ax.axhline(0, color=style.GREY, lw=0.6)
    for form, (label, colour, marker, dash) in FORMS.items():
        own = table[table["form"] == form].sort_values("products")
        lower = own["error"] - own["bracket"]
        ax.fill_between(own["products"], lower, own["error"], color=colour, alpha=0.15, lw=0)
        ax.errorbar(
            own["products"], own["error"], own["sd"],
            color=colour, marker=marker, ms=3, ls=dash, lw=1, elinewidth=0.8, capsize=1.5, label=label,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=LINEAR)
    below = np.fmax(table["sd"], table["bracket"])
    low, high = (table["error"] - below).min(), (table["error"] + table["sd"]).max()
    ax.set_yticks(_decades(low, high), [f"{value:g}".replace("-", "−") for value in _decades(low, high)])
    ax.minorticks_off()
    ticks = [3, 10, 30, 100]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_xlabel("products with J and J′")


def _decades(low: float, high: float) -> list[float]:
    """0 and powers of ten of both signs, as far as the values go."""
    sizes = [10.0**power for power in range(int(np.ceil(np.log10(max(abs(low), abs(high), LINEAR)))) + 1)]
    return [-size for size in reversed(sizes) if size <= -low] + [0.0] + [size for size in sizes if size <= high]
