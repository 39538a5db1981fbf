"""Reduce the trace of a block to what the run's scores and figures need, and find the reductions of all blocks.

A reduced block is a folder in the place of its trace (`traces.reduced`). Its further files are those that later steps
would write for a run with these chains only, so that these steps merge files where they would read draws.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data import DataError
from bnn_atlas.data.pixels import dead_inputs, second_moments
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.files import atomic
from bnn_atlas.inference.exchange import by_few_draws
from bnn_atlas.inference.fingerprint import code_of_predictions
from bnn_atlas.inference.optimum import gradients_of
from bnn_atlas.inference.problem import Predictor, load_problem, load_without_rows
from bnn_atlas.inference.virial import TOGETHER
from bnn_atlas.metrics.formulas.repetitions import GROUPS
from bnn_atlas.metrics.gathering.blocks import (
    MAX_BYTES,
    Tallies,
    limits_of_block,
    save_block,
    save_tallies,
    scalars_of_run,
)
from bnn_atlas.metrics.gathering.exchange import save_exchange
from bnn_atlas.metrics.gathering.marginals import (
    MOST_INPUTS,
    dense_first_layer,
    direction_squares,
    groups_of,
    input_tally_of,
    tally_of,
)
from bnn_atlas.metrics.gathering.streaming import summarise
from bnn_atlas.metrics.gathering.virial import differences_of, save_virial
from bnn_atlas.models.layout import Layout
from bnn_atlas.symmetry.permutation import rescalings
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.grids import bivariate_grids, layer_pairs
from bnn_atlas.traces.pool import Pool
from bnn_atlas.traces.reduced import write_reduced
from bnn_atlas.traces.store import open_trace, write_trace
from bnn_atlas.traces.subset import subset_to_parquet

SUMMARY, VIRIAL, EXCHANGE, TALLIES, THINNED = "summary.npz", "virial.npz", "exchange.npz", "tallies.npz", "thinned.zarr"
PREDICTED_BY = "predicted_by"
"""Attribute of a reduced block: hash of the code of its predictions."""


def reduce_block(
    whole: Path,
    destination: Path,
    attributes: Mapping[str, Any],
    dataset: str | Path,
    split: str | Path,
    *,
    posterior: Mapping[str, Any],
    keep_draws: str | Mapping[str, int],
    chains: int,
    prior_sd: float | None,
    subset: Mapping[str, Mapping[str, Any]],
    grid: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the reductions of a block's trace into the folder `destination`, all or nothing.

    Args:
        whole: the trace.
        destination: the folder.
        attributes: further attributes of the block (JSON values).
        dataset: prepared data of the run.
        split: its split.
        posterior: settings of its posterior.
        keep_draws: `none`, or `every` with the distance of the draws that are kept as `thinned.zarr`.
        chains: the number of chains of the run.
        prior_sd: s of the prior N(0, s^2) of all parameters; None for other priors.
        subset: digest -> settings of each subset (a `SubsetConfig` in plain values) that a figure shows.
        grid: the same for density grids (`GridConfig`).
    """
    trace, problem = open_trace(whole), load_without_rows(dataset, split, posterior)
    data, classes = problem.split, len(problem.split.classes)
    predictor = Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)
    rows, itemsize = (data.x_test, data.y_test), trace.dtype.itemsize
    limits = limits_of_block(trace.chains, chains, trace.draws, len(data.y_test), classes, itemsize)
    summary = summarise(trace, predictor, *rows, limits, classes=classes)
    groups = groups_of(chains, np.arange(chains))[trace.chain_ids]
    groups[summary.divergent] = -1
    count, dead = min(GROUPS, chains), None if data.kind == "tokens" else dead_inputs(data)
    with atomic(destination) as folder:
        folder.mkdir()
        save_block(folder / SUMMARY, summary)
        save_exchange(folder / EXCHANGE, by_few_draws(trace, predictor, data, of=chains))
        load = partial(load_problem, dataset, split, posterior, TOGETHER)
        save_virial(folder / VIRIAL, gradients_of(trace, problem, load, of=chains))
        tallies = Tallies(
            tally_of(trace, groups, prior_sd, MAX_BYTES, count),
            input_tally_of(trace, groups, dead, MAX_BYTES, count),
            direction_squares(trace, moments_of_inputs(data, trace.layout), MAX_BYTES),
            differences_of(trace, rescalings(problem.config.model, trace.layout), MAX_BYTES, chains),
        )
        save_tallies(folder / TALLIES, tallies)
        for name, settings in grid.items():
            grids(trace, settings).save(folder / f"grid-{name}.npz")
        for name, settings in subset.items():
            write_subset(trace, settings, folder / f"subset-{name}.parquet")
        if not isinstance(keep_draws, str):
            write_trace(folder / THINNED, trace.select(thinning=keep_draws["every"]), trace.attributes)
        scalars = scalars_of_run(trace.size, chains, trace.draws, itemsize)
        write_reduced(folder, trace, scalars, {**attributes, PREDICTED_BY: code_of_predictions(problem.config)})


def moments_of_inputs(data: SplitData, layout: Layout) -> np.ndarray | None:
    """The inputs' second moments; None unless the first layer multiplies the inputs and they are few enough."""
    inputs = 0 if data.kind == "tokens" else int(np.prod(data.shape))
    if not 0 < inputs <= MOST_INPUTS or dense_first_layer(layout, inputs) is None:
        return None
    return second_moments(data)


def predicted_by_earlier_code(pool: Pool, posterior: PosteriorConfig) -> bool:
    """Whether a reduced block was predicted by code that is not today's."""
    return any(block.attributes.get(PREDICTED_BY) != code_of_predictions(posterior) for block in pool.blocks)


def parts(pool: Pool, name: str, first_chains: int | None = None) -> list[Path]:
    """A file of each reduced block or, with `first_chains`, of those with some of these chains; DataError without."""
    blocks = [block for block in pool.blocks if first_chains is None or block.chain_ids.min() < first_chains]
    files = [block.path / name for block in blocks]
    for file in files:
        if not file.exists():
            raise DataError(
                f"{file} is missing: the figure was added or changed after this block was sampled. Show what the block "
                f"has, or delete {file.parent}: the block is then sampled again"
            )
    return files


def grids(draws: Draws, settings: Mapping[str, Any]) -> Any:
    """The densities that the settings (a `GridConfig` in plain values) ask for."""
    limit = settings["limit"]
    pairs = settings["pairs"] or layer_pairs(draws.layout, per_layer=settings["per_layer"])
    return bivariate_grids(draws, pairs, limits=None if limit is None else (-limit, limit), bins=settings["bins"])


def write_subset(draws: Draws, settings: Mapping[str, Any], destination: Path) -> None:
    """Write the draws that the settings (a `SubsetConfig` in plain values) choose; nothing if none are of its chains.

    The chains of a block count by their numbers, which are their places in the run.
    """
    numbers = draws.chain_ids if settings["chains"] is None else draws.chain_ids[draws.chain_ids < settings["chains"]]
    if len(numbers):
        steps = settings["draws"] and slice(*settings["draws"])
        subset_to_parquet(draws.select(**{**settings, "chains": numbers.tolist(), "draws": steps}), destination)
