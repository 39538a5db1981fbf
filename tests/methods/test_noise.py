"""Standard normals by Box and Muller from counter-based random bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from bnn_atlas.keys import Role, role_key
from bnn_atlas.methods import noise
from bnn_atlas.methods.noise import standard_normal

pytestmark = pytest.mark.bits


def key(number: int = 0) -> jax.Array:
    return role_key(number, Role.SAMPLE, 0)


def test_numbers_are_standard_normal():
    z = np.asarray(standard_normal(key(), jnp.zeros(400_000)), np.float64)
    assert scipy.stats.kstest(z, "norm").pvalue > 0.001
    error = 1 / np.sqrt(len(z))
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10_170)):
        assert abs((z**power).mean() - moment) < 4 * error * np.sqrt(variance)
    for lag in (1, 2, 63, 64):
        assert abs((z[lag:] * z[:-lag]).mean()) < 4 * error
    beyond = (abs(z) > 4).sum()
    assert abs(beyond - len(z) * 2 * scipy.stats.norm.sf(4)) < 4 * np.sqrt(len(z) * 2 * scipy.stats.norm.sf(4))


def test_extreme_bits_give_finite_numbers(monkeypatch):
    corners = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]
    first, second = (jnp.asarray(words.ravel(), jnp.uint32) for words in np.meshgrid(corners, corners))
    monkeypatch.setattr(noise, "threefry2x32", lambda *_: (first, second))
    z = np.asarray(noise._box_muller(jax.random.key_data(key()), first.size))
    assert np.isfinite(z).all()
    assert 6.5 < abs(z).max() < 6.7


def test_functions_are_right_to_float32_rounding():
    x = np.concatenate([np.geomspace(2.0**-32, 1, 20_001), [0.5**0.5, 1.0]]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    np.testing.assert_allclose(noise._log(jnp.asarray(x)), exact, rtol=4e-7, atol=3e-7)
    turn = np.linspace(-0.5, 0.5, 20_001, dtype=np.float32)
    np.testing.assert_allclose(noise._sine(jnp.asarray(turn)), np.sin(np.pi * turn.astype(np.float64)), atol=3e-7)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
def test_first_numbers_do_not_depend_on_how_many_there_are(size):
    longest = np.asarray(standard_normal(key(), jnp.zeros(1000)))
    np.testing.assert_array_equal(standard_normal(key(), jnp.zeros(size)), longest[:size])


def test_keys_differ_and_the_same_key_repeats():
    one, again, other = (np.asarray(standard_normal(key(n), jnp.zeros(1000))) for n in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.13


def test_double_precision_is_that_of_jax():
    with jax.enable_x64(True):
        z = standard_normal(key(), jnp.zeros(5, jnp.float64))
        np.testing.assert_array_equal(z, jax.random.normal(key(), (5,), jnp.float64))
        assert z.dtype == jnp.float64


def test_batched_over_keys():
    both = jax.vmap(lambda each: standard_normal(each, jnp.zeros(100)))(jnp.stack([key(0), key(1)]))
    for row, number in zip(both, (0, 1), strict=True):
        np.testing.assert_allclose(row, standard_normal(key(number), jnp.zeros(100)), rtol=1e-6, atol=1e-7)
