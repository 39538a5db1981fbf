"""Drawing a figure as the workflow describes it."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bnn_atlas.figures.latex import TableOutputs
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import shown_runs
from bnn_atlas.provenance import collect

FigureFunction = Callable[..., None]
"""Its arguments are the runs, the outputs and the provenance, and `claims` for a kind that reads them."""


def draw(described: Mapping[str, Any], outputs: Sequence[str | Path]) -> None:
    """Draw the figure that the workflow describes (`workflow.figures.Figure.described`) and write its files."""
    function: FigureFunction = getattr(import_module(described["module"]), described["kind"])
    table = any(str(file).endswith(".tex") for file in outputs)
    settings = {key: value for key, value in described.items() if key not in ("module", "caption", "shown", "claims")}
    function(
        shown_runs(described),
        TableOutputs.of(outputs) if table else FigureOutputs.of(outputs),
        collect(settings, root="."),
        **({"claims": Path(described["claims"])} if "claims" in described else {}),
    )
