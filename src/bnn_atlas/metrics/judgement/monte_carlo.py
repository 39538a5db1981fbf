"""Monte Carlo errors: how much a score would vary with other chains of the same run.

Chains are independent given the data, whether they mix or not, so the error comes from a jackknife over chains: with G
groups of chains, a score s has the variance (G - 1) / G sum_g (s_-g - mean)^2, where s_-g is the score without group g
(Efron and Tibshirani 1993, chapter 11). With at most `GROUPS` chains, each chain is its own group; otherwise
consecutive chains are grouped. If there is one chain, batches of consecutive draws take the place of chains, if the
predictions contain the data needed for this. Test rows, shifted rows and rows of other data have the same errors.
"""

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bnn_atlas.metrics.formulas import averages, reliability
from bnn_atlas.metrics.formulas.classification import (
    brier_rows,
    compare,
    confidence,
    cross_fitted_rows,
    entropy,
    hits,
)
from bnn_atlas.metrics.formulas.repetitions import GROUPS, jackknife, jackknife_limit
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.judgement.classes import ECE_BINS, detection_scores, entropy_shares
from bnn_atlas.metrics.tables.measurement import Measurement

COMPARED = ("agreement", "total_variation")
MOMENTS = ("mean", "second_moment", "noise_variance", "pit")
Errors = dict[tuple[str, str], float]
"""(Metric, `at`) -> Monte Carlo error."""


class Parts(NamedTuple):
    """Averages over each of G parts of the draws, where the predictions store those averages."""

    sizes: np.ndarray
    """[G] number of chains or draws of each part."""
    log_density: np.ndarray | None
    """[G, n] log of the mean density; None for rows without targets."""
    moments: dict[str, np.ndarray]
    """Name -> [G, n]."""
    probabilities: np.ndarray | None
    """[G, n, k]."""


def monte_carlo_errors(summary: PredictiveSummary, y: np.ndarray, y_scale: float, levels: np.ndarray) -> Errors:
    """Jackknife errors of the scores computed from the average over all non-divergent chains.

    Args:
        summary: predictions of rows with targets.
        y: targets or labels [n].
        y_scale: standard deviation by which the targets were divided.
        levels: nominal levels [J] of coverage.

    No error is given for a score that becomes non-finite when a part is left out, nor for any score if there is only
    one part.
    """
    parts = _parts(summary)
    return {} if parts is None else _jackknifed([_scores(part, y, y_scale, levels) for part in _without_one(parts)])


def detection_errors(inside: PredictiveSummary, outside: PredictiveSummary, papers: Collection[str] = ()) -> Errors:
    """Jackknife errors of `classes.detection_scores`: each part is left out of both averages at the same time.

    Empty if the draws make up a single part, or if different chains are excluded inside and outside.
    """
    own, other = _parts(inside), _parts(outside)
    if own is None or other is None or not np.array_equal(inside.kept, outside.kept):
        return {}
    if not np.array_equal(own.sizes, other.sizes):
        return {}
    left_out = [
        {(m.metric, m.at): m.value for m in detection_scores(a.probabilities, b.probabilities, papers)}
        for a, b in zip(_without_one(own), _without_one(other), strict=True)
        if a.probabilities is not None and b.probabilities is not None
    ]
    return _jackknifed(left_out)


LIMITS = ("lppd", "brier", "rmse")
"""Scores of an average over draws that are smooth functions of the average, and so biased by c / S for S draws."""


def scores_at_infinity(summary: PredictiveSummary, y: np.ndarray) -> list[Measurement]:
    """Scores at infinitely many draws: the jackknife over parts removes the bias c / S (`repetitions.jackknife_limit`).

    The parts are chains, groups of chains or, for a single chain, batches of draws, as for Monte Carlo errors. Chains
    that do not mix give the score of infinitely many chains. The Monte Carlo error is that of the extrapolated value: a
    jackknife in which each part is left out before the extrapolation, which needs at least three parts. Empty for a
    single part; a score that is not finite without some part is left out.
    """
    parts = _parts(summary)
    if parts is None:
        return []
    count = len(parts.sizes)
    every = np.arange(count)
    scores: dict[tuple[int, ...], dict[str, float]] = {}
    for left_out in [(), *combinations(range(count), 1), *(combinations(range(count), 2) if count > 2 else ())]:
        scores[left_out] = _smooth_scores(_average(parts, np.setdiff1d(every, left_out)), y)
    of_one = "chain" if count == len(summary.kept) else "group of chains"
    if len(summary.kept) == 1:
        of_one = "batch of draws"
    note = f"jackknife over {count} parts, each a {of_one}"
    found = []
    for metric in (name for name in LIMITS if name in scores[()]):
        values = {left_out: score[metric] for left_out, score in scores.items()}
        if not np.isfinite(list(values.values())).all():
            continue
        value = jackknife_limit(values[()], np.array([values[g,] for g in range(count)]))
        error = None
        if count > 2:
            rest = [np.array([values[min(g, h), max(g, h)] for h in range(count) if h != g]) for g in range(count)]
            error = jackknife(np.array([jackknife_limit(values[g,], rest[g]) for g in range(count)]))
        found.append(Measurement(f"{metric}_at_infinity", value, note=note, monte_carlo_error=error))
    return found


def cross_fitted_comparison(
    summary: PredictiveSummary, reference: np.ndarray | PredictiveSummary, name: str
) -> list[Measurement]:
    """Agreement and total variation without the floor of few draws (`classification.cross_fitted_rows`).

    The halves are of the chains or, for a single chain, of its draws. A single network and published probabilities
    count as their own halves, so the floor of a published reference remains. The Monte Carlo error is a jackknife over
    the run's chains, for at least four of them. Empty if the draws of one side cannot be halved.
    """
    own, note = _halves(summary, summary.kept), f"against {name}; halves of the draws against each other"
    if isinstance(reference, PredictiveSummary):
        theirs = _halves(reference, reference.kept)
    else:
        theirs, note = (reference, reference), f"{note}; the floor of the published reference remains"
    if own is None or theirs is None:
        return []
    found = cross_fitted_rows(own, theirs)
    errors: list[float | None] = [None, None]
    if (chains := len(summary.kept)) >= FEWEST_FOR_ERROR:
        groups = np.array_split(summary.kept, min(GROUPS, chains))
        left_out = [_halves(summary, np.setdiff1d(summary.kept, group)) for group in groups]
        values = [[rows.mean() for rows in cross_fitted_rows(half, theirs)] for half in left_out if half is not None]
        errors = [jackknife(np.array(column)) for column in zip(*values, strict=True)]
    return [
        Measurement(f"{metric}_cross_fitted", float(rows.mean()), averages.error_of_mean(rows), note, at=name,
                    monte_carlo_error=error)
        for metric, rows, error in zip(COMPARED, found, errors, strict=True)
    ]  # fmt: skip


FEWEST_FOR_ERROR = 4
"""Fewest chains of which one can be left out and the others halved."""


def _halves(summary: PredictiveSummary, chains: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Class probabilities [n, k] averaged over each half of these chains, or of the draws of the only chain."""
    if len(chains) > 1:
        first, second = (summary.probabilities[part].mean(axis=0) for part in np.array_split(chains, 2))
        return first, second
    if summary.draws == 1:
        only = summary.probabilities[chains[0]]
        return only, only
    by_batch, stops = summary.probabilities_by_batch, summary.batch_stops
    assert by_batch is not None
    assert stops is not None
    if len(stops) < 2:
        return None
    sizes, batches = np.diff(stops, prepend=0), by_batch[chains[0]].astype(np.float64)
    middle = len(stops) // 2
    first, second = (
        np.average(batches[part], axis=0, weights=sizes[part]) for part in (slice(middle), slice(middle, None))
    )
    return first, second


def comparison_errors(summary: PredictiveSummary, other: np.ndarray) -> dict[str, float]:
    """Jackknife errors of agreement and total variation between a run and fixed class probabilities [n, k].

    Empty if the draws make up a single part.
    """
    parts = _parts(summary)
    if parts is None or parts.probabilities is None:
        return {}
    left_out = [compare(one.probabilities, other) for one in _without_one(parts) if one.probabilities is not None]
    return {name: jackknife(np.array([getattr(one, name) for one in left_out])) for name in COMPARED}


def spread_error(summary: PredictiveSummary) -> float | None:
    """Jackknife error of `function_spread`, from the inputs at which all draws are kept; None for a single draw."""
    draws = summary.function_draws[summary.kept].astype(np.float64)
    if draws.shape[0] > 1:
        parts = np.array_split(draws, min(GROUPS, len(draws)))
    else:
        parts = np.array_split(draws, min(GROUPS, draws.shape[1]), axis=1)
    if len(parts) < 2:
        return None
    left_out = []
    for number in range(len(parts)):
        rest = np.concatenate([part.reshape(-1, draws.shape[2]) for i, part in enumerate(parts) if i != number])
        left_out.append(averages.function_spread(rest.mean(axis=0), np.square(rest).mean(axis=0)))
    return jackknife(np.array(left_out))


def _jackknifed(left_out: list[Errors]) -> Errors:
    """Errors of the values that are finite whichever part is left out."""
    found = {key: np.array([one[key] for one in left_out]) for key in (left_out[0] if left_out else ())}
    return {key: jackknife(values) for key, values in found.items() if np.isfinite(values).all()}


def _parts(summary: PredictiveSummary) -> Parts | None:
    """Chains or, if there is only one, batches of its draws; None for a single part."""
    parts = _chains(summary) if len(summary.kept) > 1 else _batches(summary)
    return parts if parts is not None and len(parts.sizes) > 1 else None


def _chains(summary: PredictiveSummary) -> Parts:
    groups = np.array_split(summary.kept, min(GROUPS, len(summary.kept)))
    density = summary.log_density_by_chain
    moments = {name: array for name in MOMENTS if (array := getattr(summary, name)) is not None}
    probabilities = summary.probabilities if summary.task == "classification" else None
    return Parts(
        np.array([len(group) for group in groups]),
        None if density is None else np.array([averages.mixture_log_density(density[group]) for group in groups]),
        {name: np.array([array[group].mean(axis=0) for group in groups]) for name, array in moments.items()},
        None if probabilities is None else np.array([probabilities[group].mean(axis=0) for group in groups]),
    )


def _batches(summary: PredictiveSummary) -> Parts | None:
    """Consecutive draws of the only chain; moments over batches are not kept."""
    density, stops, probabilities = summary.log_density_by_draw, summary.batch_stops, summary.probabilities_by_batch
    if not len(summary.kept) or (density is None and probabilities is None):
        return None
    if stops is None:
        stops = np.unique(np.linspace(0, summary.draws, GROUPS + 1).astype(int))[1:]
    batches = None if density is None else np.split(density, stops[:-1])
    return Parts(
        np.diff(stops, prepend=0),
        None if batches is None else np.array([averages.mixture_log_density(batch) for batch in batches]),
        {},
        None if probabilities is None else probabilities[summary.kept[0]].astype(np.float64),
    )


def _without_one(parts: Parts) -> Iterator[Parts]:
    """For each part, the averages over all other parts."""
    for part in range(len(parts.sizes)):
        yield _average(parts, np.arange(len(parts.sizes)) != part)


def _average(parts: Parts, chosen: np.ndarray) -> Parts:
    """The averages over the chosen parts."""
    shares = parts.sizes[chosen] / parts.sizes[chosen].sum()
    return Parts(
        shares,
        None if parts.log_density is None else logsumexp(parts.log_density[chosen], axis=0, b=shares[:, None]),
        {name: shares @ values[chosen] for name, values in parts.moments.items()},
        None if parts.probabilities is None else np.tensordot(shares, parts.probabilities[chosen], 1),
    )


def _smooth_scores(average: Parts, y: np.ndarray) -> dict[str, float]:
    """The scores of `LIMITS` that one average has."""
    found = {} if average.log_density is None else {"lppd": float(average.log_density.mean())}
    if average.probabilities is not None:
        found["brier"] = float(brier_rows(average.probabilities, y).mean())
    if average.moments:
        found["rmse"] = averages.rmse(average.moments["mean"][None], y)
    return found


def _scores(average: Parts, y: np.ndarray, y_scale: float, levels: np.ndarray) -> Errors:
    """The scores of one average for which errors are computed."""
    found: Errors = {}
    if average.log_density is not None:
        lppd = float(average.log_density.mean())
        found = {("lppd", ""): lppd, ("nll", ""): -lppd}
        if average.probabilities is None:
            found["lppd_original_units", ""] = lppd - float(np.log(y_scale))
    if average.probabilities is not None:
        p = average.probabilities
        means = {"accuracy": hits(p, y), "brier": brier_rows(p, y), "predictive_entropy": entropy(p)}
        means["mean_maximum_confidence"] = confidence(p)
        found["ece", ""] = reliability.expected_calibration_error(p, y, ECE_BINS)
        found["ece_equal_mass", ""] = reliability.expected_calibration_error_equal_mass(p, y, ECE_BINS)
        found["sce", ""] = reliability.static_calibration_error(p, y, ECE_BINS)
        found |= {(share.metric, share.at): share.value for share in entropy_shares(p)}
        return found | {(name, ""): float(values.mean()) for name, values in means.items()}
    if not average.moments:
        return found
    rmse = averages.rmse(average.moments["mean"][None], y)
    if "pit" not in average.moments:
        return found | {("rmse", ""): rmse}
    mean, second, noise, pit = (average.moments[name] for name in MOMENTS)
    matched = averages.moment_matched_log_density(mean[None], second[None], noise[None], y)
    covered = reliability.coverage(pit, levels)
    found |= {("rmse", ""): rmse, ("rmse_original_units", ""): rmse * y_scale}
    found |= {("nll_moment_matched", ""): -float(matched.mean()), ("noise_sd", ""): float(np.sqrt(noise.mean()))}
    found |= {("calibration_error", ""): reliability.calibration_error(levels, covered)}
    return found | {("coverage", f"{a:g}"): float(c) for a, c in zip(levels, covered, strict=True)}
