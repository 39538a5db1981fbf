"""Marginal densities of single parameters, drawn by Rcode/marginal_densities.R."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bnn_atlas.figures import ggplot
from bnn_atlas.figures.draws import NamedDraws, read_named, remarks
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.provenance import Provenance


def marginal_densities(
    shown: Sequence[Shown],
    outputs: FigureOutputs,
    provenance: Provenance,
    *,
    chains_shown: int = 50,
    limit: float | None = None,
    rcode: Path = ggplot.RCODE,
) -> None:
    """Densities of chosen parameters: one thin line per chain, the pooled density, the prior dashed; a row per layer.

    `shown` are runs with `draws`, a subset; several runs, such as networks of different sizes, stand one below the
    other under their labels. At most `chains_shown` chains get a line; all enter the pooled density. `limit` is the
    half-width of the x axis, which the panels of a run share. Raises ValueError for draws that cannot be shown and for
    two runs under one label, ggplot.RError from R.
    """
    if not shown:
        raise ValueError("marginal_densities has no runs to show; list one or more in its settings")
    labels = [one.label for one in shown]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ValueError(f"marginal_densities: two runs have the label '{twice[0]}'; show one run and split of each")
    draws = {one.label: read_named(one.files["draws"]) for one in shown}
    ggplot.run(
        "marginal_densities",
        [rcode / f"{name}.R" for name in ("theme", "draw", "kernel", "marginal_densities")],
        _panels(draws, {one.label: one.prior_sd for one in shown}),
        outputs,
        provenance,
        chains_shown=chains_shown,
        limit=limit,
        remark=remarks({label: some.subset for label, some in draws.items()}),
    )


def _panels(draws: Mapping[str, NamedDraws], prior_sd: Mapping[str, float | None]) -> pd.DataFrame:
    """Draws with their panel: run, chain, label and layer (in the order in which they stand), value, prior_sd."""
    parts = [
        some.tidy(np.arange(len(some.parameters))).assign(run=run, prior_sd=np.float64(prior_sd[run] or np.nan))
        for run, some in draws.items()
    ]
    panels = pd.concat(parts, ignore_index=True)
    # A small network's layers are among those of the largest, whose order serves all.
    largest = max(draws.values(), key=lambda some: len(some.parameters)).parameters
    orders = {
        column: list(dict.fromkeys([*largest[column], *panels[column].unique()])) for column in ("label", "layer")
    }
    return panels[["run", "chain", "label", "layer", "value", "prior_sd"]].assign(
        run=pd.Categorical(panels["run"], list(draws)),
        **{column: pd.Categorical(panels[column], order) for column, order in orders.items()},
    )
