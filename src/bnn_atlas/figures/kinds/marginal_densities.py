"""Marginal densities of single parameters, drawn by Rcode/marginal_densities.R."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bnn_atlas.figures.ggplot import RDrawing
from bnn_atlas.figures.page import check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import NamedDraws, read_named, remarks
from bnn_atlas.metrics.formulas.distances import prior_distance

KIND = {"sections": ["subset"]}
CHAINS_SHOWN = 50
"""Chains of a run that get a line, the first ones."""


def marginal_densities(shown: Sequence[Shown]) -> RDrawing:
    """Densities of chosen parameters: one thin line per chain, the pooled density, the prior dashed; a row per layer.

    `shown` are runs with a subset; several runs, such as networks of different sizes, are drawn beside each other
    under their labels, as far as six panels are in a row. At most `CHAINS_SHOWN` chains get a line; all enter the
    pooled density. The panels of a run share the x axis. The number in a panel is the distance of all its draws to the
    prior (`formulas.prior_distance.prior_distance`), where that is N(0, sd^2). Raises ValueError for draws that cannot
    be shown and for two runs under one label, ggplot.RError from R.
    """
    check_fits(len(shown))
    labels = [one.label for one in shown]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ValueError(f"marginal_densities: two runs have the label '{twice[0]}'; show one run and split of each")
    draws = {one.label: read_named(one.files["subset"]) for one in shown}
    return RDrawing(
        "marginal_densities",
        _panels(draws, {one.label: one.prior_sd for one in shown}),
        {"chains_shown": CHAINS_SHOWN, "remark": remarks({label: named.subset for label, named in draws.items()})},
    )


def _panels(draws: Mapping[str, NamedDraws], prior_sd: Mapping[str, float | None]) -> pd.DataFrame:
    """Draws with their panel: run, chain, label, layer (in order), value; prior_sd and prior_distance of the panel."""
    parts = []
    for run, named in draws.items():
        labels, sd = named.parameters["label"], prior_sd[run]
        of_each = named.values.reshape(-1, len(labels)).T
        distances = [np.nan if sd is None else prior_distance(values, sd) for values in of_each]
        rows = named.tidy(np.arange(len(labels)))
        distance = rows["label"].map(dict(zip(labels, distances, strict=True)))
        parts.append(rows.assign(run=run, prior_sd=np.float64(sd or np.nan), prior_distance=distance))
    panels = pd.concat(parts, ignore_index=True)
    # A small network's layers are among those of the largest, whose order serves all.
    largest = max(draws.values(), key=lambda named: len(named.parameters)).parameters
    orders = {
        column: list(dict.fromkeys([*largest[column], *panels[column].unique()])) for column in ("label", "layer")
    }
    return panels[["run", "chain", "label", "layer", "value", "prior_sd", "prior_distance"]].assign(
        run=pd.Categorical(panels["run"], list(draws)),
        **{column: pd.Categorical(panels[column], order) for column, order in orders.items()},
    )
