"""Laplace approximations: exact where the posterior is normal, and against the full curvature elsewhere."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bnn_atlas.config.methods.gaussian import LaplaceConfig
from bnn_atlas.config.parts.posterior import GaussianLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import (
    EpsStandardNormalPrior,
    GlorotPrior,
    LaplacePrior,
    LogisticPrior,
    NormalFlatBiasPrior,
    NormalPrior,
    StudentTPrior,
)
from bnn_atlas.methods.laplace import lbfgs, structure
from bnn_atlas.methods.laplace.approximation import build_laplace
from bnn_atlas.methods.laplace.curvature import gauss_newton
from bnn_atlas.methods.laplace.structure import apply_root, chosen, factorise, separable
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.posterior.density import build_posterior, posterior_data

from .fitting import LIKELIHOODS, SIGMA, Case, Fit, drive, line, rows, some_theta, tanh_network

PRIORS = {
    "wide": NormalPrior(loc=0.2, scale=3.0),
    "narrow": NormalPrior(loc=0.2, scale=0.05),
    "by scalar": EpsStandardNormalPrior(scale=0.5, var_eps=0.3),
    "by layer": GlorotPrior(factor=0.3),
}

SHAPES = ((600, 300), (200, 100), (6, 3))
"""Rows and columns of random matrices."""


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def fit_at(case: Case, centre: np.ndarray, **settings) -> Fit:
    """The approximation at a given centre."""
    config = LaplaceConfig(**{"steps": 2, "map_steps": 0, **settings})
    return drive(build_laplace(config, case.posterior, case.data), case, centre)


def covariance(case: Case, found: Fit) -> np.ndarray:
    """S S^T of the fit's root, column by column."""
    size = len(found.state.search.position) if not hasattr(found.state.form, "matrix") else len(found.state.form.matrix)
    root = jax.vmap(lambda z: apply_root(found.state.form, z, case.posterior.layout), out_axes=1)(jnp.eye(size))
    return np.asarray(root @ root.T)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_full_is_the_exact_posterior_of_a_linear_model(prior):
    regression = line(prior)
    config = LaplaceConfig(steps=2, map_tolerance=1e-9)
    found = drive(build_laplace(config, regression.case.posterior, regression.case.data), regression.case)
    np.testing.assert_allclose(found.state.search.position, regression.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        covariance(regression.case, found), np.linalg.inv(regression.precision), rtol=1e-7, atol=1e-10
    )
    np.testing.assert_allclose(found.statistics["log_evidence"], regression.log_evidence, rtol=1e-9)
    assert found.statistics["gradient_norm"][0] < 1e-6
    assert found.statistics["newton_decrement"][0] < 1e-6


@pytest.mark.parametrize("temperature", [0.1, 4.0])
def test_draws_have_the_moments_of_the_tempered_posterior(temperature):
    regression = line(NormalPrior(loc=0.2, scale=0.8), temperature)
    found = fit_at(regression.case, regression.mean, steps=4000)
    expected = temperature * np.linalg.inv(regression.precision)
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(found.draws.mean(0), regression.mean, atol=5 * sd.max() / np.sqrt(4000))
    np.testing.assert_allclose(np.cov(found.draws.T) / np.outer(sd, sd), expected / np.outer(sd, sd), atol=0.09)
    # The integral of a normal density to the power 1 / T, in closed form.
    shift = found.state.search.position
    joint = sum(regression.case.target.evaluate(shift).density)
    volume = 0.5 * np.linalg.slogdet(2 * np.pi * expected)[1]
    np.testing.assert_allclose(found.statistics["log_evidence"][0], joint / temperature + volume, rtol=1e-9)


def test_diagonal_inverts_the_diagonal():
    regression = line(PRIORS["by scalar"])
    found = fit_at(regression.case, regression.mean, structure="diagonal")
    variance = 1 / np.diag(regression.precision)
    np.testing.assert_allclose(covariance(regression.case, found), np.diag(variance), rtol=1e-7)
    joint = sum(regression.case.target.evaluate(jnp.asarray(regression.mean)).density)
    expected = joint + 0.5 * np.sum(np.log(2 * np.pi * variance))
    np.testing.assert_allclose(found.statistics["log_evidence"][0], expected, rtol=1e-9)


@pytest.mark.parametrize("prior", ["wide", "by layer"])
def test_kronecker_is_exact_for_a_linear_model(prior):
    regression = line(PRIORS[prior])
    found = fit_at(regression.case, regression.mean, structure="kronecker")
    np.testing.assert_allclose(
        covariance(regression.case, found), np.linalg.inv(regression.precision), rtol=1e-7, atol=1e-10
    )
    np.testing.assert_allclose(found.statistics["log_evidence"][0], regression.log_evidence, rtol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_kronecker_inverts_its_factors_and_the_prior_together(bias, monkeypatch):
    """Against the dense inverse of kron(B, A) + prior precision, layer by layer; LAPACK's choices change no draw."""
    case = tanh_network(LIKELIHOODS["learned_noise"], bias=bias)
    layout = case.posterior.layout
    form = jax.jit(lambda t: structure.compute_curvature(case.posterior, case.data, t, "kronecker"))(some_theta(case))
    rng = np.random.default_rng(2)
    sd, dense = np.full(case.size, 0.8), np.zeros((case.size, case.size))
    for number, factors in enumerate(form.layers):
        # Scalars of W[o, i] in order, a row's bias after its weights.
        order = layout.select(names=[f"layer{number}.weight"]).reshape(len(factors.outputs), -1)
        if bias:
            order = np.concatenate([order, layout.select(names=[f"layer{number}.bias"])[:, None]], axis=1)
        sd[order] = np.exp(rng.normal(size=(order.shape[0], 1)) + rng.normal(size=order.shape[1]) - 1)
        dense[np.ix_(order.ravel(), order.ravel())] = np.kron(factors.outputs, factors.inputs)
    dense[-1, -1] = 2.0 * 13
    dense += np.diag(sd**-2)
    assert separable(layout, sd)
    assert not separable(layout, sd * np.where(np.arange(case.size) == 5, 1.1, 1.0))
    root, log_determinant = factorise(form, sd, layout)
    found = np.stack([apply_root(root, jnp.asarray(unit), layout) for unit in np.eye(case.size)], axis=1)
    np.testing.assert_allclose(found @ found.T, np.linalg.inv(dense), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(dense)[1], rtol=1e-10)

    eigen = structure._eigen

    def with_other_signs(matrix):
        vectors, values = eigen(matrix)
        return vectors * (-1) ** np.arange(len(values)), values

    monkeypatch.setattr(structure, "_eigen", with_other_signs)
    root, _ = factorise(form, sd, layout)
    again = np.stack([apply_root(root, jnp.asarray(unit), layout) for unit in np.eye(case.size)], axis=1)
    np.testing.assert_allclose(again, found, rtol=1e-10, atol=1e-12)


def test_last_layer_is_the_block_of_the_full_precision():
    case = tanh_network(LIKELIHOODS["learned_noise"])
    found = fit_at(case, np.asarray(some_theta(case)), structure="last_layer", steps=3)
    centre = found.state.search.position
    select = chosen(case.posterior, "last_layer")
    names = np.array(case.posterior.layout.names())[select]
    assert {name.split(".")[0] for name in names} == {"layer2", "log_sigma"}
    full = jax.jit(lambda t: gauss_newton(case.posterior, case.data, t, np.arange(case.size)))(centre)
    block = np.asarray(full)[np.ix_(select, select)] + np.eye(len(select)) / 0.7**2
    np.testing.assert_allclose(found.state.form.matrix @ found.state.form.matrix.T, np.linalg.inv(block), rtol=1e-7)
    others = np.setdiff1d(np.arange(case.size), select)
    assert np.all(found.draws[:, others] == np.asarray(centre)[others])
    assert len(np.unique(found.draws[:, select[0]])) == 3


def test_the_centre_is_a_maximum_of_the_log_posterior():
    case = tanh_network(LIKELIHOODS["softplus"], temperature=0.5)
    found = drive(
        build_laplace(LaplaceConfig(steps=1, map_tolerance=1e-6), case.posterior, case.data), case, some_theta(case)
    )
    centre = found.state.search.position
    density, gradient = case.target.evaluate(centre)
    assert np.linalg.norm(gradient) * 0.5 < 1e-4
    assert found.statistics["newton_decrement"][0] < 1e-3
    np.testing.assert_allclose(found.statistics["gradient_norm"], np.linalg.norm(gradient) * 0.5, atol=1e-9)
    np.testing.assert_allclose(found.state.search.value, sum(density), rtol=1e-12)
    hessian = jax.jit(
        jax.hessian(
            lambda t: (
                case.posterior.log_likelihood(t, case.posterior.network.arrange(case.data.x), case.data.y)
                + case.posterior.log_prior(t, case.data.prior)
            )
        )
    )(centre)
    assert np.linalg.eigvalsh(hessian).max() < 0


def test_without_steps_the_warm_start_is_the_centre_and_its_distance_is_reported(caplog):
    regression = line(PRIORS["wide"])
    start = regression.mean + 0.5
    config = LaplaceConfig(steps=1, map_steps=0)
    with caplog.at_level(logging.WARNING):
        sampler = build_laplace(config, regression.case.posterior, regression.case.data)
        found = drive(sampler, regression.case, start)
    np.testing.assert_array_equal(found.state.search.position, start)
    distance = np.sqrt(np.full(4, 0.5) @ regression.precision @ np.full(4, 0.5))
    np.testing.assert_allclose(found.statistics["newton_decrement"][0], distance, rtol=1e-8)
    assert caplog.text.strip().endswith("raise map_steps")


def test_a_search_that_ended_by_itself_is_told_apart(caplog):
    """A relu network, which has its maxima on kinks."""
    x, y = rows()
    posterior, prior = build_posterior(
        MLPConfig(hidden=(3,)), GaussianLikelihood(sigma=0.3), NormalPrior(), temperature=1.0, shape=(3,)
    )
    case = Case(posterior, posterior_data(x, y, prior))
    sampler = build_laplace(LaplaceConfig(map_tolerance=1e-6, steps=1), *case)
    with caplog.at_level(logging.WARNING):
        found = drive(sampler, case, some_theta(case))
    assert found.state.search.stalls == lbfgs.LAST_STALL
    assert "the search found nothing higher, as on a kink of relu" in caplog.text


def test_a_logistic_prior_has_its_own_curvature():
    """-d^2 log p / d z^2 = sech^2(z / 2) / 2 of a logistic density with scale 1."""
    case = tanh_network(LIKELIHOODS["gaussian"], LogisticPrior(loc=0.1, scale=0.3))
    found = fit_at(case, np.asarray(some_theta(case)))
    centre = np.asarray(found.state.search.position)
    unit = np.asarray(case.data.prior.scale)
    z = (centre - 0.1) / unit
    np.testing.assert_allclose(found.state.prior_sd, np.sqrt(2) * unit * np.cosh(z / 2), rtol=1e-8)
    full = np.asarray(jax.jit(lambda t: gauss_newton(case.posterior, case.data, t, np.arange(case.size)))(centre))
    precision = full + np.diag(np.asarray(found.state.prior_sd) ** -2)
    np.testing.assert_allclose(covariance(case, found) @ precision, np.eye(case.size), atol=1e-8)


@pytest.mark.parametrize(
    "prior", [LaplacePrior(scale=0.4), StudentTPrior(degrees_of_freedom=3.0, scale=0.4), LogisticPrior(scale=0.4)]
)
def test_where_a_prior_is_not_curved_downwards_its_scale_stands_in(prior):
    case = tanh_network(LIKELIHOODS["gaussian"], prior)
    found = fit_at(case, np.asarray(some_theta(case)))
    centre = jnp.asarray(found.state.search.position)
    slope = jax.grad(lambda theta: case.posterior.log_prior(theta, case.data.prior))
    curvature = -np.asarray(jax.jvp(slope, (centre,), (jnp.ones_like(centre),))[1])
    unit = np.asarray(case.data.prior.scale) ** -2.0
    expected = np.where(curvature > 1e-3 * unit, curvature, unit)
    np.testing.assert_allclose(np.asarray(found.state.prior_sd) ** -2, expected, rtol=1e-6)
    assert np.isfinite(covariance(case, found)).all()


def flat_line(**changes) -> Case:
    """A linear model, or with `hidden` a network, whose biases have a flat prior."""
    x, y = rows()
    posterior, prior = build_posterior(
        MLPConfig(**{"hidden": (), **changes}),
        GaussianLikelihood(sigma=SIGMA),
        NormalFlatBiasPrior(scale=0.8),
        temperature=1.0,
        shape=(3,),
        dtype=jnp.float64,
    )
    return Case(posterior, posterior_data(x, y, prior))


@pytest.mark.parametrize("kind", ["full", "last_layer", "diagonal"])
def test_flat_biases_have_the_precision_of_the_data_alone(kind):
    case, regression = flat_line(), line(NormalPrior(scale=0.8))
    (bias,) = case.posterior.layout.select(roles=["bias"])
    precision = regression.precision.copy()
    precision[bias, bias] -= 0.8**-2
    mean = np.linalg.solve(precision, regression.design.T @ rows()[1] / SIGMA**2)
    config = LaplaceConfig(steps=2, map_tolerance=1e-9, structure=kind)
    found = drive(build_laplace(config, case.posterior, case.data), case)
    np.testing.assert_allclose(found.state.search.position, mean, rtol=1e-8, atol=1e-9)
    expected = np.diag(1 / np.diag(precision)) if kind == "diagonal" else np.linalg.inv(precision)
    np.testing.assert_allclose(covariance(case, found), expected, rtol=1e-7, atol=1e-10)
    assert np.isinf(found.state.prior_sd).tolist() == [i == bias for i in range(4)]
    if kind != "diagonal":
        # log of the integral over b of N(y | b, S), S with the weights integrated out.
        x, y = rows()
        spread = SIGMA**2 * np.eye(len(y)) + 0.8**2 * x @ x.T
        ones = np.linalg.solve(spread, np.ones(len(y)))
        residual = y - ones @ y / ones.sum()
        evidence = -0.5 * (residual @ np.linalg.solve(spread, residual) + np.linalg.slogdet(2 * np.pi * spread)[1])
        evidence += 0.5 * np.log(2 * np.pi / ones.sum())
        np.testing.assert_allclose(found.statistics["log_evidence"], evidence, rtol=1e-9)


def test_flat_biases_that_the_data_leave_free_are_refused():
    """Hidden biases of an identity network, which the output's bias makes up for; a relu unit that is off."""
    identity = flat_line(hidden=(2,), activation="identity")
    with pytest.raises(ValueError, match="no covariance"):
        fit_at(identity, np.asarray(some_theta(identity)))
    relu = flat_line(hidden=(2,))
    off = np.array(some_theta(relu))
    off[relu.posterior.layout.offset("layer0.bias")] = -100.0
    for kind in ("full", "diagonal"):
        with pytest.raises(ValueError, match=r"no covariance.*give the biases a proper prior"):
            fit_at(relu, off, structure=kind)
    with pytest.raises(ValueError, match="structure kronecker needs a proper prior"):
        build_laplace(LaplaceConfig(structure="kronecker"), *relu)
    bare = flat_line(hidden=(2,), bias=False)
    build_laplace(LaplaceConfig(structure="kronecker"), *bare)


def test_an_indefinite_curvature_loses_its_negative_part(caplog):
    """Rounding errors of a float32 curvature with eigenvalues over many orders of magnitude."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    values = np.array([1e8, 1e4, 1.0, 0.0, -3.0, -5.0])
    layout = line(NormalPrior()).case.posterior.layout
    with caplog.at_level(logging.WARNING):
        root, log_determinant = factorise(structure.Dense((vectors * values) @ vectors.T), np.ones(6), layout)
    expected = (vectors / (1 + np.maximum(values, 0))) @ vectors.T
    np.testing.assert_allclose(root.matrix @ root.matrix.T, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(log_determinant, np.log1p(np.maximum(values, 0)).sum(), rtol=1e-6)
    assert "indefinite" in caplog.text


@pytest.mark.parametrize("kind", ["dense", "indefinite", "kronecker"])
def test_the_bits_of_a_root_do_not_depend_on_threads(kind):
    """LAPACK's own do at these sizes."""
    layout = Layout(
        (
            Parameter("layer0.weight", (100, 3), "weight", 0, 3, 100),
            Parameter("layer1.weight", (300, 100), "weight", 1, 100, 300),
        )
    )
    rng = np.random.default_rng(0)
    wide, middle, narrow = (jacobian.T @ jacobian for jacobian in map(rng.normal, [0] * 3, [1] * 3, SHAPES))
    form = {
        "dense": structure.Dense(wide),
        "indefinite": structure.Dense(wide - 500 * np.eye(300)),
        "kronecker": structure.Kronecker(
            (structure.LayerFactors(narrow, middle, 0), structure.LayerFactors(middle, wide, 0)), None
        ),
    }[kind]
    sd = np.ones(layout.size if kind == "kronecker" else 300)
    roots = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            roots.append(factorise(form, sd, layout))
    jax.tree.map(np.testing.assert_array_equal, *roots)


def test_a_draw_that_is_not_finite_is_not_kept():
    regression = line(NormalPrior(scale=3.0))
    sampler = build_laplace(LaplaceConfig(steps=5, map_steps=0), regression.case.posterior, regression.case.data)
    found = drive(sampler, regression.case, regression.mean)
    target = regression.case.target
    huge = found.state._replace(form=structure.Dense(found.state.form.matrix * 1e200))
    state, statistics = sampler.phases[-1].step(jax.random.key(0), jnp.int32(0), huge, target, ())
    assert statistics["divergent"]
    np.testing.assert_array_equal(state.draw.position, huge.draw.position)
    assert np.isfinite(sum(state.draw.density))


def test_what_a_structure_cannot_do_is_refused(monkeypatch):
    def build(prior, structure="full", hidden=(4, 3)):
        case = tanh_network(GaussianLikelihood(), prior, hidden=hidden)
        build_laplace(LaplaceConfig(structure=structure), case.posterior, case.data)

    with pytest.raises(ValueError, match=r"structure kronecker .*logistic"):
        build(LogisticPrior(scale=1.0), "kronecker")
    with pytest.raises(ValueError, match="a product of one number per row and one per column"):
        build(EpsStandardNormalPrior(), "kronecker")
    build(GlorotPrior(), "kronecker")
    monkeypatch.setattr(structure, "LARGEST", 20)
    with pytest.raises(ValueError, match="choose kronecker, diagonal or last_layer"):
        build(NormalPrior())
    build(NormalPrior(), "last_layer")
