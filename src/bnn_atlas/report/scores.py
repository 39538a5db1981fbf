"""The scores of a study's runs on its page: tables by data set, with the columns that have values."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.parts.evaluation import INTERVAL, OUTSIDE
from bnn_atlas.metrics.judgement.checks import DIVERGED, DIVERGENT, Status
from bnn_atlas.metrics.judgement.trust import UNCONVERGED, reference_word
from bnn_atlas.report.text import number, with_error

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
    "log_likelihood": "log-likelihood of the training rows",
    "rhat_function_max": "R-hat",
    "divergences": "divergences",
}
"""Metrics that tables show -> heading."""
COMPARED = ("agreement", "total_variation", "log_likelihood")
"""Metrics that have their Monte Carlo error where a setting is one run. The last sees bias that the others cannot, and
is shown with them only."""
MARK = " *"
"""Suffix for results of runs with a mark (`config.checks.runs.marks`)."""
DAGGER = " †"
"""Suffix for results of chains with so many divergent steps that no claim uses them."""
DIGITS = {"rhat_function_max": 2, "divergences": 0, "log_likelihood": 2}
"""Decimals of metrics that do not have four."""
LONGEST = 12
"""Largest number of rows of one entry that a table shows unfolded."""
SHOWN_ELSEWHERE = ("dataset", "model.hidden")
"""Fields of a grid that have a heading or a column."""


class Setting(NamedTuple):
    """What rows of the summary share if they form one row of a table."""

    entry: str
    point: str
    dataset: str
    model: str
    method: str
    chains: str
    draws: str
    mark: str
    trust: str


Values = dict[str, tuple[float, float, float, bool]]
"""Column -> mean, sd, sd by rounding alone, and whether it compares with a reference that has not converged."""


def score_sections(summary: pd.DataFrame, datasets: Mapping[str, str]) -> list[dict[str, Any]]:
    """One section per data set: `title` and `tables`, each with `heading`, `header`, `rows` and `folded`.

    A data set has tables for its test rows, for shifted rows and for rows of other sets. `folded` are grids of more
    than `LONGEST` rows, each with `summary` and `rows`. Runs with the same setting and values share a row. What has
    diverged has no values.

    Args:
        summary: the study's pooled metrics, with text in all of its columns of words.
        datasets: data set -> its title.
    """
    rows = _rows(summary)
    names = list(dict.fromkeys(setting.dataset.partition("/")[0] for setting in rows))
    titles = [datasets.get(name, name) for name in names]
    sections = []
    for name, title in zip(names, titles, strict=True):
        of_set = {setting: values for setting, values in rows.items() if setting.dataset.partition("/")[0] == name}
        heading = title + (f" (`{name}`)" if titles.count(title) > 1 else "")
        sections.append({"title": heading, "tables": _tables(of_set, datasets)})
    return sections


def _rows(summary: pd.DataFrame) -> dict[Setting, Values]:
    """Setting -> its values, in the order of the summary."""
    rows: dict[Setting, Values] = {}
    trusts: dict[Setting, str] = {}
    divergent = divergent_runs(summary)
    shown = summary[summary["metric"].isin(METRICS)]
    for row in shown.to_dict("records"):
        chains, draws = ("" if pd.isna(row[column]) else f"{row[column]:,.0f}" for column in ("chains", "draws"))
        setting = Setting(
            **{name: row[name] for name in ("entry", "point", "dataset", "model", "method")},
            chains=chains,
            draws=draws,
            mark=(MARK if marks_of(row["note"]) else "")
            + (DAGGER if (row["entry"], row["point"]) in divergent else ""),
            trust="",
        )
        diverged = DIVERGED in row["trust"]
        status = "diverged" if diverged else row["trust"].partition(":")[0]
        status += ": divergent steps" if DAGGER in setting.mark and not diverged else ""
        setting = setting._replace(trust=trusts.setdefault(setting, status))
        column = row["metric"] + (f" ({row['at']})" if row["at"] else "")
        error = row["sd"]
        if pd.isna(error) and row["metric"] in COMPARED:
            error = row.get("monte_carlo_error", np.nan)
        rounding = row.get("rounding_sd", np.nan)
        mean = np.nan if diverged else row["mean"]
        rows.setdefault(setting, {})[column] = mean, error, rounding, bool(reference_word(row["note"]))
    return rows


def divergent_runs(summary: pd.DataFrame) -> set[tuple[str, str]]:
    """Entry and point of runs of which too many steps diverged, on one of their splits at least."""
    shares = summary[summary["metric"] == "divergence_share"]
    lost = [DIVERGENT.status(share) is Status.DISTRUST for share in shares["max"]]
    return set(zip(shares["entry"][lost], shares["point"][lost], strict=True))


def marks_of(note: str) -> str:
    """The marks of the runs in a note, without remarks on a reference."""
    return "; ".join(part for part in note.split("; ") if not part.startswith(UNCONVERGED))


def _tables(rows: Mapping[Setting, Values], datasets: Mapping[str, str]) -> list[dict[str, Any]]:
    parts: dict[str, dict[Setting, Values]] = {}
    for setting, values in rows.items():
        parts.setdefault(_heading_of(setting.dataset.partition("/")[2]), {})[setting] = values
    order = ("", "Intervals of the input", "Shifted test rows", "Rows of other data sets")
    parts = {heading: parts[heading] for heading in order if heading in parts}
    return [_table(heading, part, datasets) for heading, part in parts.items() if part]


def _heading_of(kind: str) -> str:
    """Heading of the table for a set with this name; empty for the test rows."""
    if not kind:
        return ""
    if kind.startswith(INTERVAL):
        return "Intervals of the input"
    return "Rows of other data sets" if kind.startswith(OUTSIDE) else "Shifted test rows"


def _table(heading: str, rows: Mapping[Setting, Values], datasets: Mapping[str, str]) -> dict[str, Any]:
    """One table, with the columns that have a value in any of its rows."""
    columns = _columns(list(rows.values()))
    with_trust = any(setting.trust for setting in rows)
    header = [
        "run",
        "network",
        "method",
        "chains",
        "draws",
        *map(_heading, columns),
        *(["trust"] if with_trust else []),
    ]
    families: dict[str, list[list[str]]] = {}
    sizes_of = Counter(setting.entry for setting in rows)
    for settings, values in _merged(rows):
        # A single run stays visible next to a long grid, which is folded.
        setting = min(settings, key=lambda one: sizes_of[one.entry])
        sizes = [setting.chains, setting.draws]
        numbers = [_number(column, values.get(column)) for column in columns]
        which = [] if not heading else [_other_rows(setting.dataset, datasets)]
        words = [setting.model, setting.method]
        family = families.setdefault(setting.entry, [])
        trust = [setting.trust] if with_trust else []
        names = ", ".join(dict.fromkeys(map(_name, settings)))
        family.append([names + setting.mark, *which, *words, *sizes, *numbers, *trust])
    if heading:
        header.insert(1, "rows")
    return {
        "heading": heading,
        "header": header,
        "rows": [row for family in families.values() if len(family) <= LONGEST for row in family],
        "folded": [
            {"summary": f"{entry}: {len(family)} settings", "rows": family}
            for entry, family in families.items()
            if len(family) > LONGEST
        ],
    }


def _merged(rows: Mapping[Setting, Values]) -> list[tuple[list[Setting], Values]]:
    """Settings with their values; settings that differ only in name and have the same values are grouped."""
    found: dict[object, tuple[list[Setting], Values]] = {}
    for setting, values in rows.items():
        key = setting._replace(entry="", point=""), str(sorted(values.items()))
        found.setdefault(key, ([], values))[0].append(setting)
    return list(found.values())


def _name(setting: Setting) -> str:
    """Name of a run's entry, with the part of its grid point that no other column shows."""
    fields = [part for part in setting.point.split("; ") if part and part.partition("=")[0] not in SHOWN_ELSEWHERE]
    return f"{setting.entry} ({'; '.join(fields)})" if fields else setting.entry


def _columns(rows: Sequence[Values]) -> list[str]:
    """Columns with a value, in the order of `METRICS`; only one of NLL and LPPD if one is minus the other."""
    given = [{column for column, value in values.items() if not pd.isna(value[0])} for values in rows]
    present = set().union(*given)
    columns = [column for metric in METRICS for column in _of(metric, rows) if column in present]
    if "log_likelihood" in columns and not any(column.startswith(COMPARED[:2]) for column in columns):
        columns.remove("log_likelihood")
    if {"nll", "lppd"} <= present:
        both = [values for values in rows if {"nll", "lppd"} <= values.keys()]
        if all(values["nll"][0] == -values["lppd"][0] for values in both):
            every = all("lppd" in values for values in rows if "nll" in values)
            columns.remove("nll" if every else "lppd")
    return columns


def _of(metric: str, rows: Sequence[Collection[str]]) -> list[str]:
    """Columns of a metric, one per value of `at`, in the order of the rows."""
    found = (column for values in rows for column in values if column.partition(" (")[0] == metric)
    return list(dict.fromkeys(found))


def _heading(column: str) -> str:
    metric, bracket, at = column.partition(" (")
    return METRICS[metric] + bracket + at


def _number(column: str, value: tuple[float, float, float, bool] | None) -> str:
    if value is None:
        return ""
    mean, sd, rounding, unconverged = value
    digits = DIGITS.get(column, 4)
    by_rounding = "" if pd.isna(rounding) else f" (rounding {number(rounding, digits)})"
    return with_error(mean, sd, digits) + by_rounding + (f" ({UNCONVERGED})" if unconverged else "")


def _other_rows(dataset: str, datasets: Mapping[str, str]) -> str:
    """Which rows these are: the shift, or the title of the other data set."""
    name = dataset.partition("/")[2]
    if not name.startswith(OUTSIDE):
        return name.removeprefix(INTERVAL)
    other = name.removeprefix(OUTSIDE)
    return datasets.get(other, other)
