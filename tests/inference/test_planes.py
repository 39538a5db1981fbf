"""Planes through three points, and densities on them, against NumPy in double precision."""

from typing import Any

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import CategoricalLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.inference import surfaces
from bnn_atlas.inference.problem import within_budget
from bnn_atlas.inference.surfaces import PlaneError, densities_on, plane_through
from bnn_atlas.posterior.density import Posterior, PosteriorData, build_posterior, posterior_data

pytestmark = pytest.mark.bits

ROWS, FEATURES, HIDDEN, CLASSES, SCALE = 300, 7, 5, 3, 0.4
NUMBERS = np.random.default_rng(11)
X, Y = NUMBERS.standard_normal((ROWS, FEATURES)), NUMBERS.integers(0, CLASSES, ROWS)


def built(temperature: float = 1.0) -> tuple[Posterior, PosteriorData]:
    posterior, prior = build_posterior(
        MLPConfig(hidden=(HIDDEN,), activation="relu"), CategoricalLikelihood(), NormalPrior(scale=SCALE),
        temperature=temperature, shape=(FEATURES,), classes=CLASSES,
    )  # fmt: skip
    return posterior, posterior_data(X, Y, prior)


def reference(posterior: Posterior, theta: np.ndarray) -> tuple[float, float]:
    """Log-likelihood and log-prior at theta [P] in double precision."""
    arrays: dict[str, Any] = posterior.layout.unflatten(theta)  # type: ignore[arg-type]
    hidden = np.maximum(X @ arrays["layer0.weight"].T + arrays["layer0.bias"], 0)
    logits = hidden @ arrays["layer1.weight"].T + arrays["layer1.bias"]
    likelihood = scipy.special.log_softmax(logits, axis=1)[np.arange(ROWS), Y].sum()
    return float(likelihood), float(scipy.stats.norm.logpdf(theta, scale=SCALE).sum())


def test_coordinates_are_those_of_the_three_points() -> None:
    points = NUMBERS.standard_normal((3, 40)).astype(np.float32)
    plane = plane_through(points)
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(plane.origin + plane.points @ plane.axes, points, atol=1e-12)
    np.testing.assert_array_equal(plane.points[0], 0)
    assert plane.points[1] == pytest.approx([np.linalg.norm(points[1] - points[0].astype(float)), 0])
    assert plane.points[2, 1] > 0


def test_the_third_point_is_where_it_truly_projects() -> None:
    """The published plot puts it midway between the others; here it lies on the far side of the first."""
    plane = plane_through(np.array([[1.0, 1.0, 0.0], [3.0, 1.0, 0.0], [0.0, 1.0, 4.0]]))
    np.testing.assert_allclose(plane.points, [[0, 0], [2, 0], [-1, 4]])
    x, y = plane.lines(4, 0.25)
    np.testing.assert_allclose(x, [-1.5, -0.16666667, 1.16666667, 2.5])
    np.testing.assert_allclose(y, [-1, 1, 3, 5])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1, 2, 3], [1, 2, 3], [0, 0, 1]], r"points 1 and 2 are equal"),
        ([[1, 2, 3], [0, 0, 1], [0, 0, 1]], r"points 2 and 3 are equal"),
        ([[1, 2, 3], [0, 0, 1], [1, 2, 3 + 1e-7]], r"points 1 and 3 are equal"),
        ([[0, 0, 0], [1, 2, 3], [2, 4, 6]], r"on one line"),
        ([[1, 1, 1], [2, 2, 2], [5, 5, 5.00001]], r"on one line"),
        ([[0, 0, 0], [1, 2, np.nan], [2, 4, 7]], r"point 2 is not finite"),
    ],
)
def test_points_that_determine_no_plane_are_refused(points: list[list[float]], message: str) -> None:
    with pytest.raises(PlaneError, match=message):
        plane_through(np.array(points, dtype=float))


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_densities_are_those_of_double_precision_and_untempered(temperature: float) -> None:
    posterior, data = built(temperature)
    plane = plane_through(0.5 * NUMBERS.standard_normal((3, posterior.layout.size)))
    coordinates = np.concatenate([3 * NUMBERS.standard_normal((20, 2)), plane.points])
    found = densities_on(posterior, data, plane, coordinates)
    expected = [reference(posterior, plane.origin + c @ plane.axes) for c in coordinates]
    assert found.log_likelihood.dtype == np.float64
    np.testing.assert_allclose(found.log_likelihood, [value for value, _ in expected], rtol=2e-5)
    np.testing.assert_allclose(found.log_prior, [value for _, value in expected], rtol=2e-5)


def test_neither_lots_nor_micro_batches_nor_devices_change_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, data = built()
    plane = plane_through(0.5 * NUMBERS.standard_normal((3, posterior.layout.size)))
    coordinates = NUMBERS.standard_normal((21, 2))
    whole = densities_on(posterior, data, plane, coordinates)
    monkeypatch.setattr(surfaces, "LOT", 4)
    in_lots = densities_on(posterior, data, plane, coordinates)
    for one, other in zip(whole, in_lots, strict=True):
        np.testing.assert_array_equal(one, other)
    cut = within_budget(posterior._replace(kernel=None), data, 4000.0)
    assert cut.micro_batches > 5
    in_pieces = densities_on(cut, data, plane, coordinates)
    np.testing.assert_allclose(in_pieces.log_likelihood, whole.log_likelihood, rtol=1e-5)


def test_no_gradient_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where XLA computes them, the program holds the forward pass alone: two matrix products."""
    posterior, data = built()
    posterior = posterior._replace(kernel=None)
    batch = posterior.arrange(data)
    theta = jnp.zeros(posterior.layout.size)
    forward = str(jax.make_jaxpr(posterior.log_density)(theta, batch)).count("dot_general")
    backward = str(jax.make_jaxpr(posterior.evaluate)(theta, batch)).count("dot_general")
    assert forward == 2 < backward
    monkeypatch.setattr(Posterior, "evaluate", None)
    monkeypatch.setattr(Posterior, "_gradient", None)
    plane = plane_through(NUMBERS.standard_normal((3, posterior.layout.size)))
    assert densities_on(posterior, data, plane, np.zeros((2, 2))).log_prior.shape == (2,)
