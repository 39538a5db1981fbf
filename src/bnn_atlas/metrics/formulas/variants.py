"""Variants of metrics whose published numbers depend on a defect of the published code, named by the paper's author.

`<metric>_sommer`: Sommer et al. 2025, Approximate Posteriors in Neural Networks: A Sampling Perspective.
`<metric>_izmailov`: Izmailov et al. 2021, What Are Bayesian Neural Network Posteriors Really Like?
`<metric>_uppal`: Uppal et al. 2023 (LIVI); their calibration and detection scores come from the code of Laplace Redux
(Daxberger et al. 2021).
A study's file requests these variants with `published: [<author>]`; other studies do not have them.
"""

import numpy as np

from bnn_atlas.metrics.formulas.averages import LOG_2PI, mixture_log_density, mixture_moments
from bnn_atlas.metrics.formulas.classification import as_labelled, checked_scores
from bnn_atlas.metrics.formulas.function_distances import checked_draws, wasserstein_squared
from bnn_atlas.metrics.formulas.reliability import bin_gaps, confidence_and_hits

UPPAL_BINS, IZMAILOV_BINS = 100, 20
"""Bins of the published calibration errors."""


def lppd_of_means_sommer(mean: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log density [n] of the mixture of N(mu_c, exp(mu_c)^2) over networks with one output, mean [C, n].

    The published scorer of deep ensembles reads the log of the noise from an output that a mean-regression network
    lacks, and gets the mean instead.
    """
    with np.errstate(over="ignore"):
        density = -0.5 * (LOG_2PI + ((y - mean) / np.exp(mean)) ** 2) - mean
    return mixture_log_density(density)


def lppd_of_moments_sommer(
    mean: np.ndarray, second_moment: np.ndarray, noise_variance: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Log density [n] of N(m, exp(v)^2) with the predictive mean m and variance v; arguments [C, n].

    The published scorer of Laplace and mean-field benchmarks expects the log of the noise but receives the variance, so
    this score never exceeds -log(2 pi) / 2 - v.
    """
    centre, variance = mixture_moments(mean, second_moment, noise_variance)
    with np.errstate(over="ignore"):
        return -0.5 * (LOG_2PI + ((y - centre) / np.exp(variance)) ** 2) - variance


def calibration_error_sommer(nominal: np.ndarray, observed: np.ndarray, kappa: float) -> float:
    """sqrt( (1/J) sum_j w_j (a_j - â_j)^2 ) with w_j = a_j^kappa / sum_j a_j^kappa.

    The published code takes a mean of weighted terms, so over J levels it is smaller than the weighted root mean square
    by a factor of sqrt(J).
    """
    weights = nominal**kappa / np.sum(nominal**kappa)
    return float(np.sqrt(np.mean(weights * (nominal - observed) ** 2)))


def wasserstein_squared_sommer(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The quantity [m, m] in the published figure on permuted warm starts, in place of `wasserstein_squared`.

    sum_i [(mu_ai - mu_bi)^2 + (sqrt(sd_ai) - sqrt(sd_bi))^2]: the script passed standard deviations to a function that
    expects variances and takes the root of its arguments. The second term is not in squared units of the target, so the
    number depends on those units. Arguments and errors as for `function_distances.wasserstein_squared`.
    """
    mean, scale = checked_draws(mean, scale)
    return wasserstein_squared(mean, np.sqrt(scale))


def ece_uppal(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """ECE over 100 equally wide bins, closed on the left; the last bin is ignored.

    Rows of confidence 0.99 and above are thus dropped; the weights of the other rows sum to 1. NaN if no row is left.
    """
    gap, rows = _uppal_gaps(*confidence_and_hits(probabilities, labels))
    return float(np.abs(gap).sum() / rows.sum()) if rows.any() else float("nan")


def mce_uppal(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """MCE over the same bins as `ece_uppal`; NaN if no row is left."""
    gap, rows = _uppal_gaps(*confidence_and_hits(probabilities, labels))
    return float((np.abs(gap) / np.maximum(rows, 1)).max()) if rows.any() else float("nan")


def sce_uppal(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """SCE by rank instead of by class, averaged over ranks; NaN if a rank has no row left.

    Rank r compares the r-th smallest probability with whether the r-th most probable class is the label, over the bins
    of `ece_uppal`; as published, the two orders are opposite. Among equal probabilities the higher class number counts
    as more probable.
    """
    p, y = as_labelled(probabilities, labels)
    of_label = p[np.arange(len(y)), y][:, None]
    ahead = (p > of_label) | ((p == of_label) & (np.arange(p.shape[1]) > y[:, None]))
    rank, ascending = ahead.sum(axis=1), np.sort(p, axis=1)
    errors = []
    for place in range(p.shape[1]):
        gap, rows = _uppal_gaps(ascending[:, place], rank == place)
        errors.append(np.abs(gap).sum() / rows.sum() if rows.any() else np.nan)
    return float(np.mean(errors))


def ece_izmailov(probabilities: np.ndarray, labels: np.ndarray, bins: int = IZMAILOV_BINS) -> float:
    """ECE over bins with equal numbers of rows, without the rows on the edges of the bins.

    The edges are every ceil(n / bins)-th sorted confidence, starting with the smallest, plus the largest. A bin is open
    on both sides, so a row with a confidence on an edge is lost, but the weights n_b / n still count all n rows.
    """
    confidence, hit = confidence_and_hits(probabilities, labels)
    n = len(hit)
    ordered = np.sort(confidence)
    edges = np.append(ordered[:: -(-n // bins)], ordered[-1])
    place = np.searchsorted(edges, confidence, side="left")
    inside = edges[place] != confidence
    gap, _ = bin_gaps(place[inside], (hit - confidence)[inside], len(edges))
    return float(np.abs(gap).sum() / n)


def fpr95_uppal(inside: np.ndarray, outside: np.ndarray) -> float:
    """Fraction of outside rows that pass the 5th percentile of inside scores.

    The percentile is interpolated linearly between the two nearest scores, so the threshold can be a little lower or
    higher than in `classification.fpr95`. Arguments and errors are as for `classification.fpr95`.
    """
    inside, outside = checked_scores(inside, outside)
    return float((outside >= np.percentile(inside, 5)).mean())


def _uppal_gaps(confidence: np.ndarray, hit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`bin_gaps` of 100 bins [left edge, right edge), the last one left out."""
    place = np.searchsorted(np.linspace(0, 1, UPPAL_BINS + 1), confidence, side="right") - 1
    kept = place < UPPAL_BINS - 1
    return bin_gaps(place[kept], (hit - confidence)[kept], UPPAL_BINS - 1)
