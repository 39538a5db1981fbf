"""Pool traces, and extract from pools what figures show."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.files import save_arrays
from bnn_atlas.pipeline.steps.reduce import grids, parts
from bnn_atlas.traces.grids import BivariateGrids
from bnn_atlas.traces.pool import open_pool, pool_traces
from bnn_atlas.traces.subset import join_subsets, subset_to_parquet


def pool(traces: Sequence[str | Path], destination: str | Path) -> None:
    """Write a file that lists the traces of all blocks as one pool."""
    pool_traces(traces, destination)


def subset(pool: str | Path, destination: str | Path, *, subset: Mapping[str, Any]) -> None:
    """Write the parameters and draws that `subset` (a `SubsetConfig` in plain values) chooses, as a tidy table.

    Of reduced blocks, their tables with the name of `destination` are joined.
    """
    source, chains, draws = open_pool(pool), subset["chains"], subset["draws"]
    if source.reduced:
        join_subsets(parts(source, f"subset-{Path(destination).stem}.parquet", chains), destination)
        return
    slices = {"chains": chains and slice(chains), "draws": draws and slice(*draws)}
    subset_to_parquet(source.select(**{**subset, **slices}), destination)


def layer_traces(pool: str | Path, destination: str | Path) -> None:
    """Write the first two scalars of each layer and role (weight, bias) as .npz.

    `chain` and `draw` are the numbers of chains and draws; each scalar, such as `layer0.weight[0,1]`, is an array
    [chain, draw]. Scalars outside layers, such as a learned noise, count as a layer.
    """
    chosen = open_pool(pool).select(per_layer=2)
    values = dict(zip(chosen.parameter_names, np.moveaxis(chosen.read(), 2, 0), strict=True))
    save_arrays(destination, {"chain": chosen.chain_ids, "draw": chosen.draw_ids, **values})


def density_grid(pool: str | Path, destination: str | Path, *, grid: Mapping[str, Any]) -> None:
    """Write the bivariate marginal densities that `grid` (a `GridConfig` in plain values) asks for.

    Of reduced blocks, their files with the name of `destination` are added.
    """
    source = open_pool(pool)
    if source.reduced:
        first, *others = parts(source, f"grid-{Path(destination).stem}.npz")
        total = BivariateGrids.load(first)
        for path in others:
            total += BivariateGrids.load(path)
        total.save(destination)
        return
    grids(source, grid).save(destination)
