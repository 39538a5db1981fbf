"""The warm start of a block of chains."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax import numpy as jnp

from bnn_atlas.config.training import WarmStartConfig
from bnn_atlas.files import atomic
from bnn_atlas.steps.problem import load_problem
from bnn_atlas.training.ensemble import Rows, initialise, train_ensemble
from bnn_atlas.training.permuted import permuted_copies


def warm_start(
    dataset: str | Path,
    split: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    training: Mapping[str, Any] | None,
    members: Sequence[int],
    seed: int,
) -> None:
    """Train the ensemble members with the given numbers and write their parameters and losses (.npz).

    Without `training` the networks stay as the initialisers made them, and there are no losses. With
    `training.permuted` that member alone is trained, and chain k of `members` gets its k-th permuted copy
    (`bnn_atlas.training.permuted`); losses are then the one member's for every chain.
    """
    problem = load_problem(dataset, split, posterior)
    if training is None:
        parameters = initialise(problem.posterior, np.asarray(members), seed, problem.data.prior.loc.dtype)
        with atomic(destination) as temporary, temporary.open("wb") as handle:
            np.savez(handle, members=np.asarray(members), parameters=parameters)
        return
    config = WarmStartConfig.model_validate(training)
    rows, dtype = problem.split, problem.data.prior.loc.dtype
    inputs, targets = problem.data.x.dtype, problem.data.y.dtype
    trained = train_ensemble(
        problem.posterior,
        config,
        Rows(
            jnp.asarray(rows.x_train, inputs),
            jnp.asarray(rows.y_train, targets),
            jnp.asarray(rows.x_validation, inputs),
            jnp.asarray(rows.y_validation, targets),
        ),
        np.asarray(members if config.permuted is None else [config.permuted]),
        seed,
        dtype,
    )
    arrays: dict[str, Any] = {name: np.asarray(array) for name, array in trained._asdict().items()}
    if config.permuted is not None:
        copies = permuted_copies(problem.posterior.layout, arrays["parameters"][0], np.asarray(members), seed)
        repeated = {name: np.repeat(array, len(members), axis=0) for name, array in arrays.items()}
        arrays = repeated | {"parameters": copies}
    with atomic(destination) as temporary, temporary.open("wb") as handle:
        np.savez(handle, members=np.asarray(members), **arrays)
