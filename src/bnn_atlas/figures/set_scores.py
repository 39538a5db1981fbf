"""Scores of runs on their test rows and on further sets of rows, and their means over seeds and splits."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from bnn_atlas.config.data.shift import CORRUPTIONS, parse_shift
from bnn_atlas.config.parts.evaluation import INTERVAL, OUTSIDE, TEST
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.repetitions import Repetitions, over_repetitions, overlaps

COLUMNS = [
    "label", "run", "split", "method", "dataset", "set", "metric", "at", "value", "standard_error", "over", "place",
    "overlap",
]  # fmt: skip
KEYS = ["label", "method", "dataset", "set", "metric", "at"]


def read_sets(shown: Sequence[Shown], metrics: Collection[str], against: str = "") -> pd.DataFrame:
    """These metrics of each run and split, on its test rows and on every further set that has them, in COLUMNS.

    `set` is `test` for the test rows, `place` says which repetition a run and split is, and `overlap` is the number of
    test rows divided by the number of training rows (NaN if the table does not have both). Reads `files["table"]`, and
    `files["sets"]` if a run has sets; or `parts["against"]`, if `against` names a reference. Raises ValueError if a run
    has none of the metrics.
    """
    parts = []
    for one in shown:
        own = one.table()
        if against:
            rows = one.table("against", against)
            rows = rows[rows["at"] == against].assign(at="")
        else:
            rows = pd.concat([own, one.table("sets")] if "sets" in one.files else [own], ignore_index=True)
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
                overlap=np.nan if against else next(iter(overlaps(own).values()), np.nan),
            )[COLUMNS]
        )
    return pd.concat(parts, ignore_index=True).astype({"standard_error": float})


def averaged(shown: Sequence[Shown], rows: pd.DataFrame) -> pd.DataFrame:
    """Means of `read_sets` over seeds and splits, in order: KEYS, value, error, over, sd, low, high, repetitions.

    `error` is the standard error of the mean, corrected for the rows that splits share (Nadeau and Bengio 2003); for a
    single run on one split, it is the table's own (over rows or chains); NaN if there is none.
    """
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


def with_signs(rows: pd.DataFrame, metrics: Mapping[str, tuple[str, int]]) -> pd.DataFrame:
    """The rows, with values times their metric's sign (second item of its entry); `nll` becomes `log_likelihood`."""
    signs = {name: sign for name, (_, sign) in metrics.items()}
    signed = rows.assign(value=rows["value"] * rows["metric"].map(signs))
    return signed.assign(metric=signed["metric"].replace({"nll": "log_likelihood"}))


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
