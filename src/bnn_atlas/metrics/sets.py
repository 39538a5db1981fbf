"""Scores of predictions for other rows than a run's test rows, and against other predictions."""

from collections.abc import Callable

import numpy as np

from bnn_atlas.metrics import evaluate
from bnn_atlas.metrics.agreement import agreement_scores
from bnn_atlas.metrics.classification import classification_scores
from bnn_atlas.metrics.ood import ood_scores
from bnn_atlas.metrics.predictive import PredictionError, PredictiveSummary
from bnn_atlas.metrics.tables import Measurement, Row, RunIdentity

AGREEMENT = ("agreement", "total_variation")
NOTHING = "no chain left to average"


def shift_rows(identity: RunIdentity, name: str, summary: PredictiveSummary, labels: np.ndarray) -> list[Row]:
    """Scores of shifted test rows; the data set of the rows is `<data set>/<name>`."""

    def measured() -> list[Measurement]:
        scores = classification_scores(average(summary), labels)
        return [*(Measurement(*score) for score in scores), evaluate.nll(summary)]

    return _rows(identity, name, summary, measured)


def outside_rows(identity: RunIdentity, name: str, summary: PredictiveSummary, inside: PredictiveSummary) -> list[Row]:
    """How well certainty tells test rows (`inside`) from those of another data set."""

    def measured() -> list[Measurement]:
        return [Measurement(*score) for score in ood_scores(average(inside), average(summary))]

    return _rows(identity, name, summary, measured)


def reference_rows(identity: RunIdentity, name: str, summary: PredictiveSummary, reference: np.ndarray) -> list[Row]:
    """Agreement and total variation between a run's predictions and those of a reference [n, k] for the same rows."""
    if not len(summary.kept):
        nothing = [Measurement(f"{metric}_{name}", float("nan"), note=NOTHING) for metric in AGREEMENT]
        return evaluate.as_rows(identity, nothing, summary)
    measured = [Measurement(f"{s.name}_{name}", *s[1:]) for s in agreement_scores(average(summary), reference, name)]
    return evaluate.as_rows(identity, measured, summary)


def average(summary: PredictiveSummary) -> np.ndarray:
    """Class probabilities [n, k] averaged over all draws of the chains that are not divergent."""
    if not len(summary.kept):
        raise PredictionError("no chain is left to average: all diverged or never moved")
    return summary.probabilities[summary.kept].mean(axis=0)


def _rows(
    identity: RunIdentity, name: str, summary: PredictiveSummary, measured: Callable[[], list[Measurement]]
) -> list[Row]:
    """Rows under the name of the set; one that says so where no chain is left."""
    shifted = identity._replace(dataset=f"{identity.dataset}/{name}")
    found = measured() if len(summary.kept) else [_nothing()]
    return evaluate.as_rows(shifted, found, summary)


def _nothing() -> Measurement:
    return Measurement("mean_maximum_confidence", float("nan"), note=NOTHING)
