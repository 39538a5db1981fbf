"""Starts of a block of chains from another run: positions of its chains, or draws with the moments of its draws."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jax import numpy as jnp

from bnn_atlas.config.parts.starts import InitialConfig, WarmStartConfig
from bnn_atlas.data import DataError
from bnn_atlas.files import atomic, load_arrays, save_arrays
from bnn_atlas.inference.fingerprint import code_of_starts, fingerprint_of
from bnn_atlas.inference.problem import Problem, load_problem
from bnn_atlas.posterior.compiled import kernel_name
from bnn_atlas.records import making
from bnn_atlas.symmetry.compact import Form, gaussian_draws
from bnn_atlas.traces.pool import Pool, open_pool
from bnn_atlas.warmstart.ensemble import Rows, initialise, train_ensemble
from bnn_atlas.warmstart.initial import initial_networks, permuted_copies


def take_starts(
    pool: str | Path | Sequence[str],
    arrays: Sequence[str | Path],
    destination: str | Path,
    *,
    draw: str,
    array: str | None,
    members: Sequence[int],
) -> None:
    """Write one position of another run for each chain in `members`; chain k starts at chain k modulo their number.

    Args:
        pool: draws of the other run, for `last` and `best`.
        arrays: one .npz per block of the other run, in order, for other positions.
        destination: .npz with `members` and `parameters` [chain, P].
        draw: `last` for a chain's last draw, `best` for the (first) draw with the highest log posterior; other
            positions are in `arrays`.
        array: name of the array [chain, P] in these files.
        members: indices of the chains of this block.

    Raises:
        DataError: a file does not have that array, or a position is not finite.
    """
    if array is None:
        assert isinstance(pool, str | Path)
        source = open_pool(pool)
        parameters = np.stack([_draw(source, member % source.chains, draw) for member in members])
    else:
        what = f"a file of starts or of a fit with the array '{array}'"
        stored = [load_arrays(path, (array,), DataError, what, optional=None)[array] for path in arrays]
        positions = np.concatenate(stored)
        chains = np.asarray(members) % len(positions)
        parameters = positions[chains]
        if not (finite := np.isfinite(parameters).all(axis=1)).all():
            raise DataError(
                f"{arrays[0]}: '{array}' of chain {chains[~finite][0]} is not finite, so no chain can start there; "
                "start from another run or position"
            )
    with atomic(destination) as temporary, temporary.open("wb") as handle:
        np.savez(handle, members=np.asarray(members), parameters=parameters)


def _draw(pool: Pool, chain: int, draw: str) -> np.ndarray:
    """One draw [parameter] of a chain."""
    number = pool.draws - 1
    if draw == "best":
        log_posterior = pool.statistic("log_likelihood", [chain]) + pool.statistic("log_prior", [chain])
        number = int(np.argmax(log_posterior))
    return pool.read([chain], [number])[0, 0]


def compact_starts(
    pool: str | Path,
    frame: str | Path | None,
    destination: str | Path,
    *,
    form: Literal["diagonal", "low_rank", "mean"],
    rank: int | None,
    members: Sequence[int],
    seed: int,
    model: Mapping[str, Any],
    chains: int | None = None,
    balance: bool = False,
) -> None:
    """Write one draw per member from the Gaussian of a pool's draws (.npz); see `symmetry.compact`."""
    how = Form(form, rank, balance)
    draws = gaussian_draws(open_pool(pool), frame, how, members=members, seed=seed, model=model, chains=chains)
    save_arrays(destination, {"members": np.asarray(members), "parameters": draws})


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
    """Train the ensemble members with the given indices, and write their parameters and losses (.npz).

    Returns what goes into the record: the name of the kernel.

    Without `training` the networks are not trained: they come from the initialisers, or follow `initial` (an
    `InitialConfig` in plain values; `bnn_atlas.warmstart.initial`), and there are no losses. With `training.permuted`
    only that member is trained: chain k of `members` gets its k-th permuted copy (`bnn_atlas.warmstart.initial`), and
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
