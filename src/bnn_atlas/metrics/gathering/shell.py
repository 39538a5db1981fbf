"""How far draws are from 0, in units of the prior: whether chains are where most of the posterior's mass is."""

import math

import numpy as np

from bnn_atlas.metrics.formulas.chain_mean import error_of_chain_mean
from bnn_atlas.metrics.gathering.by_chains import by_chains
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.traces.draws import Draws

LOG_PRIOR = "log_prior"


def shell_measurements(pool: Draws, kept: np.ndarray, prior_sd: float | None, max_bytes: int) -> list[Measurement]:
    """Mean of theta^2 over the prior variance, and how much it changes between the halves of the chains.

    With P parameters of prior N(0, s^2), a draw theta has

        r = |theta|^2 / (P s^2) = -2 log p(theta) / P - log(2 pi s^2),

    so that it takes the log-prior of the trace alone. Draws from the prior have r = 1, give or take sqrt(2 / P): nearly
    all of its mass is on a thin shell. Where parameters outnumber what the data say of them, the posterior's draws are
    near this shell as well, and a chain that has not left its start is far below it, however smooth its statistics.

    Args:
        pool: the draws.
        kept: indices of the chains that are not excluded.
        prior_sd: s of the prior of all parameters, None where it is another one.
        max_bytes: working memory.

    Returns:
        `prior_shell`, the mean of r over draws and chains, with its Monte Carlo error; and `prior_shell_shift`, the
        mean of the chains' second halves less that of the first, in standard errors of that difference, where there
        are enough draws. Nothing for another prior, and for traces without log-priors.
    """
    if prior_sd is None or not len(kept) or LOG_PRIOR not in pool.statistics:
        return []
    log_prior = np.concatenate([part for _, part in by_chains(pool, (LOG_PRIOR,), max_bytes)])[kept]
    radius = -2 * log_prior / pool.layout.size - math.log(2 * math.pi * prior_sd**2)
    note = f"{pool.layout.size:,} parameters; draws from the prior have 1"
    error = error_of_chain_mean(radius)
    rows = [Measurement("prior_shell", float(radius.mean()), note=note, monte_carlo_error=error if error > 0 else None)]
    if half := radius.shape[1] // 2:
        first, second = radius[:, :half], radius[:, radius.shape[1] - half :]
        error = math.hypot(error_of_chain_mean(first), error_of_chain_mean(second))
        if error > 0:
            shift = float(second.mean() - first.mean()) / error
            note = "second halves of the chains less the first, in standard errors"
            rows.append(Measurement("prior_shell_shift", shift, note=note))
    return rows
