"""Metric rows for predictions of further sets of data rows, and for comparisons with other predictions."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.judgement import measure
from bnn_atlas.metrics.judgement.classes import (
    ECE_BINS,
    agreement_scores,
    chain_scores,
    classification_scores,
    cumulative_scores,
    detection_scores,
)
from bnn_atlas.metrics.judgement.kept_rows import wasserstein_to
from bnn_atlas.metrics.judgement.monte_carlo import (
    COMPARED,
    Errors,
    comparison_errors,
    cross_fitted_comparison,
    detection_errors,
    monte_carlo_errors,
)
from bnn_atlas.metrics.judgement.rows import as_rows, average
from bnn_atlas.metrics.tables.measurement import Measurement, Row, RunIdentity, joined


def shift_rows(
    identity: RunIdentity, name: str, summary: PredictiveSummary, labels: np.ndarray, published: Collection[str] = ()
) -> list[Row]:
    """Scores of shifted test rows; the data set is named `<data set>/<name>`."""

    def measured() -> list[Measurement]:
        by_chain = summary.probabilities[summary.kept]
        scores = [*classification_scores(average(summary), labels, published), measure.nll(summary)]
        errors = monte_carlo_errors(summary, labels, 1.0, np.empty(0))
        curve = cumulative_scores(summary, labels, ECE_BINS, measure.ORDERINGS, measure.ORDERING_SEED)
        curve = [m for m in curve if m.metric in ("accuracy_cumulative_chains", "accuracy_cumulative_draws")]
        return [*_with_errors(scores, errors), *chain_scores(by_chain, labels), *curve]

    return _rows_of_set(identity, name, summary, measured)


def outside_rows(
    identity: RunIdentity,
    name: str,
    summary: PredictiveSummary,
    inside: PredictiveSummary,
    published: Collection[str] = (),
) -> list[Row]:
    """How well certainty separates test rows (`inside`) from the rows of another data set."""

    def measured() -> list[Measurement]:
        scores = detection_scores(average(inside), average(summary), published)
        return _with_errors(scores, detection_errors(inside, summary, published))

    return _rows_of_set(identity, name, summary, measured)


def interval_rows(identity: RunIdentity, name: str, summary: PredictiveSummary) -> list[Row]:
    """Spread of the draws' functions on an interval of the input."""
    of_set = identity._replace(dataset=f"{identity.dataset}/{name}")
    if not len(summary.kept):
        return as_rows(of_set, [Measurement("function_sd", float("nan"), note=measure.NO_CHAIN)], summary)
    return as_rows(of_set, [measure.function_sd(summary)], summary)


def reference_rows(
    identity: RunIdentity,
    name: str,
    summary: PredictiveSummary,
    reference: np.ndarray | PredictiveSummary,
    said: Sequence[str] = (),
) -> list[Row]:
    """Compare a run's predictions with a reference's predictions of the same rows.

    A classification is compared by agreement and total variation, a regression by the distance W1. If the reference is
    a run, the difference of the LPPD is added. `reference` holds published probabilities [n, k] or the predictions of
    another run. Every note begins with `said`: whether the reference's chains have converged (`judgement.trust`), and
    which posterior the reference has.
    """
    of_run = reference if isinstance(reference, PredictiveSummary) else None
    classes = summary.task == "classification"
    if not len(summary.kept) or (of_run is not None and not len(of_run.kept)):
        metrics = [*(COMPARED if classes else ("wasserstein_1",)), *(["elpd_diff"] if of_run is not None else [])]
        whose = "" if not len(summary.kept) else f" of {name}"
        return as_rows(identity, [_undefined(metric, whose, name) for metric in metrics], summary)
    found: list[Measurement] = []
    if classes:
        probabilities = average(reference) if isinstance(reference, PredictiveSummary) else reference
        errors = comparison_errors(summary, probabilities)
        compared = agreement_scores(average(summary), probabilities, name)
        found += [m._replace(monte_carlo_error=errors.get(m.metric)) for m in compared]
        found += cross_fitted_comparison(summary, reference, name)
    if of_run is not None:
        found += [] if classes else [wasserstein_to(summary, of_run, name)]
        found.append(measure.elpd_difference(summary, of_run, name))
    return as_rows(identity, [m._replace(note=joined(*said, m.note)) for m in found], summary)


def _with_errors(scores: Sequence[Measurement], errors: Errors) -> list[Measurement]:
    return [m._replace(monte_carlo_error=errors.get((m.metric, m.at))) for m in scores]


def _undefined(metric: str, whose: str, reference: str) -> Measurement:
    return Measurement(metric, float("nan"), note=f"{measure.NO_CHAIN}{whose}", at=reference)


def _rows_of_set(
    identity: RunIdentity, name: str, summary: PredictiveSummary, measured: Callable[[], list[Measurement]]
) -> list[Row]:
    """Metric rows under the name of the set; a single NaN with a note if no chain is left."""
    of_set = identity._replace(dataset=f"{identity.dataset}/{name}")
    empty = Measurement("mean_maximum_confidence", float("nan"), note=measure.NO_CHAIN)
    return as_rows(of_set, measured() if len(summary.kept) else [empty], summary)
