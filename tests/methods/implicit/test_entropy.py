"""The forms of the entropy against dense determinants, spectra and the published search written out."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.implicit import (
    ExactEntropy,
    ImplicitConfig,
    LanczosEntropy,
    MatrixGenerator,
    MLPGenerator,
    PublishedEntropy,
)
from bnn_atlas.methods.implicit.entropy import (
    Exact,
    Lanczos,
    Place,
    Products,
    Published,
    Smallest,
    _decomposed,
    build_form,
    constant,
    found_direction,
    linearisation_gap,
    orthogonal,
    scoring_form,
    values_after,
)
from bnn_atlas.methods.implicit.generators import Scaled
from bnn_atlas.methods.noise import standard_normal

from .making import GENERATORS, WEIGHTS, at, jacobian, layout, made

SIGMA = 0.05
WIDE = MatrixGenerator(noise=(8, 8), hidden=((60, 60),))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


class Case(NamedTuple):
    generator: Any
    values: Any
    z: jax.Array
    spectrum: np.ndarray
    """Eigenvalues of J'J."""

    @property
    def exact(self) -> float:
        return float(0.5 * np.log(self.spectrum + SIGMA**2).sum())

    def place(self, form: Any, values: Any) -> Place:
        return Place(self.generator, values, form.shared(self.generator, values), self.z, SIGMA)

    def values_of(self, form: Any, count: int = 1) -> Any:
        """Values and reports with several keys."""

        def one(key: jax.Array) -> Any:
            return form.half_log_det(key, self.place(form, self.values), form.start(key, self.z))

        return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(5), count))

    def estimates(self, form: Any, count: int = 1) -> Any:
        """The same, and gradients."""

        def one(key: jax.Array) -> Any:
            search = form.start(key, self.z)
            call = jax.value_and_grad(
                lambda values: form.half_log_det(key, self.place(form, values), search), has_aux=True
            )
            return call(self.values)

        return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(5), count))


def case(name: str) -> Case:
    generator = made(GENERATORS[name])
    values, z = at(generator)
    j = jacobian(generator, values, z)
    return Case(generator, values, z, np.linalg.eigvalsh(j.T @ j))


def along(gradient: Any, values: Any, seed: int = 2) -> tuple[Any, np.ndarray]:
    """A random direction like the parameters, and the gradient's slope along it [count]."""
    leaves, structure = jax.tree.flatten(values)
    rng = np.random.default_rng(seed)
    direction = [jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves]
    pairs = zip(jax.tree.leaves(gradient), direction, strict=True)
    slopes = [np.asarray(g).reshape(len(g), -1) @ np.asarray(d).ravel() for g, d in pairs]
    return jax.tree.unflatten(structure, direction), np.sum(slopes, axis=0)


@pytest.mark.parametrize("name", ["mlp", "matrix"])
def test_the_exact_form_on_both_sides(name):
    """1/2 log det(J'J + s^2 I_d) + (D - d) log s = 1/2 log det(JJ' + s^2 I_D), and its slope by finite differences."""
    one = case(name)
    (value, report), gradient = one.estimates(Exact())
    j = jacobian(one.generator, one.values, one.z)
    wide = 0.5 * np.linalg.slogdet(j @ j.T + SIGMA**2 * np.eye(WEIGHTS))[1]
    np.testing.assert_allclose(value[0], one.exact, rtol=1e-10)
    entropy = float(value[0]) + constant(WEIGHTS, len(one.z), SIGMA)
    np.testing.assert_allclose(entropy, wide + 0.5 * WEIGHTS * np.log(2 * np.pi * np.e), rtol=1e-9)
    assert report.error[0] == 0
    assert report.singular[0] == (one.spectrum[0] <= 0.01 * SIGMA**2)

    direction, slope = along(gradient, one.values)
    key, step = jax.random.key(0), 1e-5

    @jax.jit
    def moved(by: float) -> jax.Array:
        values = jax.tree.map(lambda a, b: a + by * b, one.values, direction)
        return Exact().half_log_det(key, one.place(Exact(), values), None)[0]

    np.testing.assert_allclose(slope[0], (moved(step) - moved(-step)) / (2 * step), rtol=1e-6)


def test_a_singular_jacobian_is_stated_and_finite():
    """Three hidden units for seven noise numbers: four eigenvalues of J'J are zero."""
    generator = made(MLPGenerator(noise=7, hidden=(3,)))
    values, z = at(generator)
    j = jacobian(generator, values, z)
    one = Case(generator, values, z, np.linalg.eigvalsh(j.T @ j))
    (value, report), gradient = one.estimates(Exact())
    expected = 0.5 * np.log(one.spectrum[-3:] + SIGMA**2).sum() + 4 * np.log(SIGMA)
    assert report.singular[0]
    np.testing.assert_allclose(value[0], expected, rtol=1e-9)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(("name", "spread"), [("mlp", "weight"), ("linear", "weight"), ("matrix", "one")])
def test_the_entropy_with_a_spread_for_each_weight(name, spread):
    """1/2 log det(J'S^-2 J + I) + sum log s = 1/2 log det(JJ' + S^2), with its slope in s and in the parameters."""
    one, key = case(name), jax.random.key(0)
    size = (WEIGHTS,) if spread == "weight" else ()
    scale = jnp.asarray(np.random.default_rng(3).uniform(0.02, 0.3, size))
    scaled, d = Scaled(one.generator), len(one.z)

    def half(form: Any, both: Any) -> jax.Array:
        return form.half_log_det(key, Place(scaled, both, form.shared(scaled, both), one.z, 1.0), None)[0]

    both = one.values, scale
    value, gradient = jax.jit(jax.value_and_grad(partial(half, Exact())))(both)

    def wide(values: Any, scale: jax.Array) -> float:
        j = jacobian(one.generator, values, one.z)
        s = np.broadcast_to(scale, WEIGHTS)
        return 0.5 * np.linalg.slogdet(j @ j.T + np.diag(s**2))[1] - np.log(s).sum()

    np.testing.assert_allclose(value, wide(*both), rtol=1e-9)
    batch = jax.tree.map(lambda leaf: leaf[None], gradient)
    direction, slope = along(batch, both)
    ends = [wide(*jax.tree.map(lambda a, b, by=by: a + by * b, both, direction)) for by in (1e-7, -1e-7)]
    np.testing.assert_allclose(slope[0], (ends[0] - ends[1]) / 2e-7, rtol=1e-4)
    probes = jax.vmap(lambda key: Lanczos(d, 1).half_log_det(key, Place(scaled, both, (), one.z, 1.0), None)[0])
    found = np.asarray(jax.jit(probes)(jax.random.split(key, 400)))
    assert abs(found.mean() - value) < 4 * found.std() / 20


class Folded(NamedTuple):
    """z -> |z|: two noise numbers lead to each weight."""

    shape: tuple[int, ...] = (1,)

    def __call__(self, values: Any, z: jax.Array) -> jax.Array:
        return jnp.abs(z)

    def squares(self, values: Any) -> tuple[()]:
        return ()

    def gram(self, values: Any, squares: Any, z: jax.Array) -> jax.Array:
        return jnp.ones((1, 1))


def gaps(generator: Any, values: Any, size: int, noise: int, sigma: float, count: int) -> np.ndarray:
    """Gaps of independent draws."""

    def one(key: jax.Array) -> jax.Array:
        first, second, third = jax.random.split(key, 3)
        z, e = jax.random.normal(first, (noise,)), jax.random.normal(second, (size,))
        return linearisation_gap(third, Place(generator, values, generator.squares(values), z, sigma), e)

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), count)))


def test_the_gap_of_a_fold_is_log_2_and_of_a_linear_map_0():
    """The entropy of a folded normal is log(pi e / 2) / 2, that of a normal log(2 pi e) / 2."""
    found = gaps(Folded(), (), 1, 1, 0.01, 400)
    assert abs(found.mean() - np.log(2)) < 0.02 + 4 * found.std() / 20
    one = case("linear")
    found = gaps(one.generator, one.values, WEIGHTS, 7, 0.3, 200)
    assert 0 < found.std() / np.sqrt(200) < 0.05
    assert abs(found.mean()) < 4 * found.std() / np.sqrt(200)


@pytest.mark.parametrize("sigma", [1e-3, SIGMA])
def test_a_singular_jacobian_in_single_precision(sigma):
    """Of 60 directions 20 are missing; what replaces them is between sigma^2 and sigma^2 plus the rounding."""
    rng = np.random.default_rng(0)
    j = rng.normal(size=(90, 40)) @ rng.normal(size=(40, 60)) / 40
    gram = jnp.asarray(j.T @ j, jnp.float32)
    value, inverse, singular = jax.jit(lambda gram: _decomposed(gram, sigma))(gram)
    there = 0.5 * np.log(np.linalg.eigvalsh(j.T @ j)[20:] + sigma**2).sum()
    rounding = 60 * np.finfo(np.float32).eps * float(gram.max())
    low, high = (there + 10 * np.log(one) for one in (0.5 * sigma**2, sigma**2 + 2 * rounding))
    assert low < value < high
    assert singular == (rounding > 0.01 * sigma**2)
    assert np.isfinite(inverse).all()


def test_no_spectrum_is_computed_if_chains_are_batched():
    """A branch of a batched program is always taken: without eigenvalues it costs one more Cholesky factor."""
    one = case("mlp")

    def value(values: Any) -> jax.Array:
        return jax.value_and_grad(lambda v: Exact().half_log_det(jax.random.key(0), one.place(Exact(), v), None)[0])(
            values
        )

    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), one.values)
    program = str(jax.make_jaxpr(jax.vmap(value))(batch))
    assert "cholesky" in program
    assert not any(word in program for word in ("eigh", "svd", "qr["))


def test_lanczos_is_unbiased_and_knows_its_error():
    """With as many steps as directions, quadrature and solve have no error but the probe's."""
    one = case("matrix")
    count = 2000
    (values, report), gradient = one.estimates(Lanczos(8, 1), count)
    spread = values.std()
    assert abs(values.mean() - one.exact) < 3 * spread / np.sqrt(count)
    np.testing.assert_allclose(np.sqrt(np.mean(report.error**2)), spread, rtol=0.1)
    _, exact = along(one.estimates(Exact())[1], one.values)
    _, slopes = along(gradient, one.values)
    assert abs(slopes.mean() - exact[0]) < 3 * slopes.std() / np.sqrt(count)
    assert slopes.std() / np.sqrt(count) < 0.1 * abs(exact[0])


@pytest.mark.slow
def test_probes_are_averaged_and_too_few_steps_are_in_the_bracket():
    one = case("matrix")
    single, _ = one.values_of(Lanczos(8, 1), 400)
    several, report = one.values_of(Lanczos(8, 4), 400)
    single, several = np.asarray(single), np.asarray(several)
    assert several.std() == pytest.approx(single.std() / 2, rel=0.2)
    assert np.sqrt(np.mean(np.asarray(report.error) ** 2)) == pytest.approx(several.std(), rel=0.2)
    values, short = one.values_of(Lanczos(2, 1), 400)
    error = 3 * np.std(values) / 20
    assert values.mean() + error > one.exact > np.mean(values - short.bracket) - error
    assert np.mean(short.bracket) > 20 * np.mean(report.bracket)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "sigma"), [("float64", 0.003), ("float64", 0.05), ("float32", 0.05)])
def test_the_bracket_of_a_spectrum_over_four_decades(dtype, sigma):
    """85 singular values from 1e-3 to 10: each probe's own value is within its bracket, at every number of steps.

    Gauss quadrature alone is too large, here by 70 (sigma 0.003) and 12 nats after 20 steps, at a probe error of 20.
    """
    squares, counts = np.logspace(-3, 1, 85) ** 2, (2, 5, 10, 20, 40, 85)
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(85, 85)))[0]
    j = jnp.asarray(np.sqrt(squares)[:, None] * vectors.T, dtype)
    products, like = Products(lambda v: j @ v, lambda w: j.T @ w), jnp.zeros(85, dtype)
    keys = jax.random.split(jax.random.key(1), 50)
    found = jax.jit(jax.vmap(lambda key: values_after(counts, key, like, products, sigma)))(keys)
    probes = np.asarray(jax.vmap(lambda key: standard_normal(key, like))(keys), float)
    shares = 85 * (probes @ vectors) ** 2 / (probes**2).sum(1)[:, None]
    own = 0.5 * shares @ np.log(squares + sigma**2)
    rounding = 1e-5 if dtype == "float64" else 0.05
    high, low = np.asarray(found.value, float), np.asarray(found.value - found.bracket, float)
    assert np.all(high > own[:, None] - rounding)
    assert np.all(low < own[:, None] + rounding)
    assert np.all(np.diff((high - low).mean(0)) < 0)
    too_large = (high[:, 3] - own).mean()
    assert too_large == pytest.approx(70 if sigma == 0.003 else 12, rel=0.1)
    assert low[:, 3].mean() < 0.5 * np.log(squares + sigma**2).sum() < high[:, 3].mean()
    np.testing.assert_allclose(low[:, -1], own, atol=rounding)


def test_an_exhausted_space_does_not_close_the_bracket_by_rounding():
    """Singular values that halve: in float32 no more than 16 directions are above rounding, and sigma is below it."""
    squares, sigma = 100 * 4.0 ** -np.arange(60), 1e-4
    singular = jnp.asarray(np.sqrt(squares), jnp.float32)
    products = Products(lambda v: singular * v, lambda w: singular * w)
    keys = jax.random.split(jax.random.key(1), 50)
    call = jax.vmap(lambda key: values_after((40,), key, jnp.zeros(60, jnp.float32), products, sigma))
    found = jax.jit(call)(keys)
    probes = np.asarray(jax.vmap(lambda key: standard_normal(key, jnp.zeros(60, jnp.float32)))(keys), float)
    own = 0.5 * (60 * probes**2 / (probes**2).sum(1)[:, None]) @ np.log(squares + sigma**2)
    high, low = np.asarray(found.value[:, 0], float), np.asarray(found.value - found.bracket, float)[:, 0]
    assert (high - own).mean() > 5
    assert np.all(low < own + 0.5)


def test_lanczos_ends_early_where_the_space_is_exhausted():
    """J'J with two eigenvalues: two steps have all, and the others change nothing."""
    generator = made(MLPGenerator(noise=7, hidden=()))
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(WEIGHTS, 7)))[0] * np.array([1, 1, 1, 2, 2, 2, 2])
    values = {"shared": (), "branches": (({"weight": jnp.asarray(basis), "bias": jnp.zeros(WEIGHTS)},),)}
    one = Case(generator, values, jnp.ones(7), np.array([1, 1, 1, 4, 4, 4, 4.0]))
    two, _ = one.values_of(Lanczos(2, 1), 5)
    (seven, _), gradient = one.estimates(Lanczos(7, 1), 5)
    np.testing.assert_allclose(seven, two, rtol=1e-9)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_the_smallest_singular_value_and_when_it_is_a_bound():
    one = case("matrix")
    smallest, d = one.spectrum[0], len(one.z)
    (value, report), gradient = one.estimates(Smallest(300, 1e-3), 3)
    np.testing.assert_allclose(value, 0.5 * d * np.log(smallest + SIGMA**2), rtol=1e-4)
    assert report.converged.all()
    assert np.all(value - report.bracket <= 0.5 * d * np.log(smallest + SIGMA**2) + 1e-9)
    assert np.all(value - report.bracket < one.exact)
    value, report = one.values_of(Smallest(1, 1e-6), 3)
    assert not report.converged.any()
    assert np.all(value > 0.5 * d * np.log(smallest + SIGMA**2))

    # The slope is that of the eigenvalue, by finite differences of the spectrum.
    direction, slope = along(gradient, one.values)
    step, ends = 1e-5, []
    for by in (step, -step):
        moved = jax.tree.map(lambda a, b, by=by: a + by * b, one.values, direction)
        j = jacobian(one.generator, moved, one.z)
        ends.append(0.5 * d * np.log(np.linalg.eigvalsh(j.T @ j)[0] + SIGMA**2))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-2)


def test_the_search_goes_on_where_it_stopped():
    one = case("matrix")
    key, form = jax.random.key(0), Smallest(2, 0.1)
    search, errors = form.start(key, one.z), []
    step = jax.jit(lambda search: form.half_log_det(key, one.place(form, one.values), search))
    for _ in range(20):
        value, report = step(search)
        search = report.search
        errors.append(float(value) - 0.5 * len(one.z) * np.log(one.spectrum[0] + SIGMA**2))
    assert errors[0] > 1e-3
    assert errors[-1] < 1e-6
    assert report.converged


def test_a_direction_that_only_rounding_has_left_is_dropped():
    """In the plane a third one is a sum of the two others, here with errors as of a GPU's fast products."""
    angle = jax.random.uniform(jax.random.key(0), (1000,), maxval=2 * jnp.pi)
    first = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    second = jnp.stack([-jnp.sin(angle), jnp.cos(angle)], axis=1) + 1e-3 * jax.random.normal(
        jax.random.key(1), (1000, 2)
    )
    third = jax.random.normal(jax.random.key(2), (1000, 2))
    left = jax.vmap(lambda third, first, second: orthogonal(third, [first, second]))(third, first, second)
    np.testing.assert_array_equal(left, 0)


def published_search(j: np.ndarray, v: np.ndarray, p: np.ndarray, rows: int, iterations: int) -> np.ndarray:
    """The published iteration as its description has it, on a matrix."""
    mu = np.linalg.norm(j @ v) / np.linalg.norm(v)
    for _ in range(iterations):
        r = j.T @ (j @ v) - mu**2 * v
        r = r / r.mean()
        blocks = [
            np.linalg.svd(np.stack(b, -1), full_matrices=False)[0]
            for b in zip(*(np.split(a, rows) for a in (v, r, p)), strict=True)
        ]
        basis = np.concatenate(blocks)
        last = np.linalg.svd(j @ basis)[2][-1]
        v, p = basis @ last, basis[:, 1:] @ last[1:]
        mu = np.linalg.norm(j @ v)
    return v


@pytest.mark.parametrize("rows", [1, 4])
def test_the_published_search(rows):
    rng = np.random.default_rng(1)
    j = rng.normal(size=(60, 20)) / np.sqrt(60)
    products = Products(lambda v: jnp.asarray(j) @ v, lambda w: jnp.asarray(j).T @ w)
    key = jax.random.key(3)
    v, p = np.asarray(jax.random.normal(key, (40,))).reshape(2, 20)
    found = np.asarray(jax.jit(lambda key: found_direction(key, jnp.zeros(20), products, rows, 4))(key))
    expected = published_search(j, v, p, rows, 4)
    np.testing.assert_allclose(np.linalg.norm(j @ found), np.linalg.norm(j @ expected), rtol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(found), np.sqrt(rows), rtol=1e-8)


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        (MLPGenerator(noise=400, hidden=()), {3: -168, 5: -190}),
        (MatrixGenerator(noise=(20, 20), hidden=((20, 20),)), {3: 584, 5: 585}),
    ],
)  # fmt: skip
def test_values_of_the_published_form_depend_on_the_shape_of_the_noise(generator, expected):
    """A normal J of 2,000 x 400, whose exact value is -21.6: found in simulation, means over five draws."""
    rows = made(generator, layout(2000)).noise_rows

    @partial(jax.jit, static_argnums=2)
    def value(key: jax.Array, j: jax.Array, iterations: int) -> jax.Array:
        products = Products(lambda v: j @ v, lambda w: j.T @ w)
        v = found_direction(key, jnp.zeros(400), products, rows, iterations)
        return 400 * jnp.log(jnp.linalg.norm(j @ v))

    matrices = [np.random.default_rng(seed).normal(size=(2000, 400)) / np.sqrt(2000) for seed in range(5)]
    for iterations, wanted in expected.items():
        values = [value(jax.random.key(seed), j, iterations) for seed, j in enumerate(matrices)]
        assert np.mean(values) == pytest.approx(wanted, abs=12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("mlp", 1), ("matrix", 2), ("correlated", 1), ("factorised", 1)])
def test_value_and_slope_of_the_published_form(name, rows):
    """d log(|J v| + sigma^2) with v, where the search ends, held fixed; correlated generators take a vector."""
    one, key, form = case(name), jax.random.key(1), Published(3, rows)
    generator, d = one.generator, len(one.z)
    start = np.asarray(standard_normal(key, jnp.zeros(2 * d))).reshape(2, d)
    v = jnp.asarray(published_search(jacobian(generator, one.values, one.z), *start, rows, 3))

    def value(values: Any) -> jax.Array:
        return form.half_log_det(key, one.place(form, values), None)[0]

    def written_out(values: Any) -> jax.Array:
        change = jax.jvp(lambda z: generator(values, z), (one.z,), (v,))[1]
        return d * jnp.log(jnp.linalg.norm(change) + SIGMA**2)

    found, expected = (jax.jit(jax.value_and_grad(f))(one.values) for f in (value, written_out))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8), found, expected)


def test_the_published_form_is_neither_estimate_nor_bound_for_a_generator():
    one = case("mlp")
    (values, report), gradient = one.estimates(Published(5, 1), 50)
    assert np.isnan(report.error).all()
    assert not report.converged.any()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    low = len(one.z) * np.log(np.sqrt(one.spectrum[0]) + SIGMA**2)
    assert np.all(values >= low - 1e-9)


@pytest.mark.parametrize(
    ("entropy", "generator", "message"),
    [
        (ExactEntropy(memory_mb=1), WIDE, r"about 4 MB, more than entropy\.memory_mb"),
        (LanczosEntropy(steps=8), MLPGenerator(noise=7, hidden=(9,)), "entropy.steps = 8, .* 7 noise numbers"),
        (PublishedEntropy(), MatrixGenerator(noise=(4, 2), hidden=((3, 3),)), "at least 3 columns, .* has 2"),
    ],
)  # fmt: skip
def test_forms_that_do_not_suit_a_generator_are_refused(entropy, generator, message):
    with pytest.raises(ValueError, match=message):
        build_form(entropy, made(generator), np.dtype(np.float32))


def test_messages_name_the_key_that_is_wrong():
    generator, single = made(MLPGenerator(noise=7, hidden=(9,))), np.dtype(np.float32)
    for entropy, message in (
        (LanczosEntropy(steps=5000), r"lower scored_by\.steps"),
        (ExactEntropy(memory_mb=1), r"more than scored_by\.memory_mb .* or choose scored_by: \{ kind: lanczos"),
    ):
        config = ImplicitConfig(generator={"kind": "mlp", "noise": 7, "hidden": [9]}, scored_by=entropy)
        large = generator if isinstance(entropy, LanczosEntropy) else made(WIDE)
        with pytest.raises(ValueError, match=message):
            scoring_form(config, Lanczos(7, 1), large, single)


def test_nothing_of_the_size_of_the_jacobian_is_held():
    """Exact entropy and gradient of a matrix generator for D = 40,000 weights, less memory than J of 400 columns."""
    weights = layout(40_000)
    generator = made(MatrixGenerator(noise=(20, 20), hidden=((22, 22),), output=(200, 200)), weights)
    key = jax.random.key(0)

    def entropy(values: Any, z: jax.Array) -> jax.Array:
        place = Place(generator, values, Exact().shared(generator, values), z, SIGMA)
        return Exact().half_log_det(key, place, None)[0]

    single = jnp.float32
    values = jax.eval_shape(lambda key: generator.start(key, jnp.zeros(generator.size, single)), key)
    compiled = jax.jit(jax.value_and_grad(entropy)).lower(values, jax.ShapeDtypeStruct((400,), single)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 0.5 * 40_000 * 400 * 4
