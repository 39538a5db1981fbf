"""Tables of methods against data sets, in Markdown."""

from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.gallery.claims import cell, with_sd

COLUMNS = {"metric", "method", "dataset", "mean", "sd", "mean_rank"}
"""Of a CSV file that holds such a table."""


def method_tables(path: str | Path) -> list[dict[str, Any]]:
    """One table per metric of a CSV file: its name, its header, and a row per method with the mean rank at the end.

    Empty where the file has other columns.
    """
    found = pd.read_csv(path)
    if not set(found.columns) >= COLUMNS:
        return []
    datasets = list(dict.fromkeys(found["dataset"]))
    return [
        {"metric": metric, "header": ["method", *datasets, "mean rank"], "rows": _rows(part, datasets)}
        for metric, part in found.groupby("metric", sort=False)
    ]


def _rows(part: pd.DataFrame, datasets: list[str]) -> list[list[str]]:
    rows = []
    for method, own in part.groupby("method", sort=False):
        values = {row["dataset"]: with_sd(row["mean"], row["sd"], 3) for row in own.to_dict("records")}
        rank = own["mean_rank"].iloc[0]
        rows.append([cell(str(method)), *(values.get(name, "") for name in datasets), with_sd(rank, None, 2)])
    return rows
