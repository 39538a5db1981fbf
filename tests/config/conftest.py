"""Figures of the study that the tests of config/ change."""

from collections.abc import Iterator

import pytest

from bnn_atlas.config.studies import FIGURES, FigureNeeds


@pytest.fixture(scope="package", autouse=True)
def _figures() -> Iterator[None]:
    needs = {
        "curve": FigureNeeds(),
        "cloud": FigureNeeds("grid", one_run=True),
        "bumps": FigureNeeds("subset", one_run=True),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FIGURES, "small", needs)
        yield
