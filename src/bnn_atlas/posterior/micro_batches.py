"""The number of pieces of a full-data gradient that keeps its memory within a budget."""

import math

import jax
from jax import numpy as jnp

from bnn_atlas.posterior.density import Posterior, PosteriorData

OVERHEAD = 2.0
"""Memory of a gradient relative to what its forward pass keeps: the backward pass needs as much again."""


class BudgetError(ValueError):
    """A budget that is too small for the gradient of one row."""


def within_budget(posterior: Posterior, data: PosteriorData, budget: float) -> Posterior:
    """The posterior, which takes these data, and any other rows, in pieces whose gradients need at most `budget` bytes.

    Raises as `fitting_rows`.
    """
    fitting = fitting_rows(posterior, data, budget)
    return posterior._replace(micro_batches=micro_batches(posterior, data, budget), most_rows=fitting)


def micro_batches(posterior: Posterior, data: PosteriorData, budget: float) -> int:
    """Smallest number of micro-batches whose gradients need at most `budget` bytes on one device.

    Raises as `fitting_rows`.
    """
    return math.ceil(-(-len(data.y) // posterior.shards) / fitting_rows(posterior, data, budget))


def fitting_rows(posterior: Posterior, data: PosteriorData, budget: float) -> int:
    """Largest number of rows whose gradient needs at most `budget` bytes on one device.

    The memory of n rows is taken to be 2 n r, with r the bytes that differentiation keeps per row. These are counted
    from the shapes of the residuals, so that the number of rows (which the rounding of a gradient depends on) is the
    same on every machine. The data, the parameters and the state of a sampler are not included.

    Raises:
        BudgetError: one row needs more.
    """
    per_row = OVERHEAD * residual_bytes(posterior, data)
    fitting = int(budget // per_row)
    if fitting < 1:
        raise BudgetError(
            f"the gradient of one row needs {per_row / 1e6:.3g} MB, more than gradient_memory_mb allows "
            f"({budget / 1e6:.3g} MB): raise it"
        )
    return fitting


def residual_bytes(posterior: Posterior, data: PosteriorData) -> float:
    """Bytes per row that the backward pass of the log-likelihood reads.

    Two batch sizes separate what grows with the rows from what does not (parameters).
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
