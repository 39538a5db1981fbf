"""How well a score tells rows of the data set (inside) from rows of another (outside, out of distribution).

Inside is the positive class throughout: a score is meant to be larger inside. The largest probability is such a
score (Hendrycks and Gimpel 2017, A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural
Networks), the negative predictive entropy another.
"""

import numpy as np

from bnn_atlas.metrics.errors import PredictionError


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Area under the ROC curve, P(inside > outside) + P(inside = outside) / 2, of scores [n] and [m].

    By ranks (the Mann-Whitney statistic), ties counting one half, as the trapezoids under the curve do; 0.5 is
    chance. PredictionError for scores that are not finite.
    """
    return float(_placements(*checked_scores(inside, outside))[0].mean())


def auroc_error(inside: np.ndarray, outside: np.ndarray) -> float | None:
    """Standard error of `auroc` for independent rows; None with fewer than two rows on a side.

    sqrt(var_i / n + var_o / m), with var_i the variance over inside rows of the share of outside rows below each,
    var_o that over outside rows of the share of inside rows above each.
    DeLong, DeLong and Clarke-Pearson 1988, Comparing the Areas under Two or More Correlated ROC Curves.
    """
    inside, outside = checked_scores(inside, outside)
    if min(len(inside), len(outside)) < 2:
        return None
    below, above = _placements(inside, outside)
    return float(np.sqrt(below.var(ddof=1) / len(below) + above.var(ddof=1) / len(above)))


def fpr95(inside: np.ndarray, outside: np.ndarray) -> float:
    """Share of outside rows that pass the highest threshold which at least 95 % of inside rows pass.

    The threshold is the ceil(0.95 n)-th largest inside score, and a score equal to it passes: the false positive rate
    of the ROC curve's first point with a true positive rate of 0.95 or more. 0 is best, 0.95 is chance.
    Liang, Li and Srikant 2018, Enhancing the Reliability of Out-of-Distribution Image Detection (ODIN), section 4.3.
    """
    inside, outside = checked_scores(inside, outside)
    passing = -(-95 * len(inside) // 100)
    return float((outside >= np.sort(inside)[len(inside) - passing]).mean())


def _placements(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of outside rows below each inside row [n], and of inside rows above each outside row [m]; ties half."""
    from scipy.stats import rankdata  # takes long to import

    n, m = len(inside), len(outside)
    together = rankdata(np.concatenate([inside, outside]))
    below = (together[:n] - rankdata(inside)) / m
    above = 1 - (together[n:] - rankdata(outside)) / n
    return below, above


def checked_scores(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 [n] and [m]."""
    arrays = []
    for name, values in (("inside", inside), ("outside", outside)):
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 1 or not len(array):
            raise PredictionError(f"{name} scores have shape {list(array.shape)}; expected [rows], at least one")
        if not np.isfinite(array).all():
            raise PredictionError(f"{int((~np.isfinite(array)).sum())} of {len(array)} {name} scores are not finite")
        arrays.append(array)
    return arrays[0], arrays[1]
