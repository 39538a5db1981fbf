"""The linearised network: its draws and their closed form."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.posterior import NormalPrior
from bnn_atlas.variational.curvature import gauss_newton
from bnn_atlas.variational.linearised import output_moments, predict_linearised
from bnn_atlas.variational.structure import Dense, apply_root, factorise, gather

from .fitting import LIKELIHOODS, SIGMA, line, some_theta, tanh_network


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("structure", ["full", "kronecker"])
def test_moments_of_a_linear_model_are_those_of_its_exact_predictive(structure):
    regression = line(NormalPrior(scale=0.8), temperature=0.5)
    posterior, data = regression.case
    layout = posterior.layout
    centre = jnp.asarray(regression.mean)
    form = jax.jit(lambda t: gather(posterior, data, t, structure))(centre)
    root = factorise(form, np.asarray(data.prior.scale), layout).form
    found = jax.jit(lambda x: output_moments(posterior, centre, lambda z: apply_root(root, z, layout), 4, 0.5, x))(
        data.x
    )
    np.testing.assert_allclose(found.mean[:, 0], regression.design @ regression.mean, rtol=1e-10)
    expected = 0.5 * np.sum(regression.design @ np.linalg.inv(regression.precision) * regression.design, axis=1)
    np.testing.assert_allclose(found.covariance[:, 0, 0], expected, rtol=1e-9)


def test_moments_of_a_network_are_those_of_its_linearised_draws():
    """Two outputs that covary; the noise that the second one sets is no part of the outputs' covariance."""
    case = tanh_network(LIKELIHOODS["exp"])
    centre, network = some_theta(case), case.posterior.network
    curvature = jax.jit(lambda t: gauss_newton(case.posterior, case.data, t, np.arange(case.size)))(centre)
    root = factorise(Dense(curvature), np.full(case.size, 0.05), case.posterior.layout).form
    push = partial(apply_root, root, layout=case.posterior.layout)
    moments = jax.jit(lambda x: output_moments(case.posterior, centre, push, case.size, 2.0, x))(case.data.x)

    outputs = jax.jit(lambda t: network.apply(t, network.arrange(case.data.x))[:, :13])
    jacobian = np.stack([(outputs(centre + u) - outputs(centre - u)) / 2e-6 for u in np.eye(case.size) * 1e-6], -1)
    expected = np.einsum("knp,pq,lnq->nkl", jacobian, 2.0 * root.matrix @ root.matrix.T, jacobian)
    np.testing.assert_allclose(moments.covariance, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(moments.mean, outputs(centre).T, rtol=1e-12)

    draws = centre + np.sqrt(2.0) * np.random.default_rng(0).normal(size=(500, case.size)) @ root.matrix.T
    found = jax.jit(lambda t: predict_linearised(case.posterior, centre, t, case.data.x))(draws)
    linear = outputs(centre)[:, None] + np.einsum("knp,bp->kbn", jacobian, draws - centre)
    np.testing.assert_allclose(found.mean, linear[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.scale, np.exp(linear[1]), rtol=1e-6)


@pytest.mark.parametrize("kind", ["learned_noise", "categorical"])
def test_close_to_the_centre_it_is_the_network(kind):
    """The difference falls with the square of the distance."""
    case = tanh_network(LIKELIHOODS[kind])
    centre = some_theta(case)
    direction = np.random.default_rng(1).normal(size=case.size)

    @jax.jit
    def both(theta):
        x = case.data.x
        return predict_linearised(case.posterior, centre, theta, x), case.posterior.predict(theta, x)

    linear, exact = both(centre + np.array([0.0, 1e-3, 1e-2])[:, None] * direction)
    for a, b in zip(jax.tree.leaves(linear), jax.tree.leaves(exact), strict=True):
        error = np.abs(np.asarray(a - b)).reshape(3, -1).max(1)
        assert error[0] < 1e-12
        assert error[2] == pytest.approx(0, abs=1e-12) or 80 < error[2] / error[1] < 120
    if kind == "learned_noise":
        np.testing.assert_allclose(linear.scale[2], np.exp(centre[-1] + 1e-2 * direction[-1]), rtol=1e-12)


def test_a_linear_model_is_its_own_linearisation():
    regression = line(NormalPrior())
    theta = np.random.default_rng(0).normal(size=(2, 4))
    found = predict_linearised(regression.case.posterior, jnp.zeros(4), jnp.asarray(theta), regression.case.data.x)
    np.testing.assert_allclose(found.mean, theta @ regression.design.T, rtol=1e-12)
    np.testing.assert_allclose(found.scale, SIGMA, rtol=1e-12)
