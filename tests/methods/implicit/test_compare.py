"""The comparison of the forms at a kept fit against dense NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.implicit import ExactEntropy, ImplicitConfig, MatrixGenerator, MLPGenerator
from bnn_atlas.methods.implicit import compare
from bnn_atlas.methods.implicit.compare import PLACES, REPEATS, compared
from bnn_atlas.methods.implicit.family import Fitted, build_family
from tests.methods.fitting import LIKELIHOODS, tanh_network

SIGMA = 0.05


def fit_of(generator) -> Fitted:
    case = tanh_network(LIKELIHOODS["gaussian"], dtype=jnp.float32)
    config = ImplicitConfig(generator=generator, entropy=ExactEntropy(), sigma=SIGMA)
    family = build_family(config, case.posterior)
    return Fitted(family, family.start(jax.random.key(0), jnp.zeros(case.size)))


def spectra(fit: Fitted, seed: int) -> list[np.ndarray]:
    """Eigenvalues of J'J at the places of the comparison, from J itself."""
    values, found = fit.family.tree(fit.q), []
    for key in jax.random.split(jax.random.split(jax.random.key(seed))[0], PLACES):
        j = np.asarray(jax.jacobian(lambda z: fit.family.generator(values, z))(fit.family.draw_noise(key, fit.q).z))
        found.append(np.linalg.eigvalsh(j.astype(float).T @ j.astype(float)))
    return found


@pytest.mark.slow
def test_forms_against_dense_values():
    fit = fit_of(MLPGenerator(noise=8, hidden=(12,)))
    rows = {(row.form, row.setting): row for row in compared(fit, 3)}
    assert list(rows) == [
        ("lanczos", 2), ("lanczos", 5), *(("smallest", n) for n in (1, 3, 10, 30)),
        *(("published", n) for n in (1, 3, 5, 10)),
    ]  # fmt: skip
    dense = spectra(fit, 3)
    exact = np.mean([0.5 * np.log(one + SIGMA**2).sum() for one in dense])
    assert [row.exact for row in rows.values()] == pytest.approx([exact] * len(rows), abs=1e-3)
    smallest = np.mean([4 * np.log(one[0] + SIGMA**2) for one in dense])
    assert rows["smallest", 30].error == pytest.approx(smallest - exact, abs=0.05)
    assert rows["smallest", 30].bracket < rows["smallest", 1].bracket
    # 8 log of a length between the smallest and the largest singular value.
    ends = [8 * np.log(np.sqrt([one[0], one[-1]]) + SIGMA**2) for one in dense]
    low, high = np.mean(ends, axis=0) - exact
    assert low - 0.1 < rows["published", 10].error < rows["published", 1].error < high
    assert np.isnan([rows["published", 1].bracket, rows["published", 1].stated_sd]).all()
    for steps in (2, 5):
        row = rows["lanczos", steps]
        chance = 3 * row.sd / np.sqrt(PLACES * REPEATS)
        assert row.error - row.bracket - chance < 0 < row.error + chance
        assert row.products == 2 * steps
    assert rows["lanczos", 5].bracket < rows["lanczos", 2].bracket
    assert rows["lanczos", 5].stated_sd == pytest.approx(rows["lanczos", 5].sd, rel=0.35)


@pytest.mark.parametrize(
    "generator",
    [
        MatrixGenerator(noise=(3, 2), hidden=((4, 4),)),
        MLPGenerator(noise=2, hidden=(3,)),
        MLPGenerator(noise=1, hidden=(3,)),
    ],
)
def test_forms_that_do_not_suit_a_generator_are_left_out(generator):
    rows = compared(fit_of(generator), 0)
    assert {row.form for row in rows} == {"lanczos", "smallest"}
    assert all(np.isfinite([row.error, row.sd, row.bracket]).all() for row in rows)


def test_a_generator_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(compare, "MEMORY_MB", 1e-6)
    with pytest.raises(ValueError, match=r"8 noise numbers, .* a smaller generator"):
        compared(fit_of(MLPGenerator(noise=8, hidden=(12,))), 0)
