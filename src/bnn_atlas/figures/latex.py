"""Tables for LaTeX: escape text, and write tables in one common form."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bnn_atlas.figures.page import SIGN, scale_note, sign_text, signed, trusted, write_csv
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import atomic
from bnn_atlas.provenance import Provenance

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "\N{MINUS SIGN}": "$-$", "±": r"$\pm$", "×": r"$\times$", "\N{DAGGER}": r"$\dagger$",
}  # fmt: skip
"""Character -> how LaTeX prints it."""


class TableOutputs(NamedTuple):
    """The two files of a table."""

    tex: Path
    csv: Path

    @classmethod
    def of(cls, files: Iterable[str | Path]) -> "TableOutputs":
        """The files among `files` by their endings; ValueError unless there is one of each."""
        paths = sorted(map(Path, files), key=lambda path: path.suffix)
        if [path.suffix for path in paths] != [".csv", ".tex"]:
            raise ValueError(f"a table has one .tex and one .csv, not {', '.join(map(str, paths))}")
        return cls(paths[1], paths[0])


def escape(text: str) -> str:
    """LaTeX code that prints `text`, on one line."""
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))


class LatexTable(NamedTuple):
    """What a kind of figure returns if it is a table: a `tabular` for booktabs; all but the notes is LaTeX."""

    header: Sequence[str]
    blocks: Sequence[tuple[str, Sequence[Sequence[str]]]]
    """Titles with rows of cells."""
    notes: Sequence[str]
    """Plain sentences below the table."""
    numbers: pd.DataFrame
    is_signed: bool = False
    """Whether cells and notes already say which runs should not be trusted."""

    def write(self, files: Iterable[str | Path], shown: Sequence[Shown], provenance: Provenance) -> None:
        r"""Write the table with its provenance as comments, and the numbers as CSV; both appear together.

        Unless the table is signed, runs that should not be trusted have a sign at their label in the first column and
        the reasons below. The file is for `\input` and needs `\usepackage{booktabs}`. The same numbers give the same
        bytes. Raises ValueError for a table without numbers.
        """
        outputs = TableOutputs.of(files)
        columns, trusts = len(self.header), {} if self.is_signed else trusted(shown)
        escaped = {escape(name): found for name, found in trusts.items()}
        lines = [
            r"% Needs \usepackage{booktabs}.",
            f"% {provenance.to_json()}",
            rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}",
            r"\toprule",
            _row(self.header),
        ]
        for title, rows in self.blocks:
            lines += [
                r"\midrule",
                rf"\multicolumn{{{columns}}}{{l}}{{{title}}} \\",
                *(_row([signed(cells[0], escaped).replace(SIGN, escape(SIGN)), *cells[1:]]) for cells in rows),
            ]
        lines.append(r"\bottomrule")
        reduced = scale_note(provenance)
        notes = [*self.notes, sign_text(trusts), f"{reduced.capitalize()}." if reduced else ""]
        if text := " ".join(escape(note) for note in notes if note):
            lines.append(rf"\multicolumn{{{columns}}}{{p{{0.95\linewidth}}}}{{\footnotesize {text}}} \\")
        lines.append(r"\end{tabular}")
        with atomic(outputs.tex) as tex, atomic(outputs.csv) as csv:
            write_csv(csv, self.numbers)
            tex.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
