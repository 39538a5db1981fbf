"""No key is used twice, a key depends on its own numbers alone, and the generator is the published Threefry."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from bnn_atlas.keys import THREEFRY, Role, role_key, root_key, step_key, threefry2x32

pytestmark = pytest.mark.bits

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


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_reference_vectors(key, counter, expected):
    """Known answers of Random123 for Threefry-2x32 with 20 rounds."""
    found = threefry2x32(*(jnp.array(words, jnp.uint32) for words in (key, counter[:1], counter[1:])))
    assert [int(word[0]) for word in found] == list(expected)


def test_equals_the_generator_of_jax():
    key, counters = jnp.array([7, 11], jnp.uint32), jnp.arange(1000, dtype=jnp.uint32)
    ours = jnp.concatenate(threefry2x32(key, counters[:500], counters[500:]))
    np.testing.assert_array_equal(ours, threefry_2x32(key, counters))


@pytest.mark.parametrize("size", [1, 2, 7, 946])
def test_numbers_are_standard_normal_and_do_not_repeat(size):
    keys = jax.random.split(jax.random.key(3, impl=THREEFRY), 20_000 // size)
    draws = np.asarray(jax.vmap(lambda key: jax.random.normal(key, (size,)))(keys)).ravel()
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.03
    bits = np.asarray(jax.random.bits(keys[0], (size,)))
    assert len(np.unique(bits)) == size


def test_streams_of_bits_splits_and_folds_differ():
    key = jax.random.key(5, impl=THREEFRY)
    words = [
        np.asarray(jax.random.bits(key, (200,))),
        np.asarray(jax.random.key_data(jax.random.split(key, 100))).ravel(),
        np.asarray(jax.random.bits(jax.random.fold_in(key, 1), (200,))),
        np.asarray(jax.random.bits(jax.random.fold_in(key, 2), (200,))),
    ]
    assert len(np.unique(np.concatenate(words))) == 800


def test_double_precision_takes_64_bits_each():
    with jax.enable_x64(True):
        draws = np.asarray(jax.random.uniform(jax.random.key(1, impl=THREEFRY), (20_000,), jnp.float64))
    assert draws.dtype == np.float64
    assert np.any(draws.astype(np.float32).astype(np.float64) != draws)
    assert stats.kstest(draws, "uniform").pvalue > 1e-3


def test_vmap_does_not_change_a_stream():
    keys = jax.random.split(jax.random.key(1, impl=THREEFRY), 3)
    together = jax.vmap(lambda key: jax.random.normal(key, (11,)))(keys)
    np.testing.assert_array_equal(together, jnp.stack([jax.random.normal(key, (11,)) for key in keys]))


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match="not 8"):
        jax.random.bits(jax.random.key(0, impl=THREEFRY), (3,), jnp.uint8)


def test_compiler_computes_each_key_once():
    def draws(seed, numbers):
        key = jax.random.key(seed, impl=THREEFRY)
        for number in numbers:
            key = jax.random.fold_in(key, number)
        first, second = jax.random.split(key)
        return jax.random.normal(first, (100,)), jax.random.normal(second, (100,)), jax.random.uniform(key, (7,))

    program = jax.jit(draws).lower(1, jnp.arange(3))
    written, compiled = (text.count(" xor(") for text in (program.as_text("hlo"), program.compile().as_text()))
    assert 0 < compiled < 1.5 * written
