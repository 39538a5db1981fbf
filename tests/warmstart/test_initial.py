"""Untrained networks: those that the layers' initialisers make, and draws from one normal distribution."""

from typing import Any

import numpy as np
import pytest
from jax import numpy as jnp
from pydantic import ValidationError
from scipy import stats

from bnn_atlas.config.initial import InitialConfig
from bnn_atlas.config.posterior import LearnedNoiseLikelihood, MLPConfig
from bnn_atlas.config.priors import StandardNormalPrior
from bnn_atlas.config.studies import RunConfig
from bnn_atlas.posterior.density import Posterior, build_posterior
from bnn_atlas.warmstart.ensemble import initialise
from bnn_atlas.warmstart.initial import initial_networks
from tests.config.folders import RUN

NORMAL = InitialConfig(distribution="normal", scale=0.005)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """11 x 40 + 40 + 40 + 1 parameters of the network and one of the noise."""
    model = MLPConfig(hidden=(40, 40), activation="relu")
    return build_posterior(model, LearnedNoiseLikelihood(), StandardNormalPrior(), temperature=1.0, shape=(3,))[0]


def test_every_parameter_is_from_the_normal_but_that_of_the_noise(posterior: Posterior) -> None:
    (drawn,) = initial_networks(posterior, NORMAL, np.array([4]), 7)
    assert drawn.shape == (posterior.layout.size,)
    assert drawn.dtype == np.float32
    weights, noise = drawn[:-1], drawn[-1]
    assert stats.kstest(weights / 0.005, "norm").pvalue > 0.01
    biases = np.concatenate(
        [part.ravel() for name, part in posterior.layout.unflatten(drawn).items() if "bias" in name]
    )
    assert biases.std() == pytest.approx(0.005, rel=0.3), "biases do not start at zero"
    assert noise == 0


def test_a_network_depends_on_the_seed_and_its_number_alone(posterior: Posterior) -> None:
    together = initial_networks(posterior, NORMAL, np.array([0, 1, 2]), 7)
    assert len(np.unique(together, axis=0)) == 3
    assert initial_networks(posterior, NORMAL, np.array([2]), 7).tobytes() == together[2].tobytes()
    assert not np.array_equal(initial_networks(posterior, NORMAL, np.array([2]), 8)[0], together[2])
    wider = initial_networks(posterior, InitialConfig(distribution="normal", scale=0.05), np.array([0, 1, 2]), 7)
    np.testing.assert_allclose(wider, 10 * together, rtol=1e-6)


def test_by_default_the_layers_decide(posterior: Posterior) -> None:
    made = initial_networks(posterior, InitialConfig(), np.array([0, 1]), 7)
    np.testing.assert_array_equal(made, initialise(posterior, np.array([0, 1]), 7, jnp.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial": {"distribution": "normal"}}, "'normal' needs initial.scale"),
        ({"initial": {"scale": 0.1}}, r"initial.scale \(0.1\) is for initial.distribution 'normal', not 'default'"),
        ({"initial": {"distribution": "normal", "scale": 0}}, "initial.scale"),
        ({"warmstart": {}, "initial": {}}, "set warmstart: null and leave start out, or leave initial out"),
        ({"start": {"run": "two"}, "initial": {}}, "set warmstart: null and leave start out"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RunConfig.model_validate(RUN | {"warmstart": None} | changes)


def test_a_run_without_the_section_has_the_settings_of_earlier_releases() -> None:
    assert "initial" not in RunConfig.model_validate(RUN).model_dump()
