"""A run on one split scored: on its test rows, on further sets, and against other predictions."""

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.config.metrics import METRICS
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.metrics.errors import PredictionError
from bnn_atlas.metrics.gathering import chain_statistics, curves
from bnn_atlas.metrics.gathering.chain_statistics import ChainStatistics, sampling_measurements, summarise_statistics
from bnn_atlas.metrics.gathering.convergence import (
    convergence_measurements,
    diagnose_functions,
    diagnose_parameters,
    log_posterior_measurements,
    noise_measurements,
)
from bnn_atlas.metrics.gathering.cost import Cost, gradient_measurements, time_measurements
from bnn_atlas.metrics.gathering.dead_inputs import dead_input_measurements
from bnn_atlas.metrics.gathering.marginals import marginal_measurements
from bnn_atlas.metrics.gathering.missing_information import bfmi_measurements
from bnn_atlas.metrics.gathering.predictive import PredictiveSummary
from bnn_atlas.metrics.judgement import measure
from bnn_atlas.metrics.judgement.kept_rows import log_score_measurements, wasserstein_to
from bnn_atlas.metrics.judgement.trust import unconverged
from bnn_atlas.metrics.tables import files
from bnn_atlas.metrics.tables.measurement import Measurement, Row, RunIdentity
from bnn_atlas.traces.draws import Draws

MAX_BYTES = 256 * 2**20
"""Working memory."""
MOST_PARAMETERS = 20_000
"""Scalar parameters that are diagnosed, spread evenly where there are more."""
CURVE_POINTS = 200
"""Places at which the course of a statistic over the draws is given."""
NOT_FINITE, NEVER_MOVED = "not finite", "never moved"
"""Why a chain is excluded."""
COMPARED = ("agreement", "total_variation")
OVER_ROWS = "rows"
"""What most standard errors are over: the test rows."""


class HeldOut(Protocol):
    """The held-out rows of a split, in the scaled units in which the model was fitted."""

    @property
    def y_test(self) -> np.ndarray:
        """Targets [n] (float) or labels [n] (int)."""

    @property
    def y_scale(self) -> float:
        """Standard deviation that scaled the target."""


class Scored(NamedTuple):
    """What the metrics rule writes."""

    rows: list[Row]
    rates: list[Row]
    """What wall time enters: the same draws give other numbers when they are sampled again."""
    parameters: pd.DataFrame
    """One row per scalar parameter (`files.PARAMETER_SCHEMA`)."""
    functions: pd.DataFrame
    """One row per function value (`files.FUNCTION_SCHEMA`)."""
    chains: pd.DataFrame
    """Running LPPD of each chain alone (`files.CHAIN_SCHEMA`)."""
    samplers: pd.DataFrame
    """One row per chain (`files.SAMPLER_SCHEMA`)."""
    curves: pd.DataFrame
    """Points of the curves that a person looks at (`files.CURVE_SCHEMA`)."""


def score(
    pool: Draws,
    summary: PredictiveSummary,
    data: HeldOut,
    identity: RunIdentity,
    *,
    cost: Cost | None = None,
    batch_rows: int | None = None,
    published: Collection[str] = (),
    prior_sd: float | None = None,
    temperature: float = 1.0,
    dead_inputs: np.ndarray | None = None,
    max_bytes: int = MAX_BYTES,
) -> Scored:
    """Score the predictions of a pool of draws for the test rows of a split, and diagnose its chains.

    Args:
        pool: the draws.
        summary: their predictions of the test rows.
        data: the targets of these rows.
        identity: whose they are.
        cost: what the run took, if known.
        batch_rows: size of a mini-batch, where the run's gradients are of those.
        published: authors whose published variants of metrics are measured too.
        prior_sd: that of the prior N(0, prior_sd^2) of all parameters, None where it is another one.
        temperature: that of the posterior.
        dead_inputs: which inputs never vary in the rows that the likelihood sees, if known.
        max_bytes: working memory; no value depends on it.
    """
    kept, draws = summary.kept, pool.draws
    parameters = diagnose_parameters(pool, kept, max_bytes, MOST_PARAMETERS)
    functions = diagnose_functions(summary, max_bytes)
    chains = summarise_statistics(pool, max_bytes, CURVE_POINTS)
    convergence = [
        *convergence_measurements("weight", parameters, len(kept), draws, of=pool.layout.size),
        *convergence_measurements("function", functions, len(kept), draws),
    ]
    # Independent draws from an approximation have no efficiency: any number of them could be drawn.
    rated = [] if method(identity.method).kind_of_draws is KindOfDraws.INDEPENDENT else convergence
    gradients = gradient_measurements(rated, chains.chains, cost, batch_rows)
    sampled = next((row.value for row in gradients if row.metric == "gradients_sampling"), None)
    steps = cost.sampling.steps if cost else None
    measurements = [
        *measure.prediction_measurements(summary, data.y_test, data.y_scale, identity.method, published),
        *convergence,
        *noise_measurements(summary),
        *log_score_measurements(summary, data.y_test),
        *log_posterior_measurements(pool, kept, max_bytes),
        *marginal_measurements(pool, kept, prior_sd, max_bytes),
        *dead_input_measurements(pool, kept, dead_inputs, max_bytes),
        *sampling_measurements(chains.chains, kept, pool.layout.size, draws, steps),
        *bfmi_measurements(chains.chains, kept, identity.method, pool.layout.size, temperature),
        *gradients,
        *exclusion_measurements(summary),
    ]
    return Scored(
        as_rows(identity, measurements, summary),
        as_rows(identity, time_measurements(rated, sampled, cost), summary),
        parameters,
        functions,
        running_frame(summary),
        sampler_frame(chains, summary),
        curve_frame(chains, functions, summary),
    )


def write_scored(
    scored: Scored,
    *,
    table: str | Path,
    rates: str | Path,
    parameters: str | Path,
    functions: str | Path,
    chains: str | Path,
    samplers: str | Path,
    curves: str | Path,
) -> None:
    """Write the tables of scores and rates and the Parquet files beside them."""
    files.write_table(table, scored.rows)
    files.write_table(rates, scored.rates)
    files.write_frame(parameters, scored.parameters, files.PARAMETER_SCHEMA)
    files.write_frame(functions, scored.functions, files.FUNCTION_SCHEMA)
    files.write_frame(chains, scored.chains, files.CHAIN_SCHEMA)
    files.write_frame(samplers, scored.samplers, files.SAMPLER_SCHEMA)
    files.write_frame(curves, scored.curves, files.CURVE_SCHEMA)


def shift_rows(
    identity: RunIdentity, name: str, summary: PredictiveSummary, labels: np.ndarray, published: Collection[str] = ()
) -> list[Row]:
    """Scores of shifted test rows; the data set of the rows is `<data set>/<name>`."""

    def measured() -> list[Measurement]:
        return [*measure.classification_scores(average(summary), labels, published), measure.nll(summary)]

    return _rows_of_set(identity, name, summary, measured)


def outside_rows(
    identity: RunIdentity,
    name: str,
    summary: PredictiveSummary,
    inside: PredictiveSummary,
    published: Collection[str] = (),
) -> list[Row]:
    """How well certainty tells test rows (`inside`) from those of another data set."""

    def measured() -> list[Measurement]:
        return measure.detection_scores(average(inside), average(summary), published)

    return _rows_of_set(identity, name, summary, measured)


def reference_rows(
    identity: RunIdentity, name: str, summary: PredictiveSummary, reference: np.ndarray | PredictiveSummary
) -> list[Row]:
    """A run's predictions against those of a reference for the same rows: agreement, total variation, LPPD, W1.

    `reference` are published probabilities [n, k], or the predictions of another run; only these have densities for a
    difference of the LPPD, and chains: where they have not converged, every note begins with `trust.UNCONVERGED`.
    A regression has the difference and, in place of agreement and total variation, the distance W1.
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
        found += measure.agreement_scores(average(summary), probabilities, name)
    if of_run is None:
        return as_rows(identity, found, summary)
    if not classes:
        found.append(wasserstein_to(summary, of_run, name))
    found.append(measure.elpd_difference(summary, of_run, name))
    word = _convergence_of(of_run)
    return as_rows(identity, [m._replace(note=_join([word, m.note])) for m in found], summary)


def split_measurements(data: SplitData) -> list[Measurement]:
    """How many rows a split has, and how well least squares does on them.

    The error of the least-squares fit to the rows that the likelihood sees needs no chain: it tells in a second whether
    two programs score the same rows with the same scaling. Tables of regressions only.
    """
    train = len(data.split.train) + len(data.split.validation)
    found = [Measurement("rows_test", float(len(data.split.test))), Measurement("rows_train", float(train))]
    if data.task != "regression" or data.kind != "table" or not len(data.split.test):
        return found
    x, x_test = (np.column_stack([np.ones(len(part)), part]) for part in (data.x_fit, data.x_test))
    coefficients = np.linalg.lstsq(x, data.y_fit, rcond=None)[0]
    error = float(np.sqrt(np.mean((x_test @ coefficients - data.y_test) ** 2)))
    return [*found, Measurement("rmse_linear", error, note=f"fitted to {len(x):,} rows")]


def average(summary: PredictiveSummary) -> np.ndarray:
    """Class probabilities [n, k] averaged over all draws of the chains that are not divergent."""
    if not len(summary.kept):
        raise PredictionError("no chain is left to average: all diverged or never moved")
    return summary.probabilities[summary.kept].mean(axis=0)


def exclusion_measurements(summary: PredictiveSummary) -> list[Measurement]:
    """How many chains there are and how many were left out."""
    total = len(summary.divergent)
    return [Measurement("chains_excluded", float(summary.divergent.sum()), note=_exclusion_note(summary), chains=total)]


def as_rows(identity: RunIdentity, measurements: Iterable[Measurement], summary: PredictiveSummary) -> list[Row]:
    """Table rows; every one that an excluded chain is missing from says so.

    Raises ValueError for a name that is not in the list of metrics.
    """
    excluded, rows = _exclusion_note(summary), []
    for m in measurements:
        if m.metric not in METRICS:
            raise ValueError(f"'{m.metric}' is not in the list of metrics; add it to src/bnn_atlas/config/metrics.py")
        chains = len(summary.kept) if m.chains is None else m.chains
        draws = summary.draws if m.draws is None else m.draws
        note = _join([m.note, excluded if m.chains != len(summary.divergent) else ""])
        over = (m.over or OVER_ROWS) if m.standard_error is not None else ""
        of_value = (m.metric, m.value, m.standard_error, note, m.at, over, m.monte_carlo_error)
        rows.append(Row(*identity, chains, draws, *of_value))
    return rows


def running_frame(summary: PredictiveSummary) -> pd.DataFrame:
    """LPPD of each chain alone after its first draws (`files.CHAIN_SCHEMA`); NaN for divergent chains."""
    if summary.running_lppd is None:
        raise PredictionError("these predictions were made without targets, so they have no densities to score")
    chains, points = summary.running_lppd.shape
    return pd.DataFrame(
        {
            "chain": np.repeat(np.arange(chains), points),
            "divergent": np.repeat(summary.divergent, points),
            "draws": np.tile(summary.running_draws, chains),
            "lppd": summary.running_lppd.ravel(),
        }
    )


def sampler_frame(chains: ChainStatistics, summary: PredictiveSummary) -> pd.DataFrame:
    """The summaries of the chains, and why a chain is excluded (`files.SAMPLER_SCHEMA`)."""
    excluded = np.where(summary.stuck, NEVER_MOVED, NOT_FINITE)
    frame = chains.chains.copy()
    frame.insert(1, "excluded", np.where(summary.divergent, excluded, ""))
    return frame


def curve_frame(chains: ChainStatistics, functions: pd.DataFrame, summary: PredictiveSummary) -> pd.DataFrame:
    """All curves (`files.CURVE_SCHEMA`); of the step size only where it changes within a chain."""
    parts = []
    varies = (chains.chains["step_size_max"] > chains.chains["step_size_min"]).any()
    for name, course in chains.courses.items():
        if name == chain_statistics.DIVERGENT:
            parts.append(curves.divergence_rows(course))
        elif name != chain_statistics.STEP_SIZE or varies:
            parts.append(curves.course_rows(name, course, summary.kept))
    return curves.joined([*parts, *curves.function_rows(functions, summary.function_draws, summary.kept)])


def _undefined(metric: str, whose: str, reference: str) -> Measurement:
    return Measurement(metric, float("nan"), note=f"{measure.NO_CHAIN}{whose}", at=reference)


def _convergence_of(reference: PredictiveSummary) -> str:
    """What has to be said of the chains of a reference; empty where they have converged."""
    frame = diagnose_functions(reference, MAX_BYTES)
    values = [frame[column].to_numpy() for column in ("rhat", "ess_bulk", "ess_tail")]
    rhat, *sizes = (column[~np.isnan(column)] for column in values)
    ess = np.concatenate(sizes)
    return unconverged(float(rhat.max()) if rhat.size else np.nan, float(ess.min()) if ess.size else np.nan)


def _rows_of_set(
    identity: RunIdentity, name: str, summary: PredictiveSummary, measured: Callable[[], list[Measurement]]
) -> list[Row]:
    """Rows under the name of the set; one that says so where no chain is left."""
    of_set = identity._replace(dataset=f"{identity.dataset}/{name}")
    empty = Measurement("mean_maximum_confidence", float("nan"), note=measure.NO_CHAIN)
    return as_rows(of_set, measured() if len(summary.kept) else [empty], summary)


def _exclusion_note(summary: PredictiveSummary) -> str:
    """How many chains are excluded, and why."""
    count, total = int(summary.divergent.sum()), len(summary.divergent)
    never_moved = int(summary.stuck.sum())
    reasons = [f"{n:,} {why}" for n, why in ((count - never_moved, NOT_FINITE), (never_moved, NEVER_MOVED)) if n]
    return f"{count:,} of {total:,} chains excluded: {', '.join(reasons)}" if count else ""


def _join(notes: Sequence[str]) -> str:
    return "; ".join(note for note in notes if note)
