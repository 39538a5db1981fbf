"""exp, log, log1p and tanh of the compiled gradient over the whole range of single precision."""

import numpy as np
import pytest

from .compiled import AVX2, AVX512, best, function

pytestmark = pytest.mark.bits

EXACT = {"exp": np.exp, "log": np.log, "log1p": np.log1p, "tanh": np.tanh}
SMALLEST = 2.0**-126


def numbers(start: int = 0, stride: int = 1009) -> np.ndarray:
    """Every `stride`-th number of all that there are, NaN and infinities with them."""
    return np.arange(start, 2**32, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", EXACT)
def test_functions_are_within_two_units_in_the_last_place(name: str) -> None:
    x = numbers()
    x = x[np.isfinite(x) & ((np.abs(x) >= SMALLEST) | (x == 0))]
    found = function(best(), name, x).astype(float)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(float))
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(float)
        normal = np.isfinite(rounded) & (np.abs(exact) >= SMALLEST)
        assert normal.sum() > 10_000
        assert np.max(np.abs(found - exact)[normal] / unit[normal]) <= 2
    np.testing.assert_array_equal(found[~np.isfinite(rounded)], rounded[~np.isfinite(rounded)])
    assert np.all(np.abs(found[np.isfinite(rounded) & ~normal]) <= SMALLEST)


@pytest.mark.parametrize("name", EXACT)
def test_nan_and_infinities_are_as_in_numpy(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0, -2.0, 200.0, -200.0], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(function(best(), name, x), EXACT[name](x), rtol=3e-7, atol=1e-40)


@pytest.mark.parametrize("name", [*EXACT, "sigmoid"])
def test_both_instruction_sets_give_the_same_bits(name: str) -> None:
    if best() != AVX512:
        pytest.skip("this processor has no AVX-512 to compare with")
    x = numbers(7, 5003)
    wide, narrow = (function(instructions, name, x) for instructions in (AVX512, AVX2))
    np.testing.assert_array_equal(wide.view(np.uint32), narrow.view(np.uint32))
