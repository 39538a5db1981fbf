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

    Without `training` the networks stay as the initialisers made them, and there are no losses.
    """
    problem = load_problem(dataset, split, posterior)
    if training is None:
        parameters = initialise(problem.posterior, np.asarray(members), seed, problem.data.prior.loc.dtype)
        with atomic(destination) as temporary, temporary.open("wb") as handle:
            np.savez(handle, members=np.asarray(members), parameters=parameters)
        return
    rows, dtype = problem.split, problem.data.prior.loc.dtype
    inputs, targets = problem.data.x.dtype, problem.data.y.dtype
    trained = train_ensemble(
        problem.posterior,
        WarmStartConfig.model_validate(training),
        Rows(
            jnp.asarray(rows.x_train, inputs),
            jnp.asarray(rows.y_train, targets),
            jnp.asarray(rows.x_validation, inputs),
            jnp.asarray(rows.y_validation, targets),
        ),
        np.asarray(members),
        seed,
        dtype,
    )
    with atomic(destination) as temporary, temporary.open("wb") as handle:
        np.savez(handle, members=np.asarray(members), **trained._asdict())
