"""Gradients at the draws of a run, reduced to one number per layer, draw and part of the density."""

from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from bnn_atlas.metrics.gathering.virial import Virial
from bnn_atlas.models.layout import Layout
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import Posterior, PosteriorData
from bnn_atlas.traces.draws import Draws, evenly

MOST_DRAWS = 1000
"""Largest number of draws of all chains whose gradient is computed."""
MOST_ROWS = 2_000_000
"""Largest number of rows in all these gradients, so that they take minutes at most: a minibatch method may have seen
fewer. At least two chains with two draws each are used."""
TOGETHER, MOST_BYTES = 32, 2**28
"""Draws that are computed together, on all devices (a GPU batches them), and largest size of these draws, but at least
one draw."""


def layers_of(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Names [L] of the layers, and the layer [A] of each array; parameters outside the layers count as `noise`."""
    names = ["noise" if p.layer is None else f"layer{p.layer}" for p in layout.parameters]
    distinct = list(dict.fromkeys(names))
    return np.array(distinct), np.array([distinct.index(name) for name in names])


def virial_of(posterior: Posterior, data: PosteriorData, draws: Draws, of: int | None = None) -> Virial:
    """-theta . grad of log-likelihood and of log-prior at evenly spread draws of all chains, layer by layer.

    One gradient on all rows for each of at most `MOST_DRAWS` draws, and of at most `MOST_ROWS` rows together. If that
    is fewer than two draws of each chain, chains are left out, evenly. Draws are read `TOGETHER` at a time, and of
    their gradients only one sum per array of the model is kept. No draws if the chains have fewer than two.

    Args:
        posterior: their posterior on one device, within a budget for `TOGETHER` draws.
        data: its rows.
        draws: all parameters of the draws.
        of: the number of chains of the run, if these are the draws of one block of its chains: chains and draws are
            then chosen as among all of them.
    """
    layout = posterior.layout
    names, layer = layers_of(layout)
    sizes = np.bincount(layer, [p.size for p in layout.parameters]).astype(np.int64)
    most = max(4, min(MOST_DRAWS, MOST_ROWS // max(1, len(data.y))))
    chains = evenly(of or draws.chains, most // 2)
    each = evenly(draws.draws, most // len(chains)) if draws.draws > 1 else np.empty(0, np.int64)
    if of:
        chains = chains[np.isin(chains, draws.chain_ids)]
    own = np.flatnonzero(np.isin(draws.chain_ids, chains)) if of else chains
    likelihood, prior = np.full((2, len(chains), len(each), len(names)), np.nan)

    def one(data: Any, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, of_rows = posterior.log_likelihood_and_gradient(theta, data.x, data.y, data.weights)
        of_prior = jax.grad(posterior.log_prior)(theta, data.prior)
        return _by_array(layout, -theta * of_rows), _by_array(layout, -theta * of_prior)

    places = [(chain, place) for chain in range(len(chains)) for place in range(len(each))]
    size = min(TOGETHER, len(places), max(1, MOST_BYTES // (draws.size * draws.dtype.itemsize)))
    if not size:
        return Virial(names, sizes, draws.draws, chains, likelihood, prior)
    place = Placement(size)
    shared, mapped = place.share(data), place.map(one)
    for start in range(0, len(places), size):
        some = places[start : start + size]
        theta = _read(draws, own, each, some)
        filled = np.concatenate([theta, np.repeat(theta[:1], size - len(some), axis=0)])
        found = place.get(mapped(shared, place.put(filled.astype(data.prior.loc.dtype))))
        for target, values in zip((likelihood, prior), found, strict=True):
            by_layer = values[: len(some)].astype(np.float64) @ np.eye(len(names))[layer]
            for (chain, draw), row in zip(some, by_layer, strict=True):
                target[chain, draw] = row
    return Virial(names, sizes, draws.draws, chains, likelihood, prior)


def _by_array(layout: Layout, values: jax.Array) -> jax.Array:
    """Sums [A] over the scalars of each array of a vector [P]."""
    return jnp.stack([jnp.sum(part) for part in layout.unflatten(values).values()])


def _read(draws: Draws, chains: np.ndarray, each: np.ndarray, places: list[tuple[int, int]]) -> np.ndarray:
    """Draws [b, P] at (place in `chains`, place in `each`), which are in order, reading each chain once."""
    parts = []
    for chain in dict.fromkeys(chain for chain, _ in places):
        wanted = [int(each[place]) for own, place in places if own == chain]
        parts.append(draws.read([int(chains[chain])], wanted)[0])
    return np.concatenate(parts)
