"""Whether the chains that a figure leans on can be trusted, in words and by a sign at their labels."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import style
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.checks import Status, Values, metric_rows
from bnn_atlas.metrics.judgement.trust import FIT, Trust, trust, worst
from bnn_atlas.metrics.tables.files import read_table

SIGN = "\N{DAGGER}"
"""At the label of a method whose chains should not be trusted."""
CHARACTER = 0.046
"""Inches that a character of the head takes."""
HEAD_SIZE = 6
MOST_REASONS = 2
"""Reasons that are given for a sign; the run's diagnostics page has all."""


def trusted(shown: Sequence[Shown]) -> dict[str, Trust]:
    """Label -> the worst that the checks say of its runs and splits (`judgement.trust`)."""
    tables: dict[Path, pd.DataFrame] = {}
    found: dict[str, list[Trust]] = {}
    for one in shown:
        table = tables.setdefault(one.files["table"], read_table(one.files["table"]))
        found.setdefault(one.label, []).append(trust(one.rows(table)))
    return {label: worst(each) for label, each in found.items()}


def signed(label: str, trusts: Mapping[str, Trust]) -> str:
    """The label, with the sign where its chains should not be trusted."""
    return f"{label} {SIGN}" if is_distrusted(label, trusts) else label


def is_distrusted(label: str, trusts: Mapping[str, Trust]) -> bool:
    """Whether the checks say not to trust the runs of a label."""
    return label in trusts and trusts[label].status is Status.DISTRUST


def sign_text(trusts: Mapping[str, Trust]) -> str:
    """What the sign means, with the reasons; empty where no label has it."""
    bad = [
        f"{' '.join(label.split())} ({'; '.join(each.text.split('; ')[:MOST_REASONS])})"
        for label, each in trusts.items()
        if is_distrusted(label, trusts)
    ]
    return f"{SIGN} not to be trusted: {'; '.join(bad)}." if bad else ""


def convergence_text(rows: pd.DataFrame) -> str:
    """Length of a run's chains, and how they fare by the rule for references, in words, from its rows on its test rows.

    Where the table has no such judgement, these are R-hat, ESS and acceptance as far as they were measured.
    """
    values = metric_rows(rows)
    parts = [f"{int(rows['chains'].max())} chains × {int(rows['draws'].max()):,} draws"]
    if FIT in values:
        return f"{parts[0]}; {values[FIT].note.split('; ')[0]}"
    if np.isfinite(largest := _value(values, "rhat_function_max")):
        median = _value(values, "rhat_function_median")
        parts.append(f"R-hat of function values {largest:.2f} at most, {median:.2f} in the median")
    sizes = [_value(values, f"ess_{kind}_function_min") for kind in ("bulk", "tail")]
    if np.isfinite(sizes).any():
        parts.append(f"ESS of function values {np.nanmin(sizes):,.0f} at least")
    if np.isfinite(accepted := _value(values, "acceptance_mean")):
        parts.append(f"acceptance {accepted:.2f}")
    return ", ".join(parts)


def head(figure: Figure, texts: Sequence[str]) -> None:
    """Small lines above everything else: what a reader has to know of the chains before looking at numbers."""
    width = int(figure.get_size_inches()[0] / CHARACTER)
    signed = (re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text) for text in texts if text)
    lines = [line for text in signed for line in textwrap.wrap(text, width)]
    if lines:
        figure.suptitle("\n".join(lines), x=0.005, ha="left", fontsize=HEAD_SIZE, color=style.GREY)


def _value(values: Values, metric: str) -> float:
    return values[metric].value if metric in values else float("nan")
