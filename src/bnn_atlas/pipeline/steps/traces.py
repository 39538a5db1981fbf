"""Pool traces, and extract from pools what figures show."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.files import save_arrays
from bnn_atlas.traces.grids import bivariate_grids, layer_pairs
from bnn_atlas.traces.pool import open_pool, pool_traces
from bnn_atlas.traces.subset import subset_to_parquet


def pool(traces: Sequence[str | Path], destination: str | Path) -> None:
    """Write a file that lists the traces of all blocks as one pool."""
    pool_traces(traces, destination)


def subset(pool: str | Path, destination: str | Path, *, subset: Mapping[str, Any]) -> None:
    """Write the parameters and draws that `subset` (a `SubsetConfig` in plain values) chooses, as a tidy table."""
    chains, draws = subset["chains"], subset["draws"]
    slices = {"chains": chains and slice(chains), "draws": draws and slice(*draws)}
    subset_to_parquet(open_pool(pool).select(**{**subset, **slices}), destination)


def layer_traces(pool: str | Path, destination: str | Path) -> None:
    """Write the first two scalars of each layer and role (weight, bias) as .npz.

    `chain` and `draw` are the numbers of chains and draws; each scalar, such as `layer0.weight[0,1]`, is an array
    [chain, draw]. Scalars outside layers, such as a learned noise, count as a layer.
    """
    chosen = open_pool(pool).select(per_layer=2)
    values = dict(zip(chosen.parameter_names, np.moveaxis(chosen.read(), 2, 0), strict=True))
    save_arrays(destination, {"chain": chosen.chain_ids, "draw": chosen.draw_ids, **values})


def density_grid(pool: str | Path, destination: str | Path, *, grid: Mapping[str, Any]) -> None:
    """Write the bivariate marginal densities that `grid` (a `GridConfig` in plain values) asks for."""
    source, limit = open_pool(pool), grid["limit"]
    pairs = grid["pairs"] or layer_pairs(source.layout, per_layer=grid["per_layer"])
    limits = None if limit is None else (-limit, limit)
    bivariate_grids(source, pairs, limits=limits, bins=grid["bins"]).save(destination)
