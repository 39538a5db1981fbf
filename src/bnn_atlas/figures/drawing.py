"""Drawing a figure as the workflow describes it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from bnn_atlas.config.parts.figures import kinds
from bnn_atlas.figures import style
from bnn_atlas.figures.latex import LatexTable
from bnn_atlas.figures.page import Drawing, nothing_left, without_diverged
from bnn_atlas.figures.shown import Shown, shown_runs
from bnn_atlas.provenance import Provenance, collect


class Made(Protocol):
    """What a kind returns: a `page.Drawing`, a `ggplot.RDrawing` or a `latex.LatexTable`."""

    def write(self, files: Iterable[str | Path], shown: Sequence[Shown], provenance: Provenance, /) -> None:
        """Write its files, which are told apart by their endings."""


def write(
    kind: Callable[..., Made],
    shown: Sequence[Shown],
    files: Iterable[str | Path],
    provenance: Provenance,
    **more: Any,
) -> None:
    """Draw these runs with the function of a kind, in the common style, and write the files.

    Runs that diverged are left out, and a note says so, also if none is left; unless the kind has a panel for each run,
    which says it itself (`figures.page.lost`).
    """
    own = kinds().get(getattr(kind, "__name__", ""))
    left, text = (list(shown), "") if own is not None and own.diverged == "panel" else without_diverged(shown)
    with style.context():
        made = kind(left, **more) if left or not text else nothing_left(shown)
        if text and isinstance(made, Drawing | LatexTable):
            made = made._replace(notes=[*made.notes, text])
        made.write(files, left, provenance)


def draw(described: Mapping[str, Any], outputs: Sequence[str | Path]) -> None:
    """Draw the figure that the workflow describes (`pipeline.figures.Figure.described`) and write its files."""
    kind = getattr(import_module(described["module"]), described["kind"])
    settings = {key: value for key, value in described.items() if key not in ("module", "caption", "shown", "claims")}
    more = {"claims": Path(described["claims"])} if "claims" in described else {}
    write(kind, shown_runs(described), outputs, collect(settings, root="."), **more)
