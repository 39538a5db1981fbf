"""Ridge lines of the marginal densities of biases under two priors, drawn by Rcode/bias_ridges.R."""

from collections.abc import Mapping, Sequence

import pandas as pd

from bnn_atlas.figures.ggplot import RDrawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import NamedDraws, read_named, remarks

KIND = {"sections": ["subset"]}
RIDGES = {"bias": 16, "weight": 3}
"""Role -> ridges of a layer, at most."""


def bias_ridges(shown: Sequence[Shown]) -> RDrawing:
    """Marginal densities of biases, and of a few weights to compare, a ridge line each; two panels per layer.

    `shown` are two runs, such as one with the prior N(0, 1) on all parameters and one whose biases have a flat prior,
    with a subset with the roles bias and weight. At most `RIDGES` of a layer are drawn, the first ones; the labels tell
    the runs apart. A ridge pools the draws of all chains. The prior of the runs that have one for all parameters is a
    ridge of its own. Raises ValueError for runs that do not fit and for draws that cannot be shown; ggplot.RError from
    R.
    """
    labels = [one.label for one in shown]
    if len(shown) != 2 or len(set(labels)) != 2:
        raise ValueError(
            f"bias_ridges compares two runs under two labels, not {', '.join(labels) or 'none'}; "
            "name one run (and split) of each prior in its settings"
        )
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
