"""Priors, likelihoods and the posterior density over the flat parameter vector."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from jax import Array


class Predictive(NamedTuple):
    """Predictive distribution of `b` draws at `n` rows.

    Regression: N(mean, scale^2) with `mean` and `scale` [b, n]. Classification: `log_probs` [b, n, k], normalised.
    """

    mean: "Array | np.ndarray | None" = None
    scale: "Array | np.ndarray | None" = None
    log_probs: "Array | np.ndarray | None" = None
