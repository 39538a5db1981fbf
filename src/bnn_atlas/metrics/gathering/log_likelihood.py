"""How well the draws fit the rows that the posterior is conditioned on."""

import numpy as np

from bnn_atlas.metrics.formulas.chain_mean import error_of_chain_mean
from bnn_atlas.metrics.gathering.by_chains import by_chains
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.traces.draws import Draws

LOG_LIKELIHOOD = "log_likelihood"


def log_likelihood_measurements(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """Mean of the untempered log-likelihood over the second halves of the chains `kept`, with its Monte Carlo error.

    Second halves, so that a run that keeps its burn-in has the value to which its chains came. None for traces without
    log-likelihoods.
    """
    if LOG_LIKELIHOOD not in pool.statistics or not len(kept):
        return []
    values = np.concatenate([part for _, part in by_chains(pool, (LOG_LIKELIHOOD,), max_bytes)])[kept]
    late = values[:, values.shape[1] // 2 :]
    error = error_of_chain_mean(late)
    note = f"second halves of the chains, {late.shape[1]:,} draws each"
    return [
        Measurement("log_likelihood", float(late.mean()), note=note, monte_carlo_error=error if error > 0 else None)
    ]
