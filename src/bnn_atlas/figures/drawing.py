"""Drawing a figure as the workflow describes it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from bnn_atlas.config.parts.figures import kinds
from bnn_atlas.figures import style
from bnn_atlas.figures.latex import LatexTable, escape
from bnn_atlas.figures.page import Drawing, lost, nothing_left, without_diverged
from bnn_atlas.figures.shown import Shown, shown_runs
from bnn_atlas.provenance import Provenance, collect


class Made(Protocol):
    """What a kind returns: a `page.Drawing`, a `ggplot.RDrawing` or a `latex.LatexTable`."""

    def write(self, files: Iterable[str | Path], shown: Sequence[Shown], provenance: Provenance, /) -> None:
        """Write its files, which are told apart by their endings."""


def write(
    kind: Callable[..., Made],
    shown: Sequence[Shown],
    files: Sequence[str | Path],
    provenance: Provenance,
    **more: Any,
) -> None:
    """Draw these runs with the function of a kind, in the common style, and write the files.

    Runs that diverged are left out, and a note says so, unless the kind has a panel for each run, which says it itself
    (`figures.page.lost`). If all diverged, there is only the note.
    """
    own = kinds().get(getattr(kind, "__name__", ""))
    left, text = without_diverged(shown)
    if own is not None and own.diverged == "panel" and not all(map(lost, shown)):
        left, text = list(shown), ""
    with style.context():
        made = kind(left, **more) if left or not text else _nothing_left(shown, files)
        if text and isinstance(made, Drawing | LatexTable):
            made = made._replace(notes=[*made.notes, text])
        made.write(files, left, provenance)


def _nothing_left(shown: Sequence[Shown], files: Iterable[str | Path]) -> Made:
    """A page, or a table if the files are a table's, that names the diverged runs; the CSV has the reasons."""
    picture = nothing_left(shown)
    if all(Path(file).suffix != ".tex" for file in files):
        return picture
    rows = [[escape(one.label), escape(lost(one))] for one in shown]
    return LatexTable(("run", "why it is not shown"), [("", rows)], [], picture.numbers)


def draw(described: Mapping[str, Any], outputs: Sequence[str | Path]) -> None:
    """Draw the figure that the workflow describes (`pipeline.figures.Figure.described`) and write its files."""
    kind = getattr(import_module(described["module"]), described["kind"])
    settings = {key: value for key, value in described.items() if key not in ("module", "caption", "shown", "claims")}
    more = {"claims": Path(described["claims"])} if "claims" in described else {}
    write(kind, shown_runs(described), outputs, collect(settings, root="."), **more)
