"""Bits of the compiled gradient: the same on both instruction sets, and however the rows come."""

import numpy as np
import pytest

from bnn_atlas.posterior.compiled import ACTIVATIONS, HEADS

from .compiled import AVX2, AVX512, Case, best, case, gradient

pytestmark = pytest.mark.bits

SHAPES = [((5, 16, 16, 2), 1202), ((1, 3), 1), ((7, 64, 64, 2), 333), ((3, 33, 2), 5000), ((64, 1, 9, 2), 65)]


def assert_same(found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


def outputs(head: str, widths: tuple[int, ...]) -> tuple[int, ...]:
    """The widths with as many outputs as the likelihood has."""
    return (*widths[:-1], {"known_noise": 1, "learned_noise": 1, "categorical": 5}.get(head, 2))


@pytest.mark.parametrize(("widths", "rows"), SHAPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("head", HEADS)
def test_avx512_and_avx2_give_the_same_bits(widths: tuple[int, ...], rows: int, activation: str, head: str) -> None:
    if best() != AVX512:
        pytest.skip("this processor has no AVX-512 to compare with")
    given = case(outputs(head, widths), activation, bias=rows != 333, head=head, rows=rows, weighted=rows == 1202)
    assert_same(gradient(AVX512, given), gradient(AVX2, given))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("rows", [1, 15, 16, 64, 80, 129, 4096, 4500])
def test_rows_by_feature_row_by_row_and_by_number_give_the_same_bits(head: str, rows: int) -> None:
    given = case(outputs(head, (3, 17, 2)), head=head, rows=rows, weighted=rows > 64)
    whole = gradient(best(), given)
    assert_same(gradient(best(), given, by_feature=True), whole)
    assert_same(gradient(best(), given, np.arange(rows, dtype=np.int32)), whole)


def test_a_mini_batch_is_its_rows() -> None:
    given = case((5, 16, 16, 2), rows=300, weighted=True)
    chosen = np.random.default_rng(1).integers(0, 300, 80, np.int32)
    alone = given._replace(x=given.x[chosen], y=given.y[chosen], weights=given.weights[chosen])
    assert_same(gradient(best(), given, chosen), gradient(best(), alone))


def test_rows_of_weight_zero_do_not_count() -> None:
    given = case((5, 16, 2), rows=200, weighted=True)
    kept = given.weights == 1
    alone = given._replace(x=given.x[kept], y=given.y[kept], weights=None)
    for found, expected in zip(gradient(best(), given), gradient(best(), alone), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_row_numbers_outside_are_kept_inside() -> None:
    given: Case = case((2, 4, 2), rows=10)
    inside, outside = (np.array(rows, np.int32) for rows in ([0, 9], [-5, 4000]))
    assert_same(gradient(best(), given, outside), gradient(best(), given, inside))
