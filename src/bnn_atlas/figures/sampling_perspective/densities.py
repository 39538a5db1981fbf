"""Marginal densities of single parameters, drawn by Rcode/marginal_densities.R."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from bnn_atlas.figures import ggplot
from bnn_atlas.figures.labels import parameter_label
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.provenance import Provenance


def marginal_densities(
    draws: str | Path | pd.DataFrame,
    outputs: FigureOutputs,
    provenance: Provenance,
    *,
    prior_sd: float | Mapping[str, float] | None = None,
    chains_shown: int = 50,
    limit: float | None = None,
    rcode: Path = ggplot.RCODE,
) -> None:
    """Densities of chosen parameters: one thin line per chain, the pooled density, the prior dashed; a row per layer.

    `draws` is Parquet or a data frame with the columns chain, draw, parameter (as in `Layout.names`), layer (null
    outside the layers), role and value. `prior_sd` is the standard deviation of a prior N(0, sd^2), one for all or by
    parameter name. At most `chains_shown` chains get a line; all enter the pooled density. `limit` is the half-width of
    the common x axis. Raises ValueError for a table without rows, columns or finite values, ggplot.RError from R.
    """
    source = "draws" if isinstance(draws, pd.DataFrame) else str(draws)
    frame = draws if isinstance(draws, pd.DataFrame) else pd.read_parquet(draws)
    ggplot.run(
        "marginal_densities",
        [rcode / "theme.R", rcode / "draw.R", rcode / "marginal_densities.R"],
        _density_frame(frame, prior_sd, source),
        outputs,
        provenance,
        chains_shown=chains_shown,
        limit=limit,
    )


def _density_frame(frame: pd.DataFrame, prior_sd: float | Mapping[str, float] | None, source: str) -> pd.DataFrame:
    """Checked draws with readable labels, panels and rows in the order in which they shall stand."""
    needed = ["chain", "draw", "parameter", "layer", "role", "value"]
    if missing := [column for column in needed if column not in frame.columns]:
        raise ValueError(f"{source}: no column {', '.join(missing)}; marginal densities need {', '.join(needed)}")
    if frame.empty:
        raise ValueError(f"{source}: there are no draws; choose other parameters or a run that has finished")
    bad = frame.loc[~np.isfinite(frame["value"])]
    if len(bad):
        first = bad.iloc[0]
        raise ValueError(
            f"{source}: {len(bad)} draws are not finite, first chain {first['chain']}, draw {first['draw']}, "
            f"{first['parameter']}; leave out divergent chains"
        )
    sizes = frame.groupby(["parameter", "chain"], observed=True).size()
    if sizes.min() < 2:
        parameter, chain = sizes.index[int(np.argmin(sizes.to_numpy()))]
        raise ValueError(f"{source}: chain {chain} has one draw of {parameter}; a density needs at least 2")
    parameters = frame[["parameter", "layer", "role"]].drop_duplicates("parameter").astype({"role": "str"})
    # Layer by layer, weights before biases, parameters outside the layers last.
    order = parameters.sort_values(["layer", "role"], ascending=[True, False], na_position="last", kind="stable")
    names = [str(name) for name in order["parameter"]]
    labels = [parameter_label(name) for name in names]
    layers = ["other" if pd.isna(layer) else f"layer {int(layer) + 1}" for layer in order["layer"]]
    sds = prior_sd if isinstance(prior_sd, Mapping) else dict.fromkeys(names, prior_sd)
    code = pd.Categorical(frame["parameter"].astype("str"), names).codes
    rows = list(dict.fromkeys(layers))
    row_of = np.array([rows.index(layer) for layer in layers])
    return pd.DataFrame(
        {
            "chain": frame["chain"].to_numpy(dtype="int64"),
            "label": pd.Categorical.from_codes(code, pd.Index(labels)),
            "layer": pd.Categorical.from_codes(row_of[code], pd.Index(rows)),
            "value": frame["value"].to_numpy(dtype="float64"),
            "prior_sd": np.array([sds.get(name) for name in names], dtype="float64")[code],
        }
    )
