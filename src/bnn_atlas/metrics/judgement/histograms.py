"""Bins of confidence and of entropy, for calibration curves and histograms."""

import numpy as np

from bnn_atlas.metrics.formulas.calibration import calibration_bins
from bnn_atlas.metrics.formulas.classification import entropy_histogram
from bnn_atlas.metrics.tables.measurement import Measurement

CALIBRATION_BINS, ENTROPY_BINS = 20, 20


def calibration_curve(probabilities: np.ndarray, labels: np.ndarray) -> list[Measurement]:
    """Confidence, accuracy and share of the rows in bins of equally many rows; `at` is the share up to a bin's end."""
    bins = calibration_bins(probabilities, labels, CALIBRATION_BINS)
    note = f"{CALIBRATION_BINS} bins of equally many rows"
    found = []
    for number in np.flatnonzero(bins.rows).tolist():
        at, rows = f"{(number + 1) / CALIBRATION_BINS:g}", int(bins.rows[number])
        share, right = rows / len(labels), float(bins.accuracy[number])
        error = float(np.sqrt(right * (1 - right) / (rows - 1))) if rows > 1 else None
        found += [
            Measurement("calibration_confidence", float(bins.confidence[number]), note=note, at=at),
            Measurement("calibration_accuracy", right, error, note, at=at),
            Measurement("calibration_share", share, note=note, at=at),
        ]
    return found


def entropy_shares(probabilities: np.ndarray) -> list[Measurement]:
    """Share of rows whose predictive entropy lies in equally wide bins of [0, log k], named by their right edges."""
    shares = entropy_histogram(probabilities, ENTROPY_BINS)
    largest = np.log(np.shape(probabilities)[1])
    return [
        Measurement("entropy_histogram", float(share), at=f"{largest * (number + 1) / ENTROPY_BINS:.4g}")
        for number, share in enumerate(shares)
    ]
