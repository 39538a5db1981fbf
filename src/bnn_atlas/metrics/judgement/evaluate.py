"""Score a run on one split at its test rows, and diagnose its chains."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.metrics.gathering import chain_statistics, curves
from bnn_atlas.metrics.gathering.blocks import MAX_BYTES, Tallies
from bnn_atlas.metrics.gathering.chain_convergence import (
    convergence_measurements,
    diagnose_functions,
    diagnose_parameters,
    layer_measurements,
    log_posterior_measurements,
    noise_measurements,
)
from bnn_atlas.metrics.gathering.chain_statistics import ChainStatistics, summarise_statistics
from bnn_atlas.metrics.gathering.cost import Cost, gradient_measurements, time_measurements
from bnn_atlas.metrics.gathering.exchange import Exchange, exchange_measurements
from bnn_atlas.metrics.gathering.log_densities import (
    ceiling_measurements,
    course_measurements,
    log_likelihood_measurements,
    losses_of_path,
    optimum_measurements,
    point_noise_measurements,
    settling_measurements,
    shell_measurements,
    variational_measurements,
)
from bnn_atlas.metrics.gathering.marginals import (
    dead_input_measurements,
    direction_measurements,
    marginal_measurements,
)
from bnn_atlas.metrics.gathering.sampling import bfmi_measurements, sampling_measurements
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, with_targets
from bnn_atlas.metrics.gathering.virial import Rescaling, Virial, balance_measurements, virial_measurements
from bnn_atlas.metrics.judgement import measure
from bnn_atlas.metrics.judgement.kept_rows import log_score_measurements
from bnn_atlas.metrics.judgement.rows import NEVER_MOVED, NOT_FINITE, as_rows, exclusion_measurements
from bnn_atlas.metrics.judgement.trust import reference_measurement
from bnn_atlas.metrics.tables.measurement import Measurement, Row, RunIdentity
from bnn_atlas.metrics.tables.parquet import RUN_SCHEMAS, RunFiles, write_frame, write_table
from bnn_atlas.traces.draws import Draws

MOST_PARAMETERS = 20_000
"""Largest number of scalar parameters that are diagnosed; they are evenly spread over all parameters."""
CURVE_POINTS = 200
"""Largest number of points of a statistic's course over the draws."""


class HeldOut(Protocol):
    """The held-out rows of a split, in the scaled units used by the fit."""

    @property
    def y_test(self) -> np.ndarray:
        """Targets [n] (float) or labels [n] (int)."""

    @property
    def y_scale(self) -> float:
        """Standard deviation by which the targets were divided."""


class RunFacts(NamedTuple):
    """Facts about a run that scoring uses in addition to draws and predictions."""

    identity: RunIdentity
    cost: Cost | None = None
    batch_rows: int | None = None
    """Size of a mini-batch; None for full-data gradients."""
    published: Collection[str] = ()
    """Authors of published variants of metrics to measure in addition."""
    prior_sd: float | None = None
    """s of the prior N(0, s^2) of all parameters; None for other priors."""
    temperature: float = 1.0
    """Temperature of the posterior."""
    dead_inputs: np.ndarray | None = None
    """[inputs] bool: inputs that are constant over the rows of the likelihood; None if unknown."""
    second_moments: np.ndarray | None = None
    """[inputs, inputs]: mean of x x' over the rows of the likelihood; None if unknown."""
    fit_rows: int | None = None
    """Number of rows of the likelihood, if known."""
    rescalings: Sequence[Rescaling] = ()
    """Parameters of hidden units that can be rescaled."""
    virial: Virial | None = None
    """What the temperature of the draws is computed from, if known."""
    exchange: Exchange | None = None
    """Densities of the test rows by draws with exchanged layers, and of validation rows, if known."""
    tallies: Tallies | None = None
    """What is computed from the parameters of the draws; None to compute it from the draws."""


class Scored(NamedTuple):
    """The tables that the rule `metrics` writes."""

    rows: list[Row]
    rates: list[Row]
    """Rows that depend on wall time and therefore change if the same draws are sampled again."""
    parameters: pd.DataFrame
    """One row per scalar parameter (`parquet.PARAMETER_SCHEMA`)."""
    functions: pd.DataFrame
    """One row per function value (`parquet.FUNCTION_SCHEMA`)."""
    chains: pd.DataFrame
    """Running LPPD of each chain on its own (`parquet.CHAIN_SCHEMA`)."""
    samplers: pd.DataFrame
    """One row per chain (`parquet.SAMPLER_SCHEMA`)."""
    curves: pd.DataFrame
    """Points of the diagnostic curves (`parquet.CURVE_SCHEMA`)."""


def score(
    pool: Draws,
    summary: PredictiveSummary,
    data: HeldOut,
    run: RunFacts,
    *,
    max_bytes: int = MAX_BYTES,
) -> Scored:
    """Score the predictions of a pool of draws for the test rows of a split, and diagnose its chains.

    Args:
        pool: the draws.
        summary: the draws' predictions of the test rows.
        data: the targets of these rows.
        run: further facts about the run.
        max_bytes: working memory; no value depends on it.
    """
    found = diagnose(pool, summary, run, max_bytes=max_bytes)
    measurements = [
        *measure.prediction_measurements(summary, data.y_test, data.y_scale, run.identity.method, run.published),
        *(measure.stacked_on_validation(summary, run.exchange.validation) if run.exchange else []),
        *found.functions_and_weights,
        *log_score_measurements(summary, data.y_test),
        *found.sampling,
    ]
    if method(run.identity.method).kind_of_draws.are_chain:
        measurements.append(reference_measurement(measurements))
    return Scored(
        as_rows(run.identity, measurements, summary),
        as_rows(run.identity, found.rates, summary),
        found.parameters,
        found.functions,
        running_frame(summary),
        sampler_frame(found.chains, summary),
        curve_frame(found.chains, found.functions, summary),
    )


class Diagnosis(NamedTuple):
    """Diagnostics of the chains, for which no targets are needed."""

    functions_and_weights: list[Measurement]
    """Convergence of parameters, function values and noise."""
    sampling: list[Measurement]
    """What the sampler reported, log densities, cost, and excluded chains."""
    rates: list[Measurement]
    """Measurements that depend on wall time."""
    parameters: pd.DataFrame
    """One row per scalar parameter that is diagnosed (`parquet.PARAMETER_SCHEMA`)."""
    functions: pd.DataFrame
    """One row per function value (`parquet.FUNCTION_SCHEMA`)."""
    chains: ChainStatistics


def diagnose(pool: Draws, summary: PredictiveSummary, run: RunFacts, *, max_bytes: int = MAX_BYTES) -> Diagnosis:
    """Diagnose the chains of a pool of draws, from its predictions with or without targets; arguments as in `score`."""
    kept, draws, tallies = summary.kept, pool.draws, run.tallies or (None,) * 4
    parameters = diagnose_parameters(pool, kept, max_bytes, MOST_PARAMETERS)
    functions = diagnose_functions(summary, max_bytes)
    chains = summarise_statistics(pool, max_bytes, CURVE_POINTS)
    convergence = [
        *convergence_measurements("weight", parameters, len(kept), draws, of=pool.layout.size),
        *convergence_measurements("function", functions, len(kept), draws),
    ]
    # Efficiency is meaningless for independent draws from an approximation: any number could be drawn.
    rated = [] if method(run.identity.method).kind_of_draws is KindOfDraws.INDEPENDENT else convergence
    gradients = gradient_measurements(rated, chains.chains, run.cost, run.batch_rows)
    sampled = next((row.value for row in gradients if row.metric == "gradients_sampling"), None)
    steps = run.cost.sampling.steps if run.cost else None
    # Optima, of a path as well, are no draws from a posterior in which layers could be in balance.
    points = method(run.identity.method).kind_of_draws is KindOfDraws.POINT
    rescalings = () if points else run.rescalings
    courses = {
        **(run.cost.courses if run.cost else {}),
        **(losses_of_path(pool, run.fit_rows, max_bytes) if points else {}),
    }
    rises = run.virial.rises if run.virial else np.empty(0)
    sampling = [
        *log_posterior_measurements(pool, kept, max_bytes),
        *marginal_measurements(pool, kept, run.prior_sd, max_bytes, tallies[0]),
        *dead_input_measurements(pool, kept, run.dead_inputs, max_bytes, tallies[1]),
        *direction_measurements(pool, kept, run.second_moments, run.prior_sd, max_bytes, run.temperature, tallies[2]),
        *sampling_measurements(chains.chains, kept, pool.layout.size, draws, steps),
        *bfmi_measurements(chains.chains, kept, run.identity.method, pool.layout.size, run.temperature),
        *log_likelihood_measurements(pool, kept, max_bytes),
        *shell_measurements(pool, kept, run.prior_sd, max_bytes, run.temperature),
        *(virial_measurements(run.virial, kept, run.temperature) if run.virial else []),
        *balance_measurements(pool, kept, rescalings, run.prior_sd, run.temperature, max_bytes, tallies[3]),
        *(exchange_measurements(run.exchange, kept) if run.exchange else []),
        *variational_measurements(pool, kept, max_bytes),
        *ceiling_measurements(pool, kept, max_bytes),
        *course_measurements(courses, kept),
        *optimum_measurements(pool, kept, rises, run.fit_rows, max_bytes, run.temperature),
        *point_noise_measurements(pool, kept, run.fit_rows, max_bytes),
        *gradients,
        *exclusion_measurements(summary),
    ]
    if method(run.identity.method).kind_of_draws.are_chain:
        sampling += settling_measurements(pool, kept, max_bytes)
    return Diagnosis(
        [*convergence, *layer_measurements(parameters), *noise_measurements(summary)],
        sampling,
        time_measurements(rated, sampled, run.cost),
        parameters,
        functions,
        chains,
    )


def write_scored(scored: Scored, files: RunFiles) -> None:
    """Write all tables; the same scores give the same bytes."""
    write_table(files.table, scored.rows)
    write_table(files.rates, scored.rates)
    for name, schema in RUN_SCHEMAS.items():
        write_frame(getattr(files, name), getattr(scored, name), schema)


def split_measurements(data: SplitData) -> list[Measurement]:
    """The numbers of rows of a split and, for regressions on tables, the error of a least-squares fit.

    The least-squares fit uses the rows of the likelihood and no chain, so its error quickly shows whether two programs
    score the same rows with the same scaling.
    """
    train = len(data.split.train) + len(data.split.validation)
    found = [Measurement("rows_test", float(len(data.split.test))), Measurement("rows_train", float(train))]
    if data.task != "regression" or data.kind != "table" or not len(data.split.test):
        return found
    x, x_test = (np.column_stack([np.ones(len(part)), part]) for part in (data.x_fit, data.x_test))
    coefficients = np.linalg.lstsq(x, data.y_fit, rcond=None)[0]
    error = float(np.sqrt(np.mean((x_test @ coefficients - data.y_test) ** 2)))
    return [*found, Measurement("rmse_linear", error, note=f"fitted to {len(x):,} rows")]


def running_frame(summary: PredictiveSummary) -> pd.DataFrame:
    """LPPD of each chain on its own over its first draws (`parquet.CHAIN_SCHEMA`); NaN for divergent chains."""
    running = with_targets(summary.running_lppd)
    chains, points = running.shape
    return pd.DataFrame(
        {
            "chain": np.repeat(np.arange(chains), points),
            "divergent": np.repeat(summary.divergent, points),
            "draws": np.tile(summary.running_draws, chains),
            "lppd": running.ravel(),
        }
    )


def sampler_frame(chains: ChainStatistics, summary: PredictiveSummary) -> pd.DataFrame:
    """The chains' summaries, and why a chain is excluded (`parquet.SAMPLER_SCHEMA`)."""
    excluded = np.where(summary.stuck, NEVER_MOVED, NOT_FINITE)
    frame = chains.chains.copy()
    frame.insert(1, "excluded", np.where(summary.divergent, excluded, ""))
    return frame


def curve_frame(chains: ChainStatistics, functions: pd.DataFrame, summary: PredictiveSummary) -> pd.DataFrame:
    """All curves (`parquet.CURVE_SCHEMA`); the step size is included only if it changes within a chain."""
    parts = []
    varies = (chains.chains["step_size_max"] > chains.chains["step_size_min"]).any()
    for name, course in chains.courses.items():
        if name == chain_statistics.DIVERGENT:
            parts.append(curves.divergence_rows(course))
        elif name != chain_statistics.STEP_SIZE or varies:
            parts.append(curves.course_rows(name, course, summary.kept))
    return curves.joined([*parts, *curves.function_rows(functions, summary.function_draws, summary.kept)])
