"""Marginal densities, and a formula, drawn by R: each kind has a file in Rcode/ named after it."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from bnn_atlas.figures.ggplot import RDrawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import NamedDraws, Subset, locate, read_named, read_subset, remarks
from bnn_atlas.published import published_numbers

KINDS = {
    "marginal_densities": {
        "sections": ["subset"],
        "apart": ["label"],
        "columns": "run layer label curve chain x density",
    },
    "bias_ridges": {
        "sections": ["subset"],
        "apart": ["label"],
        "least": 2,
        "most": 2,
        "columns": "layer label role run x density below above",
    },
    "one_m_one": {
        "sections": ["subset"],
        "needs": ["one hidden layer", "normal prior"],
        "apart": ["width", "prior scale"],
        "columns": "hidden prior_sd w1 w2 density region",
    },
    "rescaling_curve": {"runs": "none", "columns": "kind c h"},
}

CHAINS_SHOWN = 50
"""Largest number of chains of a run that get a line: the first ones."""


def marginal_densities(shown: Sequence[Shown]) -> RDrawing:
    """Densities of chosen parameters: one thin line per chain, the pooled density, the prior dashed; a row per layer.

    `shown` are runs with a subset; several runs, such as networks of different sizes, are drawn next to each other
    under their labels, with up to six panels in a row. At most `CHAINS_SHOWN` chains get a line; all enter the pooled
    density. The panels of a run share the x axis. Raises ValueError for draws that cannot be shown, and ggplot.RError
    from R.
    """
    draws = {one.label: read_named(one.files["subset"]) for one in shown}
    return RDrawing(
        "marginal_densities",
        _panels(draws, {one.label: one.prior_sd for one in shown}),
        {"chains_shown": CHAINS_SHOWN, "remark": remarks({label: named.subset for label, named in draws.items()})},
    )


def _panels(draws: Mapping[str, NamedDraws], prior_sd: Mapping[str, float | None]) -> pd.DataFrame:
    """Draws with their panel: run, chain, label, layer (in order), value, and prior_sd."""
    parts = []
    for run, named in draws.items():
        rows = named.tidy(np.arange(len(named.parameters)))
        parts.append(rows.assign(run=run, prior_sd=np.float64(prior_sd[run] or np.nan)))
    panels = pd.concat(parts, ignore_index=True)
    # A small network's layers are among the layers of the largest network, so that network's order serves all.
    largest = max(draws.values(), key=lambda named: len(named.parameters)).parameters
    orders = {
        column: list(dict.fromkeys([*largest[column], *panels[column].unique()])) for column in ("label", "layer")
    }
    return panels[["run", "chain", "label", "layer", "value", "prior_sd"]].assign(
        run=pd.Categorical(panels["run"], list(draws)),
        **{column: pd.Categorical(panels[column], order) for column, order in orders.items()},
    )


RIDGES = {"bias": 16, "weight": 3}
"""Role -> largest number of ridges of a layer."""


def bias_ridges(shown: Sequence[Shown]) -> RDrawing:
    """Marginal densities of biases, and of a few weights for comparison, a ridge line each; two panels per layer.

    `shown` are two runs, such as one with the prior N(0, 1) on all parameters and one whose biases have a flat prior,
    with a subset with the roles bias and weight. The first `RIDGES` of a layer are drawn; the labels tell the runs
    apart. A ridge pools the draws of all chains. If a run has one prior for all parameters, this prior is a separate
    ridge. Raises ValueError for draws that cannot be shown, and ggplot.RError from R.
    """
    draws = {one.label: read_named(one.files["subset"]) for one in shown}
    sds = {one.prior_sd for one in shown if one.prior_sd is not None}
    return RDrawing(
        "bias_ridges",
        _ridges(draws),
        {
            "prior_sd": float(sds.pop()) if len(sds) == 1 else None,
            "remark": remarks({label: named.subset for label, named in draws.items()}),
        },
    )


def _ridges(draws: Mapping[str, NamedDraws]) -> pd.DataFrame:
    """Draws of the chosen ridges: run, chain, layer and label (in the order of the ridges), role, value."""
    parts = []
    for run, named in draws.items():
        rows = named.parameters
        kept = rows["role"].map(RIDGES) > rows.groupby(["layer", "role"]).cumcount()
        # Biases before weights; the parameters are in the order of layers already.
        chosen = rows[kept].sort_values("role", kind="stable")
        parts.append(named.tidy(chosen.index.to_numpy()).assign(run=run))
        if not (chosen["role"] == "bias").any():
            raise ValueError(f"bias_ridges: the draws of {run} hold no bias; give its subset roles: [bias, weight]")
    ridges = pd.concat(parts, ignore_index=True)
    order = {column: ridges[column].unique() for column in ("run", "label", "role")}
    order["layer"] = pd.concat([named.parameters["layer"] for named in draws.values()]).unique()
    return ridges[["run", "chain", "layer", "label", "role", "value"]].assign(
        **{column: pd.Categorical(ridges[column], values) for column, values in order.items()}
    )


WEIGHTS = ("layer0.weight[0,0]", "layer1.weight[0,0]")
"""The incoming and the outgoing weight of the first hidden unit."""


def one_m_one(shown: Sequence[Shown]) -> RDrawing:
    """Joint density of (w1, w2) of the first hidden unit: a row of panels per width M, a column per prior sd.

    `shown` are runs of networks with one hidden layer of M units, one input and one output, each with its prior
    N(0, sd^2) and a subset with both scalars of `WEIGHTS`. Colours are the smallest regions that hold given
    shares of the draws, from a kernel density estimate; a circle holds 95 per cent of the prior. The panels of a column
    have the same limits; draws outside are counted in their panel. Raises ValueError for draws without spread, and
    ggplot.RError from R.
    """
    subsets: dict[str, Subset] = {}
    panels = []
    for one in shown:
        subsets[f"M = {one.hidden[0]}, sd {one.prior_sd:.3g}"] = subset = read_subset(one.files["subset"])
        panels.append(_weights(subset, one).assign(hidden=one.hidden[0], prior_sd=one.prior_sd))
    return RDrawing("one_m_one", pd.concat(panels, ignore_index=True), {"remark": remarks(subsets)})


def _weights(subset: Subset, one: Shown) -> pd.DataFrame:
    values = locate(subset, WEIGHTS, one.files["subset"]).reshape(-1, 2)
    for name, column in zip(WEIGHTS, values.T, strict=True):
        if np.ptp(column) == 0:
            raise ValueError(f"one_m_one: all draws of {name} in run {one.run} are the same; its chains never moved")
    return pd.DataFrame(values, columns=["w1", "w2"])


POINTS = 451


def rescaling_curve(
    shown: Sequence[Shown],
    *,
    b: float = 0.9,
    w1: float = 0.5,
    w2: float = 0.8,
    limits: tuple[float, float] = (0.6, 1.05),
) -> RDrawing:
    """The curve h(c) of `prior_change` with its two zeros: c = 1, where nothing is rescaled, and `other_zero`.

    An open black mark shows the paper's value of the other zero. The figure shows no runs. The CSV has the columns kind
    (`curve`, `other zero`, `trivial zero`, `published zero`), c and h.
    """
    c = np.linspace(*limits, POINTS)
    curve = pd.DataFrame({"kind": "curve", "c": c, "h": prior_change(c, b, w1, w2)})
    zeros = pd.DataFrame({"kind": ["other zero", "trivial zero"], "c": [other_zero(b, w1, w2, limits), 1.0], "h": 0.0})
    (theirs,) = published_numbers("sampling_perspective", "rescaling")
    paper = pd.DataFrame({"kind": ["published zero"], "c": [float(theirs.value)], "h": 0.0})
    return RDrawing(
        "rescaling_curve",
        pd.concat([curve, zeros, paper], ignore_index=True),
        {"b": float(b), "w1": float(w1), "w2": float(w2)},
    )


def prior_change(c: np.ndarray | float, b: float, w1: float, w2: float) -> np.ndarray:
    """How much prior density a unit loses by rescaling: h(c) = p(b) p(w1) p(w2) - p(b c) p(w1 c) p(w2 / c).

    A ReLU unit with bias b, incoming weight w1 and outgoing weight w2 computes the same function with c b, c w1 and
    w2 / c for every c > 0. p is the density of N(0, 1). From Sommer et al. 2025, A Sampling Perspective.
    """
    c = np.asarray(c, dtype=float)
    return np.asarray(norm.pdf(b) * norm.pdf(w1) * norm.pdf(w2) - norm.pdf(b * c) * norm.pdf(w1 * c) * norm.pdf(w2 / c))


def other_zero(b: float, w1: float, w2: float, limits: tuple[float, float]) -> float:
    """The zero of `prior_change` within `limits` that is not c = 1; in closed form it is |w2| / sqrt(b^2 + w1^2).

    h has one minimum, at the square root of the other zero, and one zero on either side. Raises ValueError if the other
    zero lies outside the limits, or coincides with c = 1.
    """
    minimum = np.sqrt(abs(w2) / np.hypot(b, w1))
    low, high = (limits[0], minimum) if minimum < 1 else (minimum, limits[1])
    if np.isclose(minimum, 1) or low >= high or prior_change(low, b, w1, w2) * prior_change(high, b, w1, w2) > 0:
        raise ValueError(
            f"h(c) has no zero but c = 1 within {limits} for b = {b}, w1 = {w1}, w2 = {w2}; "
            f"its other zero is {minimum**2:.4g}"
        )
    return float(brentq(prior_change, low, high, args=(b, w1, w2), xtol=1e-12))
