"""Methods against data sets: LPPD and RMSE, and the methods' mean ranks."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from bnn_atlas.figures.latex import LatexTable, escape
from bnn_atlas.figures.page import SIGN, is_distrusted, sign_text, trusted
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.formulas.repetitions import over_repetitions
from bnn_atlas.metrics.judgement.trust import Trust
from bnn_atlas.metrics.tables.parquet import read_table

KIND = {
    "files": ["table"], "output": "table", "task": "regression", "repeats": ["label", "dataset"],
    "columns": "metric method dataset repetitions mean sd distrusted rank best mean_rank ranked_datasets",
}  # fmt: skip


class Score(NamedTuple):
    """A metric of the table."""

    title: str
    sign: int
    """1 if a larger value is better, -1 if a smaller one is."""


PUBLISHED = "lppd_sommer"
SCORES = {
    "lppd": Score("LPPD (higher is better)", 1),
    "rmse": Score("RMSE (lower is better)", -1),
    PUBLISHED: Score("LPPD as the published code computes it (see below)", 1),
}
NOISE = {
    "gaussian": "known in advance",
    "learned_noise": "one learned level",
    "heteroscedastic": "learned per row",
}
"""Kind of likelihood -> in words."""


def uci_table(shown: Sequence[Shown]) -> LatexTable:
    """LPPD and RMSE of each method (a label) on each data set as a LaTeX table (booktabs) and a CSV.

    If the published code is wrong for one of the methods, its LPPD follows in a separate block. Cells are mean and
    standard deviation over seeds and splits in units of the standardised target; the best mean of a data set is bold.
    The last column is the method's mean rank over the data sets on which it was run. A dagger marks cells with a run or
    split that should not be trusted. Input `table`: the metric table of each run and split.
    """
    numbers = uci_numbers(shown)
    datasets = list(dict.fromkeys(numbers["dataset"]))
    blocks = [
        (score.title, _rows(part, datasets))
        for metric, score in SCORES.items()
        if len(part := numbers[numbers["metric"] == metric])
    ]
    titles = {one.dataset: one.dataset_title for one in shown}
    header = ["method", *(escape(titles[dataset]) for dataset in datasets), "mean rank"]
    return LatexTable(header, blocks, _notes(numbers, shown), numbers, is_signed=True)


def uci_numbers(shown: Sequence[Shown]) -> pd.DataFrame:
    """Columns metric, method, dataset, repetitions, mean, sd, distrusted, rank, best, mean_rank, ranked_datasets.

    sd (n - 1) is over seeds and splits (empty for 1). Within a data set and metric the best mean has rank 1 and equal
    means share the mean of their ranks; an infinitely bad value is ranked last, NaN is not ranked. `mean_rank` is over
    the `ranked_datasets` that the method has. `distrusted` marks means with a run or split that should not be trusted.
    Raises ValueError if a run lacks a metric.
    """
    found = pd.DataFrame([row for one in shown for row in _values(one)])
    if not found["mistaken"].any():
        found = found[found["metric"] != PUBLISHED]
    groups = found.groupby(["metric", "method", "dataset"], sort=False)["value"]
    rows = [
        {"metric": metric, "method": method, "dataset": dataset, **_pooled(values.to_numpy())}
        for (metric, method, dataset), values in groups
    ]
    order = {key: list(dict.fromkeys(found[key])) for key in ("metric", "method", "dataset")}
    rows.sort(key=lambda row: [order[key].index(row[key]) for key in order])
    numbers = pd.DataFrame(rows)
    trusts = _trusts(shown)
    cells = zip(numbers["method"], numbers["dataset"], strict=True)
    numbers["distrusted"] = [is_distrusted(f"{method} on {dataset}", trusts) for method, dataset in cells]
    worse = numbers["mean"] * -numbers["metric"].map({name: score.sign for name, score in SCORES.items()})
    numbers["rank"] = worse.groupby([numbers["metric"], numbers["dataset"]]).transform(rankdata, nan_policy="omit")
    numbers["best"] = (
        numbers["rank"] == numbers.groupby(["metric", "dataset"])["rank"].transform("min")
    ) & np.isfinite(numbers["mean"])
    ranks = numbers.groupby(["metric", "method"])["rank"]
    return numbers.assign(mean_rank=ranks.transform("mean"), ranked_datasets=ranks.transform("count"))


def _values(one: Shown) -> list[dict[str, object]]:
    """The metrics of one run and split on its test rows; `mistaken` if the published code gets the LPPD wrong."""
    table = read_table(one.files["table"])
    table = table[table["dataset"] == one.dataset]
    mistaken = bool((table["metric"] == PUBLISHED).any())
    rows: list[dict[str, object]] = []
    for metric in SCORES:
        values = table.loc[table["metric"] == ("lppd" if metric == PUBLISHED and not mistaken else metric), "value"]
        if len(values) != 1:
            raise ValueError(
                f"{one.files['table']}: {len(values)} rows of '{metric}' for '{one.dataset}' instead of one; this "
                "table is for regressions"
            )
        value = float(values.iloc[0])
        rows.append(
            {"metric": metric, "method": one.label, "dataset": one.dataset, "value": value, "mistaken": mistaken}
        )
    return rows


def _pooled(values: np.ndarray) -> dict[str, float | int]:
    pooled = over_repetitions(values)
    return {"repetitions": pooled.n, "mean": pooled.mean, "sd": pooled.sd}


def _rows(part: pd.DataFrame, datasets: Sequence[str]) -> list[list[str]]:
    rows = []
    for method, own in part.groupby("method", sort=False):
        given = zip(*(own[column] for column in ("dataset", "mean", "sd", "best", "distrusted")), strict=True)
        cells = {
            dataset: _cell(mean, sd, best) + (f" {escape(SIGN)}" if distrusted else "")
            for dataset, mean, sd, best, distrusted in given
        }
        rank = float(own["mean_rank"].iloc[0])
        rows.append(
            [escape(str(method)), *(cells.get(d, "--") for d in datasets), "--" if math.isnan(rank) else f"{rank:.2f}"]
        )
    return rows


def _cell(mean: float, sd: float, best: bool) -> str:
    if math.isnan(mean):
        return "NaN"
    if math.isinf(mean):
        return r"$\infty$" if mean > 0 else r"$-\infty$"
    number = rf"\mathbf{{{mean:.3f}}}" if best else f"{mean:.3f}"
    return f"${number}$" if math.isnan(sd) else rf"${number} \pm {sd:.3f}$"


def _notes(numbers: pd.DataFrame, shown: Sequence[Shown]) -> list[str]:
    counts = sorted(set(numbers["repetitions"]))
    if counts == [1]:
        notes = ["One run of each method on a data set, standardised targets; best value in bold."]
    else:
        over = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        notes = [f"Mean ± standard deviation over {over} seeds and splits, standardised targets; best mean in bold."]
    noise: dict[str, list[str]] = {}
    for one in shown:
        noise.setdefault(NOISE.get(one.likelihood, one.likelihood), []).append(one.label)
    notes.append(f"Noise: {'; '.join(f'{kind} ({_listed(methods)})' for kind, methods in noise.items())}.")
    if (numbers["metric"] == PUBLISHED).any():
        notes.append(
            "The published code takes the log of the noise from the mean for ensembles with one output, and from the "
            "predictive variance for Laplace and mean field; other methods have the same LPPD in both blocks."
        )
    total = numbers["dataset"].nunique()
    partly = numbers.loc[numbers["ranked_datasets"] < total].drop_duplicates(["method"])
    if len(partly):
        few = ", ".join(f"{row.method} over {row.ranked_datasets} of {total}" for row in partly.itertuples())
        notes.append(f"Mean ranks are over the data sets for which a method has a number: {few}.")
    return [*notes, *_sign_notes(numbers, shown)]


def _trusts(shown: Sequence[Shown]) -> dict[str, Trust]:
    """`method on data set` -> the worst verdict of the checks on its runs and splits."""
    return trusted([one._replace(label=f"{one.label} on {one.dataset}") for one in shown])


def _sign_notes(numbers: pd.DataFrame, shown: Sequence[Shown]) -> list[str]:
    """What the sign means, with the reasons for the first cell of each method that has it; empty if no cell does."""
    first = numbers[numbers["distrusted"]].drop_duplicates("method")
    if first.empty:
        return []
    trusts, titles = _trusts(shown), {one.dataset: one.dataset_title for one in shown}
    cells = zip(first["method"], first["dataset"], strict=True)
    named = {f"{method} on {titles[dataset]}": trusts[f"{method} on {dataset}"] for method, dataset in cells}
    return [sign_text(named), "Reasons are given for each method's first such cell."]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
