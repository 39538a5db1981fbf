"""Numbers in the cells of a page's tables."""

import pandas as pd

from bnn_atlas.claims.html import number

DASH = "–"
METRICS = {
    "accuracy": "accuracy",
    "rmse": "RMSE",
    "lppd": "LPPD",
    "nll": "NLL",
    "function_sd": "sd of the function",
    "ece": "ECE",
    "auroc_entropy": "AUROC by entropy",
    "agreement": "agreement",
    "total_variation": "total variation",
    "rhat_function_max": "R-hat",
    "divergences": "divergences",
}
"""Metrics that tables show -> heading."""
MARK = r" \*"
"""Suffix for results of runs with a mark (`config.checks.runs.marks`)."""


def with_sd(value: float | None, sd: float | None, digits: int = 4) -> str:
    """`0.1234 ± 0.0012`; a dash if there is no value."""
    if pd.isna(value):
        return DASH
    return number(value, digits) + ("" if pd.isna(sd) else f" ± {number(sd, digits)}")
