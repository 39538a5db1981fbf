"""Barriers, transpositions and distances of pairs of networks as metrics."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from bnn_atlas.metrics.formulas.barriers import Barriers, barriers, jackknife_error
from bnn_atlas.metrics.tables.measurement import Measurement

FAR = 400 / 512
"""Transpositions over units from which the barrier of Xiao et al. 2023, figure 2, is level."""
OVER = "pairs"
STATES = {"as_trained": "as trained", "planted": "planted permutation undone", "aligned": "aligned"}
"""State of the second network of a pair -> how `at` names it."""
PAIR = ["first", "second", "draw"]


def barrier_frame(lines: pd.DataFrame) -> pd.DataFrame:
    """Barriers of every line: columns first, second, draw, state, rows, score, and those of `Barriers`."""
    found = []
    for key, line in lines.groupby([*PAIR, "state", "rows"], sort=False):
        ordered = line.sort_values("point")
        for score in ("loss", "error"):
            values = barriers(ordered["point"].to_numpy(), ordered[score].to_numpy())
            found.append((*key, score, *values))
    return pd.DataFrame(found, columns=[*PAIR, "state", "rows", "score", *Barriers._fields])


def with_transpositions(barrier: pd.DataFrame, matches: pd.DataFrame) -> pd.DataFrame:
    """The barriers with the transpositions of their pair as it was trained, and its units."""
    trained = matches[(matches["state"] == "as_trained") & (matches["point"] == 1.0)]
    return barrier.merge(trained[[*PAIR, "transpositions", "units"]], on=PAIR, how="left", validate="many_to_one")


def pair_measurements(lines: pd.DataFrame, matches: pd.DataFrame) -> list[Measurement]:
    """Measurements of the last compared draws, means over pairs with their standard errors.

    Args:
        lines: `files.LINE_SCHEMA`.
        matches: `files.MATCH_SCHEMA`.
    """
    last = int(lines["draw"].max())
    found = with_transpositions(barrier_frame(lines[lines["draw"] == last]), matches)
    ends = matches[(matches["draw"] == last) & (matches["point"] == 1.0)]
    return [
        *_barriers(found, last),
        *_distances(ends),
        Measurement("pair_transpositions_ceiling", float(ends["ceiling"].iloc[0])),
        *_changes(matches),
        *_correlations(found),
    ]


def _barriers(found: pd.DataFrame, draw: int) -> Iterator[Measurement]:
    for (score, rows, state), part in found.groupby(["score", "rows", "state"], sort=False):
        at = f"{rows}, {STATES[str(state)]}"
        for definition in Barriers._fields:
            yield _over_pairs(f"barrier_{score}_{definition}", part[definition], at, f"draws {draw}")
        far = part["transpositions"] >= FAR * part["units"]
        if score == "loss" and far.any():
            yield _over_pairs("barrier_loss_far", part.loc[far, "midpoint"], at, f"draws {draw}")


def _distances(ends: pd.DataFrame) -> Iterator[Measurement]:
    for state, part in ends.groupby("state", sort=False):
        yield _over_pairs("pair_transpositions", part["transpositions"], STATES[str(state)])
        yield _over_pairs("pair_squared_distance", part["squared_distance"], STATES[str(state)])


def _changes(matches: pd.DataFrame) -> Iterator[Measurement]:
    """How far the transpositions of a pair went from those that were planted, where some were."""
    trained = matches[(matches["state"] == "as_trained") & (matches["point"] == 1.0)]
    last = trained[trained["draw"] == trained["draw"].max()].dropna(subset="planted")
    if len(last):
        change = (last["transpositions"] - last["planted"]).abs()
        yield Measurement("pair_transpositions_change_max", float(change.max()), note=f"of {len(last)} pairs")


def _correlations(found: pd.DataFrame) -> Iterator[Measurement]:
    """Over pairs; none of fewer than four, or where one of the two does not vary."""
    part = found[(found["score"] == "loss") & (found["rows"] == "train") & (found["state"] == "as_trained")]
    x, y = part["transpositions"].to_numpy(float), part["midpoint"].to_numpy(float)
    kept = np.isfinite(y)
    x, y = x[kept], y[kept]
    note = "" if kept.all() else f"{(~kept).sum()} pairs whose barrier is not finite are left out"
    if len(x) < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    for name, correlation in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        left_out = [correlation(np.delete(x, i), np.delete(y, i)).statistic for i in range(len(x))]
        value = float(correlation(x, y).statistic)
        error = jackknife_error(np.array(left_out))
        yield Measurement("correlation_transpositions_barrier", value, error, note, at=name, over=OVER)


def _over_pairs(metric: str, values: pd.Series, at: str, note: str = "") -> Measurement:
    """Mean over pairs; not finite where one of them is not, and the note counts those."""
    numbers = values.to_numpy(float)
    lost = int((~np.isfinite(numbers)).sum())
    told = "; ".join(filter(None, (note, f"{lost} of {len(numbers)} pairs are not finite" if lost else "")))
    error = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 and not lost else None
    return Measurement(metric, float(numbers.mean()), error, told, at=at, over=OVER if error is not None else "")
