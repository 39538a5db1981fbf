"""Evaluate the network functions and densities that figures show, for draws of a pool."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.config.parts.figures import FunctionsConfig, SurfaceConfig
from bnn_atlas.inference.network_functions import functions_of
from bnn_atlas.inference.problem import load_problem
from bnn_atlas.inference.surfaces import AT_ONCE_ON_GPU, surfaces_through
from bnn_atlas.metrics.tables.arrays import save_functions, save_surfaces
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.pool import open_pool

log = logging.getLogger(__name__)


def functions(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> None:
    """Evaluate draws of a pooled trace according to `settings` (a `FunctionsConfig` in plain values), and write .npz.

    Raises FunctionsError like `inference.network_functions.functions_of`.
    """
    problem = load_problem(dataset, split, posterior)
    found = functions_of(problem, open_pool(pool), FunctionsConfig.model_validate(settings))
    if lost := int(found.divergent.sum()):
        log.warning("%d of %d draws are not finite and stay NaN", lost, found.divergent.size)
    save_functions(destination, found)


def surface(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    settings: Mapping[str, Any],
    others: Sequence[str] = (),
    pools: Sequence[str | Path] = (),
) -> None:
    """Evaluate a posterior on planes through draws according to `settings` (a `SurfaceConfig` in plain values).

    `pool` has the draws of the figure's own run, and `pools` those of the further runs, `others`, from which points of
    the planes are taken. The result is an .npz file.

    Raises SurfaceError like `inference.surfaces.surfaces_through`.
    """
    # Devices divide the points among them, not the rows.
    problem = load_problem(dataset, split, {**posterior, "data_shards": 1}, AT_ONCE_ON_GPU)
    draws: dict[str | None, Draws] = {None: open_pool(pool)}
    draws |= {name: open_pool(path) for name, path in zip(others, pools, strict=True)}
    found = surfaces_through(problem, draws, SurfaceConfig.model_validate(settings))
    save_surfaces(destination, found)
