"""Agreement and total variation of methods with a reference, on test rows and on shifted ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.config.parts.figures import common_references
from bnn_atlas.figures.page import is_distrusted, trusted
from bnn_atlas.figures.set_scores import averaged, corruption_of, read_sets
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.checks import Values, metric_rows
from bnn_atlas.metrics.judgement.trust import FIT, reference_word
from bnn_atlas.published import published_numbers

SHIFTED = "shifted"
"""Rows of CIFAR-10-C; the rows `test` are from CIFAR-10."""
METRICS = ("accuracy", "agreement", "total_variation")
CEILING, SGD, ENSEMBLE = "ceiling", "sgd", "deep_ensemble"
"""The paper's columns `HMC (reference)` (the agreement of one chain with the others), `SGD` and `Deep Ens`."""
COMPARED = ("agreement", "total_variation")
SAME, OTHER = "same posterior", "another posterior"
"""Groups of rows, named as a part of a comparison's note begins: runs on the reference's posterior, and runs on another
posterior, such as one with the prior that the paper uses for a method."""
OF_CHAINS = {
    "accuracy": "accuracy_chain_mean",
    "agreement": "agreement_ceiling",
    "total_variation": "total_variation_ceiling",
}
"""Metric -> the metric that takes its place in the row for single chains of the reference."""
COLUMNS = [
    "label", "method", "group", "prior_sd", "rows", "sets", "metric", "value", "error", "over", "repetitions",
    "floor", "distrusted", "published", "published_sd",
]  # fmt: skip


PRINTED_FOR = "cifar10"
"""Data set of the paper's numbers."""
TWO_VERSIONS = "two published versions"
VERSIONS = {"hmc_imdb": {"agreement": 0.9904, "total_variation": 0.0101}}
"""Published predictions -> how close their two published versions are to each other: for IMDB, the file in the
competition's starter kit at commit 6743c84 and the one that replaced it (SHA-256 da849bdb..., 7308a108...). Nothing can
be much closer to either. If one contains the draws of the other, this is a lower bound on their Monte Carlo error."""


class Agreements(NamedTuple):
    """What the figure and the table show."""

    numbers: pd.DataFrame
    """COLUMNS: a row per label, `rows` (`test` or `shifted`) and metric; the group `ceiling` is the reference's single
    chains. A value for shifted rows is the mean over `sets` sets."""
    reference: str
    """What has to be said about the reference, in words."""


def agreements(shown: Sequence[Shown]) -> Agreements:
    """Accuracy, agreement and total variation of each label, and the ceiling set by the chains of the reference.

    Shifted rows come from the corruptions (or else other shifts) for which all runs with shifted sets were compared
    with the reference; their error is the mean of the sets' errors, since all sets have the same rows. Published
    numbers are for CIFAR-10. If the reference is published predictions, the ceiling comes from `VERSIONS`, if they have
    two versions, and no numbers for other data are shown.
    """
    reference, runs = _of_reference(shown)
    own, compared = read_sets(shown, [*METRICS, *OF_CHAINS.values()]), read_sets(runs, COMPARED, reference)
    rows = pd.concat([own, compared], ignore_index=True)
    sets = _common_sets(rows)
    means = averaged(shown, rows[rows["set"].isin([TEST, *sets])])
    names = [one.run for one in shown]
    source = shown[names.index(reference)] if reference in names else None
    trusts = trusted(shown)
    found = []
    if source is not None:
        own = means[means["label"] == source.label]
        found += [_number(own, source, CEILING, metric, which, sets) for which in _kinds(sets) for metric in METRICS]
    for one in {one.label: one for one in runs}.values():
        group = _group(one, reference)
        own = means[means["label"] == one.label]
        found += [_number(own, one, group, metric, which, sets) for which in _kinds(sets) for metric in METRICS]
    numbers = pd.DataFrame([*_of_versions(reference, source), *(row for row in found if row is not None)])
    numbers["floor"] = _floors(numbers, runs, source)
    numbers["distrusted"] = [is_distrusted(label, trusts) for label in numbers["label"]]
    if source is not None or runs[0].dataset == PRINTED_FOR:
        numbers = _with_published(numbers, shown)
    else:
        numbers = numbers.assign(published=np.nan, published_sd=np.nan)
    return Agreements(numbers[COLUMNS], _text(runs, reference, source))


def _floors(numbers: pd.DataFrame, runs: Sequence[Shown], source: Shown | None) -> list[float]:
    """Total variation from the reference that as many independent draws of its posterior would have, for each row.

    The distance between averages of S and R draws is about c sqrt(1 / S + 1 / R), with c from the reference's chains: S
    draws of one against those of the others. NaN for other metrics and for optima.
    """
    if source is None:
        return [np.nan] * len(numbers)
    chains, draws = _size(source)
    of_chains = numbers[(numbers["group"] == CEILING) & (numbers["metric"] == "total_variation")]
    c = of_chains.set_index("rows")["value"] / np.sqrt(1 / draws + 1 / (draws * max(chains - 1, 1)))
    sizes = {
        one.label: np.prod(_size(one)) for one in runs if method(one.method).kind_of_draws is not KindOfDraws.POINT
    }
    return [
        float(c.get(rows, np.nan) * np.sqrt(1 / sizes[label] + 1 / (chains * draws)))
        if metric == "total_variation" and label in sizes and group != CEILING
        else np.nan
        for rows, metric, label, group in numbers[["rows", "metric", "label", "group"]].itertuples(index=False)
    ]


def _size(one: Shown) -> tuple[int, int]:
    """Chains of a run, and draws of each."""
    rows = one.table()
    return int(rows["chains"].max()), int(rows["draws"].max())


def _of_versions(reference: str, source: Shown | None) -> list[dict[str, Any]]:
    """The ceiling for published predictions with two versions."""
    if source is not None:
        return []
    given = {"label": TWO_VERSIONS, "method": "hmc", "group": CEILING, "rows": TEST, "sets": 1, "repetitions": 1}
    return [
        {**given, "metric": metric, "value": value, "error": np.nan, "over": "", "prior_sd": None}
        for metric, value in VERSIONS.get(reference, {}).items()
    ]


def _of_reference(shown: Sequence[Shown]) -> tuple[str, list[Shown]]:
    """Name of the one reference that all runs with references share, and these runs."""
    runs = [one for one in shown if one.parts.get("against")]
    chosen = common_references([one.parts["against"] for one in runs], [one.run for one in shown])[0]
    return chosen, [one for one in runs if one.run != chosen]


def _common_sets(rows: pd.DataFrame) -> list[str]:
    """Shifted sets for which every label with shifted sets has an agreement: corruptions if there are any, else all."""
    compared = rows[(rows["metric"] == "agreement") & (rows["set"] != TEST)]
    of_set = compared.groupby("set", sort=False)["label"].agg(set)
    common = [str(name) for name, have in of_set.items() if have == set(compared["label"])]
    return [name for name in common if corruption_of(name)] or common


def _kinds(sets: Sequence[str]) -> tuple[str, ...]:
    return (TEST, SHIFTED) if sets else (TEST,)


def _number(
    own: pd.DataFrame, one: Shown, group: str, metric: str, which: str, sets: Sequence[str]
) -> dict[str, Any] | None:
    """A row of the numbers; None if the metric was not measured."""
    name = OF_CHAINS[metric] if group == CEILING else metric
    found = own[(own["metric"] == name) & own["set"].isin(sets if which == SHIFTED else [TEST])]
    if found.empty:
        return None
    return {
        "label": one.label, "method": one.drawn_as, "group": group, "prior_sd": one.prior_sd, "rows": which,
        "sets": len(found), "metric": metric, "value": float(found["value"].mean()),
        "error": float(found["error"].mean(skipna=False)), "over": found["over"].iloc[0],
        "repetitions": int(found["repetitions"].max()),
    }  # fmt: skip


def _group(one: Shown, reference: str) -> str:
    """`another posterior` if the comparison says so (published predictions leave it open); else `same posterior`."""
    notes = one.table("against", reference)["note"]
    return OTHER if any(part.startswith(OTHER) for note in notes for part in note.split("; ")) else SAME


def _with_published(numbers: pd.DataFrame, shown: Sequence[Shown]) -> pd.DataFrame:
    """The numbers with what the paper prints for CIFAR-10, once for each of its columns.

    If a method has rows on the posterior of the reference and on another one, the latter gets the paper's numbers,
    since the paper's SGD and deep ensembles have their own priors.
    """
    columns = {one.label: column_of(one) for one in shown}
    names = [
        CEILING if group == CEILING else columns[label]
        for label, group in zip(numbers["label"], numbers["group"], strict=True)
    ]
    numbers = numbers.assign(column=names)
    own = set(numbers.loc[numbers["group"] == OTHER, "column"])
    marks = [
        None if group == SAME and column in own else printed(column, rows, metric)
        for group, column, rows, metric in numbers[["group", "column", "rows", "metric"]].itertuples(index=False)
    ]
    return numbers.assign(
        published=[np.nan if mark is None else mark.value for mark in marks],
        published_sd=[np.nan if mark is None else mark.sd for mark in marks],
    )


def _text(runs: Sequence[Shown], reference: str, source: Shown | None) -> str:
    """The reference's chains in words, with the remark of the tables if they have not converged."""
    notes = runs[0].table("against", reference)["note"]
    word = next((found for found in map(reference_word, notes) if found), "")
    if source is None:
        text = f"Reference: the published predictions {reference}"
    else:
        text = f"Reference: {source.label}, {convergence_text(source.table())}"
    said = "" if word in text else f"; {word}"
    return f"{text}{said}".rstrip(".") + "."


def convergence_text(rows: pd.DataFrame) -> str:
    """Length of a run's chains and, in words, how they fare by the rule for references, from its metrics on test rows.

    If the table has no such judgement, the text gives R-hat, ESS and acceptance, as far as they were measured.
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


def _value(values: Values, metric: str) -> float:
    return values[metric].value if metric in values else float("nan")


class Printed(NamedTuple):
    """A number that Izmailov et al. 2021 print for CIFAR-10 (section 9.1), with its standard deviation."""

    value: float
    sd: float


def printed(column: str, rows: str, metric: str) -> Printed | None:
    """The number in a column of the table for `test` or `shifted` rows; None for a method that is not in the table."""
    for one in published_numbers("hmc_posteriors", f"CIFAR-10, {rows}"):
        if (one.label, one.metric) == (column, metric):
            return Printed(float(one.value), float(one.error or 0))
    return None


def column_of(one: Shown) -> str:
    """Name of the column in which a run would be: its method, with SGD for one optimum and an ensemble for several."""
    if one.method == "map":
        return SGD if one.chains == 1 else ENSEMBLE
    return one.method
