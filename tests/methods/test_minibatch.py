"""Mini-batches: every row once per epoch, all orders alike, unbiased estimates."""

import math
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from bnn_atlas.keys import Role, role_key, step_key
from bnn_atlas.methods import minibatch
from bnn_atlas.placement import DATA_AXIS
from bnn_atlas.posterior.density import binder

from .problems import network
from .recursions import line


def batches(chain: int, rows: int, batch: int, steps: int, shards: int = 1) -> np.ndarray:
    """Rows [step, shard, batch / shards] of a chain's mini-batches."""

    def device(_: jax.Array) -> jax.Array:
        def step(shuffle: minibatch.Shuffle, index: jax.Array) -> tuple[minibatch.Shuffle, jax.Array]:
            key = step_key(role_key(0, Role.SAMPLE, chain), 0, index)
            return minibatch.next_rows(key, index, shuffle, batch)

        return jax.lax.scan(step, minibatch.start(rows // shards, shards), jnp.arange(steps))[1]

    return np.asarray(jax.jit(jax.vmap(device, axis_name=DATA_AXIS))(jnp.arange(shards))).swapaxes(0, 1)


@pytest.mark.parametrize(("rows", "batch", "shards"), [(12, 4, 1), (14, 4, 1), (7, 7, 1), (24, 8, 2), (28, 8, 4)])
def test_an_epoch_takes_a_row_at_most_once(rows, batch, shards):
    per_epoch = minibatch.batches_per_epoch(rows, batch, shards)
    taken = batches(0, rows, batch, 50 * per_epoch, shards).reshape(50, per_epoch, shards, batch // shards)
    for epoch in taken.swapaxes(1, 2).reshape(50 * shards, -1):
        assert len(np.unique(epoch)) == len(epoch)
        assert set(epoch) <= set(range(rows // shards))
    assert len(np.unique(taken.reshape(50, -1), axis=0)) > (40 if batch > 1 else 1)


def test_chains_and_devices_have_orders_of_their_own():
    first, second = batches(0, 40, 8, 10, shards=2), batches(1, 40, 8, 10, shards=2)
    assert (first != second).any()
    assert (first[:, 0] != first[:, 1]).any()


def test_rows_left_out_of_an_epoch_change():
    taken = batches(0, 10, 4, 2 * 400).reshape(400, 8)
    counts = np.bincount(taken.ravel(), minlength=10)
    assert abs(counts - 320).max() < 5 * np.sqrt(400 * 0.8 * 0.2)


@pytest.mark.parametrize("rows", [1, 2, 3, 100, 5000, 60000])
def test_permutation_is_one(rows):
    order = minibatch.permutation(role_key(0, Role.SHUFFLE, 0), rows)
    assert order.dtype == jnp.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(rows))


def test_all_permutations_are_alike():
    keys = jax.random.split(role_key(0, Role.SHUFFLE, 1), 24 * 500)
    drawn = np.asarray(jax.vmap(lambda key: minibatch.permutation(key, 4))(keys))
    counts = [np.all(drawn == order, axis=1).sum() for order in permutations(range(4))]
    assert chi2.sf(((np.array(counts) - 500) ** 2 / 500).sum(), df=23) > 1e-3


def test_every_row_goes_anywhere_where_several_rounds_are_needed():
    """Place of rows that are neighbours at first, and their distance, over many orders of 400 rows (two rounds)."""
    keys = jax.random.split(role_key(0, Role.SHUFFLE, 2), 2000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: minibatch.permutation(key, 400)))(keys))
    place = np.argsort(drawn, axis=1)
    for value in (place[:, 7], (place[:, 8] - place[:, 7]) % 400 - 1):
        counts = np.bincount(value * 20 // 400, minlength=20)
        assert chi2.sf(((counts - 100) ** 2 / 100).sum(), df=19) > 1e-3


def test_epoch_of_estimates_averages_to_the_full_gradient():
    """With rows that one batch holds exactly once, the mean of the estimates is the full-data evaluation."""
    problem = network()
    target = binder(problem.posterior)(problem.data)
    theta = jnp.asarray(problem.starts[0])
    exact = target.evaluate(theta)
    estimates = [target.estimate(theta, jnp.asarray(rows)) for rows in batches(3, 60, 12, 5)[:, 0]]
    mean = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *estimates)
    np.testing.assert_allclose(mean.gradient, exact.gradient, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(mean.density.log_likelihood, exact.density.log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(mean.density.log_prior, exact.density.log_prior, rtol=1e-6)


def test_epoch_of_estimates_averages_to_the_full_gradient_where_devices_share_rows():
    """Ten rows and two that only fill up, on four devices."""
    shared, alone = line(rows=10, features=3, shards=4), line(rows=10, features=3)
    theta = jnp.asarray([0.3, -0.2, 0.5])
    exact = binder(alone.posterior)(alone.data).evaluate(theta)
    taken = batches(0, 12, 4, 3, shards=4).swapaxes(0, 1)

    def device(data: tuple[jax.Array, jax.Array, jax.Array], rows: jax.Array) -> jax.Array:
        x, y, weights = data
        target = binder(shared.posterior)(shared.data._replace(x=x, y=y, weights=weights))
        return jnp.mean(jax.vmap(lambda chosen: target.estimate(theta, chosen).gradient)(rows), axis=0)

    data = jax.tree.map(lambda leaf: leaf.reshape(4, 3, *leaf.shape[1:]), shared.data[:3])
    mean = jax.vmap(device, axis_name=DATA_AXIS)(data, jnp.asarray(taken))
    for one in mean:
        np.testing.assert_allclose(one, exact.gradient, rtol=1e-5, atol=1e-4)


def test_a_batch_of_all_rows_is_the_full_data():
    problem = network()
    target = binder(problem.posterior)(problem.data)
    theta = jnp.asarray(problem.starts[0])
    (rows,) = batches(0, 60, 60, 1)[0]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3),
        target.estimate(theta, jnp.asarray(rows)),
        target.evaluate(theta),
    )


@pytest.mark.parametrize(
    ("rows", "batch", "shards", "message"),
    [
        (10, 11, 1, r"batch_size \(11\) must be between 1 and the number of rows \(10\): give .*batch_size: null"),
        (10, 0, 1, "must be between 1"),
        (16, 6, 4, "batch_size \\(6\\) .* use a multiple of 4"),
    ],
)
def test_batches_that_do_not_fit_are_refused(rows, batch, shards, message):
    with pytest.raises(ValueError, match=message):
        minibatch.batches_per_epoch(rows, batch, shards)
    with pytest.raises(ValueError, match=message):
        minibatch.next_rows(role_key(0, Role.SAMPLE, 0), jnp.int32(0), minibatch.start(rows // shards, shards), batch)


def test_steps_of_an_epoch():
    assert minibatch.batches_per_epoch(1202, 80) == 15
    assert minibatch.batches_per_epoch(math.prod((4, 301)), 80, shards=4) == 15
