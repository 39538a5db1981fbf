"""Scores of class probabilities against labels.

Probabilities are [n, k] of any floating type and are computed with in float64; labels are class numbers [n].
All raise PredictionError for arrays that are not that (`probabilities.as_labelled`).
"""

import numpy as np
from scipy.special import entr

from bnn_atlas.metrics import calibration
from bnn_atlas.metrics.probabilities import Score, as_labelled, as_probabilities, mean_score


def hits(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 where the label is the most probable class, else 0 [n] float64; ties go to the lowest class number."""
    p, y = as_labelled(probabilities, labels)
    return (p.argmax(axis=1) == y).astype(np.float64)


def brier_rows(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Brier score sum_j (p_j - 1[j = y])^2 of each row [n], summed over classes: 0 is best, 2 worst.

    Brier 1950, Verification of Forecasts Expressed in Terms of Probability. The binary score of many libraries, which
    looks at one class only, is half of this for two classes.
    """
    p, y = as_labelled(probabilities, labels)
    return (p**2).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1


def confidence(probabilities: np.ndarray) -> np.ndarray:
    """Largest probability of each row [n]."""
    return as_probabilities(probabilities).max(axis=1)


def doubt(probabilities: np.ndarray) -> np.ndarray:
    """Probability of all classes but the most probable one [n], added up from theirs.

    It is 1 - `confidence`, and still tells rows apart whose largest probability was rounded to 1.
    """
    p = as_probabilities(probabilities)
    return np.partition(p, -1, axis=1)[:, :-1].sum(axis=1)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Predictive entropy -sum_j p_j log p_j of each row [n] in nats, from 0 to log k; 0 log 0 = 0."""
    return entr(as_probabilities(probabilities)).sum(axis=1)


def classification_scores(probabilities: np.ndarray, labels: np.ndarray, ece_bins: int = 15) -> list[Score]:
    """Scores of probabilities [n, k] against labels [n], named as in the tables of metrics.

    The log score is not among them: it is taken from log densities, which do not round to -inf (`evaluate.nll`).
    Standard errors are those of a mean over independent rows. A published variant that is not defined, since its
    bins leave no row, is NaN and says so.
    """
    p, y = as_labelled(probabilities, labels)
    wide, mass = f"{ece_bins} equally wide bins", f"{ece_bins} bins of equally many rows"
    redux = "100 equally wide bins, those of confidence 0.99 and above dropped; Laplace Redux's and LIVI's code"
    ranks = "LIVI's code: by rank, the k-th smallest probability with the k-th most probable class"
    strict = "20 bins of equally many rows, rows on their edges dropped; Izmailov et al.'s code"
    return [
        mean_score("accuracy", hits(p, y)),
        mean_score("brier", brier_rows(p, y), "sum over classes"),
        mean_score("mean_maximum_confidence", confidence(p)),
        mean_score("predictive_entropy", entropy(p), "nats"),
        Score("ece", calibration.expected_calibration_error(p, y, ece_bins), note=wide),
        Score("ece_equal_mass", calibration.expected_calibration_error_equal_mass(p, y, ece_bins), note=mass),
        Score("mce", calibration.maximum_calibration_error(p, y, ece_bins), note=wide),
        Score("sce", calibration.static_calibration_error(p, y, ece_bins), note=wide),
        _published("ece_as_published", calibration.expected_calibration_error_as_published(p, y), redux),
        _published("mce_as_published", calibration.maximum_calibration_error_as_published(p, y), redux),
        _published("sce_as_published", calibration.static_calibration_error_as_published(p, y), f"{redux}; {ranks}"),
        Score(
            "ece_equal_mass_as_published",
            calibration.expected_calibration_error_equal_mass_as_published(p, y),
            note=strict,
        ),
    ]


def _published(name: str, value: float, note: str) -> Score:
    return Score(name, value, note=f"{note}; no row is left in its bins" if np.isnan(value) else note)
