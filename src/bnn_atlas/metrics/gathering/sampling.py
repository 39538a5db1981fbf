"""Measurements of a sampler from the summaries of its chains: acceptance, divergences, energy, step sizes, BFMI."""

from typing import TYPE_CHECKING

import numpy as np

from bnn_atlas.metrics.formulas.averages import error_of_mean
from bnn_atlas.metrics.tables.measurement import Measurement, joined

if TYPE_CHECKING:
    import pandas


LARGEST_BOUNDED_VARIANCE = 0.033
"""Largest energy variance per dimension for which the bound of `covariance_bias` holds for unadjusted MCLMC if all
variances are equal."""


def sampling_measurements(
    chains: "pandas.DataFrame", kept: np.ndarray, dimensions: int, draws: int, steps: int | None
) -> list[Measurement]:
    """Measurements from the sampler's reports, over the chains `kept` (divergences: over all chains).

    `chains` has the columns of `tables.parquet.SAMPLER_SCHEMA`, `dimensions` is the number of parameters, and `steps`
    the number of steps of each chain in the sampling phase, if known.
    """
    used = chains.iloc[kept]
    return [
        *_acceptance(used),
        *_cut_short(used),
        *_divergences(chains, draws, steps),
        *_energy(used, dimensions, draws),
        *_mean_square(used, dimensions, draws),
        *_step_size(used),
    ]


def covariance_bias(variance: float) -> float:
    """Relative error b of a Gaussian target's covariance, from an unadjusted sampler's energy variance v per dimension.

    Solves 4 b^3 / (1 + b)^2 = v for b^2 = |C^-1 S - I|_F^2 / d, with C the covariance of the target and S the
    covariance of the draws. The result is an upper bound for leapfrog steps, and for the steps of unadjusted MCLMC if v
    is at most 0.033 and all variances are equal (`methods.mclmc`). NaN for larger v. Robnik, Cohn-Gordon and Seljak
    2024, arXiv:2412.08876.
    """
    if not 0 <= variance <= LARGEST_BOUNDED_VARIANCE:
        return float("nan")
    from scipy.optimize import brentq  # slow to import

    return float(brentq(lambda b: 4 * b**3 - variance * (1 + b) ** 2, 0.0, 1.0, xtol=1e-14))


def _acceptance(used: "pandas.DataFrame") -> list[Measurement]:
    values = _defined(used, "acceptance_mean")
    if not values.size:
        return []
    return [
        Measurement("acceptance_mean", float(values.mean()), error_of_mean(values), over="chains"),
        Measurement("acceptance_chain_min", float(values.min()), note="mean of the chain with the lowest"),
    ]


def _cut_short(used: "pandas.DataFrame") -> list[Measurement]:
    """Trajectories ended by a limit on doublings of NUTS, leapfrog steps of HMC, or steps of adjusted MCLMC."""
    shares = _defined(used, "cut_short_share")
    if not shares.size:
        return []
    note = "share of the transitions of all chains"
    return [
        Measurement("cut_short_share", float(shares.mean()), note=note),
        Measurement("cut_short_share_chain_max", float(shares.max()), note="of the chain with the most"),
    ]


def _divergences(chains: "pandas.DataFrame", draws: int, steps: int | None) -> list[Measurement]:
    """Steps that were undone because a value was not finite or the energy guard intervened."""
    measurements = []
    total = len(chains)
    note = "steps of all chains"
    for column, metric in (("divergences", "divergence"), ("guarded", "guarded_step")):
        values = _defined(chains, column)
        if not values.size:
            continue
        measurements.append(Measurement(f"{metric}s", float(values.sum()), note=note, chains=total))
        affected = float((values > 0).sum())
        measurements.append(Measurement(f"{metric}s_chains", affected, note="chains with at least one", chains=total))
        if steps:
            share = float(values.sum() / (total * steps))
            measurements.append(Measurement(f"{metric}_share", share, note=f"share of the {note}", chains=total))
    return measurements


def _energy(used: "pandas.DataFrame", dimensions: int, draws: int) -> list[Measurement]:
    """Energy change of the last step before a draw; chains differ in step size and hence in variance."""
    missing = _defined(used, "energy_change_nonfinite")
    if not missing.size:
        return []
    left_out, note = missing.sum(), _left_out(missing, draws)
    variance = _defined(used, "energy_change_sd") ** 2
    return [
        Measurement("energy_change_mean", _pooled_mean(used, "energy_change_mean", missing, draws), note=note),
        Measurement(
            "energy_change_sd", _mean(variance) ** 0.5, note=joined(note, "root of the mean variance of a chain")
        ),
        Measurement("energy_change_variance_per_dimension", _mean(variance) / dimensions, note=note),
        Measurement("energy_change_max_abs", _largest(_defined(used, "energy_change_max_abs")), note=note),
        Measurement("energy_change_nonfinite", float(left_out)),
    ]


def _mean_square(used: "pandas.DataFrame", dimensions: int, draws: int) -> list[Measurement]:
    """E (energy change)^2 / d over all steps and, without a Metropolis test, the resulting bound on the bias."""
    missing = _defined(used, "energy_change_mean_square_nonfinite")
    if not missing.size:
        return []
    value = _pooled_mean(used, "energy_change_mean_square", missing, draws) / dimensions
    rows = [Measurement("energy_change_mean_square_per_dimension", value, note=_left_out(missing, draws))]
    if _defined(used, "acceptance_mean").size:
        return rows
    bias = covariance_bias(value)
    note = (
        "bound on the relative error of a Gaussian target's covariance if its variances are equal; no Metropolis test"
    )
    if np.isnan(bias):
        note = f"no bound is known above an energy variance per dimension of {LARGEST_BOUNDED_VARIANCE:g}"
    return [*rows, Measurement("covariance_bias_bound", bias, note=note)]


def _step_size(used: "pandas.DataFrame") -> list[Measurement]:
    medians = _defined(used, "step_size_median")
    if not medians.size:
        return []
    return [
        Measurement("step_size_min", float(_defined(used, "step_size_min").min()), note="over chains and draws"),
        Measurement("step_size_median", float(np.median(medians)), note="over chains, of each chain's median"),
        Measurement("step_size_max", float(_defined(used, "step_size_max").max()), note="over chains and draws"),
    ]


def _defined(chains: "pandas.DataFrame", column: str) -> np.ndarray:
    values = chains[column].to_numpy(dtype=np.float64)
    return values[np.isfinite(values)]


def _pooled_mean(used: "pandas.DataFrame", column: str, missing: np.ndarray, draws: int) -> float:
    """Mean over all finite values of all chains, from the chains' means; NaN if there are no finite values."""
    means, weights = used[column].to_numpy(dtype=np.float64), draws - missing
    used_chains = weights > 0
    return float(np.average(means[used_chains], weights=weights[used_chains])) if used_chains.any() else float("nan")


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")


def _largest(values: np.ndarray) -> float:
    return float(values.max()) if values.size else float("nan")


def _left_out(missing: np.ndarray, draws: int) -> str:
    total = int(missing.sum())
    return f"{total} of {len(missing) * draws} values are not finite and left out" if total else ""


WITH_MOMENTA = ("hmc", "nuts")
"""Methods that draw a Gaussian momentum in every transition."""


def bfmi_measurements(
    chains: "pandas.DataFrame", kept: np.ndarray, method: str, dimensions: int, temperature: float
) -> list[Measurement]:
    """The lowest BFMI = E Var(E | theta) / Var(E) of a chain, for methods with momenta.

    The energy is E = U + K with U = -(log-likelihood + log-prior) / T. A momentum drawn from N(0, M) makes 2 K
    chi-squared with d degrees of freedom at every theta, so Var(E | theta) = d / 2 and BFMI = (d / 2) / (d / 2 + Var
    U), which can be computed from the draws of U. A value near 0 means that the energy, and with it the log posterior,
    changes only in the small steps of the momentum. Betancourt 2016, arXiv:1604.00695.

    Args:
        chains: one row per chain, columns of `tables.parquet.SAMPLER_SCHEMA`.
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
