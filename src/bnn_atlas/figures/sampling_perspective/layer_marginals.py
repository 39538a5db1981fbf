"""Marginal densities of a network's weights and biases, layer by layer, against their prior."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import page, style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown

KIND = {
    "files": ["table"], "needs": ["normal prior", "one split"], "apart": ["label"],
    "columns": "run label role layer place prior_distance marginal_sd",
}  # fmt: skip

METRICS = {"prior_distance": "distance to the prior", "marginal_sd": "sd over the prior's"}
"""Metric -> text at the axis."""
ROLES = {"weight": "weights", "bias": "biases"}
PLACE = r"layer(?P<layer>\d+)\.(?P<role>weight|bias)"
"""`at` of the metrics."""


def layer_marginals(shown: Sequence[Shown]) -> Drawing:
    """Distance of the draws of a layer to the prior, and their standard deviation over the prior's, by layer.

    A line per run, weights left and biases right. Layers stand from the first to the last one, so that the last layers
    of networks of different depths share a place. Columns run, label, role, layer (from 1), place (0 for the first, 1
    for the last), prior_distance and marginal_sd (in prior standard deviations). Raises ValueError for a run without
    these metrics.
    """
    parts = []
    for one in shown:
        rows = one.table()
        found = rows[rows["metric"].isin(list(METRICS))]
        values = found.join(found["at"].str.extract(f"^{PLACE}$")).dropna(subset="layer").astype({"layer": int})
        if values.empty:
            raise ValueError(f"{one.files['table']}: no {' and no '.join(METRICS)} of run {one.run}, by layer")
        wide = values.pivot(index=["role", "layer"], columns="metric", values="value").reset_index()
        last = wide["layer"].max()
        parts.append(
            wide.assign(
                run=one.run, label=one.label, layer=wide["layer"] + 1, place=wide["layer"] / max(last, 1),
                marginal_sd=wide["marginal_sd"] / (one.prior_sd or np.nan),
            )
        )  # fmt: skip
    table = pd.concat(parts, ignore_index=True)[["run", "label", "role", "layer", "place", *METRICS]]
    looks = dict(zip(dict.fromkeys(table["label"]), style.lines([one.run for one in shown]), strict=True))
    figure = Figure(figsize=(style.TEXT_WIDTH, 3.4))
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for (metric, text), row in zip(METRICS.items(), axes, strict=True):
        for (role, title), ax in zip(ROLES.items(), row, strict=True):
            ax.grid(axis="y")
            ax.axhline(float(metric == "marginal_sd"), color=style.BLACK, lw=0.8)
            for label, look in looks.items():
                line = table[(table["label"] == label) & (table["role"] == role)]
                ax.plot(line["place"], line[metric], color=look.colour, marker=look.marker, ms=3.2, lw=0.9)
            ax.set_title(title if metric == "prior_distance" else "")
        row[0].set(ylabel=text, ylim=(0, None))
    for ax in axes[1]:
        ax.set_xticks([0, 1], ["first layer", "last layer"])
        ax.set_xlim(-0.08, 1.08)
    entries = {
        label: {"color": look.colour, "marker": look.marker, "ms": 3.2, "lw": 0.9} for label, look in looks.items()
    }
    page.legend_below(figure, {**entries, "the prior itself": {"color": style.BLACK, "lw": 0.8}})
    return Drawing(figure, table)
