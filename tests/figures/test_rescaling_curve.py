from collections.abc import Callable

import numpy as np
import pytest

from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.sampling_perspective.rescaling_curve import other_zero, prior_change, rescaling_curve
from bnn_atlas.provenance import Provenance
from tests.figures.conftest import Drawn
from tests.figures.needs_r import needs_r
from tests.figures.shown import shown

Outputs = Callable[[str], FigureOutputs]
LIMITS = (0.6, 1.05)


def test_h_is_the_difference_of_two_normal_densities() -> None:
    b, w1, w2, c = 0.9, 0.5, 0.8, 0.7
    log_before = -(b**2 + w1**2 + w2**2) / 2
    log_after = -((b * c) ** 2 + (w1 * c) ** 2 + (w2 / c) ** 2) / 2
    expected = (np.exp(log_before) - np.exp(log_after)) / (2 * np.pi) ** 1.5
    np.testing.assert_allclose(prior_change(c, b, w1, w2), expected, rtol=1e-12)


@pytest.mark.parametrize(("unit", "limits"), [((0.9, 0.5, 0.8), LIMITS), ((-0.3, 0.2, 0.5), (0.5, 3.0))])
def test_the_other_zero_has_a_closed_form(unit: tuple[float, float, float], limits: tuple[float, float]) -> None:
    zero = other_zero(*unit, limits)
    assert zero == pytest.approx(abs(unit[2]) / np.hypot(unit[0], unit[1]), abs=1e-10)
    assert prior_change(zero, *unit) == pytest.approx(0, abs=1e-12)


def test_a_zero_outside_the_limits_is_named() -> None:
    with pytest.raises(ValueError, match=r"no zero but c = 1 .* other zero is 0\.5$"):
        other_zero(0.0, 1.0, -0.5, LIMITS)


def test_the_two_zeros_can_fall_together() -> None:
    with pytest.raises(ValueError, match="no zero but c = 1"):
        other_zero(0.6, 0.8, 1.0, LIMITS)


def test_runs_are_refused(outputs: Outputs, provenance: Provenance) -> None:
    with pytest.raises(ValueError, match="take the runs out of its settings: mile"):
        rescaling_curve([shown("mile")])


@needs_r
def test_both_zeros_are_marked(drawn: Drawn) -> None:
    table = drawn(rescaling_curve, [])
    curve, zeros = table[table["kind"] == "curve"], table[table["kind"] != "curve"]
    assert (curve["c"].min(), curve["c"].max()) == LIMITS
    np.testing.assert_allclose(curve["h"], prior_change(curve["c"].to_numpy(), 0.9, 0.5, 0.8), rtol=1e-9, atol=1e-15)
    assert zeros["kind"].tolist() == ["other zero", "trivial zero", "published zero"]
    # sqrt(0.64 / 1.06); the published script marks 0.77754.
    np.testing.assert_allclose(zeros["c"], [0.77703, 1, 0.77754], atol=1e-5)
