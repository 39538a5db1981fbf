"""The values that answer one side of a claim: rows of a metric table, or a number in the CSV file of a figure."""

import difflib
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.sides import Answer, ClaimError, MissingRowError, Problem, Repetition
from bnn_atlas.config.claims.claim import Claim, FigureValue, Side
from bnn_atlas.metrics.formulas.averages import Extrapolation, extrapolation
from bnn_atlas.metrics.formulas.repetitions import jackknife
from bnn_atlas.metrics.judgement.measure import ORDERINGS
from bnn_atlas.metrics.judgement.trust import worst
from bnn_atlas.records import is_damaged

EXCLUDED_SHARE = 0.05
"""Largest fraction of excluded chains with which a run still answers a claim about all its chains."""
BY_CHAINS, BY_DRAWS = "_cumulative_chains", "_cumulative_draws"
CURVES = {
    "lppd": (1.0, f"lppd{BY_DRAWS}"),
    "nll": (-1.0, f"lppd{BY_DRAWS}"),
    "accuracy": (1.0, f"accuracy{BY_DRAWS}"),
    "ece": (1.0, f"ece{BY_DRAWS}"),
}
"""Score of the average over all draws -> sign and name of its curve over the number of draws."""
SHARES = ("coverage", "entropy_histogram")
"""Metrics that are fractions of the test rows."""
REPETITIONS = {"run": "seeds", "split": "splits", "chain": "chains"}
"""Column of a figure's CSV file whose values are repetitions -> name of these repetitions."""
FLOORS = {"agreement": 1.0, "total_variation": 0.0}
"""Metrics that compare two averages over draws, with a floor from the finite number of draws -> value of two equal
averages."""


def answer(measured: Measured, claim: Claim, side: Side, study: ClaimedStudy, least: int = 1) -> Answer:
    """Rows of the table for one side of a claim, one per run and split, or the number of its figure.

    A claim about all chains of a run is answered by the chains that were not excluded, provided that at most
    `EXCLUDED_SHARE` of the chains were excluded. The first problem in this list is reported: a run that this scale does
    not have; a missing table, metric, or number of chains or draws; too many excluded chains; a run that should equal
    the paper's number but uses another data set. Scales suggested as a remedy have at least `least` chains. Raises
    ClaimError if several rows match.
    """
    if side.in_figure is not None:
        return figure_answer(measured, side, claim.figure or "", study, study.runs_behind(claim))
    least = max(least, side.chains or 1)
    named = [name for one in claim.sides.values() for name in one.runs]
    rows: list[Repetition] = []
    problems: list[Problem] = []
    for name in side.runs:
        runs = study.runs_of(name)
        if not runs:
            problems.append(Problem(f"scale {study.scale} does not run '{name}'", _scales(study, name, least, named)))
        for run in runs:
            if (change := study.runs[run].other_data) and claim.relation == "equals" and claim.published:
                needed = _scales(study, name, least, named)
                problems.append(Problem(f"scale {study.scale} runs it on other data ({change})", needed))
            for split in range(study.runs[run].splits):
                found = row_of(measured, side, study, run, split, least)
                if isinstance(found, Repetition):
                    rows.append(found)
                elif found.needed:
                    problems.append(found)
                elif least > study.runs[run].chains:
                    problems.append(found._replace(needed=_scales(study, name, least, named)))
                else:
                    problems.append(found._replace(needed=study.command(named)))
    return Answer(tuple(dict.fromkeys(rows)), problems[0] if problems else None)


def row_of(
    measured: Measured, side: Side, study: ClaimedStudy, run: str, split: int, least: int = 1
) -> Repetition | Problem:
    """The row of one run and split, or why it is missing; `needed` is empty if the whole run is missing."""
    table = measured.table
    if table is None:
        return Problem(f"there is no table of the study {study.name}", "")
    dataset = side.dataset or study.runs[run].dataset
    where = f"run '{run}', split {split}"
    of_run = table[(table["run"] == run) & (table["split"] == split)]
    if of_run.empty:
        return Problem(f"{where} has not been run", "")
    of_run = of_run[of_run["dataset"] == dataset]
    rows = of_run[of_run["metric"] == side.metric]
    if lost := _no_chain_left(table, run, split):
        return Problem(f"{where}: {lost}", "a run whose chains move and stay finite")
    if rows.empty:
        return _no_metric(f"{where} has no metric '{side.metric}' for '{dataset}'", side.metric, of_run)
    given = list(dict.fromkeys(rows["at"]))
    rows = rows[rows["at"] == side.at]
    if rows.empty:
        reason = f"{where} has '{side.metric}' at {', '.join(given) or 'nothing'}, not at '{side.at}'"
        return Problem(reason, "one of these levels as `at` of the claim")
    planned = study.runs[run].chains
    excluded = 0
    for column, wanted in (("chains", side.chains), ("draws", side.draws)):
        counts = sorted(rows[column].unique())
        if column == "chains" and wanted in (None, planned):
            excluded = max(planned - int(counts[-1]), 0)
            wanted = None if excluded else wanted
            if excluded > EXCLUDED_SHARE * planned:
                kept = planned - int(EXCLUDED_SHARE * planned)
                needed = f"a run that keeps at least {kept:,} of its {planned:,} chains"
                return Problem(f"{where}: {excluded:,} of {planned:,} chains were excluded", needed)
        if wanted is not None and wanted not in counts:
            scales = _scales(study, run, max(wanted, least), side.runs)
            at = ", ".join(f"{count:,}" for count in counts[:2]) + (f", ..., {counts[-1]:,}" if len(counts) > 2 else "")
            needed = scales if column == "chains" else f"{wanted:,} {column}"
            return Problem(f"{where} has no '{side.metric}' at {wanted:,} {column}, only at {at}", needed)
        rows = rows[rows[column] == (counts[-1] if wanted is None else wanted)]
    if len(rows) > 1:
        raise ClaimError(f"{where}: {len(rows)} rows of '{side.metric}' for '{dataset}' match a claim about one value")
    row = rows.iloc[0]
    standard_error, monte_carlo = (_number(row[name]) for name in ("standard_error", "monte_carlo_error"))
    if monte_carlo is None:
        monte_carlo = _error_of_average(of_run, row, planned - excluded)
    over = row["over"]
    if side.metric in SHARES and standard_error is None and (number := measured.test_rows(run, split)):
        share = (row["value"] * number + 1) / (number + 2)  # Laplace: no error of 0 where all rows are inside
        standard_error, over = math.sqrt(share * (1 - share) / number), "rows"
    if side.metric == "ece" and standard_error is None and (number := measured.test_rows(run, split)):
        standard_error, over = _error_of_ece(of_run, int(row["chains"]), number), "rows"
    trust = measured.trusts.get((run, split))
    errors = [error for error in (standard_error, monte_carlo) if error is not None]
    reference = _of_chains(table, side, split, dataset)
    beyond = _at_infinity(of_run, row, side) if reference is None else _without_floor(row, errors, side, reference)
    return Repetition(
        run=run,
        split=split,
        dataset=dataset,
        metric=side.metric,
        chains=int(row["chains"]),
        excluded=excluded,
        draws=int(row["draws"]),
        value=float(row["value"]),
        note=row["note"],
        at=side.at,
        over=over,
        standard_error=standard_error,
        monte_carlo_error=monte_carlo,
        at_infinity=beyond and float(row["value"] + beyond.shift),
        infinity_error=beyond and beyond.error,
        trust=trust.words if trust else "",
    )


def _error_of_average(of_run: pd.DataFrame, row: pd.Series, all_chains: int) -> float | None:
    """Monte Carlo error of the score of an average over fewer chains or draws; None for other metrics.

    For k draws of each chain the error is e sqrt(S / k), with e the Monte Carlo error of the score of all S draws. The
    score of k chains is a mean over R random orders of N chains. These orders draw chains without replacement; with s
    the standard deviation over the orders, the variance is s^2 (k / (N - k) + 1 / R). For single chains (s not kept),
    the error is the standard error over chains of their mean score; for all chains, the score's Monte Carlo error.
    """
    score, by_draws, _ = str(row["metric"]).partition(BY_DRAWS)
    score = score if by_draws else score.removesuffix(BY_CHAINS)
    if score not in CURVES or score == row["metric"]:
        return None
    whole = of_run[of_run["metric"] == score]
    error = _number(whole["monte_carlo_error"].iloc[0]) if len(whole) else None
    chains = int(row["chains"])
    if chains >= all_chains:
        return error and error * math.sqrt(whole["draws"].iloc[0] / row["draws"])
    sds = of_run.loc[(of_run["metric"] == f"{row['metric']}_order_sd") & (of_run["chains"] == chains), "value"]
    if len(sds):
        return float(sds.iloc[0]) * math.sqrt(chains / (all_chains - chains) + 1 / ORDERINGS)
    means = of_run[(of_run["metric"] == f"{score}_chain_mean{BY_DRAWS}") & (of_run["draws"] == row["draws"])]
    return _number(means["standard_error"].iloc[0]) if chains == 1 and len(means) else None


def _error_of_ece(of_run: pd.DataFrame, chains: int, rows: int) -> float | None:
    """Standard error over test rows of the ECE, from the kept calibration curve; None without one.

    The ECE is the mean over rows of s (hit - confidence), with s the sign of the row's bin. With share w, accuracy a
    and gap g = a - c of each bin of the curve, the variance of this is sum w (a (1 - a) + g^2) - (sum w |g|)^2.
    """
    of_curve = of_run["metric"].isin([f"calibration_{name}" for name in ("confidence", "accuracy", "share")])
    curve = of_run[of_curve & (of_run["chains"] == chains)]
    if curve.empty:
        return None
    bins = curve.pivot_table(index="at", columns="metric", values="value")
    share, right = bins["calibration_share"], bins["calibration_accuracy"]
    gap = right - bins["calibration_confidence"]
    variance = (share * (right * (1 - right) + gap**2)).sum() - (share * gap.abs()).sum() ** 2
    return math.sqrt(variance / rows)


class OfChains(NamedTuple):
    """Distance of the single chains of a reference from its other chains, in one metric."""

    value: float
    error: float | None
    """Standard error over the chains; None for two chains."""
    chains: int
    draws: int


def _of_chains(table: pd.DataFrame, side: Side, split: int, dataset: str) -> OfChains | None:
    """Distance between the chains of a side's reference; None for other metrics, and if the distance is not known."""
    if side.metric not in FLOORS:
        return None
    rows = table[(table["run"] == side.at) & (table["split"] == split) & (table["dataset"] == dataset)]
    rows = rows[rows["metric"] == f"{side.metric}_ceiling"]
    if rows.empty or rows["chains"].iloc[0] < 2:
        return None
    one = rows.iloc[0]
    return OfChains(float(one["value"]), _number(one["standard_error"]), int(one["chains"]), int(one["draws"]))


def _without_floor(row: pd.Series, errors: Sequence[float], side: Side, reference: OfChains) -> Extrapolation:
    """What infinitely many draws would add to a distance d between two averages over draws, and the error of this.

    For the total variation, and for the fraction of rows on which they disagree, d^2 = d_inf^2 + f^2, with the floor
    f = c sqrt(1 / S + 1 / R) for S and R independent draws; c comes from comparing single chains of the reference with
    its other chains. The error of d_inf is how far it moves with d by one standard error and with f by the relative
    error of c; the part that the value itself has (`errors`) is taken off.
    """
    best, chains, draws = FLOORS[side.metric], reference.chains, reference.draws
    distance, apart = abs(best - row["value"]), abs(best - reference.value)
    c = apart / math.sqrt(1 / draws + 1 / (draws * (chains - 1)))
    own = 0.0 if row["draws"] == 1 else 1 / (row["chains"] * row["draws"])
    floor = c * math.sqrt(own + 1 / (chains * draws))

    def limit(d: float, f: float) -> float:
        return math.sqrt(max(d**2 - f**2, 0.0))

    of_value = math.hypot(*errors)
    of_floor = floor * reference.error / apart if reference.error and apart else 0.0
    there = limit(distance, floor)
    moved = [
        max(abs(limit(*ends) - there) for ends in both)
        for both in (
            [(distance + of_value, floor), (max(distance - of_value, 0.0), floor)],
            [(distance, floor + of_floor), (distance, max(floor - of_floor, 0.0))],
        )
    ]
    added = math.sqrt(max(sum(move**2 for move in moved) - of_value**2, 0.0))
    return Extrapolation((distance - there) * (1 if best else -1), added)


def _at_infinity(of_run: pd.DataFrame, row: pd.Series, side: Side) -> Extrapolation | None:
    """What infinitely many draws would add to a score, from the kept scores of the first draws (`extrapolation`)."""
    if side.metric not in CURVES or side.draws is not None:
        return None
    sign, curve = CURVES[side.metric]
    last = int(row["draws"])
    rows = of_run[(of_run["metric"] == curve) & (of_run["chains"] == row["chains"]) & (of_run["draws"] <= last)]
    if rows.empty or rows["draws"].max() != last:
        return None
    return extrapolation(rows["draws"].to_numpy(float), sign * rows["value"].to_numpy(float))


def _number(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def _no_chain_left(table: pd.DataFrame, run: str, split: int) -> str:
    """Why all chains of a run are excluded, according to its table; empty if some are left."""
    rows = table[(table["run"] == run) & (table["split"] == split) & (table["metric"] == "chains_excluded")]
    for value, chains, note in zip(rows["value"], rows["chains"], rows["note"], strict=True):
        if value == chains:
            return str(note)
    return ""


def _no_metric(reason: str, metric: str, measured: pd.DataFrame) -> Problem:
    """The problem of a metric that a run does not have, with a guess at the intended name."""
    close = difflib.get_close_matches(metric, sorted(measured["metric"].unique()), n=1, cutoff=0.8)
    if not close:
        return Problem(reason, "a run that measures it")
    return Problem(f"{reason}; did you mean '{close[0]}'?", "a metric of the table, or a run that measures this one")


def _scales(study: ClaimedStudy, name: str, chains: int, runs: Sequence[str]) -> str:
    """The scales that would answer the claim, with the command that makes these runs at the first of them."""
    found = study.scales_with(name, chains)
    if not found:
        return f"a run with {chains:,} chains or more" if chains > 1 else "a run on the paper's data set"
    return f"scale {' or '.join(found)}: {study.command(runs, found[0])}"


def figure_answer(measured: Measured, side: Side, figure: str, study: ClaimedStudy, runs: Collection[str]) -> Answer:
    """The number of a figure as the only row of a side, or why there is none.

    The row's trust is the worst trust of `runs`, the runs behind the claim. Raises ClaimError in the same cases as
    `figure_value`.
    """
    assert side.in_figure is not None
    plan, path = study.figures.get(figure), measured.figures.get(figure)
    needed = "a scale that draws it for the paper's runs"
    if plan is None:
        return Answer((), Problem(f"scale {study.scale} does not draw the figure '{figure}'", needed))
    if plan.other or (changed := [text for run in plan.runs if (text := study.runs[run].other_data)]):
        return Answer(
            (), Problem(f"scale {study.scale} draws '{figure}' differently: {plan.other or changed[0]}", needed)
        )
    csv = Path(path).with_suffix(".csv") if path else None
    if csv is None or not csv.is_file():
        return Answer((), Problem(f"there is no CSV file of the figure '{figure}'", study.command([figure])))
    try:
        value, error, note = figure_value(csv, side.in_figure)
    except MissingRowError as missing:
        return Answer((), Problem(str(missing), f"runs that yield this row: {study.command([figure])}"))
    of_runs = [one for (run, _), one in measured.trusts.items() if run in runs]
    trust = worst(of_runs).words if runs else ""
    return Answer((Repetition(figure, 0, "", side.metric, 0, 0, 0, value, error, note, trust=trust),), None)


def figure_value(csv: Path, wanted: FigureValue) -> tuple[float, float | None, str]:
    """The number in a CSV file to which a claim refers, its standard error if known, and what the error is over.

    A mean in a file with the columns `sd` and `pairs` has the error sd / sqrt(pairs), and a `difference` that of the
    column `error`; a difference of a value from itself, without an error, is exactly 0. A mean, median or fraction of
    rows from several runs, splits or chains has the error of a jackknife over the runs, splits or chains. Raises
    ClaimError if the file differs from the figure's record (two folders below the results), if a column is missing, and
    if several rows match a claim about one row; MissingRowError if no row matches.
    """
    if is_damaged(csv, csv.absolute().parents[2]):
        raise ClaimError(f"{csv}: changed or damaged since it was made; delete it to have its figure drawn again")
    table = pd.read_csv(csv)
    if missing := [name for name in (wanted.column, *wanted.where) if name not in table.columns]:
        raise ClaimError(f"{csv}: no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    for column, value in wanted.where.items():
        table = table[_matches(table[column], value)]
    if table.empty:
        raise MissingRowError(f"{csv.name}: no row matches {wanted.text}")
    value = _taken(table[wanted.column], wanted, csv)
    if wanted.column == "mean" and {"sd", "pairs"} <= {*table.columns}:
        row = table[table["mean"] == value]
        if len(row) and row["pairs"].iloc[0] > 1:
            pairs = int(row["pairs"].iloc[0])
            return value, float(row["sd"].iloc[0]) / math.sqrt(pairs), f"mean of {pairs} pairs of networks"
    if wanted.column == "difference" and wanted.take == "only" and "error" in table.columns:
        known = _number(table["error"].iloc[0])
        return value, 0.0 if known is None and value == 0 else known, ""
    over = next((name for name in REPETITIONS if name in table.columns and table[name].nunique() > 1), None)
    if over is None or wanted.take in ("only", "min", "max"):
        return value, None, ""
    left_out = [_taken(table.loc[table[over] != one, wanted.column], wanted, csv) for one in table[over].unique()]
    return value, jackknife(np.array(left_out)), f"mean of {len(left_out)} {REPETITIONS[over]}"


def _matches(column: pd.Series, value: str | float) -> pd.Series:
    """Where a column has a value: as numbers if both are numbers, else as text."""
    number = pd.to_numeric(value, errors="coerce")
    numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) and pd.notna(number)
    return column == number if numbers else column.astype(str) == str(value)


def _taken(values: pd.Series, wanted: FigureValue, csv: Path) -> float:
    values = values / 100 if wanted.percent else values
    if wanted.take == "share_given":
        return float(values.notna().mean())
    different: Sequence[float] = values.unique().tolist()
    if wanted.take == "only" and len(different) > 1:
        raise ClaimError(f"{csv}: {len(values)} rows match {wanted.text}, but a claim needs one value")
    return float(different[0] if wanted.take == "only" else values.agg(wanted.take))
