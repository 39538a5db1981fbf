"""Whether predictive probabilities come true: interval coverage, PIT, calibration errors of class probabilities.

A calibration error of classes compares, bin by bin, how often something happened with how probable it was said to be;
confidence is the largest probability of a row, a hit is a row whose most probable class (ties: the lowest number) is
its label. Class probabilities [n, k] and labels [n] are checked (`probabilities.as_labelled`).
"""

import numpy as np

from bnn_atlas.metrics.probabilities import as_labelled

REDUX_BINS, HMC_BINS = 100, 20
"""Bins of the published calibration errors."""


def coverage(pit: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Share of rows inside the equal-tailed central interval of each nominal level [J].

    pit [n] is the mixture's predictive CDF at y, so y is inside exactly if (1-a)/2 <= pit <= (1+a)/2:
    no predictive draws, no quantile search.
    """
    distance = 2 * np.abs(pit - 0.5)
    return (distance[None, :] <= levels[:, None]).mean(axis=1)


def calibration_error(nominal: np.ndarray, observed: np.ndarray) -> float:
    """Root mean square of nominal minus observed coverage over the levels."""
    return float(np.sqrt(np.mean((nominal - observed) ** 2)))


def calibration_error_as_published(nominal: np.ndarray, observed: np.ndarray, kappa: float) -> float:
    """sqrt( (1/J) sum_j w_j (a_j - â_j)^2 ) with w_j = a_j^kappa / sum_j a_j^kappa.

    The published code weights and then averages, so over J levels it is smaller than the weighted root mean square
    by a factor sqrt(J).
    """
    weights = nominal**kappa / np.sum(nominal**kappa)
    return float(np.sqrt(np.mean(weights * (nominal - observed) ** 2)))


def pit_histogram(pit: np.ndarray, bins: int) -> np.ndarray:
    """Share of rows [bins] whose PIT lies in each of equally wide bins of [0, 1]; 1/bins each if calibrated."""
    counts, _ = np.histogram(pit, bins=bins, range=(0.0, 1.0))
    return counts / len(pit)


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """ECE = sum_b (n_b / n) |accuracy_b - mean confidence_b| of probabilities [n, k].

    Confidence is the largest probability; bins are equally wide, each with its right edge (the first with both), so
    every row counts. Guo et al. 2017, On Calibration of Modern Neural Networks, equation 3.
    """
    confidence, hit = _confident(probabilities, labels)
    gap, _ = _gaps(_right_closed(confidence, _edges(bins)), hit - confidence, bins)
    return float(np.abs(gap).sum() / len(hit))


def expected_calibration_error_equal_mass(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """The same over bins that hold equally many rows: right edges at the sorted confidences number ceil(b n / bins).

    A bin has its right edge, the first also the smallest confidence: every row counts, and rows of equal confidence
    share a bin, whatever their order, so that bins hold different numbers where there are ties.
    Nixon et al. 2019, Measuring Calibration in Deep Learning, section 3 (adaptive calibration error), for confidences.
    """
    confidence, hit = _confident(probabilities, labels)
    last = -(-np.arange(1, bins + 1) * len(hit) // bins) - 1
    place = np.searchsorted(np.sort(confidence)[last], confidence, side="left")
    gap, _ = _gaps(place, hit - confidence, bins)
    return float(np.abs(gap).sum() / len(hit))


def maximum_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """MCE = max_b |accuracy_b - mean confidence_b| over bins with rows; bins as in `expected_calibration_error`.

    Guo et al. 2017, equation 5. A bin with a single row counts as much as any other.
    """
    confidence, hit = _confident(probabilities, labels)
    gap, rows = _gaps(_right_closed(confidence, _edges(bins)), hit - confidence, bins)
    return float((np.abs(gap) / np.maximum(rows, 1)).max())


def static_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """SCE = (1/k) sum_j sum_b (n_bj / n) |share of label j_b - mean p_j in b|: all probabilities, class by class.

    Rows are put into equally wide bins of p_j, each with its right edge (the first with both), for each class j anew.
    Nixon et al. 2019, Measuring Calibration in Deep Learning, equation 3.
    """
    p, y = as_labelled(probabilities, labels)
    n, classes = p.shape
    place = _right_closed(p, _edges(bins)) + bins * np.arange(classes)
    happened = np.zeros_like(p)
    happened[np.arange(n), y] = 1
    gap, _ = _gaps(place.ravel(), (happened - p).ravel(), bins * classes)
    return float(np.abs(gap).sum() / (n * classes))


def expected_calibration_error_as_published(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """ECE as the code of Laplace Redux (Daxberger et al. 2021) and LIVI (Uppal et al. 2023) computes it.

    100 equally wide bins, each with its left edge, of which the last is never looked at: rows of confidence 0.99 and
    above are dropped, and the weights of the others add up to 1. NaN where no row is left.
    """
    gap, rows = _redux_gaps(*_confident(probabilities, labels))
    return float(np.abs(gap).sum() / rows.sum()) if rows.any() else float("nan")


def maximum_calibration_error_as_published(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """MCE over the same bins as `expected_calibration_error_as_published`; NaN where no row is left."""
    gap, rows = _redux_gaps(*_confident(probabilities, labels))
    return float((np.abs(gap) / np.maximum(rows, 1)).max()) if rows.any() else float("nan")


def static_calibration_error_as_published(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """SCE as LIVI's code computes it, by rank instead of by class; NaN where a rank has no row left.

    Rank r compares the r-th smallest probability with whether the r-th most probable class is the label (two orders
    that agree in the middle only), over the bins of `expected_calibration_error_as_published`; mean over ranks.
    Among equal probabilities the higher class number counts as the more probable.
    """
    p, y = as_labelled(probabilities, labels)
    of_label = p[np.arange(len(y)), y][:, None]
    ahead = (p > of_label) | ((p == of_label) & (np.arange(p.shape[1]) > y[:, None]))
    rank, ascending = ahead.sum(axis=1), np.sort(p, axis=1)
    errors = []
    for place in range(p.shape[1]):
        gap, rows = _redux_gaps(ascending[:, place], rank == place)
        errors.append(np.abs(gap).sum() / rows.sum() if rows.any() else np.nan)
    return float(np.mean(errors))


def expected_calibration_error_equal_mass_as_published(
    probabilities: np.ndarray, labels: np.ndarray, bins: int = HMC_BINS
) -> float:
    """ECE as the code of Izmailov et al. 2021 computes it (What Are Bayesian Neural Network Posteriors Really Like?).

    Edges are every ceil(n / bins)-th of the sorted confidences, from the smallest on, and the largest; a bin has
    neither of its edges, so rows whose confidence is an edge are lost, yet the weights are n_b / n of all n rows.
    """
    confidence, hit = _confident(probabilities, labels)
    n = len(hit)
    ordered = np.sort(confidence)
    edges = np.append(ordered[:: -(-n // bins)], ordered[-1])
    place = np.searchsorted(edges, confidence, side="left")
    inside = edges[place] != confidence
    gap, _ = _gaps(place[inside], (hit - confidence)[inside], len(edges))
    return float(np.abs(gap).sum() / n)


def _confident(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Confidence [n] and whether the most probable class is the label [n]."""
    p, y = as_labelled(probabilities, labels)
    return p.max(axis=1), p.argmax(axis=1) == y


def _edges(bins: int) -> np.ndarray:
    """Edges [bins + 1] of equally wide bins of [0, 1]."""
    return np.arange(bins + 1) / bins


def _right_closed(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Number of the bin (left edge, right edge] of each value; 0 lies in the first."""
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)


def _gaps(place: np.ndarray, difference: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the differences and number of rows in each bin."""
    return np.bincount(place, weights=difference, minlength=bins), np.bincount(place, minlength=bins)


def _redux_gaps(confidence: np.ndarray, hit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same over 100 bins [left edge, right edge) without the last."""
    place = np.searchsorted(np.linspace(0, 1, REDUX_BINS + 1), confidence, side="right") - 1
    kept = place < REDUX_BINS - 1
    return _gaps(place[kept], (hit - confidence)[kept], REDUX_BINS - 1)
