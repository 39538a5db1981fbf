"""Measurements of class probabilities: errors, calibration, detection of other data, agreement, and their curves.

The module `measure` has the LPPD and its curves over chains and draws.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np

from bnn_atlas.metrics.formulas import averages, reliability, variants
from bnn_atlas.metrics.formulas.classification import (
    Comparison,
    as_labelled,
    auroc,
    auroc_error,
    brier_rows,
    ceiling,
    compare,
    confidence,
    entropy,
    entropy_histogram,
    fpr95,
    hits,
    one_minus_confidence,
)
from bnn_atlas.metrics.formulas.reliability import calibration_bins
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError, joined

ECE_BINS = 15
OVER_CHAINS = "chains"


def classification_scores(
    probabilities: np.ndarray, labels: np.ndarray, papers: Collection[str] = ()
) -> list[Measurement]:
    """Scores of probabilities [n, k] against labels [n], and the published variants of `papers`.

    The log score is computed elsewhere (`measure.nll`), from log densities, which do not round to -inf. Standard errors
    assume a mean over independent rows. A published variant with no row left in its bins is NaN, with a note.
    """
    p, y = as_labelled(probabilities, labels)
    wide, mass = f"{ECE_BINS} equally wide bins", f"{ECE_BINS} bins of equally many rows"
    return [
        _mean("accuracy", hits(p, y)),
        _mean("brier", brier_rows(p, y), "sum over classes"),
        _mean("mean_maximum_confidence", confidence(p)),
        _mean("predictive_entropy", entropy(p), "nats"),
        *_recalibrated(p, y),
        Measurement("ece", reliability.expected_calibration_error(p, y, ECE_BINS), note=wide),
        Measurement("ece_equal_mass", reliability.expected_calibration_error_equal_mass(p, y, ECE_BINS), note=mass),
        Measurement("mce", reliability.maximum_calibration_error(p, y, ECE_BINS), note=wide),
        Measurement("sce", reliability.static_calibration_error(p, y, ECE_BINS), note=wide),
        *calibration_curve(p, y),
        *entropy_shares(p),
        *(_uppal(p, y) if "uppal" in papers else []),
        *(_izmailov(p, y) if "izmailov" in papers else []),
    ]


def _recalibrated(p: np.ndarray, y: np.ndarray) -> list[Measurement]:
    """Log score of powers of the probabilities, and the power; empty for fewer than four rows."""
    if len(y) < 4:
        return []
    found = reliability.recalibrated(p, y)
    note = "power of each half of the rows fitted to the other half"
    return [
        _mean("lppd_recalibrated", found.log_density, note),
        Measurement("recalibration_power", float(np.mean(found.powers)), note=f"mean of {found.powers[0]:.4g} and "
                    f"{found.powers[1]:.4g}, the {note}"),
    ]  # fmt: skip


def detection_scores(inside: np.ndarray, outside: np.ndarray, papers: Collection[str] = ()) -> list[Measurement]:
    """How well certainty separates test rows (inside) from other rows (outside), from class probabilities [n, k]."""
    if np.ndim(inside) == 2 and np.ndim(outside) == 2 and np.shape(inside)[1] != np.shape(outside)[1]:
        raise PredictionError(
            f"{np.shape(inside)[1]} classes inside and {np.shape(outside)[1]} outside; predict both with one model"
        )
    certain = -one_minus_confidence(inside), -one_minus_confidence(outside)
    informed = -entropy(inside), -entropy(outside)
    return [
        *_detection("confidence", *certain, papers),
        *_detection("entropy", *informed, papers),
        _mean("mean_maximum_confidence_ood", confidence(outside)),
        _mean("predictive_entropy_ood", -informed[1], "nats"),
        *entropy_shares(outside),
    ]


def agreement_scores(p: np.ndarray, q: np.ndarray, reference: str = "") -> list[Measurement]:
    """Agreement and total variation between probabilities p and q [n, k]; `reference` names q."""
    return _compared(compare(p, q), "", f"against {reference}" if reference else "", reference)


def chain_scores(chains: np.ndarray, labels: np.ndarray) -> list[Measurement]:
    """Accuracy of single chains and their agreement with the others, from probabilities by chain [C, n, k]."""
    single = np.array([hits(chain, labels).mean() for chain in chains])
    return [
        *(ceiling_scores(chains) if len(chains) > 1 else []),
        Measurement("accuracy_chain_mean", float(single.mean()), averages.error_of_mean(single), over=OVER_CHAINS),
        Measurement("accuracy_chain_min", float(single.min())),
        Measurement("accuracy_chain_max", float(single.max())),
    ]


def ceiling_scores(chains: np.ndarray) -> list[Measurement]:
    """Agreement and total variation of each chain with the others, from probabilities by chain [C, n, k]."""
    note = f"each of {len(chains)} chains against the others"
    found = _compared(ceiling(chains).comparison, "_ceiling", note)
    return [measurement._replace(over=OVER_CHAINS) for measurement in found]


def _uppal(p: np.ndarray, y: np.ndarray) -> list[Measurement]:
    redux = "100 equally wide bins, rows of confidence 0.99 and above dropped; Laplace Redux's and LIVI's code"
    ranks = "LIVI's code: by rank, the k-th smallest probability with the k-th most probable class"
    values = (
        ("ece_uppal", variants.ece_uppal(p, y), redux),
        ("mce_uppal", variants.mce_uppal(p, y), redux),
        ("sce_uppal", variants.sce_uppal(p, y), f"{redux}; {ranks}"),
    )
    return [
        Measurement(name, value, note=joined(note, "no row is left in its bins" if np.isnan(value) else ""))
        for name, value, note in values
    ]


def _izmailov(p: np.ndarray, y: np.ndarray) -> list[Measurement]:
    note = "20 bins of equally many rows, rows on their edges dropped; Izmailov et al.'s code"
    return [Measurement("ece_izmailov", variants.ece_izmailov(p, y), note=note)]


def _detection(name: str, inside: np.ndarray, outside: np.ndarray, papers: Collection[str]) -> list[Measurement]:
    note = "in-distribution rows are positive"
    found = [
        Measurement(f"auroc_{name}", auroc(inside, outside), auroc_error(inside, outside), note),
        Measurement(f"fpr95_{name}", fpr95(inside, outside), note=note),
    ]
    if "uppal" in papers:
        threshold = "threshold is the interpolated 5th percentile, as in Laplace Redux's and LIVI's code"
        value = variants.fpr95_uppal(inside, outside)
        found.append(Measurement(f"fpr95_{name}_uppal", value, note=f"{note}; {threshold}"))
    return found


def _compared(compared: Comparison, suffix: str, note: str, at: str = "") -> list[Measurement]:
    agreed, variation = compared[:2], compared[2:]
    return [
        Measurement(f"agreement{suffix}", *agreed, note, at=at),
        Measurement(f"total_variation{suffix}", *variation, note, at=at),
    ]


def _mean(metric: str, values: np.ndarray, note: str = "") -> Measurement:
    """The mean of one value per row, with the standard error sd / sqrt(n) of independent rows."""
    return Measurement(metric, float(values.mean()), averages.error_of_mean(values), note)


CALIBRATION_BINS, ENTROPY_BINS = 20, 20


def calibration_curve(probabilities: np.ndarray, labels: np.ndarray) -> list[Measurement]:
    """Confidence, accuracy and fraction of rows in bins of equal size; `at` is the nominal cumulative fraction."""
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
    """Fraction of rows by predictive entropy in equally wide bins of [0, log k]; `at` is the right edge of a bin."""
    shares = entropy_histogram(probabilities, ENTROPY_BINS)
    largest = np.log(np.shape(probabilities)[1])
    return [
        Measurement("entropy_histogram", float(share), at=f"{largest * (number + 1) / ENTROPY_BINS:.4g}")
        for number, share in enumerate(shares)
    ]


def cumulative_scores(
    summary: PredictiveSummary, labels: np.ndarray, bins: int, orderings: int, seed: int
) -> list[Measurement]:
    """Accuracy and ECE (equally wide bins) of averages over the first chains, and over the first draws of all chains.

    Scores over chains are means over the same random orders of the chains as for the LPPD. Scores over draws are given
    at the ends of the batches of draws that the predictions keep, for all chains together and for single chains. A
    single chain has no curve over chains, and a single batch has no curve over draws.
    """
    by_batch, stops = summary.probabilities_by_batch, summary.batch_stops
    assert by_batch is not None
    assert stops is not None
    found: list[Measurement] = []
    if len(summary.kept) > 1:
        found += _over_chains(summary.probabilities[summary.kept], labels, bins, orderings, seed)
    if len(stops) > 1:
        averages = _first_draws(by_batch[summary.kept].mean(axis=0, dtype=np.float64), stops)
        for draws, average in zip(stops.tolist(), averages, strict=True):
            found += [m._replace(draws=draws) for m in _scores("draws", average, labels, bins)]
        found += _alone(by_batch[summary.kept], labels, bins, stops)
    return found


def _over_chains(chains: np.ndarray, labels: np.ndarray, bins: int, orderings: int, seed: int) -> Iterator[Measurement]:
    generator, counts = np.random.default_rng(seed), averages.chain_counts(len(chains))
    right = np.zeros((len(counts), len(labels)))
    errors = np.zeros(len(counts))
    for _ in range(orderings):
        order, total = generator.permutation(len(chains)), np.zeros(chains.shape[1:])
        for point, (start, stop) in enumerate(pairwise([0, *counts])):
            total += chains[order[start:stop]].sum(axis=0)
            right[point] += hits(total / stop, labels) / orderings
            errors[point] += reliability.expected_calibration_error(total / stop, labels, bins) / orderings
    note = f"mean over {orderings} random orders of the chains"
    for count, of_rows, error in zip(counts.tolist(), right, errors, strict=True):
        deviation = averages.error_of_mean(of_rows)
        yield Measurement("accuracy_cumulative_chains", float(of_rows.mean()), deviation, note, chains=count)
        yield Measurement("ece_cumulative_chains", float(error), note=note, chains=count)


def _alone(chains: np.ndarray, labels: np.ndarray, bins: int, stops: np.ndarray) -> Iterator[Measurement]:
    """Scores of single chains over their first draws, averaged over chains, from batches [C, B, n, k]."""
    right, errors = np.empty((2, len(chains), len(stops)))
    for chain, batches in enumerate(chains):
        for point, average in enumerate(_first_draws(batches, stops)):
            right[chain, point] = hits(average, labels).mean()
            errors[chain, point] = reliability.expected_calibration_error(average, labels, bins)
    for name, values in (("accuracy", right), ("ece", errors)):
        for draws, of_chains in zip(stops.tolist(), values.T, strict=True):
            mean, deviation = float(of_chains.mean()), averages.error_of_mean(of_chains)
            yield Measurement(f"{name}_chain_mean_cumulative_draws", mean, deviation, draws=draws, over=OVER_CHAINS)


def _first_draws(batches: np.ndarray, stops: np.ndarray) -> Iterator[np.ndarray]:
    """Averages [n, k] over all draws up to the end of each batch, from the averages over batches [B, n, k]."""
    total = np.zeros(batches.shape[1:])
    for batch, start, stop in zip(batches, [0, *stops[:-1].tolist()], stops.tolist(), strict=True):
        total += (stop - start) * batch
        yield total / stop


def _scores(over: str, average: np.ndarray, labels: np.ndarray, bins: int) -> list[Measurement]:
    of_rows = hits(average, labels)
    error = reliability.expected_calibration_error(average, labels, bins)
    return [
        Measurement(f"accuracy_cumulative_{over}", float(of_rows.mean()), averages.error_of_mean(of_rows)),
        Measurement(f"ece_cumulative_{over}", error),
    ]
