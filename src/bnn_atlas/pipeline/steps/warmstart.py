"""The warm start of a block of chains."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax import numpy as jnp

from bnn_atlas.config.parts.starts import InitialConfig, WarmStartConfig
from bnn_atlas.files import save_arrays
from bnn_atlas.inference.code import code_of_starts
from bnn_atlas.inference.fingerprint import fingerprint_of
from bnn_atlas.inference.problem import Problem, load_problem
from bnn_atlas.posterior.compiled import kernel_name
from bnn_atlas.records import making
from bnn_atlas.warmstart.ensemble import Rows, initialise, train_ensemble
from bnn_atlas.warmstart.initial import initial_networks
from bnn_atlas.warmstart.permuted import permuted_copies


def warm_start(
    dataset: str | Path,
    split: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    training: Mapping[str, Any] | None,
    members: Sequence[int],
    seed: int,
    initial: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train the ensemble members whose numbers are given, and write their parameters and losses (.npz).

    Returns what goes into the record: the name of the kernel.

    Without `training` the networks are not trained: they come from the initialisers, or follow `initial` (an
    `InitialConfig` in plain values; `bnn_atlas.warmstart.initial`), and there are no losses. With `training.permuted`
    only that member is trained: chain k of `members` gets its k-th permuted copy (`bnn_atlas.warmstart.permuted`), and
    every chain the losses of that member. A file that was made from the same settings, rows and code is kept.
    """
    problem = load_problem(dataset, split, posterior, chains=len(members))
    rows = problem.split
    facts = {"shape": rows.shape, "classes": len(rows.classes), "vocabulary": rows.vocabulary}
    settings = {
        "posterior": posterior,
        "training": training,
        "members": list(members),
        "seed": seed,
        "rows": facts,
        "kernel": kernel_name(problem.posterior.kernel),
        **({"initial": initial} if initial else {}),
    }
    trained_on = [rows.x_train, rows.y_train, rows.x_validation, rows.y_validation]
    code = code_of_starts(
        problem.config,
        WarmStartConfig.model_validate(training) if training else None,
        InitialConfig.model_validate(initial) if initial else None,
    )
    with making(destination, fingerprint_of(settings, trained_on, code)) as needed:
        if needed:
            save_arrays(destination, _networks(problem, training, members, seed, initial))
    return {"kernel": settings["kernel"]}


def _networks(
    problem: Problem,
    training: Mapping[str, Any] | None,
    members: Sequence[int],
    seed: int,
    initial: Mapping[str, Any] | None,
) -> dict[str, np.ndarray]:
    """The arrays of the file: members, their parameters and, if they were trained, losses."""
    if training is None:
        numbers, dtype = np.asarray(members), problem.data.prior.loc.dtype
        if initial:
            config = InitialConfig.model_validate(initial)
            parameters = initial_networks(problem.posterior, problem.config.model, config, numbers, seed, dtype)
        else:
            parameters = initialise(problem.posterior, numbers, seed, dtype)
        return {"members": np.asarray(members), "parameters": np.asarray(parameters)}
    trained_as = WarmStartConfig.model_validate(training)
    rows, dtype = problem.split, problem.data.prior.loc.dtype
    inputs, targets = problem.data.x.dtype, problem.data.y.dtype
    trained = train_ensemble(
        problem.posterior,
        trained_as,
        Rows(
            jnp.asarray(np.asarray(rows.x_train, inputs)),
            jnp.asarray(np.asarray(rows.y_train, targets)),
            jnp.asarray(np.asarray(rows.x_validation, inputs)),
            jnp.asarray(np.asarray(rows.y_validation, targets)),
        ),
        np.asarray(members if trained_as.permuted is None else [trained_as.permuted]),
        seed,
        dtype,
    )
    arrays: dict[str, Any] = {name: np.asarray(array) for name, array in trained._asdict().items()}
    if trained_as.permuted is not None:
        copies = permuted_copies(problem.posterior.layout, arrays["parameters"][0], np.asarray(members), seed)
        repeated = {name: np.repeat(array, len(members), axis=0) for name, array in arrays.items()}
        arrays = repeated | {"parameters": copies}
    return {"members": np.asarray(members), **arrays}
