"""Tables of methods against data sets, in Markdown."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.gallery.escape import cell
from bnn_atlas.gallery.numbers import METRICS, with_sd

COLUMNS = {"metric", "method", "dataset", "mean", "sd", "mean_rank", "best"}
"""Columns of a CSV file with such a table."""


def method_tables(path: str | Path, titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """One table per metric in a CSV file: name, header, and one row per method with the mean rank at the end.

    The best mean of each data set is bold. `titles` are the titles of the data sets. Empty if the file has other
    columns.
    """
    table = pd.read_csv(path)
    if not set(table.columns) >= COLUMNS:
        return []
    datasets = list(dict.fromkeys(table["dataset"]))
    header = ["method", *(cell(titles.get(name, name)) for name in datasets), "mean rank"]
    return [
        {"metric": METRICS.get(str(metric), f"`{metric}`"), "header": header, "rows": _rows(part, datasets)}
        for metric, part in table.groupby("metric", sort=False)
    ]


def _rows(part: pd.DataFrame, datasets: list[str]) -> list[list[str]]:
    rows = []
    for method, of_method in part.groupby("method", sort=False):
        given = zip(*(of_method[column] for column in ("dataset", "mean", "sd", "best")), strict=True)
        values = {
            dataset: f"**{with_sd(mean, sd, 3)}**" if best else with_sd(mean, sd, 3)
            for dataset, mean, sd, best in given
        }
        rank = of_method["mean_rank"].iloc[0]
        rows.append([cell(str(method)), *(values.get(name, "") for name in datasets), with_sd(rank, None, 2)])
    return rows
