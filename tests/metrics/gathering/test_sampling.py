"""The Bayesian fraction of missing information, against simulated energies."""

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.metrics.gathering.sampling import bfmi_measurements

DIMENSIONS = 40


def chains(*deviations: float) -> pd.DataFrame:
    return pd.DataFrame({"log_posterior_sd": deviations})


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_it_is_the_share_of_the_energy_that_momenta_renew(temperature: float) -> None:
    """Energies of a Gaussian target whose log posterior varies more than that of d independent normals."""
    rng = np.random.default_rng(0)
    log_posterior = rng.normal(scale=9.0, size=400_000)
    kinetic = rng.chisquare(DIMENSIONS, log_posterior.size) / 2
    simulated = kinetic.var() / (kinetic - log_posterior / temperature).var()
    (found,) = bfmi_measurements(chains(log_posterior.std()), np.array([0]), "hmc", DIMENSIONS, temperature)
    assert found.value == pytest.approx(simulated, rel=0.02)


def test_a_normal_target_has_one_half() -> None:
    (found,) = bfmi_measurements(chains((DIMENSIONS / 2) ** 0.5), np.array([0]), "nuts", DIMENSIONS, 1.0)
    assert found.value == pytest.approx(0.5)


def test_the_lowest_of_the_kept_chains_counts_and_other_methods_have_none() -> None:
    several = chains(1.0, 30.0, 500.0, np.nan)
    (found,) = bfmi_measurements(several, np.array([0, 1, 3]), "hmc", DIMENSIONS, 1.0)
    assert found.value == pytest.approx(20 / 920)
    assert bfmi_measurements(several, np.array([0, 1]), "mclmc", DIMENSIONS, 1.0) == []
    assert bfmi_measurements(several, np.array([3]), "hmc", DIMENSIONS, 1.0) == []
