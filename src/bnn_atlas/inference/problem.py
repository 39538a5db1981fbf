"""Build a run's posterior and data from files and settings within a memory budget, and predict with its draws."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp

from bnn_atlas import runtime
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.priors import EmpiricalCovariancePrior
from bnn_atlas.data import DataError
from bnn_atlas.data.splitting import SplitData, load_split
from bnn_atlas.placement import Placement
from bnn_atlas.posterior import Predictive
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data
from bnn_atlas.posterior.prior_densities import Prior

OVERHEAD = 2.0
"""Memory of a gradient relative to what its forward pass keeps: the backward pass needs as much again."""


class BudgetError(ValueError):
    """A budget that is too small for the gradient of one row."""


def within_budget(posterior: Posterior, data: PosteriorData, budget: float) -> Posterior:
    """The posterior, set to process these and all other rows in pieces whose gradients need at most `budget` bytes.

    Raises the same error as `fitting_rows`.
    """
    fitting = fitting_rows(posterior, data, budget)
    return posterior._replace(micro_batches=micro_batches(posterior, data, budget), most_rows=fitting)


def micro_batches(posterior: Posterior, data: PosteriorData, budget: float) -> int:
    """Smallest number of micro-batches whose gradients need at most `budget` bytes on one device.

    Raises the same error as `fitting_rows`.
    """
    return math.ceil(-(-len(data.y) // posterior.shards) / fitting_rows(posterior, data, budget))


def fitting_rows(posterior: Posterior, data: PosteriorData, budget: float) -> int:
    """Largest number of rows whose gradient needs at most `budget` bytes on one device.

    The memory of n rows is taken to be 2 n r, with r the bytes that differentiation keeps per row. These are counted
    from the shapes of the residuals, so that the number of rows (which the rounding of a gradient depends on) is the
    same on every machine. The data, the parameters and the state of a sampler are not included.

    Raises:
        BudgetError: a single row needs more than the budget.
    """
    per_row = OVERHEAD * residual_bytes(posterior, data)
    fitting = int(budget // per_row)
    if fitting < 1:
        raise BudgetError(
            f"the gradient of one row needs {per_row / 1e6:.3g} MB, more than gradient_memory_mb allows "
            f"({budget / 1e6:.3g} MB): raise gradient_memory_mb"
        )
    return fitting


def residual_bytes(posterior: Posterior, data: PosteriorData) -> float:
    """Bytes per row that the backward pass of the log-likelihood reads.

    Counting at two batch sizes separates the part that grows with the rows from the constant part (parameters).
    """

    def total(rows: int) -> int:
        def residuals(theta: jax.Array, x: jax.Array, y: jax.Array) -> object:
            return jax.vjp(lambda t: posterior.log_likelihood(t, posterior.network.arrange(x), y), theta)[1]

        shapes = jax.eval_shape(
            residuals,
            jax.ShapeDtypeStruct((posterior.layout.size,), data.prior.loc.dtype),
            *(jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype) for leaf in (data.x, data.y)),
        )
        return sum(math.prod(leaf.shape) * jnp.dtype(leaf.dtype).itemsize for leaf in jax.tree.leaves(shapes))

    few, many = 256, 512
    return (total(many) - total(few)) / (many - few)


class Problem(NamedTuple):
    """A posterior with its data, read from a prepared data set and a split."""

    posterior: Posterior
    data: PosteriorData
    split: SplitData
    config: PosteriorConfig


def load_problem(dataset: str | Path, split: str | Path, settings: Mapping[str, Any], chains: int = 1) -> Problem:
    """The posterior with `settings` (a `PosteriorConfig` in plain values) and the rows that it is conditioned on.

    Gradients are computed in pieces, so that `chains` chains, which a GPU computes together, fit the memory budget. On
    a CPU, each device has one chain at a time, and the pieces do not depend on the number of chains.

    Raises:
        ValueError: rows or labels contradict the data set's own description.
    """
    config, rows = PosteriorConfig.model_validate(settings), load_split(dataset, split)
    posterior, prior = _built(config, rows)
    data = _data(config, rows, rows.x_fit, rows.y_fit, prior)
    at_once = 1 if runtime.on_cpu() else chains
    return Problem(within_budget(posterior, data, 1e6 * config.gradient_memory_mb / at_once), data, rows, config)


def load_without_rows(dataset: str | Path, split: str | Path, settings: Mapping[str, Any]) -> Problem:
    """`load_problem` without the rows: `data` has only their shape and type, enough to predict with given draws."""
    config, rows = PosteriorConfig.model_validate(settings), load_split(dataset, split)
    posterior, prior = _built(config, rows)
    nothing = rows.scaled(rows.dataset.x[:0]), rows.y_fit[:0]
    return Problem(posterior, _data(config, rows, *nothing, prior), rows, config)


def _built(config: PosteriorConfig, rows: SplitData) -> tuple[Posterior, Prior]:
    return build_posterior(
        config.model,
        config.likelihood,
        config.prior,
        temperature=config.temperature,
        shape=rows.shape,
        classes=len(rows.classes),
        vocabulary=rows.vocabulary,
        dtype=jnp.float64 if config.float64 else jnp.float32,
        shards=config.data_shards,
        kernel=config.kernel,
        rows=rows.x_fit if isinstance(config.prior, EmpiricalCovariancePrior) else None,
    )


def _data(config: PosteriorConfig, rows: SplitData, x: np.ndarray, y: np.ndarray, prior: Prior) -> PosteriorData:
    return posterior_data(x, y, prior, config.data_shards, rows.vocabulary, shape=rows.shape, classes=len(rows.classes))


PIECE_BYTES = 64e6
"""Bytes of activations per core, small so that many cores need little memory. A constant, since it changes rounding."""


class Predictor:
    """Predictive distributions of many draws at many rows, computed on all devices of the job.

    Rows are processed in pieces, so that the networks' activations need at most `budget` bytes on each device, and at
    most `PIECE_BYTES` on a core. On a CPU, the pieces, and so the bits of the results, depend neither on the devices
    nor on the other draws.
    """

    def __init__(self, posterior: Posterior, data: PosteriorData, budget: float) -> None:
        """Take a posterior, and data that have the shape and type of its rows; the rows themselves are not needed."""
        self._posterior, self._dtype = posterior, data.prior.loc.dtype
        self._shape, self._whole = data.x.shape[1:], np.issubdtype(data.x.dtype, np.integer)
        self._budget, self._row_bytes = budget, residual_bytes(posterior, data)
        self._compiled: dict[int, tuple[Placement, Callable[[Any, Any], Any]]] = {}

    def __call__(self, theta: np.ndarray, x: np.ndarray) -> Predictive:
        """Predictive distribution of draws theta [b, P] at rows x [n, ...], as host arrays.

        Raises:
            DataError: the rows differ in shape from the rows that the posterior is conditioned on, or only one of these
                two sets of rows has whole numbers (such as tokens or raw pixels).
        """
        self._check(x)
        if len(theta) not in self._compiled:
            place = Placement(len(theta))
            self._compiled[len(theta)] = (place, place.map(self._one))
        place, mapped = self._compiled[len(theta)]
        draws = place.put(np.asarray(theta, self._dtype))
        room = self._budget / len(theta) if place.batched else min(self._budget, PIECE_BYTES)
        pieces = -(-len(x) // int(max(1, room // self._row_bytes)))
        piece = -(-len(x) // pieces)
        kind = x.dtype if self._whole else self._dtype
        parts = []
        for start in range(0, len(x), piece):
            rows = np.asarray(x[start : start + piece], kind)
            filled = np.concatenate([rows, np.repeat(rows[:1], piece - len(rows), axis=0)])
            predicted = place.get(mapped(place.share(filled), draws))
            parts.append(jax.tree.map(partial(_first, len(rows)), predicted))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)

    def _check(self, x: np.ndarray) -> None:
        if x.shape[1:] != self._shape or not len(x):
            raise DataError(
                f"cannot predict an array of shape {list(x.shape)}: this posterior needs at least one row, of shape "
                f"{list(self._shape)}"
            )
        if np.issubdtype(x.dtype, np.integer) != self._whole:
            expected = "token ids (integers)" if self._whole else "floating-point numbers, scaled like the split's rows"
            raise DataError(f"cannot predict rows of {x.dtype}: this posterior needs {expected}")

    def _one(self, x: jax.Array, theta: jax.Array) -> Predictive:
        return jax.tree.map(lambda leaf: leaf[0], self._posterior.predict(theta[None], x))


def _first(count: int, leaf: np.ndarray) -> np.ndarray:
    return leaf[:, :count]
