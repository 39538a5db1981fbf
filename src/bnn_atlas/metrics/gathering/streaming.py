"""Summarise a pool's predictions in one pass over the draws, keeping what the scores use."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bnn_atlas.metrics.gathering.chain_statistics import stuck_chains
from bnn_atlas.metrics.gathering.summary import (
    CLASS_BYTES,
    REGRESSION_BYTES,
    PredictiveSummary,
    Terms,
    classification_terms,
    regression_terms,
    running_counts,
)
from bnn_atlas.metrics.tables.measurement import PredictionError
from bnn_atlas.posterior import Predictive
from bnn_atlas.traces.draws import Draws, evenly

Predict = Callable[[np.ndarray, np.ndarray], Predictive]
"""(theta [b, P], x [n, ...]) -> Predictive of b draws at n rows."""


class Limits(NamedTuple):
    """How much of the predictions to keep, and how much memory to use."""

    max_bytes: int = 256 * 2**20
    function_rows: int = 64
    """Rows whose function values are kept for every draw."""
    noise_rows: int = 16
    """Rows whose noise is kept for every draw."""
    running_points: int = 50
    """Largest number of points of a running LPPD."""
    draw_batches: int = 20
    """Batches of consecutive draws whose mean probabilities are kept."""
    mixture_draws: int = 200
    """For regression, draws of all chains together that are kept at all rows; at least one draw of each chain."""


def summarise(
    pool: Draws,
    predict: Predict,
    x: np.ndarray,
    y: np.ndarray | None,
    limits: Limits | None = None,
    *,
    classes: int = 0,
) -> PredictiveSummary:
    """Stream the pool through `predict` at the rows x [n, ...] and summarise, with densities of targets y [n] if given.

    Working memory stays near `limits.max_bytes` (one draw must fit), apart from the memory that `predict` uses. The
    result holds arrays [C, n, k] and [S, n], and for a regression some draws at all rows. Function draws are kept at
    evenly spaced rows and probabilities in batches of draws; fewer rows or batches are kept if they would take more
    than `max_bytes`. `classes` is k, 0 for regression. `predict` receives one shape of theta throughout (short batches
    are padded), so it compiles once. If a chain turns out to be divergent, the pass is repeated without this chain,
    because averages over chains must not contain divergent chains. Raises PredictionError for wrong shapes, labels or
    unnormalised probabilities.
    """
    limits = limits or Limits()
    _check_data(x, y)
    stuck = stuck_chains(pool, limits.max_bytes)
    # If every chain were excluded, no prediction would determine the shapes of the results.
    excluded = stuck & ~stuck.all()
    sums = _stream(pool, predict, x, y, excluded, limits, classes)
    if (sums.divergent & ~excluded).any() and not sums.divergent.all():
        excluded = sums.divergent
        sums = _stream(pool, predict, x, y, excluded, limits, classes)
    sums.divergent |= stuck
    return sums.result(stuck)


class _Sums:
    """Sums over draws and over chains, filled batch by batch."""

    def __init__(self, chains: int, draws: int, rows: int, excluded: np.ndarray, limits: Limits) -> None:
        self.chains, self.draws, self.rows, self.limits = chains, draws, rows, limits
        self.divergent = excluded.copy()
        self.seen = np.zeros(chains, dtype=np.int64)
        self.grid = running_counts(draws, limits.running_points)
        self.by_chain: np.ndarray | None = None
        self.by_draw: np.ndarray | None = None
        self.running: np.ndarray | None = None
        self.averages: dict[str, np.ndarray] = {}
        self.probabilities: np.ndarray | None = None
        self.batch_stops = np.empty(0, dtype=np.int64)
        self.functions = np.empty((chains, draws, 0))
        self.function_rows = np.empty(0, dtype=np.int64)
        self.function_classes = np.empty(0, dtype=np.int64)
        self.log_noise: np.ndarray | None = None
        self.noise_rows = np.empty(0, dtype=np.int64)
        self.mixture_draws = evenly(draws, max(1, limits.mixture_draws // chains))
        self.mixture_mean: np.ndarray | None = None
        self.mixture_log_noise: np.ndarray | None = None

    def allocate(self, terms: Terms) -> None:
        """Allocate the sums for the kind of prediction in the first batch."""
        chains, draws, rows = self.chains, self.draws, self.rows
        if terms.log_density is not None:
            self.by_chain = np.full((chains, rows), -np.inf)
            self.by_draw = np.full((draws, rows), -np.inf)
            self.running = np.full((chains, len(self.grid)), np.nan)
        self.averages = {name: np.zeros((chains, rows)) for name in terms.averages}
        classes = terms.functions.shape[2]
        if terms.probabilities is not None:
            affordable = self.limits.max_bytes // (chains * rows * classes * terms.probabilities.itemsize)
            count = max(1, min(self.limits.draw_batches, draws, affordable))
            self.batch_stops = -(-np.arange(1, count + 1) * draws // count)
            self.probabilities = np.zeros((chains, count, rows, classes))
        affordable = self.limits.max_bytes // (chains * draws * classes * terms.functions.itemsize)
        chosen = evenly(rows, max(1, min(self.limits.function_rows, affordable)))
        self.function_rows = np.repeat(chosen, classes)
        self.function_classes = np.tile(np.arange(classes) if classes > 1 else np.array([-1]), len(chosen))
        self.functions = np.full((chains, draws, len(self.function_rows)), np.nan, dtype=terms.functions.dtype)
        if terms.log_noise is not None:
            one_level = bool((np.ptp(terms.log_noise, axis=1) == 0).all())
            self.noise_rows = chosen[evenly(len(chosen), 1 if one_level else self.limits.noise_rows)]
            self.log_noise = np.full((chains, draws, len(self.noise_rows)), np.nan, dtype=terms.functions.dtype)
            if terms.log_density is not None:
                kept = (chains, len(self.mixture_draws), rows)
                self.mixture_mean, self.mixture_log_noise = np.full((2, *kept), np.nan, dtype=terms.functions.dtype)

    def add(self, chains: np.ndarray, draws: slice, terms: Terms) -> None:
        """Add the terms of all draws in `draws` of each chain in `chains`, one chain at a time."""
        block = (len(chains), draws.stop - draws.start)
        self.divergent[chains] |= ~terms.valid.reshape(block).all(axis=1)
        for name, values in terms.averages.items():
            self.averages[name][chains] += values.reshape(*block, -1).sum(axis=1)
        columns = self.function_classes.clip(min=0)
        self.functions[chains, draws] = terms.functions[:, self.function_rows, columns].reshape(*block, -1)
        if terms.log_noise is not None and self.log_noise is not None:
            self.log_noise[chains, draws] = terms.log_noise[:, self.noise_rows].reshape(*block, -1)
            start, stop = np.searchsorted(self.mixture_draws, (draws.start, draws.stop))
            chosen = self.mixture_draws[start:stop] - draws.start
            for kept, values in ((self.mixture_mean, terms.functions), (self.mixture_log_noise, terms.log_noise)):
                if kept is not None:
                    kept[chains, start:stop] = values.reshape(*block, -1)[:, chosen]
        if terms.probabilities is not None:
            self._add_probabilities(chains, draws, terms.probabilities.reshape(*block, *terms.probabilities.shape[1:]))
        if terms.log_density is not None:
            self._add_density(chains, draws, terms.log_density.reshape(*block, -1))

    def _add_probabilities(self, chains: np.ndarray, draws: slice, values: np.ndarray) -> None:
        assert self.probabilities is not None
        for start, stop in _pieces(draws, self.batch_stops):
            batch = int(np.searchsorted(self.batch_stops, stop))
            self.probabilities[chains, batch] += values[:, start - draws.start : stop - draws.start].sum(axis=1)

    def _add_density(self, chains: np.ndarray, draws: slice, density: np.ndarray) -> None:
        """Advance each chain's log-sum-exp over draws, recording it at the numbers of draws in the grid."""
        assert self.by_chain is not None
        assert self.by_draw is not None
        assert self.running is not None
        self.by_draw[draws] = np.logaddexp(self.by_draw[draws], logsumexp(density, axis=0))
        for start, stop in _pieces(draws, self.grid):
            part = density[:, start - draws.start : stop - draws.start]
            self.by_chain[chains] = np.logaddexp(self.by_chain[chains], logsumexp(part, axis=1))
            point = np.flatnonzero(self.grid == stop)
            self.running[np.ix_(chains, point)] = (self.by_chain[chains].mean(axis=1) - np.log(stop))[:, None]

    def result(self, stuck: np.ndarray) -> PredictiveSummary:
        """The summary: means instead of sums, with divergent chains set to NaN."""
        kept = int((~self.divergent).sum())
        by_draw_of_chain = (self.functions, self.log_noise, self.mixture_mean, self.mixture_log_noise)
        arrays = (self.by_chain, self.running, self.probabilities, *by_draw_of_chain, *self.averages.values())
        for array in arrays:
            if array is not None:
                array[self.divergent] = np.nan
        summary = PredictiveSummary(
            self.draws,
            self.divergent,
            stuck,
            self.grid,
            self.functions,
            self.function_rows,
            self.function_classes,
            running_lppd=self.running,
            log_noise_draws=self.log_noise,
            mixture_mean=self.mixture_mean,
            mixture_log_noise=self.mixture_log_noise,
            **{name: total / self.draws for name, total in self.averages.items()},
        )
        if self.by_chain is not None and self.by_draw is not None:
            by_draw = self.by_draw - np.log(kept) if kept else np.full_like(self.by_draw, np.nan)
            summary = summary._replace(
                log_density_by_chain=self.by_chain - np.log(self.draws), log_density_by_draw=by_draw
            )
        if self.probabilities is not None:
            counts = np.diff(self.batch_stops, prepend=0)
            means = (self.probabilities / counts[:, None, None]).astype(self.functions.dtype)
            summary = summary._replace(probabilities_by_batch=means, batch_stops=self.batch_stops)
        return summary


def _pieces(draws: slice, stops: np.ndarray) -> Iterator[tuple[int, int]]:
    """Starts and stops of the pieces of `draws` after cutting at the `stops` inside `draws`."""
    start = draws.start
    for stop in np.union1d(stops[(stops > draws.start) & (stops <= draws.stop)], [draws.stop]).tolist():
        yield start, stop
        start = stop


def _stream(
    pool: Draws,
    predict: Predict,
    x: np.ndarray,
    y: np.ndarray | None,
    excluded: np.ndarray,
    limits: Limits,
    classes: int,
) -> _Sums:
    """Make one pass over the chains that are not excluded."""
    sums = _Sums(pool.chains, pool.draws, len(x), excluded, limits)
    draw_bytes = pool.layout.size * pool.dtype.itemsize
    term_bytes = len(x) * max(REGRESSION_BYTES, CLASS_BYTES * classes)
    limit = _even_block(max(1, limits.max_bytes // (2 * draw_bytes + term_bytes)), pool)
    block = 0
    for chains, draws, array in pool.batches(max_bytes=limit * draw_bytes):
        _check_batch(sums, chains, draws, array, pool.layout.size)
        block = block or min(limit, array.shape[0] * array.shape[1])
        for rows, columns in _rectangles(array.shape[0], array.shape[1], block):
            ids = np.arange(chains.start, chains.stop)[rows]
            keep = ~excluded[ids]
            part = slice(draws.start + columns.start, draws.start + columns.stop)
            sums.seen[ids] = part.stop
            if not keep.any():
                continue
            terms = _terms(predict, array[rows, columns][keep].reshape(-1, array.shape[2]), x, y, block)
            if not sums.functions.size:
                sums.allocate(terms)
            sums.add(ids[keep], part, terms)
    if (sums.seen != pool.draws).any():
        late = int(np.flatnonzero(sums.seen != pool.draws)[0])
        raise PredictionError(
            f"the pool gave {sums.seen[late]} of {pool.draws} draws of chain {late}; pool the traces again"
        )
    return sums


def _terms(predict: Predict, theta: np.ndarray, x: np.ndarray, y: np.ndarray | None, block: int) -> Terms:
    """Terms of theta [b, P], predicted together with copies of the first draw that fill the block."""
    filled = np.concatenate([theta, np.broadcast_to(theta[:1], (block - len(theta), theta.shape[1]))])
    prediction = _first(predict(filled, x), len(theta), block)
    classification = prediction.log_probs is not None
    if y is not None and classification != np.issubdtype(y.dtype, np.integer):
        raise PredictionError(
            f"predict returned {'log_probs' if classification else 'no log_probs'} but the targets are {y.dtype}: "
            "classification needs integer labels and log_probs; regression must have neither"
        )
    terms = (classification_terms if classification else regression_terms)(prediction, y, len(x))
    return terms._replace(valid=terms.valid & np.isfinite(theta).all(axis=1))


def _first(prediction: Predictive, count: int, block: int) -> Predictive:
    """The predictions of the first `count` draws of a block, as NumPy arrays."""
    for name, part in prediction._asdict().items():
        if part is not None and part.shape[:1] != (block,):
            raise PredictionError(f"predict returned {name} of shape {part.shape} for {block} draws")
    return Predictive(*(None if part is None else np.asarray(part)[:count] for part in prediction))


def _even_block(limit: int, pool: Draws) -> int:
    """Draws per block: at most `limit`, with the last block nearly full, since every block costs the same.

    Blocks smaller than a chain are multiples of the pool's chunks if the chunks fit, like the pool's batches.
    """
    if pool.draws <= limit:
        together = min(pool.chains, limit // pool.draws)
        return pool.draws * -(-pool.chains // -(-pool.chains // together))
    chunk = pool.draws_per_chunk if pool.draws_per_chunk <= limit else 1
    largest = limit - limit % chunk
    fewest = -(-pool.draws // largest)
    blocks = [-(-pool.draws // (count * chunk)) * chunk for count in (fewest, fewest + 1)]
    return min(blocks, key=lambda block: block * -(-pool.draws // block))


def _rectangles(chains: int, draws: int, block: int) -> Iterator[tuple[slice, slice]]:
    """Cut a batch of chains x draws into parts of at most `block` draws, the draws of each chain in order."""
    if draws >= block:
        for chain in range(chains):
            for start in range(0, draws, block):
                yield slice(chain, chain + 1), slice(start, min(start + block, draws))
    else:
        together = block // draws
        for chain in range(0, chains, together):
            yield slice(chain, min(chain + together, chains)), slice(0, draws)


def _check_data(x: np.ndarray, y: np.ndarray | None) -> None:
    if len(x) == 0:
        raise PredictionError("there are no test rows: give the split a test share above 0")
    if y is None:
        return
    if len(x) != len(y) or y.ndim != 1:
        raise PredictionError(f"x has shape {x.shape} and y {y.shape}; expected [n, ...] and [n]")
    if not np.isfinite(y).all():
        raise PredictionError(f"{int((~np.isfinite(y)).sum())} test targets are not finite; clean the data set first")
    if np.issubdtype(y.dtype, np.integer) and y.min() < 0:
        raise PredictionError(f"label {y.min()} is negative; labels count from 0")


def _check_batch(sums: _Sums, chains: slice, draws: slice, array: np.ndarray, parameters: int) -> None:
    if array.shape[2] != parameters:
        raise PredictionError(f"the pool has {array.shape[2]} of {parameters} parameters; predictions need all of them")
    wrong = sums.seen[chains] != draws.start
    if wrong.any():
        chain = chains.start + int(np.flatnonzero(wrong)[0])
        raise PredictionError(
            f"the pool gave draw {draws.start} of chain {chain} after {sums.seen[chain]}; draws must come in order"
        )
