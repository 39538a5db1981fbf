from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.figures.drawing import write
from bnn_atlas.figures.latex import LatexTable
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
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


def tex(
    kind: Callable[..., LatexTable], runs: Sequence[Shown], folder: Path, *, scale: str = "paper", **settings: Any
) -> str:
    """The text of a table, which is written to `folder` as `table.tex` and `table.csv`."""
    made_of = collect({"scale": scale, "reductions": {}, "seed": 1, **settings}, root=folder)
    write(kind, runs, [folder / "table.tex", folder / "table.csv"], made_of)
    return (folder / "table.tex").read_text(encoding="utf-8")
