"""Images of mini-batches that are flipped and cropped at random."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import chi2

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.methods.base import AugmentationConfig
from bnn_atlas.config.methods.optimisation import MAPConfig, SGDConfig
from bnn_atlas.config.methods.sgmcmc import SGLDConfig
from bnn_atlas.config.parts.posterior import CategoricalLikelihood, MLPConfig, StandardNormalPrior
from bnn_atlas.config.settings import load_study
from bnn_atlas.methods.contract import build_method
from bnn_atlas.methods.minibatch import augmented
from bnn_atlas.posterior.density import Posterior, PosteriorData, binder, build_posterior, posterior_data
from tests.config.folders import run_edit, study_file
from tests.data.test_published_splits import REGISTRY

from .fitting import Case, drive

SHAPE = (5, 7, 2)
SETTINGS: dict[str, Any] = {
    "sgld": SGLDConfig(epochs=6, burn_in_epochs=2, ensemble_every=1, batch_size=4, step_size=1e-3),
    "map": MAPConfig(epochs=6, batch_size=4, optimiser=SGDConfig(learning_rate=1e-2)),
}


def _images(count: int = 1) -> np.ndarray:
    """Images in which no two pixels are the same."""
    return np.arange(count * np.prod(SHAPE), dtype=np.float32).reshape(count, *SHAPE)


def _problem(x: np.ndarray) -> tuple[Posterior, PosteriorData]:
    y = np.arange(len(x)) % 3
    posterior, prior = build_posterior(
        MLPConfig(hidden=(4,)), CategoricalLikelihood(), StandardNormalPrior(), temperature=1.0, shape=SHAPE, classes=3
    )
    return posterior, posterior_data(x, y, prior, shape=SHAPE, classes=3)


def _moved(image: np.ndarray, down: int, right: int, flip: bool) -> np.ndarray:
    """By NumPy: enlarged by three pixels on each side, then cut."""
    padded = np.pad(image, ((3, 3), (3, 3), (0, 0)), mode="edge")
    cut = padded[3 + down : 3 + down + SHAPE[0]]
    if flip:
        return cut[:, ::-1][:, 3 + right : 3 + right + SHAPE[1]]
    return cut[:, 3 + right : 3 + right + SHAPE[1]]


@pytest.mark.parametrize(("flip", "crop"), [(True, 0), (False, 1), (True, 1), (False, 3)])
def test_every_change_is_as_likely_as_any_other(flip: bool, crop: int) -> None:
    image, draws = _images()[0], 4000
    config = AugmentationConfig(flip=flip, crop=crop)
    found = np.asarray(augmented(jax.random.key(0), jnp.asarray(np.repeat(image[None], draws, axis=0)), config))
    moves = range(-crop, crop + 1)
    cases = [_moved(image, i, j, f) for i in moves for j in moves for f in ((False, True) if flip else (False,))]
    counts = np.array([(found == case).all(axis=(1, 2, 3)).sum() for case in cases])
    assert counts.sum() == draws, "all are among them"
    expected = draws / len(cases)
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), df=len(cases) - 1) > 1e-3


def test_images_keep_their_places_in_the_batch_and_change_anew() -> None:
    images = jnp.asarray(1000 * np.arange(8)[:, None, None, None] + _images(1))
    config = AugmentationConfig(crop=2)
    first, second = (augmented(jax.random.key(seed), images, config) for seed in (0, 1))
    np.testing.assert_array_equal(np.asarray(first).min(axis=(1, 2, 3)) // 1000, np.arange(8))
    assert not np.array_equal(first, second)


def test_the_estimate_is_that_of_the_images_that_are_given() -> None:
    posterior, data = _problem(_images(6) / 100)
    theta, rows = 0.3 * jnp.sin(jnp.arange(posterior.layout.size, dtype=jnp.float32) ** 2), jnp.array([4, 1])
    changed = data.x[rows][:, :, ::-1]
    target = binder(posterior)(data)
    found = target.estimate(theta, rows, changed)
    value, gradient = posterior.log_likelihood_and_gradient(theta, changed, data.y[rows])
    prior = jax.grad(posterior.log_prior)(theta, data.prior)
    np.testing.assert_allclose(found.density.log_likelihood, 3 * value, rtol=1e-6)
    np.testing.assert_allclose(found.gradient, 3 * gradient + prior, rtol=1e-5, atol=1e-5)
    assert abs(float(found.density.log_likelihood - target.estimate(theta, rows).density.log_likelihood)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_images_that_no_change_alters_give_the_draws_without_one(name: str) -> None:
    """Constant images: the rest of the step, its rows and its noise, is bit by bit the same."""
    config, changed = SETTINGS[name], _images(8) / 100
    constant = np.ones((8, *SHAPE)) * np.linspace(-1, 1, 8)[:, None, None, None]
    for x, same in ((constant, True), (changed, False)):
        posterior, data = _problem(x)
        draws = []
        for augmentation in (None, AugmentationConfig(crop=2)):
            method = build_method(config.model_copy(update={"augmentation": augmentation}), posterior, data)
            draws.append(drive(method, Case(posterior, data), 0.1 * np.ones(posterior.layout.size)).draws)
        assert np.isfinite(draws[1]).all()
        assert np.array_equal(*draws) == same


@pytest.mark.parametrize("kind", [SGLDConfig, MAPConfig])
def test_augmentation_without_mini_batches_is_refused(kind: Any) -> None:
    with pytest.raises(ValidationError, match="augmentation is for mini-batches: give batch_size"):
        kind.model_validate(
            {"batch_size": None, "augmentation": {}} | ({"step_size": 1e-3} if kind is SGLDConfig else {})
        )


def test_augmentation_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="flip: false and crop: 0 change nothing; leave the augmentation out"):
        AugmentationConfig(flip=False, crop=0)


def test_rows_that_are_no_images_are_refused(tmp_path: Any) -> None:
    method = {"kind": "map", "augmentation": {"crop": 1}}

    def edit(study: dict[str, Any]) -> None:
        run_edit(dataset="digits", likelihood={"kind": "categorical"}, split={"kind": "random"}, method=method)(study)
        del study["figures"]

    with pytest.raises(ConfigError, match=r"method\.augmentation: the data set 'digits' has rows of the kind 'table'"):
        load_study(study_file(tmp_path, edit), "laptop", REGISTRY)
