"""How close compact representations come to the draws that they represent: a table with the published numbers."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bnn_atlas.figures.latex import LatexTable, escape
from bnn_atlas.figures.page import is_distrusted, trusted
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.trust import reference_word
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.published import published_numbers

KIND = {
    "files": ["table"],
    "files_if_any": ["against"],
    "output": "table",
    "reference": "at most one",
    "repeats": ["label"],
    "columns": "label metric value error published distrusted",
}  # fmt: skip

METRICS = {"accuracy": "accuracy", "agreement": "agreement", "total_variation": "TV"}
DIGITS = 3


def compact_agreement(shown: Sequence[Shown]) -> LatexTable:
    """Accuracy, agreement and total variation by label, next to what the paper prints for the same label.

    Each cell has a value and its standard error: over test rows or, if several runs share a label, over these runs.
    """
    numbers, texts = compact_numbers(shown)
    header = ["", *METRICS.values(), *(f"published {name}" for name in METRICS.values())]
    rows = []
    for label, part in numbers.groupby("label", sort=False):
        values = part[["value", "error", "published"]].to_numpy(float).tolist()
        found = dict(zip(part["metric"], values, strict=True))
        ours = [_cell(*found[metric][:2]) for metric in METRICS]
        theirs = [_cell(found[metric][2], np.nan) for metric in METRICS]
        rows.append([escape(str(label)), *ours, *theirs])
    notes = ["Value ± standard error over test rows or runs.", *texts]
    return LatexTable(
        header, [("Draws, Gaussians with their moments, and networks at the means", rows)], notes, numbers
    )


def compact_numbers(shown: Sequence[Shown]) -> tuple[pd.DataFrame, list[str]]:
    """A table (the columns of the CSV), and notes on whether the reference can be trusted."""
    found, texts = [], []
    for one in shown:
        rows = [one.rows(read_table(one.files["table"]))]
        rows += [one.rows(read_table(file)) for file in one.parts.get("against", {}).values()]
        table = pd.concat(rows, ignore_index=True)
        own = table[(table["dataset"] == one.dataset) & table["metric"].isin(METRICS)]
        texts += [reference_word(note) for note in own["note"]]
        for metric in METRICS:
            values = own.loc[own["metric"] == metric, ["value", "standard_error"]]
            value, error = values.iloc[0].astype(float) if len(values) else (np.nan, np.nan)
            found.append((one.label, metric, value, error))
    frame = pd.DataFrame(found, columns=["label", "metric", "value", "error"])
    groups = frame.groupby(["label", "metric"], sort=False)
    means = [_mean(str(label), str(metric), part) for (label, metric), part in groups]
    numbers = pd.DataFrame(means, columns=["label", "metric", "value", "error"])
    theirs = {(one.label, one.metric): float(one.value) for one in published_numbers("permutation_symmetry", "Table 1")}
    numbers["published"] = [
        theirs.get((label, metric), np.nan) for label, metric in zip(numbers["label"], numbers["metric"], strict=True)
    ]
    trusts = trusted(shown)
    numbers["distrusted"] = [is_distrusted(label, trusts) for label in numbers["label"]]
    return numbers, list(dict.fromkeys(filter(None, texts)))


def _mean(label: str, metric: str, part: pd.DataFrame) -> tuple[str, str, float, float]:
    values = part["value"].to_numpy(float)
    if len(values) == 1:
        return label, metric, float(values[0]), float(part["error"].iloc[0])
    return label, metric, float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _cell(value: float, error: float) -> str:
    if np.isnan(value):
        return "--"
    return f"${value:.{DIGITS}f}$" if np.isnan(error) else rf"${value:.{DIGITS}f} \pm {error:.{DIGITS}f}$"
