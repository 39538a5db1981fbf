"""Class probabilities averaged over a finite orbit of each image: an exact likelihood."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.methods.base import AugmentationConfig
from bnn_atlas.config.parts.posterior import CategoricalLikelihood, LeNettiConfig, MLPConfig, StandardNormalPrior
from bnn_atlas.config.settings import load_study
from bnn_atlas.methods.minibatch import augmented
from bnn_atlas.models.networks import ShapeError, orbit_of
from bnn_atlas.posterior.density import Posterior, PosteriorData, binder, build_posterior, posterior_data
from tests.config.folders import run_edit, study_file
from tests.data.test_published_splits import REGISTRY

SHAPE, CLASSES = (6, 5, 1), 3
ORBIT = AugmentationConfig(flip=True, crop=1)
MODELS: dict[str, Any] = {"mlp": MLPConfig(hidden=(4,), activation="tanh"), "lenetti": LeNettiConfig()}


def _problem(model: Any, orbit: AugmentationConfig | None, rows: int = 7) -> tuple[Posterior, PosteriorData]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, *SHAPE)), rng.integers(0, CLASSES, rows)
    posterior, prior = build_posterior(
        model, CategoricalLikelihood(orbit=orbit), StandardNormalPrior(), temperature=1.0, shape=SHAPE, classes=CLASSES
    )
    return posterior, posterior_data(x, y, prior, shape=SHAPE, classes=CLASSES)


def _theta(posterior: Posterior) -> jax.Array:
    return 0.5 * jax.random.normal(jax.random.key(1), (posterior.layout.size,))


def test_the_orbit_is_what_an_augmentation_draws_from() -> None:
    image = jnp.arange(np.prod(SHAPE), dtype=jnp.float32).reshape(1, *SHAPE)
    orbit = np.asarray(orbit_of(image, ORBIT))[:, 0]
    assert len(orbit) == len(np.unique(orbit.reshape(len(orbit), -1), axis=0)) == 18
    drawn = np.asarray(augmented(jax.random.key(0), jnp.repeat(image, 500, axis=0), ORBIT))
    assert {one.tobytes() for one in drawn} == {one.tobytes() for one in orbit}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_likelihood_and_predictions_are_means_over_the_orbit(name: str) -> None:
    """Against the plain network's probabilities of every changed image, averaged by NumPy; the gradient by JAX."""
    plain, data = _problem(MODELS[name], None)
    posterior, _ = _problem(MODELS[name], ORBIT)
    theta = _theta(plain)
    assert posterior.layout == plain.layout
    assert posterior.kernel is None

    def mean(theta: jax.Array) -> jax.Array:
        return jnp.exp(jax.vmap(lambda view: plain.predict(theta[None], view).log_probs[0])(views)).mean(axis=0)

    views = orbit_of(data.x, ORBIT)
    expected = np.asarray(mean(theta))
    found = np.exp(np.asarray(posterior.predict(theta[None], data.x).log_probs[0]))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    evaluation = binder(posterior)(data).evaluate(theta)
    of_label = expected[np.arange(len(data.y)), data.y]
    np.testing.assert_allclose(evaluation.density.log_likelihood, np.log(of_label).sum(), rtol=1e-4)
    slope = jax.grad(lambda t: jnp.log(mean(t)[jnp.arange(len(data.y)), data.y]).sum() - 0.5 * t @ t)(theta)
    np.testing.assert_allclose(evaluation.gradient, slope, rtol=1e-3, atol=1e-4)
    without = binder(plain)(data).evaluate(theta).density.log_likelihood
    assert abs(float(without - evaluation.density.log_likelihood)) > 1e-2


def test_micro_batches_and_mini_batches_see_the_same_likelihood() -> None:
    posterior, data = _problem(MODELS["mlp"], ORBIT)
    theta = _theta(posterior)
    whole = binder(posterior)(data).evaluate(theta)
    cut = binder(posterior._replace(micro_batches=3))(data).evaluate(theta)
    np.testing.assert_allclose(cut.density.log_likelihood, whole.density.log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(cut.gradient, whole.gradient, rtol=1e-4, atol=1e-5)
    estimated = binder(posterior)(data).estimate(theta, jnp.arange(len(data.y)))
    np.testing.assert_allclose(estimated.gradient, whole.gradient, rtol=1e-4, atol=1e-5)


def test_all_images_of_an_orbit_have_one_likelihood_where_it_is_closed() -> None:
    """A flip alone: the mirrored images are as probable as the images, which they are not without the orbit."""
    for orbit, same in ((AugmentationConfig(flip=True, crop=0), True), (None, False)):
        posterior, data = _problem(MODELS["mlp"], orbit)
        theta = _theta(posterior)
        values = [
            float(binder(posterior)(data._replace(x=x)).log_density(theta).log_likelihood)
            for x in (data.x, data.x[:, :, ::-1])
        ]
        assert (abs(values[0] - values[1]) < 1e-4) == same


def test_it_is_written_only_where_it_is_given() -> None:
    """So that addresses and fingerprints of other runs stay."""
    assert CategoricalLikelihood().model_dump(mode="json") == {"kind": "categorical"}
    written = CategoricalLikelihood(orbit=ORBIT).model_dump(mode="json")
    assert written == {"kind": "categorical", "orbit": {"flip": True, "crop": 1}}
    assert CategoricalLikelihood.model_validate(written).orbit == ORBIT


def test_rows_that_are_no_images_are_refused(tmp_path: Any) -> None:
    with pytest.raises(ShapeError, match=r"an orbit needs images .*has shape \(4,\)"):
        build_posterior(
            MODELS["mlp"],
            CategoricalLikelihood(orbit=ORBIT),
            StandardNormalPrior(),
            temperature=1.0,
            shape=(4,),
            classes=2,
        )

    def edit(study: dict[str, Any]) -> None:
        likelihood = {"kind": "categorical", "orbit": {"crop": 1}}
        run_edit(dataset="digits", likelihood=likelihood, split={"kind": "random"})(study)
        del study["figures"]

    with pytest.raises(ConfigError, match=r"likelihood\.orbit: the data set 'digits' has rows of the kind 'table'"):
        load_study(study_file(tmp_path, edit), "laptop", REGISTRY)
