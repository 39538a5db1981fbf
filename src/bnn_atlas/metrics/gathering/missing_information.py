"""The Bayesian fraction of missing information of chains whose momenta are drawn afresh (HMC and NUTS)."""

from typing import TYPE_CHECKING

import numpy as np

from bnn_atlas.metrics.tables.measurement import Measurement

if TYPE_CHECKING:
    import pandas

WITH_MOMENTA = ("hmc", "nuts")
"""Methods that draw a Gaussian momentum for every transition."""


def bfmi_measurements(
    chains: "pandas.DataFrame", kept: np.ndarray, method: str, dimensions: int, temperature: float
) -> list[Measurement]:
    """BFMI = E Var(E | theta) / Var(E) of the chain with the lowest, for methods with momenta.

    The energy is E = U + K with U = -(log-likelihood + log-prior) / T. A momentum drawn from N(0, M) makes 2 K
    chi-squared with d degrees of freedom at every theta, so Var(E | theta) = d / 2, BFMI = (d / 2) / (d / 2 + Var U):
    it takes the draws of U alone, and no energies of transitions. Values near 0 say that the energy, and with it the
    log posterior, changes by small steps of the momentum only. Betancourt 2016, arXiv:1604.00695.

    Args:
        chains: one row per chain, columns of `tables.files.SAMPLER_SCHEMA`.
        kept: indices of the chains that are not excluded.
        method: kind of the method.
        dimensions: d, the number of parameters.
        temperature: T.
    """
    deviations = chains["log_posterior_sd"].to_numpy(float)[kept] / temperature
    deviations = deviations[np.isfinite(deviations)]
    if method not in WITH_MOMENTA or not deviations.size:
        return []
    return [Measurement("bfmi_min", float((dimensions / 2 / (dimensions / 2 + deviations**2)).min()))]
