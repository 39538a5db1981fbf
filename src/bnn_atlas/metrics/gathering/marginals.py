"""Marginals of the weights: their distance to the prior, and the weights of inputs that the likelihood cannot see."""

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2

from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.traces.draws import Draws, evenly

BINS = 2000
"""Number of equally probable intervals of the prior in which draws are counted: distances are exact to 1 / BINS."""
CIRCLE = float(chi2.ppf(0.95, 2))
"""Squared radius of the circle that holds 95 % of two independent N(0, 1)."""
MOST_DRAWS = 500
"""Largest number of draws of a chain that are counted, evenly spread."""


def marginal_measurements(pool: Draws, kept: np.ndarray, prior_sd: float | None, max_bytes: int) -> list[Measurement]:
    """Standard deviation of each array's draws, and their distance to the prior N(0, prior_sd^2).

    The distance is the Kolmogorov-Smirnov distance max_x |F(x) - Phi(x / prior_sd)|, with F the distribution of the
    draws of all scalars of the array over all chains `kept`: 0 for the prior itself, at most 1. Hidden units can be
    exchanged, so all scalars between two hidden layers have the same marginal, and pooling them does what more chains
    would. `smaller_sign_share` is the share of these draws on the side of 0 that has fewer. A network with one input,
    one hidden layer and one output also has the share of its units' pairs of weights inside the circle that holds 95 %
    of the prior. If `prior_sd` is None there is no such prior, and neither distance nor circle.
    """
    if not len(kept) or pool.draws < 2:
        return []
    arrays = pool.layout.parameters
    counts = np.zeros((len(arrays), BINS), dtype=np.int64)
    sums, squares, positive = np.zeros(len(arrays)), np.zeros(len(arrays)), np.zeros(len(arrays))
    units, inside = _paired_weights(pool), 0
    counted = len(kept) * min(pool.draws, MOST_DRAWS)
    for part in _counted(pool, kept, max_bytes):
        if units is not None and prior_sd is not None:
            first, second = part[..., units[0]].astype(np.float64), part[..., units[1]].astype(np.float64)
            inside += int((first**2 + second**2 <= CIRCLE * prior_sd**2).sum())
        start = 0
        for number, array in enumerate(arrays):
            values = part[..., start : start + array.size].astype(np.float64).ravel()
            start += array.size
            sums[number] += values.sum()
            squares[number] += np.square(values).sum()
            positive[number] += (values > 0).sum()
            if prior_sd is not None:
                place = np.minimum((ndtr(values / prior_sd) * BINS).astype(np.int64), BINS - 1)
                counts[number] += np.bincount(place, minlength=BINS)
    rows = []
    for number, array in enumerate(arrays):
        n = array.size * counted
        mean = sums[number] / n
        sd = float(np.sqrt(max(squares[number] / n - mean**2, 0.0)))
        note = f"{array.size:,} scalars of {len(kept):,} chains together"
        rows.append(Measurement("marginal_sd", sd, note=note, at=array.name))
        share = float(positive[number]) / n
        rows.append(Measurement("smaller_sign_share", min(share, 1 - share), note=note, at=array.name))
        if prior_sd is not None:
            gap = np.abs(np.cumsum(counts[number]) / n - np.arange(1, BINS + 1) / BINS).max()
            rows.append(Measurement("prior_distance", float(gap), note=note, at=array.name))
    if units is not None and prior_sd is not None:
        pairs = (units[0].stop - units[0].start) * counted
        rows.append(Measurement("prior_circle_share", inside / pairs, note=f"{pairs:,} pairs of weights"))
    return rows


def _counted(pool: Draws, kept: np.ndarray, max_bytes: int) -> Iterator[np.ndarray]:
    """The draws [c, s, P] of the chains `kept` that are counted, batch by batch."""
    taken, chosen = np.zeros(pool.draws, dtype=bool), np.zeros(pool.chains, dtype=bool)
    taken[evenly(pool.draws, MOST_DRAWS)] = chosen[kept] = True
    for chains, draws, batch in pool.batches(max_bytes=max_bytes):
        yield batch[chosen[chains]][:, taken[draws]]


def _paired_weights(pool: Draws) -> tuple[slice, slice] | None:
    """Places of the hidden units' incoming and outgoing weights, for one input, one hidden layer and one output."""
    weights = [array for array in pool.layout.parameters if array.role == "weight"]
    if len(weights) != 2 or weights[0].size != weights[1].size:
        return None
    starts = [pool.layout.offset(array.name) for array in weights]
    first, second = (slice(start, start + weights[0].size) for start in starts)
    return first, second


def dead_input_measurements(
    pool: Draws, kept: np.ndarray, dead: np.ndarray | None, max_bytes: int
) -> list[Measurement]:
    """Standard deviation about 0 of the first layer's weights at dead and at live inputs, over all draws together.

    At dead inputs a sampled posterior has the prior's standard deviation, and a maximum of the posterior has 0. `dead`
    [inputs] says which inputs never vary (`bnn_atlas.data.pixels.dead_inputs`); None if unknown. Empty unless there are
    dead and live inputs and the first layer is dense.
    """
    weights = [array for array in pool.layout.parameters if array.role == "weight" and array.layer == 0]
    if dead is None or dead.all() or not dead.any() or not len(kept) or len(weights) != 1:
        return []
    (array,), inputs = weights, dead.ravel()
    if len(array.shape) != 2 or array.shape[1] != len(inputs):
        return []
    start = pool.layout.offset(array.name)
    squares, count = np.zeros(len(inputs)), 0
    for part in _counted(pool, kept, max_bytes):
        weights_of_part = part[..., start : start + array.size].reshape(-1, *array.shape)
        squares += np.square(weights_of_part, dtype=np.float64).sum(axis=(0, 1))
        count += len(weights_of_part) * array.shape[0]
    return [
        Measurement(
            f"weight_sd_{name}_inputs",
            float(np.sqrt(squares[which].mean() / count)),
            note=f"{array.name}: {int(which.sum()):,} of {len(inputs):,} inputs",
        )
        for name, which in (("dead", inputs), ("live", ~inputs))
    ]
