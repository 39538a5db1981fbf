"""Calibration: interval coverage, PIT, and calibration errors of class probabilities.

A calibration error of classes compares, bin by bin, how often an event happened with its predicted probability.
Confidence is the largest probability of a row. A hit is a row whose most probable class (for ties, the lowest class
number) is its label. Class probabilities [n, k] and labels [n] are checked (`classification.as_labelled`).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from bnn_atlas.metrics.formulas.averages import HALVES_SEED
from bnn_atlas.metrics.formulas.classification import as_labelled


class Bins(NamedTuple):
    """Averages over the rows of each of b bins of confidence; NaN in a bin without rows."""

    confidence: np.ndarray
    """[b]."""
    accuracy: np.ndarray
    """[b] fraction of hits."""
    rows: np.ndarray
    """[b] number of rows."""


def coverage(pit: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Fraction of rows inside the equal-tailed central interval of each nominal level [J].

    pit [n] is the mixture's predictive CDF at y, so y is inside exactly if (1-a)/2 <= pit <= (1+a)/2. No predictive
    draws and no quantile search are needed.
    """
    distance = 2 * np.abs(pit - 0.5)
    return (distance[None, :] <= levels[:, None]).mean(axis=1)


def calibration_error(nominal: np.ndarray, observed: np.ndarray) -> float:
    """Root mean square of nominal minus observed coverage over the levels."""
    return float(np.sqrt(np.mean((nominal - observed) ** 2)))


def pit_histogram(pit: np.ndarray, bins: int) -> np.ndarray:
    """Fraction of rows [bins] whose PIT lies in each of several equal bins of [0, 1]; each is 1/bins if calibrated."""
    counts, _ = np.histogram(pit, bins=bins, range=(0.0, 1.0))
    return counts / len(pit)


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """ECE = sum_b (n_b / n) |accuracy_b - mean confidence_b| of probabilities [n, k].

    Confidence is the largest probability; bins are equally wide and closed on the right (the first on both sides), so
    every row counts. Guo et al. 2017, On Calibration of Modern Neural Networks, equation 3.
    """
    confidence, hit = confidence_and_hits(probabilities, labels)
    gap, _ = bin_gaps(_right_closed(confidence, _edges(bins)), hit - confidence, bins)
    return float(np.abs(gap).sum() / len(hit))


def expected_calibration_error_equal_mass(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """ECE over bins with equal numbers of rows: the right edge of bin b is the ceil(b n / bins)-th smallest confidence.

    A bin includes its right edge, and the first bin also includes the smallest confidence, so every row counts. Rows of
    equal confidence share a bin whatever their order, so ties make the bins differ in size. Nixon et al. 2019,
    Measuring Calibration in Deep Learning, section 3 (adaptive calibration error), on confidences.
    """
    confidence, hit = confidence_and_hits(probabilities, labels)
    gap, _ = bin_gaps(_equal_mass(confidence, bins), hit - confidence, bins)
    return float(np.abs(gap).sum() / len(hit))


def calibration_bins(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> Bins:
    """Mean confidence and accuracy in the bins of `expected_calibration_error_equal_mass`: a calibration curve."""
    confidence, hit = confidence_and_hits(probabilities, labels)
    place = _equal_mass(confidence, bins)
    (said, rows), (happened, _) = (bin_gaps(place, values, bins) for values in (confidence, hit))
    with np.errstate(invalid="ignore"):
        return Bins(said / rows, happened / rows, rows)


def maximum_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """MCE = max_b |accuracy_b - mean confidence_b| over bins with rows; bins as in `expected_calibration_error`.

    Guo et al. 2017, equation 5. A bin with a single row counts as much as any other.
    """
    confidence, hit = confidence_and_hits(probabilities, labels)
    gap, rows = bin_gaps(_right_closed(confidence, _edges(bins)), hit - confidence, bins)
    return float((np.abs(gap) / np.maximum(rows, 1)).max())


def static_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """SCE = (1/k) sum_j sum_b (n_bj / n) |share of label j in b - mean p_j in b|: all probabilities, class by class.

    For each class j, rows are put into equally wide bins of p_j, closed on the right (the first on both sides).
    Nixon et al. 2019, Measuring Calibration in Deep Learning, equation 3.
    """
    p, y = as_labelled(probabilities, labels)
    n, classes = p.shape
    place = _right_closed(p, _edges(bins)) + bins * np.arange(classes)
    happened = np.zeros_like(p)
    happened[np.arange(n), y] = 1
    gap, _ = bin_gaps(place.ravel(), (happened - p).ravel(), bins * classes)
    return float(np.abs(gap).sum() / (n * classes))


class Recalibrated(NamedTuple):
    """Probabilities raised to a power that was fitted to other rows."""

    log_density: np.ndarray
    """[n] log probability of the label."""
    powers: tuple[float, float]
    """The powers fitted to the two halves of the rows."""


POWERS = (1e-2, 1e2)
"""Smallest and largest power."""


def recalibrated(probabilities: np.ndarray, labels: np.ndarray) -> Recalibrated:
    """Log score of p_j^b / sum_k p_k^b, with b fitted to one random half of the rows and scored on the other.

    The log-likelihood of a half is concave in b; b is its maximum in `POWERS`. A power above 1 makes predictions more
    confident: averages over draws often need one. The reciprocal of b is a temperature, as in Guo et al. 2017, On
    Calibration of Modern Neural Networks, section 4.2, for the average instead of the logits of one network.
    Probabilities of 0 count as the smallest number of single precision.
    """
    from scipy.optimize import brentq  # slow to import

    p, y = as_labelled(probabilities, labels)
    log_p = np.log(np.maximum(p, float(np.finfo(np.float32).tiny)))
    order = np.random.default_rng(HALVES_SEED).permutation(len(y))
    halves = np.array_split(order, 2)
    log_density, powers = np.empty(len(y)), []
    for scored, fitted in (halves, halves[::-1]):
        rows, labelled = log_p[fitted], log_p[fitted, y[fitted]].mean()

        def slope(power: float, rows: np.ndarray = rows, labelled: float = labelled) -> float:
            return float(labelled - (softmax(power * rows, axis=1) * rows).sum(axis=1).mean())

        low, high = POWERS
        power = low if slope(low) <= 0 else high if slope(high) >= 0 else float(brentq(slope, low, high, xtol=1e-6))
        log_density[scored] = log_softmax(power * log_p[scored], axis=1)[np.arange(len(scored)), y[scored]]
        powers.append(power)
    return Recalibrated(log_density, (powers[0], powers[1]))


def confidence_and_hits(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Confidence [n] of each row, and whether the row is a hit [n]."""
    p, y = as_labelled(probabilities, labels)
    return p.max(axis=1), p.argmax(axis=1) == y


def _equal_mass(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Bin index of each row, for `expected_calibration_error_equal_mass`."""
    last = -(-np.arange(1, bins + 1) * len(confidence) // bins) - 1
    return np.searchsorted(np.sort(confidence)[last], confidence, side="left")


def _edges(bins: int) -> np.ndarray:
    return np.arange(bins + 1) / bins


def _right_closed(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Index of the bin (left edge, right edge] that holds each value; 0 lies in the first bin."""
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)


def bin_gaps(place: np.ndarray, difference: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the differences and number of rows in each of `bins` bins; `place` is the bin index of each row."""
    return np.bincount(place, weights=difference, minlength=bins), np.bincount(place, minlength=bins)
