"""Numbers in the cells of a page's tables."""

import pandas as pd

from bnn_atlas.claims.html import decimals, number

DASH = "–"
DELTA = "Δ "
"""Prefix of a difference of two values."""
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


def limit(relation: str, tolerance: float | None, bound: float | None, compares: bool) -> str:
    """The limit on a claim's value, or on its difference (`compares`), such as `± 0.01` from the paper's number."""
    text, difference = number(bound or 0.0, decimals(bound)), DELTA if compares else ""
    match relation:
        case "equals":
            return f"± {number(tolerance, decimals(tolerance))}"
        case "at_most":
            return f"{difference}≤ {text}"
        case "at_least":
            return f"{difference}≥ {text}"
        case "less_than":
            return f"{DELTA}< {number(0.0 - (bound or 0.0), decimals(bound))}"
        case "greater_than":
            return f"{DELTA}> {text}"
        case _:
            return f"{DELTA}within ± {text}"
