"""Whether predictive probabilities come true: interval coverage, PIT, expected calibration error."""

import numpy as np


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

    Confidence is the largest probability; bins are equally wide, each with its right edge, so every row counts.
    Guo et al. 2017, On Calibration of Modern Neural Networks.
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    edges = np.arange(bins + 1) / bins
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    gap = np.bincount(place, weights=right - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(labels))
