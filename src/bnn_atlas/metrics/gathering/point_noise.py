"""Whether a noise that is one number has arrived where the objective of its fit is largest."""

import numpy as np

from bnn_atlas.metrics.gathering.by_chains import by_chains
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.traces.draws import Draws

OPTIMAL = "noise_sd_optimal"


def point_noise_measurements(pool: Draws, kept: np.ndarray, rows: int | None, max_bytes: int) -> list[Measurement]:
    """The noise that maximises the mean log-likelihood of the draws of the chains `kept`, functions as they are.

    That is sqrt(E r^2 / N) with r^2 the sum of squares of the residuals of N = `rows` rows, where a fit whose noise is
    one number has its optimum, whatever its prior, entropy and temperature. From a draw's log-likelihood l,
    r^2 = -2 s^2 (l + N log s + N/2 log 2 pi) at its noise s. Of chains whose noises differ it is the root mean square.
    None for a noise with a spread, for single draws, which do not tell, and for methods that fit nothing.
    """
    noise_at = pool.layout.size - 1
    fitted = "elbo" in pool.statistics and pool.layout.names()[noise_at] == "log_sigma"
    if rows is None or not fitted or not len(kept) or pool.draws < 2:
        return []
    log_noise = pool.read(slice(None), slice(None), [noise_at])[kept, :, 0].astype(float)
    if (log_noise != log_noise[:, :1]).any():
        return []
    parts = [part for _, part in by_chains(pool, ("log_likelihood",), max_bytes)]
    likelihood = np.concatenate(parts)[kept].astype(float)
    squares = -2 * np.exp(2 * log_noise) * (likelihood + rows * (log_noise + 0.5 * np.log(2 * np.pi)))
    own = np.sqrt(squares.mean(axis=1) / rows)
    return [Measurement(OPTIMAL, float(np.sqrt(np.mean(own**2))), note="for the functions of the draws")]
