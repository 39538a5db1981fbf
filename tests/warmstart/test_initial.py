"""Untrained networks: their law, copies with given transpositions, independence of blocks."""

import numpy as np
import pytest

from bnn_atlas.config.initial import InitialConfig
from bnn_atlas.config.posterior import CategoricalLikelihood, MLPConfig
from bnn_atlas.config.priors import StandardNormalPrior
from bnn_atlas.posterior.density import Posterior, build_posterior
from bnn_atlas.symmetry.groups import SymmetryError, symmetry_of
from bnn_atlas.symmetry.permutation import apply, invert_units, transpositions
from bnn_atlas.warmstart.initial import copy_permutation, initial_networks

MODEL = MLPConfig(hidden=(40, 20))
SEED = 5


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
