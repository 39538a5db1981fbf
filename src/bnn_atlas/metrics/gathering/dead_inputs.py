"""Weights of inputs that the likelihood says nothing about, beside those of the other inputs."""

import numpy as np

from bnn_atlas.metrics.gathering.marginals import MOST_DRAWS
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.traces.draws import Draws, evenly


def dead_input_measurements(
    pool: Draws, kept: np.ndarray, dead: np.ndarray | None, max_bytes: int
) -> list[Measurement]:
    """Standard deviation about 0 of the first layer's weights of dead and of live inputs, over all draws together.

    In a posterior that has been sampled it is the prior's for dead inputs, and in a maximum of the posterior 0. `dead`
    [inputs] says which inputs never vary (`bnn_atlas.data.dead_pixels.dead_inputs`), None where that is not known. None
    without dead or without live inputs, and for networks whose first layer is not dense.
    """
    weights = [array for array in pool.layout.parameters if array.role == "weight" and array.layer == 0]
    if dead is None or dead.all() or not dead.any() or not len(kept) or len(weights) != 1:
        return []
    (array,), inputs = weights, dead.ravel()
    if len(array.shape) != 2 or array.shape[1] != len(inputs):
        return []
    start = pool.layout.offset(array.name)
    taken, chosen = np.zeros(pool.draws, dtype=bool), np.zeros(pool.chains, dtype=bool)
    taken[evenly(pool.draws, MOST_DRAWS)] = chosen[kept] = True
    squares, count = np.zeros(len(inputs)), 0
    for chains, draws, batch in pool.batches(max_bytes=max_bytes):
        part = batch[chosen[chains]][:, taken[draws], start : start + array.size].reshape(-1, *array.shape)
        squares += np.square(part, dtype=np.float64).sum(axis=(0, 1))
        count += len(part) * array.shape[0]
    return [
        Measurement(
            f"weight_sd_{name}_inputs",
            float(np.sqrt(squares[which].mean() / count)),
            note=f"{array.name}: {int(which.sum()):,} of {len(inputs):,} inputs",
        )
        for name, which in (("dead", inputs), ("live", ~inputs))
    ]
