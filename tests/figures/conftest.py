from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pytest

from bnn_atlas.figures import page, style
from bnn_atlas.figures.drawing import Made, write
from bnn_atlas.figures.latex import LatexTable
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.page import Drawing, FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.checks import Status
from bnn_atlas.metrics.judgement.trust import Trust
from bnn_atlas.provenance import Provenance, collect


class Drawn(Protocol):
    """Draws a kind of figure and gives its numbers."""

    def __call__(self, kind: Callable[..., Made], runs: Sequence[Shown], **more: Any) -> pd.DataFrame: ...


@pytest.fixture
def provenance(tmp_path: Path) -> Provenance:
    settings = {"study": "sampling_perspective", "scale": "demo", "runs": ["a", "b"], "seed": 3}
    return collect(settings | {"reductions": {"a": ["chains: 10 -> 4"], "b": []}}, root=tmp_path)


@pytest.fixture
def outputs(tmp_path: Path) -> Callable[[str], FigureOutputs]:
    def make(folder: str) -> FigureOutputs:
        return FigureOutputs.of(tmp_path / folder / f"figure.{suffix}" for suffix in ("pdf", "png", "csv"))

    return make


@pytest.fixture
def drawn(outputs: Callable[[str], FigureOutputs], provenance: Provenance, monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Draw a kind, hold what is true of every kind, and give the numbers in its CSV.

    The same runs give the same three files; PNG and PDF have the provenance, the CSV has the numbers that were drawn;
    and above the panels is the name of whoever should not be trusted.
    """

    def draw(kind: Callable[..., Made], runs: Sequence[Shown], **more: Any) -> pd.DataFrame:
        tables: list[pd.DataFrame] = []
        original = page.write_csv
        with monkeypatch.context() as patched:
            patched.setattr(page, "write_csv", lambda path, data: (tables.append(data), original(path, data)))
            for folder in ("a", "b"):
                write(kind, runs, outputs(folder), provenance, **more)
        for first, second in zip(outputs("a"), outputs("b"), strict=True):
            assert first.read_bytes() == second.read_bytes()
        assert read_provenance(outputs("a").png) == read_provenance(outputs("a").pdf) == provenance
        numbers = pd.read_csv(outputs("a").csv)
        assert list(numbers.columns) == list(tables[0].columns)
        assert len(numbers) == len(tables[0])
        with style.context(), monkeypatch.context() as patched:
            patched.setattr(page, "trusted", _nobody_trusted)
            if runs and isinstance(made := kind(runs, **more), Drawing):
                made.write(outputs("c"), runs, provenance)
                assert "to be trusted: " in (head := " ".join(made.figure.get_suptitle().split()))
                assert "(R-hat 9" in head
        return numbers

    return draw


def tex(
    kind: Callable[..., LatexTable], runs: Sequence[Shown], folder: Path, *, scale: str = "paper", **settings: Any
) -> str:
    """The text of a table, which is written to `folder` as `table.tex` and `table.csv`."""
    made_of = collect({"scale": scale, "reductions": {}, "seed": 1, **settings}, root=folder)
    write(kind, runs, [folder / "table.tex", folder / "table.csv"], made_of)
    return (folder / "table.tex").read_text(encoding="utf-8")


def _nobody_trusted(shown: Sequence[Shown], names: Sequence[str] | None = None) -> dict[str, Trust]:
    return {name: Trust(Status.DISTRUST, "R-hat 9") for name in names or [one.label for one in shown]}
