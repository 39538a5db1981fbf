"""Deep ensembles: networks optimised from different initialisations, each stopped early on validation rows.

Warm starts of the chains as in Sommer et al. 2025 (Microcanonical Langevin Ensembles, ICLR): AdamW on the mean negative
log-likelihood; the prior is not used. A member stops after `patience` epochs without a new best validation loss; the
published code stops when `patience` successive losses fail to improve on the loss just before them, which can happen
earlier.
"""

import logging
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import optax
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.parts.starts import WarmStartConfig
from bnn_atlas.keys import Role, role_key
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import Posterior

log = logging.getLogger(__name__)


class TrainingError(RuntimeError):
    """Raised if a member's loss is not finite."""


class Rows(NamedTuple):
    """Rows x [n, features] and targets y [n] for training, and validation rows for early stopping (may be empty)."""

    x: Array
    y: Array
    x_validation: Array
    y_validation: Array


class Member(NamedTuple):
    """Result for one member: parameters [P] at the best epoch, and losses by epoch (NaN after it stopped)."""

    parameters: Array
    train_loss: Array
    validation_loss: Array
    best_epoch: Array
    """Epoch of the parameters: the best epoch on validation rows, or the last epoch without validation rows; -1 if the
    loss is not finite at that epoch."""


class _Search(NamedTuple):
    epoch: Array
    theta: Array
    optimiser: optax.OptState
    best_loss: Array
    member: Member


def initialise(posterior: Posterior, members: np.ndarray, seed: int, dtype: jnp.dtype) -> np.ndarray:
    """Initial parameters [member, P] of the members with the given indices; the likelihood's own parameters are 0."""

    def one(number: Array) -> Array:
        return _start(posterior, role_key(seed, Role.INITIALISE, number), dtype)

    return np.stack([np.asarray(one(number)) for number in members])


def _start(posterior: Posterior, key: Array, dtype: jnp.dtype) -> Array:
    theta = posterior.network.initialise(key).astype(dtype)
    return jnp.concatenate([theta, jnp.zeros(posterior.layout.size - theta.size, dtype)])


def train_ensemble(
    posterior: Posterior,
    config: WarmStartConfig,
    rows: Rows,
    members: np.ndarray,
    seed: int,
    dtype: jnp.dtype = jnp.float32,
) -> Member:
    """Train the members that have the given indices; arrays of the result have a leading axis [member].

    A member's result is bitwise determined by the seed, the member's index, the rows and the settings. The likelihood's
    own parameters (a learned noise level) keep their initial value of 0.

    Raises:
        ValueError: a mini-batch is larger than the number of training rows.
        TrainingError: no epoch of a member had a finite loss or, without validation rows, its final loss is not finite.
    """
    batch = config.batch_size or len(rows.x)
    if batch > len(rows.x):
        raise ValueError(
            f"batch_size ({batch}) exceeds the {len(rows.x)} training rows: lower it, or use null (None) for all"
        )
    place = Placement(len(members))
    train = place.map(partial(_train_member, posterior, config, batch, dtype))
    shared = (place.share(rows), place.share(np.int32(seed)))
    result = place.get(train(shared, place.put(np.asarray(members, np.int32))))
    for member, best in zip(members, result.best_epoch, strict=True):
        if best < 0:
            raise TrainingError(
                f"warm start {member} diverged: its loss is not finite; lower learning_rate (`warmstart` of a run, "
                "`training` of `starting_points`) or check the data"
            )
    log.info("trained %d members, best epochs %d to %d", len(members), result.best_epoch.min(), result.best_epoch.max())
    return result


def _train_member(
    posterior: Posterior,
    config: WarmStartConfig,
    batch: int,
    dtype: jnp.dtype,
    shared: tuple[Rows, Array],
    number: Array,
) -> Member:
    rows, seed = shared
    size = posterior.network.layout.size
    optimiser = optax.adamw(config.learning_rate, weight_decay=config.weight_decay)
    start = _start(posterior, role_key(seed, Role.INITIALISE, number), dtype)
    extra = start[size:]

    def loss(theta: Array, x: Array, y: Array) -> Array:
        """Mean negative log-likelihood per row."""
        return -posterior.log_likelihood_of(jnp.concatenate([theta, extra]), x, y) / len(y)

    def gradient(theta: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """The loss, and the gradient of the loss."""
        value, slopes = posterior.log_likelihood_and_gradient(jnp.concatenate([theta, extra]), x, y)
        return -value / len(y), -slopes[:size] / len(y)

    batches = len(rows.x) // batch
    validate = len(rows.x_validation) > 0
    shuffles = role_key(seed, Role.SHUFFLE, number)

    def epoch(search: _Search) -> tuple[Array, optax.OptState, Array]:
        """One pass over the rows in a fresh order."""
        order = jnp.arange(len(rows.x))
        if batch < len(rows.x):
            order = jax.random.permutation(jax.random.fold_in(shuffles, search.epoch), order)

        def update(carry: tuple[Array, optax.OptState], chosen: Array) -> tuple[tuple[Array, optax.OptState], Array]:
            theta, state = carry
            value, slopes = gradient(theta, rows.x[chosen], rows.y[chosen])
            change, state = optimiser.update(slopes, state, theta)
            return (optax.apply_updates(theta, change), state), value

        (theta, state), values = jax.lax.scan(
            update, (search.theta, search.optimiser), order[: batches * batch].reshape(batches, batch)
        )
        return theta, state, jnp.mean(values)

    def body(search: _Search) -> _Search:
        theta, state, train_loss = epoch(search)
        watched = loss(theta, rows.x_validation, rows.y_validation) if validate else jnp.full_like(train_loss, jnp.nan)
        better = watched < search.best_loss if validate else jnp.isfinite(train_loss)
        member = search.member
        return _Search(
            search.epoch + 1,
            theta,
            state,
            jnp.where(better, watched, search.best_loss),
            Member(
                jnp.where(better, theta, member.parameters),
                member.train_loss.at[search.epoch].set(train_loss),
                member.validation_loss.at[search.epoch].set(watched),
                jnp.where(better, search.epoch, member.best_epoch),
            ),
        )

    def unfinished(search: _Search) -> Array:
        more = search.epoch < config.max_epochs
        if config.patience is None:
            return more
        return more & (search.epoch - jnp.maximum(search.member.best_epoch, 0) <= config.patience)

    theta = start[:size]
    losses = jnp.full(config.max_epochs, jnp.nan, dtype)
    begin = _Search(
        jnp.int32(0),
        theta,
        optimiser.init(theta),
        jnp.asarray(jnp.inf, dtype),
        Member(theta, losses, losses, jnp.int32(-1)),
    )
    member = jax.lax.while_loop(unfinished, body, begin).member
    if not validate:  # the training loss of an epoch is computed before the last update of the epoch
        finite = jnp.isfinite(loss(member.parameters, rows.x, rows.y))
        member = member._replace(best_epoch=jnp.where(finite, member.best_epoch, -1))
    return member._replace(parameters=jnp.concatenate([member.parameters, extra]))
