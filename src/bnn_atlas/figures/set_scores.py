"""Scores of runs on their test rows and on further sets of rows, and their means over seeds and splits."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bnn_atlas.config.evaluation import INTERVAL, OUTSIDE, TEST
from bnn_atlas.config.shift import CORRUPTIONS, parse_shift
from bnn_atlas.figures.shown import Shown, check_repetitions
from bnn_atlas.metrics.tables.files import read_table
from bnn_atlas.metrics.tables.pooled import Repetitions, over_repetitions, overlaps

COLUMNS = [
    "label", "run", "split", "method", "dataset", "set", "metric", "at", "value", "standard_error", "over", "place",
    "overlap",
]  # fmt: skip
KEYS = ["label", "method", "dataset", "set", "metric", "at"]


def read_sets(shown: Sequence[Shown], metrics: Collection[str]) -> pd.DataFrame:
    """These metrics of each run and split, on its test rows and on every further set that has them: COLUMNS.

    `set` is `test` for the test rows, `place` says which repetition a run and split is, and `overlap` is the number of
    test rows over that of training rows (NaN where the table has neither). Reads `files["table"]`, and `parts["sets"]`
    where a run has some. Raises ValueError where a run has none of the metrics.
    """
    tables: dict[Path, pd.DataFrame] = {}
    parts = []
    for one in shown:
        own = one.rows(tables.setdefault(one.files["table"], read_table(one.files["table"])))
        of_sets = [read_table(file) for file in one.parts.get("sets", {}).values()]
        rows = pd.concat([own, *(one.rows(table) for table in of_sets)], ignore_index=True)
        found = rows[rows["metric"].isin(list(metrics))]
        if found.empty:
            raise ValueError(
                f"{one.files['table']}: no {' and no '.join(metrics)} of run {one.run}, split {one.split}; this figure "
                f"cannot show a run of the task '{one.task}' without them"
            )
        parts.append(
            found.assign(
                label=one.label,
                run=one.run,
                dataset=one.dataset,
                set=[name.partition("/")[2] or TEST for name in found["dataset"]],
                place=f"{one.point.get('split.seed', '')}/{one.split}",
                overlap=next(iter(overlaps(own).values()), np.nan),
            )[COLUMNS]
        )
    if not parts:
        raise ValueError("there are no runs to show; list some in the figure's runs")
    return pd.concat(parts, ignore_index=True).astype({"standard_error": float})


def averaged(shown: Sequence[Shown], rows: pd.DataFrame) -> pd.DataFrame:
    """Means of `read_sets` over seeds and splits: KEYS, value, error, over, sd, low, high, repetitions, in their order.

    `error` is the standard error of the mean, over splits corrected for the rows that they share (Nadeau and Bengio
    2003), and that of the table (over rows or chains) for a single run on one split; NaN where there is none. Raises
    ValueError for runs of one label and data set that differ in more than seeds.
    """
    check_repetitions(shown, [f"'{one.label}' on '{one.dataset}'" for one in shown])
    found = []
    for keys, group in rows.groupby(KEYS, sort=False):
        pooled = over_repetitions(group["value"], Repetitions(group["place"], float(group["overlap"].mean())))
        alone = pooled.n == 1
        found.append(
            {
                **dict(zip(KEYS, keys, strict=True)),
                "value": pooled.mean,
                "error": group["standard_error"].iloc[0] if alone else pooled.standard_error,
                "over": group["over"].iloc[0] if alone else pooled.over,
                "sd": pooled.sd,
                "low": pooled.low,
                "high": pooled.high,
                "repetitions": pooled.n,
            }
        )
    return pd.DataFrame(found)


def corruption_of(name: str) -> tuple[str, int] | None:
    """Corruption and severity of a set; None for test rows, other data, rotations and noise in chosen pixels."""
    if name == TEST or name.startswith((OUTSIDE, INTERVAL)):
        return None
    shift = parse_shift(name)
    kind = shift.published or shift.kind
    return (kind, shift.level) if shift.published or kind in CORRUPTIONS else None


def set_titles(shown: Sequence[Shown]) -> dict[str, str]:
    """Name of a set -> its heading, for the test rows and the out-of-distribution sets of the runs."""
    return {TEST: "test rows", **{name: title for one in shown for name, title in one.set_titles.items()}}
