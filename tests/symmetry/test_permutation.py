"""The algebra of permutations, and the number of transpositions."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from bnn_atlas.symmetry.groups import SymmetryError
from bnn_atlas.symmetry.permutation import (
    apply,
    ceiling,
    compose,
    compose_units,
    invert,
    invert_units,
    transpositions,
    uniform_units,
    with_transpositions,
)

from .networks import example

some = st.integers(1, 40).flatmap(lambda n: st.permutations(range(n))).map(np.array)


def test_composing_is_applying_one_after_the_other() -> None:
    case = example("lenetti")
    generator = np.random.default_rng(0)
    p, q = (np.stack([uniform_units(case.symmetry, generator) for _ in range(3)]) for _ in range(2))
    twice = apply(case.symmetry, apply(case.symmetry, case.theta, p), q)
    np.testing.assert_array_equal(apply(case.symmetry, case.theta, compose_units(case.symmetry, p, q)), twice)
    back = apply(case.symmetry, twice, invert_units(case.symmetry, compose_units(case.symmetry, p, q)))
    np.testing.assert_array_equal(back, np.broadcast_to(case.theta, back.shape))
    assert back.dtype == case.theta.dtype


@settings(max_examples=50)
@given(some, st.randoms())
def test_inverse_parity_and_conjugation(p: np.ndarray, random: object) -> None:
    n = len(p)
    q = np.random.default_rng(n).permutation(n)
    np.testing.assert_array_equal(compose(p, invert(p)), np.arange(n))
    assert transpositions(p) == transpositions(invert(p))
    assert transpositions(compose(compose(q, p), invert(q))) == transpositions(p)
    sign = round(np.linalg.det(np.eye(n)[p]))
    assert sign == (-1) ** int(transpositions(p))
    assert transpositions(p) == n - connected_components(np.eye(n)[p])[0], "n minus the number of cycles"


def test_identity_exchange_and_cycle() -> None:
    n = 512
    swap, cycle = np.arange(n), np.roll(np.arange(n), -1)
    swap[[3, 200]] = [200, 3]
    assert transpositions(np.stack([np.arange(n), swap, cycle])).tolist() == [0, 1, n - 1]
    assert transpositions(np.array([[0], [0]])).tolist() == [0, 0]


def test_the_mean_of_random_permutations_is_the_ceiling() -> None:
    """Variance of the number of cycles: sum 1/k - 1/k^2."""
    n, draws = 512, 2000
    generator = np.random.default_rng(4)
    found = transpositions(np.stack([generator.permutation(n) for _ in range(draws)]))
    k = np.arange(1, n + 1)
    error = np.sqrt((1 / k - 1 / k**2).sum() / draws)
    assert abs(found.mean() - ceiling(n)) < 4 * error
    assert ceiling(n) == pytest.approx(505.183, abs=1e-3)
    every = np.array(list(itertools.permutations(range(5))))
    assert transpositions(every).mean() == pytest.approx(ceiling(5))


@pytest.mark.parametrize("count", [0, 1, 5, 53, 100, 208, 511])
def test_drawn_permutations_have_their_number_of_transpositions(count: int) -> None:
    p = with_transpositions(np.random.default_rng(count), 512, count)
    np.testing.assert_array_equal(np.sort(p), np.arange(512))
    assert transpositions(p) == count


def test_drawn_permutations_displace_as_many_units_as_the_published_ones() -> None:
    """53 transpositions displace 103 units on average, 208 displace 359 (Xiao et al. 2023, its generator)."""
    for count, displaced in ((53, 103), (208, 359)):
        draws = [with_transpositions(np.random.default_rng(seed), 512, count) for seed in range(60)]
        assert np.mean([(p != np.arange(512)).sum() for p in draws]) == pytest.approx(displaced, abs=2)


def test_every_exchange_is_as_likely() -> None:
    draws = Counter(tuple(with_transpositions(np.random.default_rng(seed), 4, 1)) for seed in range(1200))
    assert len(draws) == 6
    assert sum((count - 200) ** 2 / 200 for count in draws.values()) < 20.5, "chi-squared, 5 degrees of freedom"


@pytest.mark.parametrize("count", [-1, 8, 100])
def test_numbers_that_no_permutation_has_are_refused(count: int) -> None:
    with pytest.raises(SymmetryError, match=rf"8 units has 0 to 7 transpositions, not {count}"):
        with_transpositions(np.random.default_rng(0), 8, count)
