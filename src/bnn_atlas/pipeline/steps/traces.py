"""Pool traces, and extract from pools what figures show and what archives hold."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.data.splitting import load_split
from bnn_atlas.export.reference_posterior import Exported, save_reference
from bnn_atlas.export.results import save_results
from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.provenance import collect
from bnn_atlas.traces.grids import bivariate_grids, layer_pairs
from bnn_atlas.traces.pool import open_pool, pool_traces
from bnn_atlas.traces.subset import subset_to_parquet

log = logging.getLogger(__name__)


def pool(traces: Sequence[str | Path], destination: str | Path) -> None:
    """Write a file that lists the traces of all blocks as one pool."""
    pool_traces(traces, destination)


def subset(pool: str | Path, destination: str | Path, *, subset: Mapping[str, Any]) -> None:
    """Write the parameters and draws that `subset` (a `SubsetConfig` in plain values) chooses, as a tidy table."""
    chains, draws = subset["chains"], subset["draws"]
    slices = {"chains": chains and slice(chains), "draws": draws and slice(*draws)}
    subset_to_parquet(open_pool(pool).select(**{**subset, **slices}), destination)


def density_grid(pool: str | Path, destination: str | Path, *, grid: Mapping[str, Any]) -> None:
    """Write the bivariate marginal densities that `grid` (a `GridConfig` in plain values) asks for."""
    source, limit = open_pool(pool), grid["limit"]
    pairs = grid["pairs"] or layer_pairs(source.layout, per_layer=grid["per_layer"])
    limits = None if limit is None else (-limit, limit)
    bivariate_grids(source, pairs, limits=limits, bins=grid["bins"]).save(destination)


def pack(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    predictions: str | Path,
    metrics: str | Path,
    destination: str | Path,
    *,
    settings: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Pack a run's draws, test predictions, labels, row numbers, settings and scores into one archive.

    `settings` are the run's settings in plain values, with the posterior under `posterior`; `about` describes the run
    (the keys of `Exported.run`). `bnn_atlas.open_reference` reads the archive.
    """
    rows = load_split(dataset, split)
    given = Exported(open_pool(pool), rows, load(predictions), read_table(metrics), settings, about)
    save_reference(destination, given)
    log.info("%s: %.1f MB", destination, Path(destination).stat().st_size / 1e6)


def publish(
    made: Sequence[str | Path], destination: str | Path, *, results: str | Path, about: Mapping[str, Any]
) -> None:
    """Pack all that a figure or a study (its files, `made`) was made from into one archive, for other clones.

    `results` is the folder of the scale; `about` is what `pipeline.inputs.Inputs.published` says.
    """
    save_results(destination, made, results, {**about, "version": collect({}, root=Path()).version})
    log.info("%s: %.1f MB", destination, Path(destination).stat().st_size / 1e6)
