"""The Gauss-Newton curvature against dense products of Jacobians, Hessians and differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.parts.posterior import CategoricalLikelihood, GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.methods.laplace.curvature import (
    dense_layers,
    fisher_root,
    gauss_newton,
    gauss_newton_diagonal,
    kronecker,
)
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import build_posterior, data_specs, posterior_data
from bnn_atlas.posterior.likelihoods import log_density

from .fitting import LIKELIHOODS, SIGMA, Case, line, rows, some_theta, tanh_network

KINDS = tuple(LIKELIHOODS)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def outputs(case: Case, theta):
    """Network outputs with the likelihood's own parameters appended, [outputs, rows]."""
    network = case.posterior.network
    size = network.layout.size
    found = network.apply(theta[:size], network.arrange(case.data.x))[:, : len(case.data.y)]
    return jnp.concatenate([found, jnp.broadcast_to(theta[size:, None], (len(theta) - size, found.shape[1]))])


def differences(function, theta, step=1e-5):
    """Central differences of `function` in every scalar, last axis [P]."""
    units = np.eye(len(theta)) * step
    values = jax.jit(jax.vmap(function))
    return np.moveaxis(np.asarray(values(theta + units) - values(theta - units)) / (2 * step), 0, -1)


def fisher(case: Case, theta):
    """Lambda [rows, outputs, outputs], by formula."""
    network, extra = jnp.split(outputs(case, theta), [case.posterior.network.layout.parameters[-1].fan_out])
    match case.posterior.likelihood.kind:
        case "gaussian":
            return np.full((network.shape[1], 1, 1), case.posterior.likelihood.sigma**-2)
        case "learned_noise":
            return np.stack([np.diag([np.exp(-2 * extra[0, 0]), 2.0])] * network.shape[1])
        case "categorical":
            p = jax.nn.softmax(network, axis=0).T
            return np.stack([np.diag(row) - np.outer(row, row) for row in p])
    raw = np.asarray(network[1])
    if case.posterior.likelihood.head == "exp":
        sigma, slope = np.exp(raw), np.ones_like(raw)
    else:
        sigma = np.log1p(np.exp(raw)) + 1e-6
        slope = 1 / (1 + np.exp(-raw)) / sigma
    return np.stack([np.diag(pair) for pair in np.stack([sigma**-2, 2 * slope**2], axis=1)])


def dense(case: Case, theta):
    """sum_i J_i^T Lambda_i J_i with J by differences."""
    jacobian = differences(lambda t: outputs(case, t), np.asarray(theta))
    return np.einsum("knp,nkl,lnq->pq", jacobian, fisher(case, theta), jacobian)


@pytest.mark.parametrize("kind", KINDS)
def test_full_and_diagonal_against_jacobians_by_differences(kind):
    case = tanh_network(LIKELIHOODS[kind])
    theta = some_theta(case)
    found, diagonal = jax.jit(
        lambda t: (
            gauss_newton(case.posterior, case.data, t, np.arange(case.size)),
            gauss_newton_diagonal(case.posterior, case.data, t),
        )
    )(theta)
    expected = dense(case, theta)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    np.testing.assert_allclose(diagonal, np.diag(expected), rtol=1e-6)


@pytest.mark.parametrize("kind", ["learned_noise", "exp", "softplus"])
def test_the_fisher_information_of_gaussians_is_the_mean_hessian(kind):
    """By Gauss-Hermite quadrature over y, exact since the Hessian is a quadratic in y."""
    config = LIKELIHOODS[kind]
    raw = jnp.array([0.3, -0.7])
    learned = kind == "learned_noise"

    def split(raw):
        return (raw[:1, None], raw[1:]) if learned else (raw[:, None], raw[:0])

    def loss(raw, y):
        return -log_density(config, *split(raw), y[None])[0]

    sigma = {"learned_noise": np.exp(-0.7), "exp": np.exp(-0.7), "softplus": np.log1p(np.exp(-0.7)) + 1e-6}[kind]
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    hessians = jax.jit(jax.vmap(jax.hessian(loss), (None, 0)))(raw, jnp.asarray(0.3 + sigma * nodes))
    expected = np.einsum("n,nij->ij", weights / weights.sum(), hessians)
    root = np.asarray(fisher_root(config, *split(raw))[:, :, 0])
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-10, atol=1e-12)


def test_the_categorical_root_gives_the_hessian():
    logits = jnp.array([[0.2, -30.0], [1.5, 0.0], [-0.4, 30.0]])
    root = np.asarray(fisher_root(CategoricalLikelihood(), logits, jnp.zeros(0)))
    hessians = jax.jit(jax.vmap(jax.hessian(jax.nn.logsumexp), 1))(logits)
    for row, hessian in enumerate(hessians):
        np.testing.assert_allclose(root[:, :, row] @ root[:, :, row].T, hessian, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("likelihood", [GaussianLikelihood(sigma=SIGMA), CategoricalLikelihood()])
def test_of_a_linear_model_it_is_the_hessian(likelihood):
    x, y = rows()
    classes = 3 if likelihood.kind == "categorical" else 0
    posterior, prior = build_posterior(
        MLPConfig(hidden=()), likelihood, NormalPrior(), temperature=1.0, shape=(3,), classes=classes, dtype=jnp.float64
    )
    data = posterior_data(x, np.digitize(y, [-0.5, 0.5]) if classes else y, prior)
    theta = some_theta(Case(posterior, data))

    def both(theta):
        hessian = jax.hessian(lambda t: posterior.log_likelihood(t, posterior.network.arrange(data.x), data.y))(theta)
        return -hessian, gauss_newton(posterior, data, theta, np.arange(len(theta)))

    hessian, found = jax.jit(both)(theta)
    np.testing.assert_allclose(found, hessian, rtol=1e-10, atol=1e-10)


def test_pieces_of_rows_change_nothing_but_rounding():
    case = tanh_network(LIKELIHOODS["softplus"])
    select = np.arange(case.size)

    def curvatures(theta, piece):
        functions = (partial(gauss_newton, select=select), gauss_newton_diagonal, kronecker)
        return [function(case.posterior, case.data, theta, piece=piece) for function in functions]

    whole, *others = jax.jit(lambda t: [curvatures(t, piece) for piece in (13, 1, 4, 100)])(some_theta(case))
    for pieces in others:
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12), pieces, whole)


def test_four_devices_that_share_the_rows_give_the_same():
    """Thirteen rows on four devices: three rows of filling, which must not count."""
    one, four = (tanh_network(LIKELIHOODS["learned_noise"], shards=shards) for shards in (1, 4))
    theta, select = some_theta(one), np.arange(one.size)
    assert four.data.weights is not None

    def curvatures(posterior, data, theta):
        return (
            gauss_newton(posterior, data, theta, select),
            gauss_newton_diagonal(posterior, data, theta),
            kronecker(posterior, data, theta),
        )

    place = Placement(1, shards=4)
    specs = data_specs(four.data)
    shared = place.map(lambda data, theta: curvatures(four.posterior, data, theta), specs)
    found = place.get(shared(place.share(four.data, specs), place.put(theta[None])))
    expected = jax.jit(lambda t: curvatures(one.posterior, one.data, t))(theta)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-10, atol=1e-12), found, expected)


@pytest.mark.parametrize(("kind", "bias"), [("gaussian", True), ("softplus", False), ("categorical", True)])
def test_kronecker_factors_against_numpy(kind, bias):
    """Layer inputs by hand, output gradients from the Jacobian of what follows by differences."""
    case = tanh_network(LIKELIHOODS[kind], bias=bias)
    theta = np.asarray(some_theta(case))
    weights = {name: np.asarray(value) for name, value in case.posterior.layout.unflatten(jnp.asarray(theta)).items()}
    roots = np.linalg.cholesky(fisher(case, theta) + 1e-14 * np.eye(len(outputs(case, theta))))

    def dense_layer(number, h):
        return weights[f"layer{number}.weight"] @ h + (weights[f"layer{number}.bias"][:, None] if bias else 0)

    def after(number, z):
        for following in range(number + 1, 3):
            z = dense_layer(following, np.tanh(z))
        return z

    h = np.asarray(case.data.x).T
    found = jax.jit(lambda t: kronecker(case.posterior, case.data, t))(theta)
    assert found.extra.shape == (0,)
    for number, factors in enumerate(found.layers):
        z = dense_layer(number, h)
        # A shift of one unit moves each row's outputs through its own unit alone.
        units = np.eye(len(z))[:, :, None] * 1e-6
        slopes = np.stack([(after(number, z + u) - after(number, z - u)) / 2e-6 for u in units])
        d = np.einsum("oks,skc->osc", slopes, roots).reshape(len(z), -1)
        full = np.concatenate([h, np.ones_like(h[:1])]) if bias else h
        np.testing.assert_allclose(factors.inputs, full @ full.T / h.shape[1], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(factors.outputs, d @ d.T, rtol=1e-6, atol=1e-6)
        h = np.tanh(z)


def test_kronecker_is_exact_for_a_single_layer():
    regression = line(NormalPrior())
    case = regression.case
    found = jax.jit(lambda t: kronecker(case.posterior, case.data, t))(some_theta(case)).layers[0]
    order = np.concatenate([case.posterior.layout.select(roles=[role]) for role in ("weight", "bias")])
    expected = (regression.design.T @ regression.design / SIGMA**2)[np.ix_(order, order)]
    np.testing.assert_allclose(np.kron(found.outputs, found.inputs), expected, rtol=1e-10)


def test_kronecker_curvature_of_a_learned_noise():
    case = tanh_network(LIKELIHOODS["learned_noise"])
    found = jax.jit(lambda t: kronecker(case.posterior, case.data, t))(some_theta(case))
    np.testing.assert_allclose(found.extra, [2.0 * 13], rtol=1e-12)


def test_kronecker_refuses_other_layers():
    convolution = Layout((Parameter("layer0.weight", (6, 1, 5, 5), "weight", 0, 25, 150),))
    with pytest.raises(ValueError, match=r"layer0\.weight: choose full, last_layer or diagonal"):
        dense_layers(convolution)
