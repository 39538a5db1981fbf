"""Accuracy, agreement and total variation of each method beside the ceiling, as a table."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures.hmc_posteriors.agreement import CEILING, METRICS, OTHER, SAME, SHIFTED, TWO_VERSIONS, agreements
from bnn_atlas.figures.latex import LatexTable, escape
from bnn_atlas.figures.page import SIGN, sign_text, trusted
from bnn_atlas.figures.shown import Shown

KIND = {"files": ["table"], "files_if_any": ["sets", "against"], "output": "table"}

HEADS = {"accuracy": "accuracy", "agreement": "agreement", "total_variation": "TV"}
BLOCKS = {
    CEILING: "Single chains of the reference: accuracy, and agreement and TV with the other chains",
    SAME: "On the same posterior",
    OTHER: "On the posterior with the prior that the method has in the paper",
}
OF_VERSIONS = "The two published versions of the reference: agreement and TV with each other"
DIGITS = 3


def agreement_tv_table(shown: Sequence[Shown]) -> LatexTable:
    """Accuracy, agreement and total variation on test rows and on shifted ones as LaTeX (booktabs) and a CSV.

    Cells are a value and its standard error; what the paper prints for CIFAR-10 follows in a block of its own. Notes
    say whether the reference has converged. Numbers are those of `agreement.agreements`.
    """
    numbers, reference = agreements(shown)
    kinds = [which for which in (TEST, SHIFTED) if (numbers["rows"] == which).any()]
    columns = [(which, metric) for which in kinds for metric in METRICS]
    titles = BLOCKS | ({CEILING: OF_VERSIONS} if (numbers["label"] == TWO_VERSIONS).any() else {})
    blocks = [
        (title, _rows(part, columns, "value", "error"))
        for group, title in titles.items()
        if len(part := numbers[numbers["group"] == group])
    ]
    if len(paper := numbers[numbers["published"].notna()]):
        blocks.append(("Published for CIFAR-10", _rows(paper, columns, "published", "published_sd")))
    header = ["", *(f"{HEADS[metric]}{', shifted' if which == SHIFTED else ''}" for which, metric in columns)]
    return LatexTable(
        header,
        blocks,
        [*_notes(numbers), reference, *filter(None, [sign_text(trusted(shown))])],
        numbers,
        is_signed=True,
    )


def _rows(part: pd.DataFrame, columns: Sequence[tuple[str, str]], value: str, error: str) -> list[list[str]]:
    """A row of cells for each label and group."""
    rows = []
    for (group, label), own in part.groupby(["group", "label"], sort=False):
        found = {(row.rows, row.metric): (getattr(row, value), getattr(row, error)) for row in own.itertuples()}
        cells = [_cell(*found.get(column, (np.nan, np.nan))) for column in columns]
        chains = ", single chains" if group == CEILING and label != TWO_VERSIONS else ""
        sign = f" {SIGN}" if own["distrusted"].any() and value == "value" else ""
        rows.append([escape(f"{label}{chains}{sign}"), *cells])
    return rows


def _cell(value: float, error: float) -> str:
    if np.isnan(value):
        return "--"
    return f"${value:.{DIGITS}f}$" if np.isnan(error) else rf"${value:.{DIGITS}f} \pm {error:.{DIGITS}f}$"


def _notes(numbers: pd.DataFrame) -> list[str]:
    """What the numbers are."""
    notes = ["Value ± standard error over test rows, of single chains over chains; published ± standard deviation."]
    if (shifted := numbers[numbers["rows"] == SHIFTED])["sets"].any():
        count = int(shifted["sets"].max())
        notes.append(f"Shifted: mean over {count} shifted set{'s' if count > 1 else ''} of the test rows.")
    return notes
