"""BlackJAX's side of chains.py: its kernels on a model and in loops such as its documentation shows.

https://blackjax-devs.github.io/blackjax/examples/howto_sample_multiple_chains.html
"""

import time
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from jax.scipy.stats import norm

from work import DECOHERENCE, STEP_SIZE, Loop, Work, length
from workers import serve


def log_density(x: np.ndarray, y: np.ndarray) -> Callable[[Any], Array]:
    """Of the posterior, at a list of weights [fan_in, fan_out] and biases."""

    def log_posterior(layers: list[tuple[Array, Array]]) -> Array:
        h = x
        for weight, bias in layers[:-1]:
            h = jax.nn.relu(h @ weight + bias)
        weight, bias = layers[-1]
        outputs = h @ weight + bias
        likelihood = norm.logpdf(y, outputs[:, 0], jax.nn.softplus(outputs[:, 1]) + 1e-6).sum()
        return likelihood + sum(norm.logpdf(leaf).sum() for leaf in jax.tree.leaves(layers))

    return log_posterior


def sampled(step: Callable[[Array, Any], Any], state: Any, keys: Array) -> tuple[Any, Any]:
    """The last state and a position per draw, with keys [draw, step of a draw, ...]."""

    def draw(state: Any, keys: Array) -> tuple[Any, Any]:
        state, _ = jax.lax.scan(lambda state, key: (step(key, state)[0], None), state, keys)
        return state, state.position

    return jax.lax.scan(draw, state, keys)


def build(work: Work, method: str, arrangement: str) -> Loop:
    """Arrangements of the chains.

    vmap: vectorised, on one device. pmap: one device for each chain. pmap of vmap, pmap of map: the chains are shared
    out among the devices, and vectorised or taken one after another on each.
    """
    x, y = (jnp.asarray(values) for values in work.data())
    density = log_density(x, y)
    starts = jax.tree.map(lambda *leaves: np.stack(leaves), *work.starts())
    first = jax.tree.map(lambda leaf: leaf[0], starts)
    if method == "hmc":
        per_step, thinning = work.leapfrog_steps, 1
        scales = jnp.ones(sum(leaf.size for leaf in jax.tree.leaves(first)))
        algorithm = blackjax.hmc(density, STEP_SIZE, scales, per_step)
        steps = work.steps(per_step)
    else:
        per_step = 2
        algorithm = blackjax.mclmc(density, L=DECOHERENCE, step_size=STEP_SIZE)
        steps = work.steps(per_step)
        thinning = 10 if steps % 10 == 0 else 1

    shape = (steps // thinning, thinning)

    def chain(key: Array, state: Any) -> tuple[Any, Any]:
        return sampled(algorithm.step, state, jax.random.split(key, shape))

    def vectorised(keys: Array, states: Any) -> tuple[Any, Any]:
        split = jax.vmap(lambda key: jax.random.split(key, shape), out_axes=2)(keys)
        return sampled(jax.vmap(algorithm.step), states, split)

    def one_by_one(keys: Array, states: Any) -> tuple[Any, Any]:
        return jax.lax.map(lambda pair: chain(*pair), (keys, states))

    key = jax.random.key(0)
    states = jax.jit(jax.vmap(algorithm.init))(starts, jax.random.split(key, work.chains))
    keys = jax.random.split(key, work.chains)
    if arrangement.startswith("pmap of"):
        devices = jax.device_count()
        keys, states = jax.tree.map(lambda leaf: leaf.reshape(devices, -1, *leaf.shape[1:]), (keys, states))
    elif work.chains == 1:
        keys, states = jax.tree.map(lambda leaf: leaf[0], (keys, states))
    loop = {
        "vmap": jax.jit(vectorised if work.chains > 1 else chain),
        "pmap": jax.pmap(chain),
        "pmap of vmap": jax.pmap(vectorised),
        "pmap of map": jax.pmap(one_by_one),
    }[arrangement]

    def timed(calls: int) -> float:
        begun = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(loop(keys, states))
        return time.perf_counter() - begun

    return Loop(work.chains * steps * per_step, length(jax.jit(jax.grad(density))(first)), timed)


if __name__ == "__main__":
    serve(build, ("blackjax", "jax"))
