"""Draws whose layers are exchanged between the draws of a chain, and what they predict."""

from pathlib import Path

import numpy as np

from bnn_atlas.inference.virial import layers_of
from bnn_atlas.metrics.gathering.exchange import Exchange
from bnn_atlas.metrics.gathering.streaming import Predict, summarise
from bnn_atlas.metrics.gathering.summary import with_targets
from bnn_atlas.models.layout import Layout
from bnn_atlas.traces.draws import ArrayDraws, Draws, evenly

MOST_DRAWS = 200
"""Largest number of draws of all chains, but at least one for each layer in each chain."""
MOST_BYTES = 2**28
"""Largest size of these draws; more are not exchanged, and there is no measurement."""


def exchanged_layers(layout: Layout, draws: np.ndarray) -> np.ndarray:
    """Draws [C, S, P] in which draw i has layer l of draw i + l floor(S / L) (modulo S) of the same chain, of L layers.

    Every layer keeps its distribution, and no two layers of a draw are of the same draw if S >= L.
    """
    names, layer = layers_of(layout)
    of_scalar = np.repeat(layer, [p.size for p in layout.parameters])
    step, result = draws.shape[1] // len(names), np.empty_like(draws)
    for number in range(len(names)):
        own = of_scalar == number
        result[..., own] = np.roll(draws[..., own], -number * step, axis=1)
    return result


def exchange_of(
    draws: Draws, predict: Predict, x: np.ndarray, y: np.ndarray, *, classes: int, of: int | None = None
) -> Exchange:
    """Densities of the rows x [n, ...] with targets y [n] before and after exchanging layers of evenly spread draws.

    Without chains if the network has one layer, a chain has fewer draws than layers, or the draws would not fit in
    `MOST_BYTES`.

    Args:
        draws: all parameters of the draws.
        predict: predictive distributions of draws.
        x: inputs.
        y: targets or labels.
        classes: number of classes, 0 for regression.
        of: the number of chains of the run, if these are the draws of one block of its chains.
    """
    layers, chains = len(layers_of(draws.layout)[0]), of or draws.chains
    each = evenly(draws.draws, max(layers, MOST_DRAWS // chains))
    size = chains * len(each) * draws.size * draws.dtype.itemsize
    if layers < 2 or len(each) < layers or size > MOST_BYTES:
        return Exchange(np.asarray(len(each)), *np.empty((2, 0, len(y))))
    values = draws.read(draws=each)
    densities = []
    for theta in (values, exchanged_layers(draws.layout, values)):
        part = ArrayDraws(Path(draws.path), draws.layout, theta, {}, draws.chain_ids, draws.draw_ids[each], {})
        densities.append(with_targets(summarise(part, predict, x, y, classes=classes).log_density_by_chain))
    return Exchange(np.asarray(len(each)), *densities)
