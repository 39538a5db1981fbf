"""No key is used twice, and a key depends on its own numbers alone."""

import itertools

import jax
import numpy as np
import pytest

from bnn_atlas.keys import Role, role_key, root_key, step_key

SEEDS, CHAINS, PHASES, STEPS = (0, 1, 2, 12345), range(7), range(4), 40


def words(keys: jax.Array) -> list[bytes]:
    """The raw words of each key."""
    data = np.asarray(jax.random.key_data(keys))
    return [row.tobytes() for row in data.reshape(-1, data.shape[-1])]


def test_no_two_purposes_share_a_key() -> None:
    found: list[bytes] = []
    steps = jax.jit(jax.vmap(lambda key, phase, step: step_key(key, phase, step), (None, None, 0)))
    epochs = jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))
    for seed in SEEDS:
        found += words(root_key(seed))
        for role, chain in itertools.product(Role, CHAINS):
            key = role_key(seed, role, chain)
            found += words(key)
            if role is Role.SAMPLE:
                for phase in PHASES:
                    found += words(jax.random.fold_in(key, phase)) + words(steps(key, phase, np.arange(STEPS)))
            if role is Role.SHUFFLE:
                found += words(epochs(key, np.arange(STEPS)))
    assert len(found) == len(SEEDS) * (1 + len(CHAINS) * (len(Role) + len(PHASES) * (1 + STEPS) + STEPS))
    assert len(set(found)) == len(found)


def test_streams_of_neighbouring_steps_are_unrelated() -> None:
    key = role_key(0, Role.SAMPLE, 0)
    draws = jax.jit(jax.vmap(lambda step: jax.random.normal(step_key(key, 0, step), (50,))))(np.arange(40))
    correlations = np.corrcoef(draws)[np.triu_indices(40, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(50)
    assert abs(np.mean(draws)) < 4 / np.sqrt(draws.size)
    assert np.var(draws) == pytest.approx(1, abs=4 * np.sqrt(2 / draws.size))


def test_same_numbers_give_the_same_key() -> None:
    assert words(step_key(role_key(3, Role.SAMPLE, 2), 1, 7)) == words(step_key(role_key(3, Role.SAMPLE, 2), 1, 7))


def test_numbers_and_traced_numbers_give_the_same_key() -> None:
    traced = jax.jit(lambda seed, chain, step: step_key(role_key(seed, Role.SAMPLE, chain), 2, step))
    assert words(traced(np.int32(9), np.int32(4), np.int32(30))) == words(step_key(role_key(9, Role.SAMPLE, 4), 2, 30))
