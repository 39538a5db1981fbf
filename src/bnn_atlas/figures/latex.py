"""Tables for LaTeX: escaping, and the one way to write them."""

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
    """`text` as LaTeX prints it, on one line."""
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))


def write_latex(
    header: Sequence[str],
    blocks: Sequence[tuple[str, Sequence[Sequence[str]]]],
    notes: Sequence[str],
    data: pd.DataFrame,
    outputs: TableOutputs,
    provenance: Provenance,
    shown: Sequence[Shown] = (),
) -> None:
    r"""Write a `tabular` for booktabs with its provenance as comments, and the numbers as CSV; both appear together.

    `header` are the heads of the columns, `blocks` titles with rows of cells, all of them LaTeX already; `notes` are
    plain sentences below the table. Whoever of `shown` should not be trusted has a sign at its label in the first
    column and its reasons below. The file is for `\input` and needs `\usepackage{booktabs}`. The same numbers give
    the same bytes. Raises ValueError for a table without numbers.
    """
    columns, trusts = len(header), trusted(shown)
    escaped = {escape(name): found for name, found in trusts.items()}
    lines = [
        r"% Needs \usepackage{booktabs}.",
        f"% {provenance.to_json()}",
        rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}",
        r"\toprule",
        _row(header),
    ]
    for title, rows in blocks:
        lines += [
            r"\midrule",
            rf"\multicolumn{{{columns}}}{{l}}{{{title}}} \\",
            *(_row([signed(cells[0], escaped).replace(SIGN, escape(SIGN)), *cells[1:]]) for cells in rows),
        ]
    lines.append(r"\bottomrule")
    if signs := sign_text(trusts):
        notes = [*notes, signs]
    reduced = scale_note(provenance)
    text = " ".join(escape(note) for note in [*notes, *([f"{reduced.capitalize()}."] if reduced else [])])
    if text:
        lines.append(rf"\multicolumn{{{columns}}}{{p{{0.95\linewidth}}}}{{\footnotesize {text}}} \\")
    lines.append(r"\end{tabular}")
    with atomic(outputs.tex) as tex, atomic(outputs.csv) as csv:
        write_csv(csv, data)
        tex.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
