"""What draws predict whose layers are exchanged between the draws of a chain, and what draws predict for other rows."""

from pathlib import Path

import numpy as np

from bnn_atlas.data.split_data import SplitData
from bnn_atlas.inference.virial import layers_of
from bnn_atlas.metrics.gathering.exchange import DRAWS_OF_VALIDATION, Exchange
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


def by_few_draws(draws: Draws, predict: Predict, split: SplitData, of: int | None = None) -> Exchange:
    """Densities of test rows after exchanging layers and, if the posterior is not conditioned on them, validation rows.

    Arguments as in `exchange_of`, with the rows of a split.
    """
    classes = len(split.classes)
    found = exchange_of(draws, predict, split.x_test, split.y_test, classes=classes, of=of)
    if split.validation_in_likelihood:
        return found
    rows, together = (split.x_validation, split.y_validation), len(split.y_test)
    weighing = densities_of_validation(draws, predict, *rows, classes=classes, together=together, of=of)
    return found._replace(validation=weighing)


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
    return Exchange(
        np.asarray(len(each)),
        *(
            _log_densities(part, predict, x, y, classes)
            for part in (_some(draws, each), _some(draws, each, exchanged=True))
        ),
    )


def densities_of_validation(
    draws: Draws,
    predict: Predict,
    x: np.ndarray,
    y: np.ndarray,
    *,
    classes: int,
    together: int,
    of: int | None = None,
) -> np.ndarray:
    """Log [C, m] of the mean density of validation rows by at most `DRAWS_OF_VALIDATION` evenly spread draws a chain.

    At most `together` rows count, evenly spread, and they are filled up to this number with copies of the first, so
    that predictions of as many test rows and these share a compiled program. Empty for a single chain, without rows,
    and for draws that would not fit in `MOST_BYTES`. Other arguments as in `exchange_of`.
    """
    each, chains = evenly(draws.draws, DRAWS_OF_VALIDATION), of or draws.chains
    size = chains * len(each) * draws.size * draws.dtype.itemsize
    if chains < 2 or not len(y) or not together or size > MOST_BYTES:
        return np.empty((0, 0))
    rows = evenly(len(y), together)
    filled = np.concatenate([rows, np.repeat(rows[:1], together - len(rows))])
    return _log_densities(_some(draws, each), predict, x[filled], y[filled], classes)[:, : len(rows)]


def _some(draws: Draws, each: np.ndarray, *, exchanged: bool = False) -> ArrayDraws:
    """These draws of all chains, in memory."""
    values = draws.read(draws=each)
    values = exchanged_layers(draws.layout, values) if exchanged else values
    return ArrayDraws(Path(draws.path), draws.layout, values, {}, draws.chain_ids, draws.draw_ids[each], {})


def _log_densities(draws: Draws, predict: Predict, x: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    return with_targets(summarise(draws, predict, x, y, classes=classes).log_density_by_chain)
