"""Tables of methods against data sets, in Markdown."""

from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.gallery.claims import with_sd
from bnn_atlas.gallery.escape import cell

COLUMNS = {"metric", "method", "dataset", "mean", "sd", "mean_rank"}
"""Columns of a CSV file that holds such a table."""


def method_tables(path: str | Path) -> list[dict[str, Any]]:
    """One table per metric of a CSV file: its name, its header, and a row per method with the mean rank at the end.

    Empty where the file has other columns.
    """
    table = pd.read_csv(path)
    if not set(table.columns) >= COLUMNS:
        return []
    datasets = list(dict.fromkeys(table["dataset"]))
    return [
        {"metric": metric, "header": ["method", *map(cell, datasets), "mean rank"], "rows": _rows(part, datasets)}
        for metric, part in table.groupby("metric", sort=False)
    ]


def _rows(part: pd.DataFrame, datasets: list[str]) -> list[list[str]]:
    rows = []
    for method, rows_of_method in part.groupby("method", sort=False):
        values = {row["dataset"]: with_sd(row["mean"], row["sd"], 3) for row in rows_of_method.to_dict("records")}
        rank = rows_of_method["mean_rank"].iloc[0]
        rows.append([cell(str(method)), *(values.get(name, "") for name in datasets), with_sd(rank, None, 2)])
    return rows
