"""All scores of one run on one split: the entry point of the metrics rule."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.metrics import calibration, curves, diagnostics, efficiency, scores, statistics, tables
from bnn_atlas.metrics.agreement import ceiling_scores
from bnn_atlas.metrics.classification import classification_scores, hits
from bnn_atlas.metrics.convergence import convergence_measurements
from bnn_atlas.metrics.cost import Cost
from bnn_atlas.metrics.curves import CURVE_SCHEMA
from bnn_atlas.metrics.pools import DrawPool, HeldOut
from bnn_atlas.metrics.predictive import PredictionError, PredictiveSummary
from bnn_atlas.metrics.sampling import sampling_measurements
from bnn_atlas.metrics.statistics import ChainStatistics, summarise_statistics
from bnn_atlas.metrics.tables import Measurement, Row, RunIdentity
from bnn_atlas.metrics.verdict import INDEPENDENT

CHAIN_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64()),
        pa.field("divergent", pa.bool_()),
        pa.field("draws", pa.int64()),
        pa.field("lppd", pa.float64()),
    ]
)
NOT_FINITE, NEVER_MOVED = "not finite", "never moved"
"""Why a chain is excluded."""
MISTAKEN = {
    "deep_ensemble": "the mean is taken for the log of the noise",
    **dict.fromkeys(("laplace", "mean_field"), "the predictive variance is taken for the log of the noise"),
}
"""Method -> what the code of Sommer et al. 2025 does to its LPPD where the noise is one level."""
HEADLINES = {
    "regression": ("lppd", "nll", "rmse", "rmse_original_units"),
    "classification": ("lppd", "nll", "accuracy"),
}


@dataclass(frozen=True)
class ScoreSettings:
    """How a run is scored."""

    max_bytes: int = 256 * 2**20
    """Working memory."""
    parameters: int = 20_000
    """Scalar parameters that are diagnosed at most, spread evenly."""
    orderings: int = 5
    """Random orders of the chains for the cumulative LPPD; 5 in the paper."""
    ordering_seed: int = 0
    coverage_levels: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95)
    """Nominal levels of central intervals; MILE's."""
    kappa: float = 1.0
    """Exponent of the weights in the published calibration error."""
    pit_bins: int = 10
    ece_bins: int = 15
    curve_points: int = 200
    """Places at which the course of a statistic over the draws is given."""


class Scored(NamedTuple):
    """What the metrics rule writes."""

    rows: list[Row]
    rates: list[Row]
    """What wall time enters: the same draws give other numbers when they are sampled again."""
    parameters: pd.DataFrame
    """One row per scalar parameter (diagnostics.PARAMETER_SCHEMA)."""
    functions: pd.DataFrame
    """One row per function value (diagnostics.FUNCTION_SCHEMA)."""
    chains: pd.DataFrame
    """Running LPPD of each chain alone (CHAIN_SCHEMA)."""
    samplers: pd.DataFrame
    """One row per chain (statistics.SAMPLER_SCHEMA)."""
    curves: pd.DataFrame
    """Points of the curves that a person looks at (curves.CURVE_SCHEMA)."""


def score(
    pool: DrawPool,
    summary: PredictiveSummary,
    data: HeldOut,
    identity: RunIdentity,
    settings: ScoreSettings | None = None,
    *,
    cost: Cost | None = None,
    batch_rows: int | None = None,
) -> Scored:
    """Score the predictions of a pool of draws for the test rows of a split, and diagnose its chains.

    `cost` is what the run took, if known; `batch_rows` the size of a mini-batch where its gradients are of those.
    """
    settings = settings or ScoreSettings()
    kept, draws = summary.kept, pool.draws
    parameters = diagnostics.diagnose_parameters(pool, kept, settings.max_bytes, settings.parameters)
    functions = diagnostics.diagnose_functions(summary, settings.max_bytes)
    stated = summarise_statistics(pool, settings.max_bytes, settings.curve_points)
    convergence = [
        *convergence_measurements("weight", parameters, len(kept), draws, of=pool.layout.size),
        *convergence_measurements("function", functions, len(kept), draws),
    ]
    # Independent draws from an approximation have no efficiency: they could be had in any number.
    rated = [] if identity.method in INDEPENDENT else convergence
    gradients = efficiency.gradient_measurements(rated, stated.chains, cost, batch_rows)
    sampled = next((row.value for row in gradients if row.metric == "gradients_sampling"), None)
    steps = cost.sampling.steps if cost else None
    measurements = [
        *prediction_measurements(summary, data.y_test, data.y_scale, settings),
        *published_measurements(summary, data.y_test, identity.method),
        *convergence,
        *sampling_measurements(stated.chains, kept, pool.layout.size, draws, steps),
        *gradients,
        *exclusion_measurements(summary),
    ]
    return Scored(
        as_rows(identity, measurements, summary),
        as_rows(identity, efficiency.time_measurements(rated, sampled, cost), summary),
        parameters,
        functions,
        running_frame(summary),
        sampler_frame(stated, summary),
        curve_frame(stated, functions, summary),
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
    tables.write_table(table, scored.rows)
    tables.write_table(rates, scored.rates)
    tables.write_frame(parameters, scored.parameters, diagnostics.PARAMETER_SCHEMA)
    tables.write_frame(functions, scored.functions, diagnostics.FUNCTION_SCHEMA)
    tables.write_frame(chains, scored.chains, CHAIN_SCHEMA)
    tables.write_frame(samplers, scored.samplers, statistics.SAMPLER_SCHEMA)
    tables.write_frame(curves, scored.curves, CURVE_SCHEMA)


def prediction_measurements(
    summary: PredictiveSummary, y: np.ndarray, y_scale: float, settings: ScoreSettings
) -> list[Measurement]:
    """Density, error and calibration of the average over the chains that are not divergent."""
    if not len(summary.kept):
        return [Measurement(name, float("nan"), note="no chain left to average") for name in HEADLINES[summary.task]]
    specific = _regression if summary.task == "regression" else _classification
    return [*_density(summary, settings), *specific(summary, y, y_scale, settings)]


def nll(summary: PredictiveSummary) -> Measurement:
    """Negative log-likelihood per row, -(1/n) sum_i log (1/(CS)) sum_cs p(y_i | theta_cs), in nats.

    From log densities of the C chains that are not divergent: probabilities would round to 0 where these are finite.
    It is inf, with a note, where a row has the density 0.
    """
    mixture = _mixture(summary)
    return Measurement("nll", -float(mixture.mean()), scores.error_of_mean(mixture), _zero_density_note(mixture))


def published_measurements(summary: PredictiveSummary, y: np.ndarray, method: str) -> list[Measurement]:
    """LPPD of a regression with one noise level as the code of Sommer et al. 2025 has it, for methods it gets wrong."""
    if summary.task != "regression" or method not in MISTAKEN or not len(summary.kept):
        return []
    mean, second, noise = (_of(summary, name) for name in ("mean", "second_moment", "noise_variance"))
    if not np.allclose(noise, noise[:, :1], rtol=1e-9, atol=0):
        return []
    if method == "deep_ensemble":
        density = scores.ensemble_log_density_as_published(mean, y)
    else:
        density = scores.moments_log_density_as_published(mean, second, noise, y)
    note = f"{MISTAKEN[method]}; {_zero_density_note(density)}".removesuffix("; ")
    return [Measurement("lppd_as_published", float(density.mean()), scores.error_of_mean(density), note)]


def exclusion_measurements(summary: PredictiveSummary) -> list[Measurement]:
    """How many chains there are and how many were left out."""
    total = len(summary.divergent)
    return [Measurement("chains_excluded", float(summary.divergent.sum()), note=_exclusion_note(summary), chains=total)]


def as_rows(identity: RunIdentity, measurements: Iterable[Measurement], summary: PredictiveSummary) -> list[Row]:
    """Table rows; every one that an excluded chain is missing from says so."""
    excluded, rows = _exclusion_note(summary), []
    for m in measurements:
        chains = len(summary.kept) if m.chains is None else m.chains
        draws = summary.draws if m.draws is None else m.draws
        note = _join([m.note, excluded if m.chains != len(summary.divergent) or summary.standing.all() else ""])
        rows.append(Row(*identity, chains, draws, m.metric, m.value, m.standard_error, note))
    return rows


def running_frame(summary: PredictiveSummary) -> pd.DataFrame:
    """LPPD of each chain alone after its first draws (CHAIN_SCHEMA); NaN for divergent chains."""
    running = _known(summary.running_lppd)
    chains, points = running.shape
    return pd.DataFrame(
        {
            "chain": np.repeat(np.arange(chains), points),
            "divergent": np.repeat(summary.divergent, points),
            "draws": np.tile(summary.running_draws, chains),
            "lppd": running.ravel(),
        }
    )


def sampler_frame(stated: ChainStatistics, summary: PredictiveSummary) -> pd.DataFrame:
    """The summaries of the chains, and why a chain is excluded (statistics.SAMPLER_SCHEMA)."""
    excluded = np.where(summary.standing, NEVER_MOVED, NOT_FINITE)
    frame = stated.chains.copy()
    frame.insert(1, "excluded", np.where(summary.divergent, excluded, ""))
    return frame


def curve_frame(stated: ChainStatistics, functions: pd.DataFrame, summary: PredictiveSummary) -> pd.DataFrame:
    """All curves (curves.CURVE_SCHEMA); of the step size only where it changes within a chain."""
    parts = []
    for name, course in stated.courses.items():
        if name == statistics.DIVERGENT:
            parts.append(curves.divergence_rows(course))
        elif name != statistics.STEP_SIZE or (stated.chains["step_size_max"] > stated.chains["step_size_min"]).any():
            parts.append(curves.course_rows(name, course, summary.kept))
    return curves.joined([*parts, *curves.function_rows(functions, summary.function_draws, summary.kept)])


def _density(summary: PredictiveSummary, settings: ScoreSettings) -> list[Measurement]:
    """LPPD: of all chains, of single chains, cumulative over chains and over draws."""
    by_chain, mixture = _of(summary, "log_density_by_chain"), _mixture(summary)
    single = scores.lppd_per_chain(by_chain)
    over_chains = scores.lppd_over_chains(
        by_chain, scores.chain_counts(len(by_chain)), settings.orderings, settings.ordering_seed
    )
    over_draws = scores.lppd_over_draws(_known(summary.log_density_by_draw), summary.running_draws)
    orders = f"{settings.orderings} random orders of the chains"
    return [
        Measurement("lppd", float(mixture.mean()), scores.error_of_mean(mixture), _zero_density_note(mixture)),
        nll(summary),
        Measurement("lppd_chain_mean", float(single.mean()), scores.error_of_mean(single)),
        Measurement("lppd_chain_min", float(single.min())),
        Measurement("lppd_chain_max", float(single.max())),
        *(
            Measurement("lppd_cumulative_chains", float(v), _or_none(error), f"mean over {orders}", chains=int(c))
            for c, v, error, _ in zip(*over_chains, strict=True)
        ),
        *(
            Measurement("lppd_cumulative_chains_order_sd", float(sd), note=f"sd over {orders}", chains=int(c))
            for c, _, _, sd in zip(*over_chains, strict=True)
            if np.isfinite(sd)
        ),
        *(
            Measurement("lppd_cumulative_draws", float(v), _or_none(error), draws=int(s))
            for s, v, error, _ in zip(*over_draws, strict=True)
        ),
    ]


def _mixture(summary: PredictiveSummary) -> np.ndarray:
    """Log density [n] of the mixture of all draws of the chains that are not divergent."""
    return scores.mixture_log_density(_known(summary.log_density_by_chain)[summary.kept])


def _regression(
    summary: PredictiveSummary, y: np.ndarray, y_scale: float, settings: ScoreSettings
) -> list[Measurement]:
    """RMSE, moment-matched density, interval coverage and PIT."""
    mean, second, noise, cdf = (_of(summary, name) for name in ("mean", "second_moment", "noise_variance", "pit"))
    matched = scores.moment_matched_log_density(mean, second, noise, y)
    rmse = scores.rmse(mean, y)
    pit, levels = cdf.mean(axis=0), np.array(settings.coverage_levels)
    covered = calibration.coverage(pit, levels)
    published = calibration.calibration_error_as_published(levels, covered, settings.kappa)
    shares = calibration.pit_histogram(pit, settings.pit_bins)
    return [
        Measurement("rmse", rmse),
        Measurement("rmse_original_units", rmse * y_scale),
        Measurement("nll_moment_matched", -float(matched.mean()), scores.error_of_mean(matched)),
        *(Measurement(f"coverage_{a:g}", float(c)) for a, c in zip(levels, covered, strict=True)),
        Measurement("calibration_error", calibration.calibration_error(levels, covered), note=_levels_note(levels)),
        Measurement(
            "calibration_error_as_published",
            published,
            note=f"{_levels_note(levels)}; kappa {settings.kappa:g}; weights and mean over levels",
        ),
        *(
            Measurement(f"pit_histogram_{(b + 1) / settings.pit_bins:g}", float(share), note="share of rows")
            for b, share in enumerate(shares)
        ),
    ]


def _classification(
    summary: PredictiveSummary, y: np.ndarray, y_scale: float, settings: ScoreSettings
) -> list[Measurement]:
    """Scores of the averaged probabilities, accuracy of single chains, and how far these agree with the others."""
    probabilities = _of(summary, "probabilities")
    found = classification_scores(probabilities.mean(axis=0), y, settings.ece_bins)
    if len(probabilities) > 1:
        found += ceiling_scores(probabilities)
    single = np.array([hits(chain, y).mean() for chain in probabilities])
    return [
        *(Measurement(*score) for score in found),
        Measurement("accuracy_chain_mean", float(single.mean()), scores.error_of_mean(single)),
        Measurement("accuracy_chain_min", float(single.min())),
        Measurement("accuracy_chain_max", float(single.max())),
    ]


def _of(summary: PredictiveSummary, name: str) -> np.ndarray:
    """A field of the summary for the chains that are not divergent."""
    return getattr(summary, name)[summary.kept]


def _known(array: np.ndarray | None) -> np.ndarray:
    if array is None:
        raise PredictionError("these predictions were made without targets, so they have no densities to score")
    return array


def _exclusion_note(summary: PredictiveSummary) -> str:
    """What is to be known of the chains: that some are excluded, or that all stand where they started."""
    count, total = int(summary.divergent.sum()), len(summary.divergent)
    if summary.standing.all():
        stood = "no chain ever moved: these are the scores of where they started"
        return _join([stood, f"{count:,} of {total:,} chains excluded: {NOT_FINITE}" if count else ""])
    standing = int(summary.standing.sum())
    reasons = [f"{n:,} {why}" for n, why in ((count - standing, NOT_FINITE), (standing, NEVER_MOVED)) if n]
    return f"{count:,} of {total:,} chains excluded: {', '.join(reasons)}" if count else ""


def _zero_density_note(log_density: np.ndarray) -> str:
    zero = int(np.isneginf(log_density).sum())
    return f"{zero} of {len(log_density)} rows have density 0" if zero else ""


def _levels_note(levels: np.ndarray) -> str:
    return f"levels {', '.join(f'{a:g}' for a in levels)}"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _join(notes: Sequence[str]) -> str:
    return "; ".join(note for note in notes if note)
