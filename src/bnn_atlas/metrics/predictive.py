"""Everything the scores need to know about a pool's predictions, gathered in one pass over the draws."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from scipy.special import logsumexp, ndtr

from bnn_atlas.files import atomic
from bnn_atlas.metrics.pools import DrawPool, Predict
from bnn_atlas.metrics.scores import LOG_2PI
from bnn_atlas.metrics.statistics import standing_chains
from bnn_atlas.posterior.predictive import Predictive

REGRESSION_BYTES = 96
"""Bytes that one draw needs at one row while its terms are computed."""
CLASS_BYTES = 40
"""The same for one class probability."""


class PredictionError(ValueError):
    """The predictions or the data do not have the shape or the meaning that the scores need."""


class PredictiveSummary(NamedTuple):
    """Predictions of C chains of S draws at n rows, averaged over draws or over chains.

    Rows of a divergent chain (one with a non-finite parameter, prediction or density in any draw) are NaN, and
    averages over chains leave it out. A log density of -inf is a value like any other.
    """

    draws: int
    divergent: np.ndarray
    """[C] bool: chains that are left out."""
    standing: np.ndarray
    """[C] bool: those of them that never moved."""
    log_density_by_chain: np.ndarray
    """[C, n] log of the mean density over the draws of a chain."""
    log_density_by_draw: np.ndarray
    """[S, n] log of the mean density over the chains that are not divergent."""
    running_draws: np.ndarray
    """[g] numbers of draws."""
    running_lppd: np.ndarray
    """[C, g] mean over rows of the log mean density over a chain's first draws."""
    function_draws: np.ndarray
    """[C, S, q] the mean function (regression) or class probabilities at chosen rows."""
    function_rows: np.ndarray
    """[q] row of each of the q quantities."""
    function_classes: np.ndarray
    """[q] class of each of the q quantities; -1 for regression."""
    mean: np.ndarray | None = None
    """[C, n] regression: mean over draws of the mean function mu."""
    second_moment: np.ndarray | None = None
    """[C, n] regression: mean over draws of mu^2."""
    noise_variance: np.ndarray | None = None
    """[C, n] regression: mean over draws of sigma^2."""
    pit: np.ndarray | None = None
    """[C, n] regression: mean over draws of Phi((y - mu) / sigma), the chain's predictive CDF at y."""
    probabilities: np.ndarray | None = None
    """[C, n, k] classification: mean over draws of the class probabilities."""

    @property
    def task(self) -> str:
        """`regression` or `classification`."""
        return "regression" if self.probabilities is None else "classification"

    @property
    def kept(self) -> np.ndarray:
        """Numbers of the chains that are not divergent."""
        return np.flatnonzero(~self.divergent)


class Terms(NamedTuple):
    """What b draws contribute at n rows."""

    valid: np.ndarray
    """[b] whether everything about the draw is finite (apart from log densities of -inf)."""
    log_density: np.ndarray
    """[b, n]."""
    averages: dict[str, np.ndarray]
    """Field of PredictiveSummary -> [b, n, ...]."""
    functions: np.ndarray
    """[b, n, k], k = 1 for regression."""


def summarise(
    pool: DrawPool,
    predict: Predict,
    x: np.ndarray,
    y: np.ndarray,
    *,
    max_bytes: int,
    function_rows: int = 64,
    running_points: int = 50,
) -> PredictiveSummary:
    """Stream the pool through `predict` at the rows x [n, d] and summarise against the targets y [n].

    Working memory stays near `max_bytes` (one draw must fit; of `predict`, two layers of the layout's greatest width
    are counted); the result itself holds the arrays [C, n] and [S, n].
    Function draws are kept at up to `function_rows` evenly chosen rows, fewer where they would take more than
    `max_bytes`. `predict` sees one shape of theta throughout (short batches are padded), so it compiles once.
    When a chain turns out divergent, the pass is repeated without it: its draws must not stay in averages over chains.
    Raises PredictionError for wrong shapes, labels or unnormalised probabilities.
    """
    _check_data(x, y)
    excluded = standing = standing_chains(pool, max_bytes)
    sums = _stream(pool, predict, x, y, excluded, max_bytes, function_rows, running_points)
    if (sums.divergent & ~excluded).any() and not sums.divergent.all():
        excluded = sums.divergent
        sums = _stream(pool, predict, x, y, excluded, max_bytes, function_rows, running_points)
    return sums.result(standing)


def running_counts(total: int, points: int) -> np.ndarray:
    """Up to `points` numbers of draws, evenly spaced on a log scale, from 1 to `total`; all numbers where they fit."""
    if total <= points:
        return np.arange(1, total + 1)
    return np.unique(np.geomspace(1, total, points).round().astype(np.int64))


def regression_terms(prediction: Predictive, y: np.ndarray) -> Terms:
    """Terms of N(mean, scale^2): log density, mu, mu^2, sigma^2 and Phi((y - mu) / sigma), in float64."""
    functions = np.asarray(prediction.mean)
    mean, scale = functions.astype(np.float64), np.array(prediction.scale, dtype=np.float64)
    for name, array in (("mean", mean), ("scale", scale)):
        if array.ndim != 2 or array.shape[1] != len(y):
            raise PredictionError(f"predict returned {name} of shape {array.shape}; expected [draws, {len(y)}]")
    valid = np.asarray((np.isfinite(mean) & np.isfinite(scale) & (scale > 0)).all(axis=1))
    mean[~valid], scale[~valid] = 0.0, 1.0
    with np.errstate(over="ignore"):  # a square too large for float64 is a density of 0
        z = (y - mean) / scale
        log_density = -0.5 * (LOG_2PI + z**2) - np.log(scale)
        averages = {"mean": mean, "second_moment": mean**2, "noise_variance": scale**2, "pit": ndtr(z)}
    return Terms(valid, log_density, averages, functions[..., None])


def classification_terms(prediction: Predictive, y: np.ndarray) -> Terms:
    """Terms of a categorical distribution: the log probability of the label, and all probabilities, in float64."""
    log_probs = np.asarray(prediction.log_probs)
    if log_probs.ndim != 3 or log_probs.shape[1] != len(y):
        raise PredictionError(f"predict returned log_probs of shape {log_probs.shape}; expected [draws, {len(y)}, k]")
    if y.max() >= log_probs.shape[2]:
        raise PredictionError(f"label {y.max()} has no probability: predict returned {log_probs.shape[2]} classes")
    # A NaN fails this comparison too; -inf is a probability of 0.
    valid = np.asarray((log_probs < np.inf).all(axis=(1, 2)))
    log_probs = np.where(valid[:, None, None], log_probs, 0.0)
    probabilities = np.exp(log_probs, dtype=np.float64)
    total = probabilities[valid].sum(axis=2)
    if total.size and np.abs(total - 1).max() > 1e-3:
        raise PredictionError("log_probs are not normalised: probabilities of a row do not add up to 1 within 0.001")
    density = np.take_along_axis(log_probs, y[None, :, None], axis=2)[..., 0].astype(np.float64)
    return Terms(valid, density, {"probabilities": probabilities}, probabilities.astype(log_probs.dtype))


def save(path: str | Path, summary: PredictiveSummary) -> None:
    """Write a summary as .npz."""
    arrays = {name: value for name, value in summary._asdict().items() if value is not None}
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, **arrays)


def load(path: str | Path) -> PredictiveSummary:
    """Read what `save` wrote; PredictionError names the file and the arrays that are missing or unknown."""
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as source:
            arrays = {name: source[name] for name in source.files}
    except (ValueError, EOFError, BadZipFile) as error:
        raise PredictionError(f"{path}: not an .npz file ({error}); delete it and run its rule again") from None
    required = set(PredictiveSummary._fields) - set(PredictiveSummary._field_defaults)
    missing, unknown = required - set(arrays), set(arrays) - set(PredictiveSummary._fields)
    if missing or unknown:
        raise PredictionError(
            f"{path}: not a predictive summary (missing: {', '.join(sorted(missing)) or 'none'}; "
            f"unknown: {', '.join(sorted(unknown)) or 'none'})"
        )
    return PredictiveSummary(**{**arrays, "draws": int(arrays["draws"])})


class _Sums:
    """Sums over draws and over chains, filled batch by batch."""

    def __init__(self, chains: int, draws: int, rows: int, excluded: np.ndarray, running_points: int):
        self.draws = draws
        self.divergent = excluded.copy()
        self.seen = np.zeros(chains, dtype=np.int64)
        self.by_chain = np.full((chains, rows), -np.inf)
        self.by_draw = np.full((draws, rows), -np.inf)
        self.grid = running_counts(draws, running_points)
        self.running = np.full((chains, len(self.grid)), np.nan)
        self.averages: dict[str, np.ndarray] = {}
        self.functions = np.empty((chains, draws, 0))
        self.function_rows = np.empty(0, dtype=np.int64)
        self.function_classes = np.empty(0, dtype=np.int64)

    def allocate(self, terms: Terms, function_rows: int, max_bytes: int) -> None:
        """Make room for what the first batch shows the model to predict."""
        chains, rows = self.by_chain.shape
        for name, values in terms.averages.items():
            self.averages[name] = np.zeros((chains, *values.shape[1:]))
        classes = terms.functions.shape[2]
        affordable = max_bytes // (chains * self.draws * classes * terms.functions.itemsize)
        chosen = _evenly(rows, max(1, min(function_rows, affordable)))
        self.function_rows = np.repeat(chosen, classes)
        self.function_classes = np.tile(np.arange(classes) if classes > 1 else np.array([-1]), len(chosen))
        shape = (chains, self.draws, len(self.function_rows))
        self.functions = np.full(shape, np.nan, dtype=terms.functions.dtype)

    def add(self, chains: np.ndarray, draws: slice, terms: Terms) -> None:
        """Add the terms of all draws in `draws` of each chain in `chains`, chain after chain."""
        block = (len(chains), draws.stop - draws.start)
        density = terms.log_density.reshape(*block, -1)
        self.divergent[chains] |= ~terms.valid.reshape(block).all(axis=1)
        for name, values in terms.averages.items():
            self.averages[name][chains] += values.reshape(*block, *values.shape[1:]).sum(axis=1)
        columns = self.function_classes.clip(min=0)
        self.functions[chains, draws] = terms.functions[:, self.function_rows, columns].reshape(*block, -1)
        self.by_draw[draws] = np.logaddexp(self.by_draw[draws], logsumexp(density, axis=0))
        self._run(chains, draws, density)

    def _run(self, chains: np.ndarray, draws: slice, density: np.ndarray) -> None:
        """Advance each chain's log-sum-exp over draws, stopping at the numbers of draws in the grid."""
        inside = (self.grid > draws.start) & (self.grid <= draws.stop)
        stops = np.union1d(self.grid[inside], [draws.stop])
        start = draws.start
        for stop in stops:
            part = density[:, start - draws.start : stop - draws.start]
            self.by_chain[chains] = np.logaddexp(self.by_chain[chains], logsumexp(part, axis=1))
            point = np.flatnonzero(self.grid == stop)
            self.running[np.ix_(chains, point)] = (self.by_chain[chains].mean(axis=1) - np.log(stop))[:, None]
            start = stop

    def result(self, standing: np.ndarray) -> PredictiveSummary:
        """Means instead of sums, with divergent chains set to NaN."""
        kept = int((~self.divergent).sum())
        by_draw = self.by_draw - np.log(kept) if kept else np.full_like(self.by_draw, np.nan)
        for array in (self.by_chain, self.running, self.functions, *self.averages.values()):
            array[self.divergent] = np.nan
        return PredictiveSummary(
            self.draws,
            self.divergent,
            standing,
            self.by_chain - np.log(self.draws),
            by_draw,
            self.grid,
            self.running,
            self.functions,
            self.function_rows,
            self.function_classes,
            **{name: total / self.draws for name, total in self.averages.items()},
        )


def _stream(
    pool: DrawPool,
    predict: Predict,
    x: np.ndarray,
    y: np.ndarray,
    excluded: np.ndarray,
    max_bytes: int,
    function_rows: int,
    running_points: int,
) -> _Sums:
    """One pass over the chains that are not excluded."""
    sums = _Sums(pool.chains, pool.draws, len(y), excluded, running_points)
    draw_bytes = pool.layout.size * pool.dtype.itemsize
    limit = max(1, max_bytes // (2 * draw_bytes + _activation_bytes(pool, len(y)) + _term_bytes(y)))
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
            if not sums.averages:
                sums.allocate(terms, function_rows, max_bytes)
            sums.add(ids[keep], part, terms)
    if (sums.seen != pool.draws).any():
        late = int(np.flatnonzero(sums.seen != pool.draws)[0])
        raise PredictionError(
            f"the pool gave {sums.seen[late]} of {pool.draws} draws of chain {late}; pool the traces again"
        )
    return sums


def _terms(predict: Predict, theta: np.ndarray, x: np.ndarray, y: np.ndarray, block: int) -> Terms:
    """Terms of theta [b, P], predicted together with copies of the first draw that fill the block."""
    filled = np.concatenate([theta, np.broadcast_to(theta[:1], (block - len(theta), theta.shape[1]))])
    prediction = _first(predict(filled, x), len(theta), block)
    classification = prediction.log_probs is not None
    if classification != np.issubdtype(y.dtype, np.integer):
        raise PredictionError(
            f"predict returned {'log_probs' if classification else 'no log_probs'} but the targets are {y.dtype}: "
            "classification needs integer labels and log_probs, regression neither"
        )
    terms = classification_terms(prediction, y) if classification else regression_terms(prediction, y)
    return terms._replace(valid=terms.valid & np.isfinite(theta).all(axis=1))


def _first(prediction: Predictive, count: int, block: int) -> Predictive:
    """The prediction of the first `count` of a block of draws, as NumPy arrays."""
    for name, part in prediction._asdict().items():
        if part is not None and part.shape[:1] != (block,):
            raise PredictionError(f"predict returned {name} of shape {part.shape} for {block} draws")
    return Predictive(*(None if part is None else np.asarray(part)[:count] for part in prediction))  # type: ignore[arg-type]


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


def _activation_bytes(pool: DrawPool, rows: int) -> int:
    """Bytes of two of a network's widest layers at all rows: what `predict` needs for one draw."""
    return 2 * rows * max(p.fan_out for p in pool.layout.parameters) * pool.dtype.itemsize


def _term_bytes(y: np.ndarray) -> int:
    """Bytes that the terms of one draw need at all rows."""
    if np.issubdtype(y.dtype, np.integer):
        return len(y) * CLASS_BYTES * (int(y.max()) + 1)
    return len(y) * REGRESSION_BYTES


def _evenly(rows: int, count: int) -> np.ndarray:
    """Up to `count` row numbers, evenly spaced from the first to the last row."""
    return np.unique(np.linspace(0, rows - 1, min(count, rows)).round().astype(np.int64))


def _check_data(x: np.ndarray, y: np.ndarray) -> None:
    if len(x) != len(y) or y.ndim != 1:
        raise PredictionError(f"x has shape {x.shape} and y {y.shape}; expected [n, d] and [n]")
    if len(y) == 0:
        raise PredictionError("there are no test rows: give the split a test share above 0")
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
