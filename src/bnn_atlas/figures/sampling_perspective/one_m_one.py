"""Joint marginals of the two weights of a hidden unit in 1-M-1 networks, drawn by Rcode/one_m_one.R."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bnn_atlas.figures.ggplot import RDrawing
from bnn_atlas.figures.page import check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import Subset, locate, read_subset, remarks

KIND = {"sections": ["subset"]}

WEIGHTS = ("layer0.weight[0,0]", "layer1.weight[0,0]")
"""The incoming and the outgoing weight of the first hidden unit."""


def one_m_one(shown: Sequence[Shown]) -> RDrawing:
    """Joint density of (w1, w2) of the first hidden unit: a row of panels per width M, a column per prior sd.

    `shown` are runs of networks with one hidden layer of M units, one input and one output, each with its prior
    N(0, sd^2) and a subset with both scalars of `WEIGHTS`. Colours are the smallest regions that hold given
    shares of the draws, from a kernel density estimate; a circle holds 95 per cent of the prior. The panels of a column
    have the same limits; draws outside are counted in their panel. Raises ValueError for runs that do not fit, for
    draws without spread, and for two runs of one panel; ggplot.RError from R.
    """
    check_fits(len(shown))
    places: dict[tuple[int, float], Shown] = {}
    subsets: dict[str, Subset] = {}
    panels = []
    for one in shown:
        place = _place(one)
        if (other := places.setdefault(place, one)) is not one:
            raise ValueError(
                f"one_m_one: {other.run} (split {other.split}) and {one.run} (split {one.split}) both have "
                f"M = {place[0]} and prior sd {place[1]:g}; show one run and split of each panel"
            )
        subsets[f"M = {place[0]}, sd {place[1]:.3g}"] = subset = read_subset(one.files["subset"])
        panels.append(_weights(subset, one).assign(hidden=place[0], prior_sd=place[1]))
    return RDrawing("one_m_one", pd.concat(panels, ignore_index=True), {"remark": remarks(subsets)})


def _place(one: Shown) -> tuple[int, float]:
    """Width and prior sd, which give a run its panel."""
    if len(one.hidden) != 1:
        raise ValueError(f"one_m_one: run {one.run} ({one.model}) has {len(one.hidden)} hidden layers, not one")
    if one.prior_sd is None:
        raise ValueError(f"one_m_one: run {one.run} has no prior N(0, sd^2) that all weights share")
    return one.hidden[0], one.prior_sd


def _weights(subset: Subset, one: Shown) -> pd.DataFrame:
    """Columns w1 and w2, a row per draw."""
    values = locate(subset, WEIGHTS, one.files["subset"]).reshape(-1, 2)
    for name, column in zip(WEIGHTS, values.T, strict=True):
        if np.ptp(column) == 0:
            raise ValueError(f"one_m_one: all draws of {name} in run {one.run} are the same; its chains never moved")
    return pd.DataFrame(values, columns=["w1", "w2"])
