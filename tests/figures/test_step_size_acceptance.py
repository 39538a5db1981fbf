from collections.abc import Callable
from pathlib import Path

import pytest

from bnn_atlas.figures.hmc_posteriors.step_size_acceptance import step_size_acceptance
from bnn_atlas.figures.page import FigureOutputs
from tests.figures.conftest import Drawn
from tests.figures.swept import swept

Outputs = Callable[[str], FigureOutputs]


def test_acceptances_are_beside_the_published_ones(drawn: Drawn, tmp_path: Path) -> None:
    runs = [
        swept(tmp_path, f"s{i}", {"acceptance_mean": value}, point={"method.step_size": 0.001 * 2**i})
        for i, value in enumerate((0.99, 0.95, 0.7))
    ]
    table = drawn(step_size_acceptance, runs)
    found = table[table["metric"] == "acceptance_mean"].set_index("x")["value"]
    assert found.to_dict() == {0.001: 0.99, 0.002: 0.95, 0.004: 0.7, 1e-5: 0.722, 5e-5: 0.463, 1e-4: 0.222, 5e-4: 0.125}
    assert not table.loc[table["kind"] == "published", "approximate"].any()


def test_a_method_without_a_metropolis_test_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run of the figure has acceptance_mean"):
        step_size_acceptance([swept(tmp_path, "a", point={"method.step_size": 1})])
