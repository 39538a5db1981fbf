"""Untrained networks: their law, copies with given transpositions, independence of blocks."""

from typing import Any

import numpy as np
import pytest
from jax import numpy as jnp
from pydantic import ValidationError
from scipy import stats

from bnn_atlas.config.parts.posterior import CategoricalLikelihood, LearnedNoiseLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.config.parts.starts import InitialConfig
from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.posterior.density import Posterior, build_posterior
from bnn_atlas.symmetry.groups import SymmetryError, symmetry_of
from bnn_atlas.symmetry.permutation import apply, invert_units, transpositions
from bnn_atlas.warmstart.ensemble import initialise
from bnn_atlas.warmstart.initial import copy_permutation, initial_networks
from tests.config.folders import RUN

pytestmark = pytest.mark.bits

MODEL = MLPConfig(hidden=(40, 20))
REGRESSION = MLPConfig(hidden=(40, 40), activation="relu")
SEED = 5
NORMAL = InitialConfig(distribution="normal", scale=0.005)


@pytest.fixture(scope="module")
def regression() -> Posterior:
    """11 x 40 + 40 + 40 + 1 parameters of the network and one of the noise."""
    likelihood = LearnedNoiseLikelihood()
    return build_posterior(REGRESSION, likelihood, StandardNormalPrior(), temperature=1.0, shape=(3,))[0]


def test_every_parameter_is_from_the_normal_but_that_of_the_noise(regression: Posterior) -> None:
    (drawn,) = initial_networks(regression, REGRESSION, NORMAL, np.array([4]), 7)
    assert drawn.shape == (regression.layout.size,)
    assert drawn.dtype == np.float32
    weights, noise = drawn[:-1], drawn[-1]
    assert stats.kstest(weights / 0.005, "norm").pvalue > 0.01
    biases = np.concatenate(
        [part.ravel() for name, part in regression.layout.unflatten(drawn).items() if "bias" in name]
    )
    assert biases.std() == pytest.approx(0.005, rel=0.3), "biases do not start at zero"
    assert noise == 0


def test_a_network_depends_on_the_seed_and_its_number_alone(regression: Posterior) -> None:
    together = initial_networks(regression, REGRESSION, NORMAL, np.array([0, 1, 2]), 7)
    assert len(np.unique(together, axis=0)) == 3
    assert initial_networks(regression, REGRESSION, NORMAL, np.array([2]), 7).tobytes() == together[2].tobytes()
    assert not np.array_equal(initial_networks(regression, REGRESSION, NORMAL, np.array([2]), 8)[0], together[2])
    wider = initial_networks(
        regression, REGRESSION, InitialConfig(distribution="normal", scale=0.05), np.array([0, 1, 2]), 7
    )
    np.testing.assert_allclose(wider, 10 * together, rtol=1e-6)


def test_by_default_the_layers_decide(regression: Posterior) -> None:
    made = initial_networks(regression, REGRESSION, InitialConfig(), np.array([0, 1]), 7)
    np.testing.assert_array_equal(made, initialise(regression, np.array([0, 1]), 7, jnp.float32))


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


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return build_posterior(
        MODEL, CategoricalLikelihood(), StandardNormalPrior(), temperature=1.0, shape=(30,), classes=4
    )[0]


def drawn(posterior: Posterior, members: list[int], **settings) -> np.ndarray:
    return initial_networks(posterior, MODEL, InitialConfig(**settings), np.array(members), SEED)


def test_kaiming_uniform_is_uniform_within_the_root_of_the_fan_in(posterior: Posterior) -> None:
    theta = drawn(posterior, list(range(20)), distribution="kaiming_uniform")
    for name, fan_in in (("layer0", 30), ("layer1", 40), ("layer2", 20)):
        for array in ("bias", "weight"):
            values = posterior.layout.unflatten(theta)[f"{name}.{array}"].ravel() * np.sqrt(fan_in)
            assert np.abs(values).max() <= 1.0
            assert values.var() == pytest.approx(1 / 3, rel=0.25)
            assert abs(values.mean()) < 5 / np.sqrt(3 * values.size)
    assert len(np.unique(theta, axis=0)) == 20


def test_copies_have_the_given_transpositions_and_are_the_same_function(posterior: Posterior) -> None:
    theta = drawn(posterior, [0, 1, 2, 3, 4, 5], transpositions=(0, 1, 19))
    symmetry = symmetry_of(MODEL, posterior.layout)
    x = np.random.default_rng(0).normal(size=(9, 30)).astype(np.float32)
    outputs = np.asarray(posterior.predict(theta, x).log_probs)
    np.testing.assert_array_equal(theta[0], theta[1])
    for pair, count in enumerate((0, 1, 19)):
        first, second = 2 * pair, 2 * pair + 1
        np.testing.assert_allclose(outputs[second], outputs[first], atol=1e-5)
        planted = copy_permutation(symmetry, InitialConfig(transpositions=(0, 1, 19)), SEED, second)
        assert [int(transpositions(part)) for part in symmetry.split(planted)] == [count, count]
        np.testing.assert_array_equal(apply(symmetry, theta[first], planted), theta[second])
        back = apply(symmetry, theta[second], invert_units(symmetry, planted))
        np.testing.assert_array_equal(back, theta[first])
    assert np.abs(theta[2] - theta[4]).max() > 0.1, "pairs start from networks of their own"


def test_blocks_change_no_bit(posterior: Posterior) -> None:
    settings = {"distribution": "kaiming_uniform", "transpositions": (3, 7)}
    whole = drawn(posterior, [0, 1, 2, 3], **settings)
    np.testing.assert_array_equal(drawn(posterior, [3, 0], **settings), whole[[3, 0]])


def test_more_transpositions_than_a_layer_has_are_refused(posterior: Posterior) -> None:
    with pytest.raises(SymmetryError, match="20 units has 0 to 19 transpositions, not 20"):
        drawn(posterior, [0, 1], transpositions=(20,))
