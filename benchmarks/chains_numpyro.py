"""NumPyro's side of chains.py: a model in its language, and its `MCMC` with HMC, without adaptation.

https://num.pyro.ai/en/stable/mcmc.html; it has no MCLMC.
"""

import time
from typing import Any

import jax
import numpy as np
import numpyro
from jax import Array
from jax import numpy as jnp
from numpyro import distributions as dist
from numpyro.infer import HMC, MCMC
from numpyro.infer.util import log_density

from work import STEP_SIZE, Loop, Work, length
from workers import serve


def build(work: Work, method: str, arrangement: str) -> Loop:
    """Arrangements of the chains.

    vectorized: `chain_method="vectorized"`, on one device. parallel: one device for each chain, as
    `chain_method="parallel"` has it, and parallel of vectorized: the chains shared out among the devices and vectorised
    on each; both as the documentation of `MCMC` puts a whole `run` into `pmap`, which is compiled once.
    """
    x, y = (jnp.asarray(values) for values in work.data())

    def model(x: Array, y: Array) -> None:
        h = x
        for index, (a, b) in enumerate(zip(work.widths, work.widths[1:], strict=False)):
            weight = numpyro.sample(f"weight{index}", dist.Normal(0, 1).expand((a, b)).to_event(2))
            bias = numpyro.sample(f"bias{index}", dist.Normal(0, 1).expand((b,)).to_event(1))
            h = h @ weight + bias
            if index < len(work.hidden):
                h = jax.nn.relu(h)
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", dist.Normal(h[:, 0], jax.nn.softplus(h[:, 1]) + 1e-6), obs=y)

    names = [{f"weight{i}": weight, f"bias{i}": bias} for i, (weight, bias) in enumerate(next(work.starts()))]
    first = {name: value for layer in names for name, value in layer.items()}
    starts: dict[str, np.ndarray] = {}
    for index in range(len(work.widths) - 1):
        for part, name in enumerate(("weight", "bias")):
            starts[f"{name}{index}"] = np.stack([layers[index][part] for layers in work.starts()])
    steps, leapfrog = work.steps(work.leapfrog_steps), work.leapfrog_steps

    def sample(chains: int, key: Array, start: dict[str, Array]) -> tuple[Any, Any]:
        kernel = HMC(
            model,
            step_size=STEP_SIZE,
            num_steps=leapfrog,
            trajectory_length=None,
            adapt_step_size=False,
            adapt_mass_matrix=False,
        )
        mcmc = MCMC(
            kernel,
            num_warmup=0,
            num_samples=steps,
            num_chains=chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key, x, y, init_params=start)
        return mcmc.get_samples(group_by_chain=True), mcmc.last_state.accept_prob

    devices = jax.device_count()
    per_device = work.chains // devices
    keys = jax.random.split(jax.random.key(0), devices)
    if arrangement == "vectorized":
        loop = jax.jit(lambda key, start: sample(work.chains, key, start))
        arguments = keys[0], starts if work.chains > 1 else first
    else:
        if per_device > 1:
            starts = jax.tree.map(lambda leaf: leaf.reshape(devices, per_device, *leaf.shape[1:]), starts)
        loop = jax.pmap(lambda key, start: sample(per_device, key, start))
        arguments = keys, starts

    def timed(calls: int) -> float:
        begun = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(loop(*arguments))
        return time.perf_counter() - begun

    gradient = jax.jit(jax.grad(lambda values: log_density(model, (x, y), {}, values)[0]))(first)
    return Loop(work.chains * steps * leapfrog, length(list(gradient.values())), timed)


if __name__ == "__main__":
    serve(build, ("numpyro", "jax"))
