from collections.abc import Callable
from pathlib import Path

import pytest

from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.provenance import Provenance, collect


@pytest.fixture
def provenance(tmp_path: Path) -> Provenance:
    settings = {"study": "sampling_perspective", "scale": "demo", "runs": ["a", "b"], "seed": 3}
    return collect(settings | {"reductions": {"a": ["chains: 10 -> 4"], "b": []}}, root=tmp_path)


@pytest.fixture
def outputs(tmp_path: Path) -> Callable[[str], FigureOutputs]:
    def make(folder: str) -> FigureOutputs:
        return FigureOutputs.of(tmp_path / folder / f"figure.{suffix}" for suffix in ("pdf", "png", "csv"))

    return make
