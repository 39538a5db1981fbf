"""The common frame of all pictures: what fits, legends, signs for runs that should not be trusted, notes, and files."""

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from bnn_atlas.figures import style
from bnn_atlas.figures.metadata import pdf_info, png_text
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import atomic
from bnn_atlas.metrics.judgement.checks import Status, diverged, metric_rows
from bnn_atlas.metrics.judgement.trust import Trust, trust, worst
from bnn_atlas.provenance import Provenance

SIGN = "\N{DAGGER}"
"""Sign next to the name of a run whose chains should not be trusted."""
CHARACTER, HEAD_SIZE, HEAD_LINE = 0.046, 6, 0.1
"""Inches that a character of the head takes, its size in points, and inches that a line of it takes."""
NOTE_CHARACTER = 0.042
"""Inches that a character of a note takes."""
MOST_NAMED, MOST_REASONS = 5, 2
"""Largest numbers of names that a head explains, and of reasons for each; a run's diagnostics page has them all."""
AFTER_A_NAME = (",", ":", " (", "\n")
"""What may follow a name in a picture's text."""
PLAIN_WORD = re.compile(r"^[a-z](?=[a-z]+(?:[\s,:-]|$))")
"""First letter of a text that begins with a word in small letters, not with a symbol or a name such as notMNIST."""


class FigureOutputs(NamedTuple):
    """The three files of a figure."""

    pdf: Path
    png: Path
    csv: Path

    @classmethod
    def of(cls, files: Iterable[str | Path]) -> "FigureOutputs":
        """The files among `files` by their endings; ValueError unless there is one of each."""
        paths = [Path(file) for file in files]
        if sorted(path.suffix for path in paths) != [".csv", ".pdf", ".png"]:
            raise ValueError(f"a figure has one .pdf, one .png and one .csv, not {', '.join(map(str, paths))}")
        by_suffix = {path.suffix: path for path in paths}
        return cls(by_suffix[".pdf"], by_suffix[".png"], by_suffix[".csv"])


def check_fits(number: int, most: int, what: str, remedy: str = "name fewer in the figure's `runs`") -> None:
    """Raise ValueError, with advice, if `number` of `what` exceeds `most`."""
    if number > most:
        raise ValueError(f"{number} {what}: at most {most} fit in one figure; {remedy}")


def panels(
    number: int,
    most_columns: int,
    row: float,
    *,
    wide_from: int = 2,
    more: float = 0.0,
    even: bool = False,
    **share: Any,
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes [rows, columns] for `number` panels, side by side up to `most_columns`; the rest is hidden.

    `row` is the height of a row in inches, and `more` the height of everything else. From `wide_from` columns on, the
    figure is as wide as a page. `even` makes the rows as even as possible: five panels are three and two.
    """
    rows = math.ceil(number / most_columns)
    columns = math.ceil(number / rows) if even else min(number, most_columns)
    width = style.TEXT_WIDTH if columns >= wide_from else style.COLUMN_WIDTH
    figure = Figure(figsize=(width, row * rows + more))
    axes = figure.subplots(rows, columns, squeeze=False, **share)
    for ax in axes.flat[number:]:
        ax.set_visible(False)
    return figure, axes


Entries = Mapping[str, Artist | Mapping[str, Any]]
"""Text in a legend -> an artist, or the look of a line or of a mark."""


def legend_below(figure: Figure, entries: Entries) -> None:
    """One legend for all panels, below them, in as few rows as the width of the figure allows."""
    labels = list(entries)
    handles = [Line2D([], [], **each) if isinstance(each, Mapping) else each for each in entries.values()]
    inches = [0.43 + 0.058 * len(label) for label in labels]
    for rows in range(1, len(labels) + 1):
        # Legends are filled column by column.
        width = sum(max(inches[i : i + rows]) for i in range(0, len(labels), rows))
        if width <= figure.get_size_inches()[0] or rows == len(labels):
            columns = math.ceil(len(labels) / rows)
            figure.legend(handles, labels, loc="outside lower center", ncols=columns)
            return


class Drawing(NamedTuple):
    """What a kind of figure returns: a picture with its numbers."""

    figure: Figure
    numbers: pd.DataFrame
    """What is plotted, as it goes into the CSV."""
    names: Sequence[str] | None = None
    """The name of each run and split in the picture, if it is not its label."""
    notes: Sequence[str] = ()
    """Lines above the panels."""

    def write(self, files: Iterable[str | Path], shown: Sequence[Shown], provenance: Provenance) -> None:
        """Write the picture as PDF and PNG with its provenance inside, and the numbers as CSV.

        Runs that should not be trusted are named above the panels, with the reasons, and their names get a sign
        wherever they appear in the picture. All three files appear together at the end; the same drawing gives the same
        bytes. Call it inside `style.context`. Raises ValueError for a table without rows.
        """
        outputs = FigureOutputs.of(files)
        figure, title = self.figure, outputs.pdf.stem
        trusts = trusted(shown, self.names)
        signed = _sign(figure, trusts)
        _head(figure, [*self.notes, sign_text(trusts, signed)])
        _capitals(figure)
        figure.align_ylabels()
        if note := scale_note(provenance):
            _add_note(figure, note)
        _settle(figure)
        with atomic(outputs.pdf) as pdf, atomic(outputs.png) as png, atomic(outputs.csv) as csv:
            write_csv(csv, self.numbers)
            figure.savefig(png, format="png", metadata={"Software": None, **png_text(title, provenance)})
            figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, **pdf_info(title, provenance)})


def write_csv(path: Path, data: pd.DataFrame) -> None:
    """Write the plotted numbers in the given order, each with enough digits to read back the same value."""
    if data.empty:
        raise ValueError("there is nothing to plot: the table of plotted numbers is empty")
    data.to_csv(path, index=False, lineterminator="\n", na_rep="")


def rounded(values: np.ndarray, digits: int = 5) -> np.ndarray:
    """Values rounded to `digits` significant digits, enough for what a picture shows, so that the CSV stays small."""
    return np.array([float(f"{value:.{digits}g}") for value in values.tolist()])


def trusted(shown: Sequence[Shown], names: Sequence[str] | None = None) -> dict[str, Trust]:
    """Name (by default the label) -> the worst verdict of the checks on its runs and splits (`judgement.trust`)."""
    found: dict[str, list[Trust]] = {}
    for one, name in zip(shown, [one.label for one in shown] if names is None else names, strict=True):
        if "table" in one.files:
            found.setdefault(name, []).append(trust(one.table()))
    return {name: worst(each) for name, each in found.items()}


NOT_SHOWN = "diverged: not shown"
"""Text in the panel of a run that diverged."""
REASON_WIDTH, REASON_SIZE = 30, 5.5
"""Characters of a line, and size in points, of the reason in a panel."""


def lost(one: Shown) -> str:
    """Why the numbers and functions of a run and split are not shown; empty if they are.

    They are not if the fit or its chains diverged, by the rule of all tables and claims (`judgement.checks.diverged`).
    A figure knows this if it has the metric table of its runs among its `files`.
    """
    return diverged(metric_rows(one.table())) if "table" in one.files else ""


def without_diverged(shown: Sequence[Shown]) -> tuple[list[Shown], str]:
    """The runs that did not diverge, and a sentence with the names of the others and why; empty if there are none.

    Seeds and splits of one setting are left out together: the mean of those that are left would be of a chosen few.
    """
    settings = [_setting(one) for one in shown]
    gone: dict[tuple[Any, ...], str] = {}
    for one, setting in zip(shown, settings, strict=True):
        if setting not in gone and (why := lost(one)):
            gone[setting] = f"{_named(one, shown)} ({why})"
    left = [one for one, setting in zip(shown, settings, strict=True) if setting not in gone]
    if not gone:
        return left, ""
    return left, f"Diverged and not shown: {'; '.join(gone.values())}."


def nothing_left(shown: Sequence[Shown]) -> Drawing:
    """A page that says that all runs of a figure diverged; the CSV has the reasons."""
    figure, axes = panels(1, 1, 1.2)
    ax = axes[0, 0]
    ax.set_axis_off()
    ax.text(0.5, 0.5, "All runs of this figure diverged: none is shown", ha="center", va="center", color=style.GREY)
    rows = [(one.run, one.split, lost(one)) for one in shown]
    return Drawing(figure, pd.DataFrame(rows, columns=["run", "split", "diverged"]))


def not_shown(ax: Axes, title: str, why: str) -> None:
    """The panel of a run that diverged: its name, and why it is not shown."""
    text = "\n".join([NOT_SHOWN, *textwrap.wrap(why, REASON_WIDTH)])
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", fontsize=REASON_SIZE, color=style.GREY)
    ax.set_title(title, fontsize=7)


def _setting(one: Shown) -> tuple[Any, ...]:
    """What the seeds and splits of a setting share."""
    name = one.label if one.label != one.run else one.entry
    point = {key: str(value) for key, value in one.point.items() if key.rpartition(".")[2] != "seed"}
    return one.study, name, one.entry, one.dataset, tuple(sorted(point.items()))


def _named(one: Shown, shown: Sequence[Shown]) -> str:
    """The label of a run, with its data set if the figure has several, and with its grid point if that differs."""
    name = " ".join(one.label.split()) if one.label != one.run else one.entry
    alike = [other for other in shown if other.label == one.label and other.dataset == one.dataset]
    differing = [
        f"{key.rpartition('.')[2]} {value}"
        for key, value in one.point.items()
        if key.rpartition(".")[2] != "seed" and any(other.point.get(key) != value for other in alike)
    ]
    of = [one.dataset_title] if len({other.dataset for other in shown}) > 1 else []
    return ", ".join([name, *of, *differing])


def is_distrusted(name: str, trusts: Mapping[str, Trust]) -> bool:
    """Whether the checks say not to trust the runs with this name."""
    return name in trusts and trusts[name].status is Status.DISTRUST


def sign_text(trusts: Mapping[str, Trust], signed: bool = True) -> str:
    """Which runs should not be trusted, and why; empty if there are none. `signed`: whether a name has the sign."""
    bad = [name for name in trusts if is_distrusted(name, trusts)]
    if not bad:
        return ""
    texts = [
        f"{' '.join(name.split())} ({'; '.join(trusts[name].text.split('; ')[:MOST_REASONS])})"
        for name in bad[:MOST_NAMED]
    ]
    if len(bad) > MOST_NAMED:
        texts.append(f"and {len(bad) - MOST_NAMED} more of {len(trusts)}")
    return f"{SIGN if signed else 'Not'} {'not ' if signed else ''}to be trusted: {'; '.join(texts)}."


def scale_note(provenance: Provenance) -> str:
    """What a reader must know about a figure: a reduced setting, and the marks of its runs; empty if there are none."""
    reduced = any(provenance.settings.get("reductions", {}).values())
    texts = [f"reduced setting: scale {provenance.settings['scale']}"] if reduced else []
    return "; ".join([*texts, *provenance.settings.get("marks", ())])


def _sign(figure: Figure, trusts: Mapping[str, Trust]) -> bool:
    """Put the sign at all names in a picture that should have it, and return whether there is one."""
    if not any(is_distrusted(name, trusts) for name in trusts):
        return False
    found = False
    for legend in list(figure.legends):
        labels = [text.get_text() for text in legend.get_texts()]
        new = [signed(label, trusts) for label in labels]
        if new != labels:
            handles = [handle for handle in legend.legend_handles if handle is not None]
            legend.remove()
            legend_below(figure, dict(zip(new, handles, strict=True)))
            found = True
    ticks: set[Text] = set()
    for ax in figure.findobj(Axes):
        for axis in (ax.xaxis, ax.yaxis):
            texts = axis.get_ticklabels()
            ticks.update(texts)
            labels = [text.get_text() for text in texts]
            new = [signed(label, trusts) for label in labels]
            if new != labels:
                axis.set_ticks(axis.get_ticklocs(), new)
                found = True
    for text in figure.findobj(Text):
        if text not in ticks and SIGN not in text.get_text():
            whole = signed(text.get_text(), trusts)
            found |= whole != text.get_text()
            text.set_text(whole)
    return found


def signed(text: str, trusts: Mapping[str, Trust]) -> str:
    """A text that is, or begins with, the name of a run, with the sign after the name if the run should have it."""
    candidates = {each: name for name in trusts for each in (name, " ".join(name.split())) if name}
    found = [each for each in candidates if text == each or text.startswith(tuple(each + a for a in AFTER_A_NAME))]
    longest = max(found, key=len, default="")
    if not found or not is_distrusted(candidates[longest], trusts):
        return text
    return f"{longest} {SIGN}{text[len(longest) :]}"


def with_minus(text: str) -> str:
    """A text with true minus signs in front of its numbers."""
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)


def _head(figure: Figure, texts: Sequence[str]) -> None:
    """Small lines above everything else, in a separate strip, with what a reader has to know before the numbers."""
    width, height = figure.get_size_inches()
    lines = [line for text in texts for line in textwrap.wrap(with_minus(text), int(width / CHARACTER))]
    if lines:
        figure.set_size_inches(width, height + HEAD_LINE * len(lines))
        figure.suptitle("\n".join(lines), x=0.005, ha="left", fontsize=HEAD_SIZE, color=style.GREY)


def _capitals(figure: Figure) -> None:
    """Begin the titles of the figure, its parts and its panels with a capital, if their first word is a plain one."""
    for part in figure.findobj():
        if isinstance(part, Axes):
            titles = {part.get_title(place) for place in ("left", "center", "right")}
        elif isinstance(part, Figure | SubFigure):
            titles = {part.get_suptitle()}
        else:
            continue
        for text in part.get_children():
            if isinstance(text, Text) and text.get_text() in titles:
                text.set_text(PLAIN_WORD.sub(lambda first: first[0].upper(), text.get_text()))


def _settle(figure: Figure) -> None:
    """Fix the layout at rounded places, since its last digits differ from time to time."""
    figure.draw_without_rendering()
    parts = figure.findobj(SubFigure)
    for part in parts:
        part.bbox_relative.set_points(_rounded(part.bbox_relative.get_points()))
    for ax in figure.axes:
        ax.set_position(Bbox(_rounded(ax.get_position(original=True).get_points())))
    for text in (text for part in (figure, *parts) for text in part.texts):
        text.set_position(tuple(_rounded(np.asarray(text.get_position()))))
    figure.set_layout_engine("none")


def _rounded(places: np.ndarray) -> np.ndarray:
    """Places as shares of the figure, rounded to a millionth; -0, which a PDF would show, becomes 0."""
    return places.round(6) + 0.0


def _add_note(figure: Figure, note: str) -> None:
    """Small lines at the bottom right, below everything else; a single line if it fits."""
    lines = textwrap.wrap(note, int(figure.get_size_inches()[0] / NOTE_CHARACTER))
    inches = 0.02 + 0.09 * len(lines)
    strip = inches / figure.get_size_inches()[1]
    figure.text(
        0.995, 0.2 * strip / len(lines), "\n".join(lines), ha="right", va="bottom", fontsize=5.5, color=style.GREY
    )
    if isinstance(engine := figure.get_layout_engine(), ConstrainedLayoutEngine):
        engine.set(rect=(0, strip, 1, 1 - strip))
    for legend in figure.legends:
        # Legends outside the axes are aligned with the figure's edge, not with the layout's rectangle.
        legend.borderaxespad += inches * 72 / mpl.rcParams["legend.fontsize"]
