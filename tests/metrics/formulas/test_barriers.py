"""Barriers by hand, for each definition; errors by leaving one out."""

import numpy as np
import pytest

from bnn_atlas.metrics.formulas.barriers import barriers, jackknife_error, line


def test_a_straight_line_has_no_excess_over_its_chord() -> None:
    found = barriers(line(11), 2.0 + 3.0 * line(11))
    assert found.sup == pytest.approx(0, abs=1e-12)
    assert found.midpoint == pytest.approx(0, abs=1e-12)
    assert found.max == pytest.approx(1.5), "the higher end less the mean of both"


def test_a_parabola_has_its_height_by_every_definition() -> None:
    x = line(11)
    assert barriers(x, 0.7 + 4 * 0.25 * x * (1 - x)) == pytest.approx((0.25, 0.25, 0.25))


def test_definitions_differ_where_the_peak_is_off_the_middle() -> None:
    """Ends 1 and 3, and 5 at a quarter: the chord is 1.5 there and 2 in the middle, where the value is 0."""
    found = barriers(np.array([0, 0.25, 0.5, 0.75, 1]), np.array([1.0, 5.0, 0.0, 2.0, 3.0]))
    assert found == pytest.approx((3.5, -2.0, 3.0))


def test_values_that_are_not_finite_give_nan_and_lines_without_a_middle_are_refused() -> None:
    assert np.isnan(barriers(line(3), np.array([0.0, np.inf, 0.0]))).all()
    for points in (line(4), np.array([0.1, 0.5, 1.0]), np.array([0.5])):
        with pytest.raises(ValueError, match="1/2 among them"):
            barriers(points, np.zeros(len(points)))


def test_leaving_one_out_gives_the_standard_error_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=30)
    left_out = np.array([np.delete(values, i).mean() for i in range(30)])
    assert jackknife_error(left_out) == pytest.approx(values.std(ddof=1) / np.sqrt(30))
