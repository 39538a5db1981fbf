"""The method: its objective on fixed samples, conjugate regressions in closed form, what is generated, refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.implicit import (
    AMSGradConfig,
    ExactEntropy,
    GeneratedConfig,
    ImplicitConfig,
    LanczosEntropy,
    MatrixGenerator,
    MLPGenerator,
    PublishedEntropy,
    SmallestEntropy,
)
from bnn_atlas.config.methods.optimisation import AdamConfig
from bnn_atlas.config.parts.priors import LaplacePrior, NormalPrior
from bnn_atlas.methods.implicit.entropy import Exact
from bnn_atlas.methods.implicit.family import FitError, build_family, fitted
from bnn_atlas.methods.implicit.fitting import build_implicit, optimiser_of, scale_by_amsgrad
from bnn_atlas.methods.implicit.generators import Branches
from bnn_atlas.methods.implicit.objective import Objective, TermWeights, notes_of, weights_of
from tests.methods.fitting import LIKELIHOODS, Case, drive, line, tanh_network
from tests.methods.problems import network
from tests.methods.running import run

MLP = MLPGenerator(noise=5, hidden=(6,))
PRIOR = NormalPrior(scale=0.7)


def settings(**changes) -> ImplicitConfig:
    return ImplicitConfig(**{"generator": MLP, "entropy": ExactEntropy(), "batch_size": None, **changes})


def objective_of(config: ImplicitConfig, case: Case):
    family = build_family(config, case.posterior)
    weights = weights_of(config, case.posterior, len(case.data.y))
    return Objective(family, Exact(), weights)


PUBLISHED = {
    ("categorical", "published_2023_10"): (lambda m: 1 / m**2, lambda m: 8.5e-4 / m),
    ("categorical", "published_2023_12"): (lambda m: 1 / m, lambda m: 8.5e-4 / m),
    ("gaussian", "published_2023_10"): (lambda m: 1.0, lambda m: 0.1),
}


@pytest.mark.parametrize(("likelihood", "name"), PUBLISHED)
def test_published_losses_on_a_fixed_sample(likelihood, name):
    """Mean cross-entropy (classes) or sum of negative log-likelihoods, minus weighted entropy and log prior, and its
    gradient, for given noise; times the rows it is the negative objective."""
    with jax.enable_x64(True):
        case = tanh_network(LIKELIHOODS[likelihood], PRIOR)
        rows = len(case.data.y)
        objective = objective_of(settings(objective=name, sigma=0.1), case)
        family, keys = objective.family, jax.random.split(jax.random.key(4), 3)
        noises = [family.draw_noise(jax.random.split(key)[0], jnp.zeros(1)) for key in list(keys)]
        q = family.start(jax.random.key(0), jnp.zeros(case.size))
        w_h, w_p = (weight(rows) for weight in PUBLISHED[likelihood, name])
        times = rows if likelihood == "categorical" else 1

        def loss(q):
            total = 0.0
            for noise in noises:
                theta = family(q, noise)
                x = case.posterior.network.arrange(case.data.x)
                fit = case.posterior.log_likelihood(theta, x, case.data.y) / times
                j = jax.jacobian(lambda z: family.generator(family.tree(q), z))(noise.z)
                wide = j @ j.T + 0.1**2 * jnp.eye(case.size)
                entropy = 0.5 * (jnp.linalg.slogdet(wide)[1] + case.size * jnp.log(2 * jnp.pi * jnp.e))
                total -= fit + w_h * entropy + w_p * case.posterior.log_prior(theta, case.data.prior)
            return total / len(keys)

        (value, slope), found = jax.jit(
            lambda q: (
                jax.value_and_grad(loss)(q),
                objective.estimate(keys, q, case.target.evaluate, case.target, None),
            )
        )(q)
        np.testing.assert_allclose(-found.objective, times * value, rtol=1e-9)
        for one, other in zip(jax.tree.leaves(found.gradient), jax.tree.leaves(slope), strict=True):
            np.testing.assert_allclose(one, times * other, rtol=1e-6, atol=1e-8)


def test_the_proper_elbo_that_a_published_objective_is():
    """MNIST: 65,536 rows and prior sd 2.14 in October, 256 rows and sd 34.3 in December; sd 3.16 for regressions."""
    case = tanh_network(LIKELIHOODS["categorical"])
    october, december = (
        weights_of(settings(objective=name, batch_size=256), case.posterior, 60_000)
        for name in ("published_2023_10", "published_2023_12")
    )
    assert (october.entropy, october.prior) == pytest.approx((0.916, 0.199), rel=2e-3)
    assert 60_000 * october.likelihood_power == pytest.approx(65_536)
    assert 60_000 * december.likelihood_power == pytest.approx(256)
    assert (october.prior_scale, december.prior_scale) == pytest.approx((2.14, 34.3), rel=2e-3)
    toy = weights_of(settings(objective="published_2023_10"), tanh_network(LIKELIHOODS["gaussian"]).posterior, 70)
    assert toy.prior_scale == pytest.approx(3.16, rel=1e-3)
    assert weights_of(settings(), case.posterior, 60_000) == TermWeights(1.0, 1.0)
    assert "power 1.092 (65,536 rows), the prior's sd times 2.14" in october.words(60_000)
    assert TermWeights(1.0, 1.0).words(70) == "the evidence lower bound"
    assert "power 4 (280 rows), the prior's sd times 0.5 if" in TermWeights(1.0, 1.0).words(70, temperature=0.25)
    assert "the entropy has no weight" in TermWeights(1.0, 0.0).words(70)
    assert "a flat prior" in TermWeights(0.0, 1.0).words(70)


def test_a_temperature_divides_likelihood_and_prior():
    with jax.enable_x64(True):
        values = []
        for temperature in (1.0, 0.5):
            case = tanh_network(LIKELIHOODS["gaussian"], PRIOR, temperature=temperature)
            objective = objective_of(settings(), case)
            q = objective.family.start(jax.random.key(0), jnp.zeros(case.size))
            keys = jax.random.split(jax.random.key(1), 1)
            estimate = jax.jit(
                lambda q, o=objective, c=case, k=keys: o.estimate(k, q, c.target.evaluate, c.target, None)
            )
            noise = objective.family.draw_noise(jax.random.split(keys[0])[0], q)
            density = case.target.log_density(objective.family(q, noise))
            values.append((float(estimate(q).objective), float(sum(density))))
        (cold, joint), (hot, same) = values
        assert joint == pytest.approx(same)
        assert hot - cold == pytest.approx(joint)


def linear_fit(**changes):
    """Bayesian linear regression by a linear generator."""
    regression = line(NormalPrior(loc=0.2, scale=0.8), dtype=jnp.float32)
    config = settings(samples=4, optimiser=AdamConfig(learning_rate=0.02), steps=2000, **changes)
    method = build_implicit(config, regression.case.posterior, regression.case.data)
    return regression, config, method, drive(method, regression.case)


@pytest.fixture(scope="module")
def conjugate():
    """With as many noise numbers as weights."""
    return linear_fit(generator=MLPGenerator(noise=4, hidden=()), sigma=0.01, epochs=1500)


def root_and_mean(method, found) -> tuple[np.ndarray, np.ndarray]:
    """W and b of a linear generator."""
    fit = method.fit(found.state)
    return tuple(np.asarray(fit[f"generator.branches.0.0.{name}"], float) for name in ("weight", "bias"))


def mean_and_covariance(config, method, found) -> tuple[np.ndarray, np.ndarray]:
    """Of the normal that a linear generator makes."""
    root, mean = root_and_mean(method, found)
    return mean, root @ root.T + config.sigma**2 * np.eye(4)


def divergence(regression, mean: np.ndarray, covariance: np.ndarray) -> float:
    """KL(N(mean, covariance) || posterior)."""
    gap, relative = mean - regression.mean, regression.precision @ covariance
    return 0.5 * (np.trace(relative) + gap @ regression.precision @ gap - 4 - np.linalg.slogdet(relative)[1])


def elbo_and_error(found) -> tuple[float, float]:
    """Mean of the statistic over the draws, and its standard error."""
    elbo = np.asarray(found.statistics["elbo"], float)
    return elbo.mean(), elbo.std() / np.sqrt(len(elbo))


def test_a_linear_generator_finds_the_posterior_of_a_linear_model(conjugate):
    regression, config, method, found = conjugate
    mean, covariance = mean_and_covariance(config, method, found)
    exact = np.linalg.inv(regression.precision)
    np.testing.assert_allclose(mean, regression.mean, atol=0.02)
    np.testing.assert_allclose(covariance, exact, atol=0.1 * exact.max())

    # ELBO = evidence - KL(q || posterior), in closed form for the fit, and as the statistics have it.
    kl = divergence(regression, mean, covariance)
    assert 0 < kl < 0.05
    elbo, error = elbo_and_error(found)
    assert abs(elbo - (regression.log_evidence - kl)) < 4 * error


def test_a_linear_generator_of_little_noise_has_a_bound_below_the_log_evidence():
    """Two noise numbers for four weights: sigma, half of the posterior's spread, is all there is in two directions."""
    regression, config, method, found = linear_fit(generator=MLPGenerator(noise=2, hidden=()), sigma=0.05, epochs=500)
    elbo, error = elbo_and_error(found)
    assert elbo + 4 * error < regression.log_evidence
    kl = divergence(regression, *mean_and_covariance(config, method, found))
    assert abs(elbo - (regression.log_evidence - kl)) < 4 * error


@pytest.mark.parametrize(("noise", "learned"), [(3, "one"), (1, "weight")])
def test_a_learned_spread_reaches_the_posterior_or_at_least_mean_field(noise, learned):
    """Three directions and one number hold every covariance of four weights; mean field is the case without any."""
    regression, config, method, found = linear_fit(
        generator=MLPGenerator(noise=noise, hidden=()), sigma=0.05, epochs=1000, learned_sigma=learned
    )
    root, mean = root_and_mean(method, found)
    spread = np.asarray(method.fit(found.state)["sigma"], float)
    assert len(np.unique(spread)) == (1 if learned == "one" else 4)
    kl = divergence(regression, mean, root @ root.T + np.diag(spread**2))
    best = divergence(regression, regression.mean, np.diag(1 / np.diag(regression.precision)))
    assert 0 < kl < (0.03 if learned == "one" else best)
    assert best > 0.1
    elbo, error = elbo_and_error(found)
    assert abs(elbo - (regression.log_evidence - kl)) < 4 * error
    arrays = {name: np.asarray(array)[None] for name, array in method.fit(found.state).items()}
    again = fitted(config, regression.case.posterior, arrays)
    np.testing.assert_allclose(again.q, found.state.q, rtol=1e-5, atol=1e-6)


def test_a_spread_for_each_layer():
    case = tanh_network(LIKELIHOODS["learned_noise"], PRIOR, dtype=jnp.float32)
    config = settings(
        learned_sigma="layer",
        samples=2,
        entropy_samples=1,
        epochs=40,
        steps=4,
        noise="point",
        optimiser=AdamConfig(learning_rate=0.02),
    )
    method = build_implicit(config, case.posterior, case.data)
    found = drive(method, case)
    spread = method.fit(found.state)["sigma"]
    assert [len(np.unique(spread[case.posterior.layout.select(layers=[n])])) for n in range(3)] == [1, 1, 1]
    assert len(np.unique(spread)) == 3
    assert found.draws.shape == (4, case.size)


def test_the_entropy_at_a_part_of_the_draws():
    """With one entropy for two draws it counts twice at the first and not at the second, in value and slope."""
    with jax.enable_x64(True):
        case = tanh_network(LIKELIHOODS["gaussian"], PRIOR)
        whole = objective_of(settings(learned_sigma="weight"), case)
        without = dataclasses.replace(whole, weights=whole.weights._replace(entropy=0.0))
        keys = jax.random.split(jax.random.key(1), 2)
        q = whole.family.start(jax.random.key(0), jnp.zeros(case.size))

        def of(objective: Objective, keys: jax.Array):
            call = jax.jit(lambda q: objective.estimate(keys, q, case.target.evaluate, case.target, None))
            found = call(q)
            return np.append(found.gradient, found.objective)

        first = of(whole, keys[:1]) - of(without, keys[:1])
        part = of(dataclasses.replace(whole, entropies=1), keys)
        np.testing.assert_allclose(part, of(without, keys) + first, rtol=1e-9, atol=1e-9)
        assert np.abs(part - of(whole, keys)).max() > 0.01


def test_statistics_of_the_draws(conjugate):
    _, config, method, found = conjugate
    s = found.statistics
    assert set(s) == {
        "log_likelihood", "log_prior", "entropy", "entropy_error", "entropy_bracket", "entropy_as_trained", "elbo",
        "linearisation_gap",
        "objective",
        "gradient_norm", "skipped_updates", "singular", "divergent",
    }  # fmt: skip
    np.testing.assert_allclose(s["elbo"], s["log_likelihood"] + s["log_prior"] + s["entropy"], rtol=1e-5)
    np.testing.assert_array_equal(s["entropy"], s["entropy_as_trained"])
    gap = np.unique(s["linearisation_gap"])
    assert len(gap) <= 21, "other draws repeat the value before"
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap)) + 1e-3
    np.testing.assert_array_equal(s["elbo"], s["objective"])
    zero = ("entropy_error", "entropy_bracket", "divergent", "singular", "skipped_updates")
    assert not any(s[name].any() for name in zero)
    root, _ = root_and_mean(method, found)
    covariance = root @ root.T + config.sigma**2 * np.eye(4)
    np.testing.assert_allclose(s["entropy"], 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1], rtol=1e-4)


def test_a_kept_fit_gives_more_draws_and_its_spectrum(conjugate):
    regression, config, method, found = conjugate
    arrays = {name: np.asarray(array)[None] for name, array in method.fit(found.state).items()}
    again = fitted(config, regression.case.posterior, arrays)
    draws = np.asarray(again.draws(jax.random.key(9), 4000))
    spread = found.draws.std(0)
    np.testing.assert_allclose(draws.mean(0), found.draws.mean(0), atol=5 * spread.max() / np.sqrt(2000))
    np.testing.assert_allclose(draws.std(0), spread, rtol=0.1)
    root = arrays["generator.branches.0.0.weight"][0]
    np.testing.assert_allclose(
        again.squared_singular_values(jax.random.key(0)), np.linalg.eigvalsh(root.T @ root), rtol=1e-2, atol=1e-6
    )
    with pytest.raises(FitError, match="no chain 1: this fit has 1"):
        fitted(config, regression.case.posterior, arrays, chain=1)
    with pytest.raises(FitError, match=r"not a fit of these settings: generator\.branches\.0\.0\.bias"):
        fitted(settings(generator=MLPGenerator(noise=4, hidden=(2,))), regression.case.posterior, arrays)


def test_weighted_objectives_and_other_scores_are_recorded_beside_the_elbo():
    """A tempered entropy, trained by the smallest singular value, scored by Lanczos."""
    case = tanh_network(LIKELIHOODS["gaussian"], PRIOR, dtype=jnp.float32)
    config = settings(
        entropy=SmallestEntropy(), entropy_weight=0.5, prior_weight=2.0, samples=2, epochs=3, steps=6,
        scored_by=LanczosEntropy(steps=2),
    )  # fmt: skip
    s = drive(build_implicit(config, case.posterior, case.data), case).statistics
    np.testing.assert_allclose(
        s["objective"], s["log_likelihood"] + 2 * s["log_prior"] + 0.5 * s["entropy_as_trained"], rtol=1e-4
    )
    lower = s["entropy"] - s["entropy_bracket"]
    np.testing.assert_allclose(s["elbo"], s["log_likelihood"] + s["log_prior"] + lower, rtol=1e-4)
    assert (s["entropy_error"] > 0).all()
    assert (s["entropy_bracket"] > 0).all()
    assert "singular" not in s
    assert (s["entropy_as_trained"] < s["entropy"] + 3 * s["entropy_error"]).all()
    notes = notes_of(config, case.posterior, 13)
    assert notes["entropy"] == notes["entropy_error"] == "entropy: Lanczos, 2 steps, 1 probe"
    assert notes["elbo"] == "entropy: Lanczos, 2 steps, 1 probe, lower end of the bracket"
    trained = "entropy: smallest singular value, 3 iterations from that of the step before"
    assert notes["entropy_as_trained"] == trained
    bound = "the evidence lower bound of the likelihood to the power 2 (26 rows), the prior's sd times 0.5 if normal"
    assert notes["objective"] == f"{trained}; {bound}"
    assert set(np.unique(s["entropy_is_bound"])) <= {0, 1}


def test_a_noise_that_is_one_number_has_no_prior():
    """Its gradient is that of the likelihood alone, and the objective leaves its prior out."""
    with jax.enable_x64(True):
        case = tanh_network(LIKELIHOODS["learned_noise"], PRIOR)
        layout = case.posterior.layout
        objective = objective_of(settings(noise="point"), case)
        family, keys = objective.family, jax.random.split(jax.random.key(1), 1)
        np.testing.assert_array_equal(family.points, [layout.offset("log_sigma")])
        q = family.start(jax.random.key(0), jnp.full(case.size, -1.3))
        found = jax.jit(lambda q: objective.estimate(keys, q, case.target.evaluate, case.target, None))(q)
        theta = family(q, family.draw_noise(jax.random.split(keys[0])[0], q))
        assert theta[-1] == -1.3
        x = case.posterior.network.arrange(case.data.x)
        slope = jax.grad(case.posterior.log_likelihood)(theta, x, case.data.y)[-1]
        np.testing.assert_allclose(-found.gradient[-1], slope, rtol=1e-9)
        without = -0.5 * np.sum((theta[:-1] / 0.7) ** 2) - (case.size - 1) * np.log(0.7 * np.sqrt(2 * np.pi))
        found = case.posterior.log_prior(theta, objective.prior(case.target))
        np.testing.assert_allclose(found, without, rtol=1e-9)


def test_points_move_and_start_where_the_settings_say():
    case = tanh_network(LIKELIHOODS["learned_noise"], PRIOR, dtype=jnp.float32)
    config = settings(
        generator=MLPGenerator(noise=2, hidden=(3,)), generated=GeneratedConfig(layers=(2,)), noise="point",
        noise_init=0.1, samples=2, epochs=30, optimiser=AMSGradConfig(learning_rate=0.01), point_learning_rate=0.02,
        steps=4,
    )  # fmt: skip
    method = build_implicit(config, case.posterior, case.data)
    start = jnp.linspace(-1, 1, case.size, dtype=jnp.float32)
    state = method.init(jax.random.key(0), start, case.target)
    rest = np.setdiff1d(np.arange(case.size), case.posterior.layout.select(layers=[2]))
    np.testing.assert_array_equal(method.fit(state)["points"], rest)
    point = method.fit(state)["point"]
    np.testing.assert_array_equal(point[:-1], start[rest[:-1]])
    assert point[-1] == pytest.approx(np.log(0.1))
    found = drive(method, case, start)
    assert np.ptp(found.draws[:, rest], axis=0).max() == 0
    assert np.ptp(found.draws[:, case.posterior.layout.select(layers=[2])], axis=0).min() > 0
    moved = np.abs(found.draws[0, rest[:-1]] - np.asarray(start)[rest[:-1]])
    assert 0.05 < moved.max() < 30 * 0.02 * 1.5


def test_first_step_of_points_is_at_their_own_learning_rate():
    config = settings(optimiser=AMSGradConfig(learning_rate=0.01, schedule="constant"), point_learning_rate=0.03)
    case = tanh_network(LIKELIHOODS["learned_noise"], PRIOR, dtype=jnp.float32)
    family = build_family(config.model_copy(update={"noise": "point"}), case.posterior)
    q = family.start(jax.random.key(0), jnp.zeros(case.size))
    optimiser = optimiser_of(config, 10, family.generator.parameters)
    changes, _ = optimiser.update(jnp.ones_like(q), optimiser.init(q), q)
    np.testing.assert_allclose(family.parts(changes)[1], [-0.03], rtol=1e-4)
    np.testing.assert_allclose(changes[:-1], -0.01, rtol=1e-4)


def test_amsgrad_against_its_recursion():
    gradients = np.random.default_rng(0).normal(size=(30, 5)) * np.linspace(5, 0.1, 30)[:, None]
    scaler = scale_by_amsgrad()
    with jax.enable_x64(True):
        state = scaler.init(jnp.zeros(5))
        m = v = largest = np.zeros(5)
        for t, g in enumerate(gradients, start=1):
            change, state = scaler.update(jnp.asarray(g), state)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            largest = np.maximum(largest, v)
            expected = (m / (1 - 0.9**t)) / (np.sqrt(largest / (1 - 0.999**t)) + 1e-8)
            np.testing.assert_allclose(change, expected, rtol=1e-9)


def test_the_learning_rate_ends_where_the_settings_say():
    config = settings(optimiser=AMSGradConfig(learning_rate=0.1, end=0.02))
    optimiser, q = optimiser_of(config, 4, 1), jnp.zeros(1)
    state, rates = optimiser.init(q), []
    for _ in range(6):
        changes, state = optimiser.update(jnp.ones(1), state, q)
        rates.append(-float(changes[0]))
    np.testing.assert_allclose(rates[0], 0.1, rtol=1e-4)
    np.testing.assert_allclose(rates[4:], 0.02, rtol=1e-4)


def test_a_draw_that_diverges_repeats_the_one_before_with_its_entropies():
    case = tanh_network(LIKELIHOODS["learned_noise"], PRIOR, dtype=jnp.float32)
    config = settings(noise="point", samples=1, epochs=1, steps=1)
    method = build_implicit(config, case.posterior, case.data)
    state = method.init(jax.random.key(0), jnp.zeros(case.size), case.target)

    def walled(theta):
        density = case.target.log_density(theta)
        return density._replace(log_likelihood=jnp.where(theta[0] > 0, jnp.nan, density.log_likelihood))

    behind_a_wall = case.target._replace(log_density=walled)
    step = jax.jit(lambda key, index, state: method.phases[1].step(key, index, state, behind_a_wall, ()))
    repeated = ("entropy", "entropy_error", "entropy_bracket", "entropy_as_trained", "elbo", "objective")
    last, diverged = None, 0
    for index, key in enumerate(jax.random.split(jax.random.key(1), 20)):
        state, values = step(key, jnp.int32(index), state)
        if last is not None:
            assert values["divergent"] == (values["entropy"] == last["entropy"])
            if values["divergent"]:
                assert all(values[name] == last[name] for name in repeated)
                diverged += 1
        last = values
    assert 0 < diverged < 19


def test_a_singular_generator_is_reported(caplog):
    case = tanh_network(LIKELIHOODS["gaussian"], PRIOR, dtype=jnp.float32)
    config = settings(generator=MLPGenerator(noise=6, hidden=(2,)), samples=2, epochs=3, steps=2)
    found = drive(build_implicit(config, case.posterior, case.data), case)
    assert found.statistics["singular"].tolist() == [7, 8]
    assert np.isfinite(found.statistics["elbo"]).all()
    assert "J'J was singular to within rounding at 6 of 6 samples" in caplog.text


def test_large_noise_on_the_weights_is_warned_of(caplog):
    case = tanh_network(LIKELIHOODS["gaussian"], PRIOR, dtype=jnp.float32)
    build_implicit(settings(sigma=0.2), case.posterior, case.data)
    assert "sigma (0.2) is large" in caplog.text


@pytest.mark.parametrize(
    ("changes", "likelihood", "message"),
    [
        ({"noise": "point"}, "gaussian", "method.noise 'point' .*likelihood.kind 'learned_noise', not 'gaussian'"),
        ({"generated": GeneratedConfig(layers=(3,))}, "gaussian", "generated.layers has 3.*there are 0, 1, 2"),
        ({"generated": GeneratedConfig(roles=("wieght",))}, "gaussian", r"has 'wieght'.*did you mean 'weight'"),
        ({"generated": GeneratedConfig(names=("log_sigma",)), "noise": "point"}, "learned_noise", "noise: point"),
        ({"batch_size": 14}, "gaussian", r"batch_size \(14\)"),
        ({"generator": MatrixGenerator(noise=(2, 2), hidden=((3, 3),), output=(2, 2))}, "gaussian", "4 outputs cannot"),
        ({"entropy": LanczosEntropy(steps=6)}, "gaussian", "entropy.steps = 6, .* 5 noise numbers"),
    ],
)  # fmt: skip
def test_settings_that_do_not_suit_the_posterior_are_refused(changes, likelihood, message):
    case = tanh_network(LIKELIHOODS[likelihood], PRIOR, dtype=jnp.float32)
    with pytest.raises(ValueError, match=message):
        build_implicit(settings(**changes), case.posterior, case.data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 2, "entropy_samples": 3}, r"entropy_samples \(3\) must be at most samples \(2\)"),
        ({"learned_sigma": "one", "entropy": PublishedEntropy()}, "published entropy has no learned spread"),
        (
            {"learned_sigma": "weight", "generator": MatrixGenerator(noise=(2, 2), hidden=((3, 3),))},
            "exact.*needs generators of kind mlp.*lanczos.*learned_sigma: one",
        ),
        ({"sigma": 0}, "must be greater than 0.*0.001 is the published default"),
        ({"optimiser": {"kind": "amsgrad", "learning_rate": 1e-4, "end": 1e-3}}, "is above learning_rate .*lower end"),
    ],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        settings(**changes)


def test_a_noise_with_a_prior_that_cannot_be_taken_out_is_refused():
    case = tanh_network(LIKELIHOODS["learned_noise"], LaplacePrior(scale=0.5), dtype=jnp.float32)
    with pytest.raises(ValueError, match=r"method\.noise 'point' .*'laplace'"):
        build_implicit(settings(noise="point"), case.posterior, case.data)


def test_a_state_is_the_generator_and_its_averages(tmp_path):
    """With Adam three arrays of the generator's size, with amsgrad four; fit.npz is next to the trace."""
    problem = network(chains=2)
    config = settings(samples=2, epochs=4, batch_size=13, optimiser=AdamConfig(), steps=3)
    method = build_implicit(config, problem.posterior, problem.data)
    trace = run(method, problem, tmp_path / "trace.zarr")
    assert trace.read().shape == (2, 3, problem.posterior.layout.size)
    with np.load(tmp_path / "fit.npz") as fit:
        learned = sum(array[0].size for name, array in fit.items() if name.startswith("generator"))
        assert {"generated", "points", "point"} < set(fit)
        assert fit["noise"].tolist() == [5, 5]
    family = build_family(config, problem.posterior)
    assert learned == family.generator.parameters
    target = Case(problem.posterior, problem.data).target
    for optimiser, averages in ((AdamConfig(), 2), (AMSGradConfig(), 3)):
        method = build_implicit(config.model_copy(update={"optimiser": optimiser}), problem.posterior, problem.data)
        start = jnp.asarray(problem.starts[0])
        state = jax.eval_shape(lambda start, init=method.init: init(jax.random.key(0), start, target), start)
        sizes = [sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in (state.q, state.optimiser)]
        assert sizes[0] == learned
        assert 0 <= sizes[1] - averages * learned < 5


def test_last_layers_are_squared_once_for_all_samples(monkeypatch):
    """And the gradient through the squares is that of the mean over samples, differentiated as a whole."""
    calls = []
    squares = Branches.squares
    monkeypatch.setattr(Branches, "squares", lambda *arguments: calls.append(1) or squares(*arguments))
    with jax.enable_x64(True):
        case = tanh_network(LIKELIHOODS["gaussian"])
        objective = objective_of(settings(), case)
        family, keys = objective.family, jax.random.split(jax.random.key(0), 4)
        q = family.start(jax.random.key(1), jnp.zeros(case.size))
        (square,) = family.generator.squares(family.tree(q))[0]
        assert square.shape == (6, 6)
        calls.clear()
        found = jax.jit(lambda q: objective.estimate(keys, q, case.target.evaluate, case.target, None))(q)
        assert len(calls) == 1

        def mean(q: jax.Array) -> jax.Array:
            def one(key: jax.Array) -> jax.Array:
                noise = family.draw_noise(jax.random.split(key)[0], q)
                half = 0.5 * jnp.linalg.slogdet(jacobian_gram(family, q, noise.z))[1]
                theta = family(q, noise)
                density = case.target.evaluate(theta).density
                return objective.value(theta, density, objective.entropy(half, q), case.target, objective.weights)

            return jnp.mean(jax.vmap(one)(keys))

        value, gradient = jax.jit(jax.value_and_grad(mean))(q)
    assert float(found.objective) == pytest.approx(float(value), rel=1e-9)
    np.testing.assert_allclose(found.gradient, -gradient, rtol=1e-7, atol=1e-9)


def jacobian_gram(family, q: jax.Array, z: jax.Array) -> jax.Array:
    """J'J + sigma^2 I by J itself."""
    j = jax.jacobian(lambda z: family.generator(family.tree(q), z))(z)
    return j.T @ j + family.sigma**2 * jnp.eye(len(z))
