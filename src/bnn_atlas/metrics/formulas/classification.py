"""Scores of class probabilities: against labels, against other probabilities, and for detecting rows of other data.

Probabilities are [n, k] of any floating type and are converted to float64; labels are class numbers [n]. All functions
raise PredictionError for invalid arrays (`as_labelled`).

Rows of the data set are called inside, rows of another data set outside (out of distribution). Inside is the positive
class: a score is meant to be larger inside. One such score is the largest probability (Hendrycks and Gimpel 2017, A
Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural Networks), another the negative
predictive entropy.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import entr

from bnn_atlas.metrics.formulas.averages import error_of_mean
from bnn_atlas.metrics.tables.measurement import PredictionError

TOLERANCE = 1e-3
"""How far the sum of a row's probabilities may be from 1; float16 rounding makes this necessary."""


def hits(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[n] float64: 1 where the label is the most probable class, else 0; ties go to the lowest class number."""
    p, y = as_labelled(probabilities, labels)
    return (p.argmax(axis=1) == y).astype(np.float64)


def brier_rows(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Brier score sum_j (p_j - 1[j = y])^2 of each row [n], summed over classes: 0 is best, 2 is worst.

    Brier 1950, Verification of Forecasts Expressed in Terms of Probability. For two classes, the binary score of many
    libraries, which uses one class only, is half of this score.
    """
    p, y = as_labelled(probabilities, labels)
    return (p**2).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1


def confidence(probabilities: np.ndarray) -> np.ndarray:
    """Largest probability of each row [n]."""
    return as_probabilities(probabilities).max(axis=1)


def one_minus_confidence(probabilities: np.ndarray) -> np.ndarray:
    """Summed probability [n] of all classes except the most probable one.

    Unlike 1 - `confidence`, this still distinguishes rows whose largest probability was rounded to 1.
    """
    p = as_probabilities(probabilities)
    return np.partition(p, -1, axis=1)[:, :-1].sum(axis=1)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Predictive entropy -sum_j p_j log p_j of each row [n] in nats, from 0 to log k; 0 log 0 = 0."""
    return entr(as_probabilities(probabilities)).sum(axis=1)


def entropy_histogram(probabilities: np.ndarray, bins: int) -> np.ndarray:
    """Fraction of rows [bins] with entropy in each of several equally wide bins of [0, log k], closed on the left."""
    largest = np.log(np.shape(probabilities)[1])
    counts, _ = np.histogram(np.minimum(entropy(probabilities), largest), bins=bins, range=(0.0, largest))
    return counts / len(probabilities)


def as_probabilities(probabilities: np.ndarray, name: str = "probabilities") -> np.ndarray:
    """Class probabilities [n, k] as float64.

    Raises PredictionError for the wrong shape, no rows, fewer than two classes, or a type that is not floating; or if a
    row contains a NaN or a negative value, or does not add up to 1 within 0.001 (naming the first such row).
    """
    array = np.asarray(probabilities)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise PredictionError(f"{name} have shape {list(array.shape)}; expected [rows, classes], at least [1, 2]")
    if not np.issubdtype(array.dtype, np.floating):
        raise PredictionError(f"{name} are {array.dtype}; expected a floating type")
    array = array.astype(np.float64, copy=False)
    total = array.sum(axis=1)
    # A NaN fails both comparisons, an infinity the first.
    valid = (np.abs(total - 1) <= TOLERANCE) & (array.min(axis=1) >= 0)
    if not valid.all():
        row = int(valid.argmin())
        raise PredictionError(
            f"{name} of row {row} add up to {total[row]:g}, and the smallest is {array[row].min():g}; a row must be "
            f"finite and non-negative and add up to 1 within {TOLERANCE:g} ({int((~valid).sum())} of {len(valid)} rows "
            "do not): give probabilities, not logits or log probabilities"
        )
    return array


def as_labelled(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Checked probabilities [n, k] as float64 and labels [n] as int64; PredictionError if they do not match."""
    p, y = as_probabilities(probabilities), np.asarray(labels)
    if y.shape != p.shape[:1]:
        raise PredictionError(f"labels have shape {list(y.shape)} for {len(p)} rows of probabilities; expected [n]")
    if not np.issubdtype(y.dtype, np.integer):
        raise PredictionError(f"labels are {y.dtype}; expected whole class numbers")
    wrong = (y < 0) | (y >= p.shape[1])
    if wrong.any():
        row = int(wrong.argmax())
        raise PredictionError(f"label {y[row]} of row {row} has no probability: classes are 0 to {p.shape[1] - 1}")
    return p, y.astype(np.int64, copy=False)


def as_pair(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of probabilities for the same rows, both checked; PredictionError if their shapes differ."""
    if np.shape(p) != np.shape(q):
        raise PredictionError(
            f"probabilities of shape {list(np.shape(p))} and {list(np.shape(q))} cannot be compared; "
            "both need the same rows in the same order and the same classes"
        )
    return as_probabilities(p, "first probabilities"), as_probabilities(q, "second probabilities")


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Area under the ROC curve, P(inside > outside) + P(inside = outside) / 2, of scores [n] and [m].

    Computed from ranks (the Mann-Whitney statistic), with ties counting one half, as in the trapezoidal rule; 0.5 is
    chance. PredictionError for scores that are not finite.
    """
    return float(_placements(*checked_scores(inside, outside))[0].mean())


def auroc_error(inside: np.ndarray, outside: np.ndarray) -> float | None:
    """Standard error of `auroc` for independent rows; None if either side has fewer than two rows.

    sqrt(var_i / n + var_o / m): var_i is the variance, over inside rows, of the fraction of outside rows below each
    inside row; var_o is the variance, over outside rows, of the fraction of inside rows above each outside row. DeLong,
    DeLong and Clarke-Pearson 1988, Comparing the Areas under Two or More Correlated ROC Curves.
    """
    inside, outside = checked_scores(inside, outside)
    if min(len(inside), len(outside)) < 2:
        return None
    below, above = _placements(inside, outside)
    return float(np.sqrt(below.var(ddof=1) / len(below) + above.var(ddof=1) / len(above)))


def fpr95(inside: np.ndarray, outside: np.ndarray) -> float:
    """Fraction of outside rows that pass the highest threshold passed by at least 95 % of inside rows.

    The threshold is the ceil(0.95 n)-th largest inside score, and a score equal to it passes: the false positive rate
    of the ROC curve's first point with a true positive rate of 0.95 or more. 0 is best, 0.95 is chance.
    Liang, Li and Srikant 2018, Enhancing the Reliability of Out-of-Distribution Image Detection (ODIN), section 4.3.
    """
    inside, outside = checked_scores(inside, outside)
    passing = -(-95 * len(inside) // 100)
    return float((outside >= np.sort(inside)[len(inside) - passing]).mean())


def _placements(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fraction of outside rows below each inside row [n], and of inside rows above each outside row [m]; ties: half."""
    from scipy.stats import rankdata  # slow to import

    n, m = len(inside), len(outside)
    together = rankdata(np.concatenate([inside, outside]))
    below = (together[:n] - rankdata(inside)) / m
    above = 1 - (together[n:] - rankdata(outside)) / n
    return below, above


def checked_scores(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both sets of scores as float64, [n] and [m]; PredictionError for wrong shapes or non-finite scores."""
    arrays = []
    for name, values in (("inside", inside), ("outside", outside)):
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 1 or not len(array):
            raise PredictionError(f"{name} scores have shape {list(array.shape)}; expected [rows], at least one")
        if not np.isfinite(array).all():
            raise PredictionError(f"{int((~np.isfinite(array)).sum())} of {len(array)} {name} scores are not finite")
        arrays.append(array)
    return arrays[0], arrays[1]


class Comparison(NamedTuple):
    """Agreement and total variation, each with the standard error of its mean (None for a single value).

    They measure how close two predictive distributions are, for example a method's and full-batch HMC's: Izmailov et
    al. 2021, What Are Bayesian Neural Network Posteriors Really Like?, section 9.1.
    """

    agreement: float
    agreement_error: float | None
    total_variation: float
    total_variation_error: float | None


def agreement_rows(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """1[argmax_j p_j = argmax_j q_j] of each row, [n] float64; ties go to the lowest class number in both."""
    p, q = as_pair(p, q)
    return (p.argmax(axis=1) == q.argmax(axis=1)).astype(np.float64)


def total_variation_rows(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(1/2) sum_j |p_j - q_j| of each row [n], from 0 to 1."""
    p, q = as_pair(p, q)
    return 0.5 * np.abs(p - q).sum(axis=1)


def compare(p: np.ndarray, q: np.ndarray) -> Comparison:
    """Mean agreement and total variation over rows between two sets of probabilities; 1 and 0 if the sets are equal."""
    return _means(agreement_rows(p, q), total_variation_rows(p, q))


def cross_fitted_rows(
    p: tuple[np.ndarray, np.ndarray], q: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Agreement and total variation of each row [n] from two independent halves of the draws on each side.

    Two averages of S draws of one distribution differ by chance, and |p - q| adds these differences up. With signs from
    one half and differences from the other,

        TV = 1/2 sum_j sign(p1_j - q1_j) (p2_j - q2_j),  and the same with the halves exchanged,

    has the mean 0 for equal distributions, and otherwise at most the total variation, which it reaches as the halves
    agree on the signs. The fraction of rows on which the classes differ has its own floor subtracted,

        1 - agreement = P(p_a, q_b differ) - 1/2 P(p1, p2 differ) - 1/2 P(q1, q2 differ),

    which has the mean 0 for equal distributions. A single row can lie outside [0, 1]. Give fixed probabilities twice.
    """
    p, q = ((as_probabilities(one), as_probabilities(two)) for one, two in (p, q))
    for other in (p[1], *q):
        as_pair(p[0], other)
    signed = [np.sign(p[a] - q[a]) * (p[b] - q[b]) for a, b in ((0, 1), (1, 0))]
    variation = 0.25 * np.sum(signed, axis=(0, 2))
    classes = [[half.argmax(axis=1) for half in side] for side in (p, q)]
    across = np.mean([classes[0][a] != classes[1][b] for a in (0, 1) for b in (0, 1)], axis=0)
    within = sum(0.5 * (one != two) for one, two in classes)
    return 1.0 - across + within, variation


class Ceiling(NamedTuple):
    """How close single chains come to the other chains. An average over many chains can be closer to a reference."""

    agreement: np.ndarray
    """[C], one value per chain."""
    total_variation: np.ndarray
    """[C], one value per chain."""

    @property
    def comparison(self) -> Comparison:
        """Means over chains; standard errors treat the comparisons as independent, and are None for two chains."""
        found = _means(self.agreement, self.total_variation)
        if len(self.agreement) > 2:
            return found
        return found._replace(agreement_error=None, total_variation_error=None)


def ceiling(chains: np.ndarray) -> Ceiling:
    """Each chain's averaged probabilities against the mean over all other chains, from [C, n, k].

    This is the column `HMC (reference)` of the table in section 9.1 of Izmailov et al. 2021. PredictionError for fewer
    than two chains.
    """
    chains = np.asarray(chains)
    if chains.ndim != 3 or len(chains) < 2:
        raise PredictionError(
            f"probabilities by chain have shape {list(chains.shape)}; expected [chains, rows, classes] with at least "
            "two chains"
        )
    checked = [as_probabilities(chain, f"probabilities of chain {number}") for number, chain in enumerate(chains)]
    total = np.sum(checked, axis=0)
    found = [compare(chain, (total - chain) / (len(checked) - 1)) for chain in checked]
    return Ceiling(np.array([c.agreement for c in found]), np.array([c.total_variation for c in found]))


def _means(agreement: np.ndarray, variation: np.ndarray) -> Comparison:
    return Comparison(
        float(agreement.mean()), error_of_mean(agreement), float(variation.mean()), error_of_mean(variation)
    )
