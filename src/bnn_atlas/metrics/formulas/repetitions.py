"""Means over the repetitions of a setting (its seeds and splits), and their errors."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

SEEDS, SPLITS = "seeds", "splits"
GROUPS = 20
"""Largest number of groups of chains, or of batches of draws, that a jackknife leaves out one at a time."""


class Pooled(NamedTuple):
    """A value pooled over the seeds and splits of one setting."""

    n: int
    mean: float
    sd: float
    """Standard deviation with n - 1 in the denominator; NaN for one repetition or if a value is not finite."""
    standard_error: float
    """Standard error of the mean over the repetitions named by `over`; NaN for one repetition."""
    low: float
    high: float
    over: str
    """`seeds`: sd / sqrt(n). `splits`: corrected for rows shared by splits. Empty for one repetition."""


class Repetitions(NamedTuple):
    """The splits that the values of a setting come from."""

    splits: ArrayLike
    """[n] the split of each value."""
    overlap: float
    """Number of test rows divided by number of training rows; NaN if not known."""


def over_repetitions(values: ArrayLike, repetitions: Repetitions | None = None) -> Pooled:
    """Pool the values [n >= 1] of one setting; without `repetitions` all are seeds on one split.

    The standard error over seeds is sd / sqrt(n). Splits of one data set share rows, so sd / sqrt(J) over J splits is
    too small. With v the variance over splits of each split's mean over its seeds, the error is
    sqrt(v (1 / J + n_test / n_train)), or NaN if `overlap` is NaN. Nadeau and Bengio 2003, Inference for the
    Generalization Error, section 3. No value is left out: a NaN makes the mean NaN, and an infinite value makes the
    mean infinite (NaN if both signs occur).
    """
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    with np.errstate(invalid="ignore"):
        mean = float(array.mean())
    sd = float(array.std(ddof=1)) if n > 1 and np.isfinite(mean) else float("nan")
    splits = np.zeros(n) if repetitions is None else np.asarray(repetitions.splits)
    error, over = sd / n**0.5, SEEDS if n > 1 else ""
    if repetitions is not None and (count := len(np.unique(splits))) > 1:
        means = np.array([array[splits == split].mean() for split in np.unique(splits)])
        variance = float(means.var(ddof=1)) if np.isfinite(mean) else float("nan")
        error, over = (variance * (1 / count + repetitions.overlap)) ** 0.5, SPLITS
    return Pooled(n, mean, sd, error, float(array.min()), float(array.max()), over)


def jackknife(left_out: np.ndarray) -> float:
    """Standard error sqrt((G - 1) / G sum_g (v_g - mean)^2), where v_g [G] is the value computed without group g.

    Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 11.
    """
    groups = len(left_out)
    return float(np.sqrt((groups - 1) / groups * np.square(left_out - left_out.mean()).sum()))


def jackknife_limit(whole: float, left_out: np.ndarray) -> float:
    """Value G v - (G - 1) mean_g v_g at infinitely many groups, for a value v of G groups that is biased by c / G.

    v_g [G] is the value computed without group g. Exact for values of the form a + c / G, such as the square of a mean.
    Groups of chains stand for chains as well as draws; `averages.extrapolation` keeps the chains.
    Quenouille 1956, Notes on Bias in Estimation.
    """
    groups = len(left_out)
    return float(groups * whole - (groups - 1) * left_out.mean())


def overlaps(table: "pd.DataFrame") -> dict[tuple[str, int], float]:
    """(Run, split) -> number of test rows / number of training rows, if the metric table has both."""
    sizes: dict[tuple[str, int], dict[str, float]] = {}
    rows = table[table["metric"].isin(["rows_test", "rows_train"])]
    for run, split, metric, value in zip(rows["run"], rows["split"], rows["metric"], rows["value"], strict=True):
        sizes.setdefault((str(run), int(split)), {})[metric] = float(value)
    return {key: size["rows_test"] / size["rows_train"] for key, size in sizes.items() if len(size) == 2}
