"""Monte Carlo error of a mean over the draws of Markov chains.

Not in `autocorrelation`, which the tuning of MCLMC uses, so that an edit here leaves its traces valid.
"""

import numpy as np

from bnn_atlas.metrics.formulas.autocorrelation import ess_mean


def error_of_chain_mean(draws: np.ndarray) -> float:
    """Standard error of the mean over all draws [C, S] of one quantity, sd / sqrt(ESS); NaN where there is no ESS."""
    effective = float(ess_mean(draws[:, :, None])[0])
    return float(np.std(draws, ddof=1)) / effective**0.5 if effective > 0 else float("nan")
