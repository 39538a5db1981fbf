"""Figures of the study that the tests of config/ change."""

from collections.abc import Iterator

import pytest

from bnn_atlas.config.figures import FIGURES, FigureRule


@pytest.fixture(scope="package", autouse=True)
def _figures() -> Iterator[None]:
    rules = {
        "curve": FigureRule("small", {"table": "metrics.parquet"}),
        "cloud": FigureRule("small", {"grid": "grid.npz"}, sections=("grid",), one_run=True),
        "bumps": FigureRule("small", {"draws": "draws.parquet"}, sections=("subset",), one_run=True),
        "line": FigureRule("small", {}),
        "evidence": FigureRule("small", {"e_values": "e_values.parquet"}),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FIGURES, "small", rules)
        yield
