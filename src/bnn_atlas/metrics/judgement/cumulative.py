"""Accuracy and calibration error of the first chains and of the first draws; `measure` has the LPPD of them.

Izmailov et al. 2021, section 4.3: one long chain against several short ones.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from bnn_atlas.metrics.formulas import calibration, scores
from bnn_atlas.metrics.formulas.classification import hits
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.judgement.classes import OVER_CHAINS
from bnn_atlas.metrics.tables.measurement import Measurement


def cumulative_scores(
    summary: PredictiveSummary, labels: np.ndarray, bins: int, orderings: int, seed: int
) -> list[Measurement]:
    """Accuracy and ECE (equally wide bins) of averages over the first chains, and over the first draws of all chains.

    Over chains they are means over random orders of the chains, the same as those of the LPPD; over draws they are
    given at the ends of the batches of draws that the predictions keep, of all chains together and of a chain alone.
    One chain has no curve over chains, and predictions of one batch none over draws.
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
    """Of class probabilities by chain [C, n, k]."""
    generator, counts = np.random.default_rng(seed), scores.chain_counts(len(chains))
    right = np.zeros((len(counts), len(labels)))
    errors = np.zeros(len(counts))
    for _ in range(orderings):
        order, total = generator.permutation(len(chains)), np.zeros(chains.shape[1:])
        for point, (start, stop) in enumerate(pairwise([0, *counts])):
            total += chains[order[start:stop]].sum(axis=0)
            right[point] += hits(total / stop, labels) / orderings
            errors[point] += calibration.expected_calibration_error(total / stop, labels, bins) / orderings
    note = f"mean over {orderings} random orders of the chains"
    for count, of_rows, error in zip(counts.tolist(), right, errors, strict=True):
        deviation = scores.error_of_mean(of_rows)
        yield Measurement("accuracy_cumulative_chains", float(of_rows.mean()), deviation, note, chains=count)
        yield Measurement("ece_cumulative_chains", float(error), note=note, chains=count)


def _alone(chains: np.ndarray, labels: np.ndarray, bins: int, stops: np.ndarray) -> Iterator[Measurement]:
    """Means over chains, each alone with its first draws, from probabilities by chain and batch [C, B, n, k]."""
    right, errors = np.empty((2, len(chains), len(stops)))
    for chain, batches in enumerate(chains):
        for point, average in enumerate(_first_draws(batches, stops)):
            right[chain, point] = hits(average, labels).mean()
            errors[chain, point] = calibration.expected_calibration_error(average, labels, bins)
    for name, values in (("accuracy", right), ("ece", errors)):
        for draws, of_chains in zip(stops.tolist(), values.T, strict=True):
            mean, deviation = float(of_chains.mean()), scores.error_of_mean(of_chains)
            yield Measurement(f"{name}_chain_mean_cumulative_draws", mean, deviation, draws=draws, over=OVER_CHAINS)


def _first_draws(batches: np.ndarray, stops: np.ndarray) -> Iterator[np.ndarray]:
    """Averages [n, k] over the draws up to the end of each batch, from those over the batches [B, n, k]."""
    total = np.zeros(batches.shape[1:])
    for batch, start, stop in zip(batches, [0, *stops[:-1].tolist()], stops.tolist(), strict=True):
        total += (stop - start) * batch
        yield total / stop


def _scores(over: str, average: np.ndarray, labels: np.ndarray, bins: int) -> list[Measurement]:
    of_rows = hits(average, labels)
    error = calibration.expected_calibration_error(average, labels, bins)
    return [
        Measurement(f"accuracy_cumulative_{over}", float(of_rows.mean()), scores.error_of_mean(of_rows)),
        Measurement(f"ece_cumulative_{over}", error),
    ]
