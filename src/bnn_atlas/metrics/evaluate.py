"""All scores of one run on one split: the entry point of the metrics rule."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.metrics import calibration, diagnostics, energy, scores, tables
from bnn_atlas.metrics.pools import DrawPool, HeldOut, Predict
from bnn_atlas.metrics.predictive import PredictiveSummary, summarise
from bnn_atlas.metrics.tables import Row, RunIdentity

CHAIN_SCHEMA = pa.schema(
    [
        pa.field("chain", pa.int64()),
        pa.field("divergent", pa.bool_()),
        pa.field("draws", pa.int64()),
        pa.field("lppd", pa.float64()),
    ]
)
HEADLINES = {
    "regression": ("lppd", "nll", "rmse", "rmse_original_units"),
    "classification": ("lppd", "nll", "accuracy"),
}


@dataclass(frozen=True)
class ScoreSettings:
    """How a run is scored."""

    max_bytes: int = 256 * 2**20
    """Working memory."""
    function_rows: int = 64
    """Test rows whose function values are diagnosed."""
    orderings: int = 5
    """Random orders of the chains for the cumulative LPPD; 5 in the paper."""
    ordering_seed: int = 0
    running_points: int = 50
    """Numbers of draws at which running LPPDs are given."""
    coverage_levels: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95)
    """Nominal levels of central intervals; MILE's."""
    kappa: float = 1.0
    """Exponent of the weights in the published calibration error."""
    pit_bins: int = 10
    ece_bins: int = 15


class Measurement(NamedTuple):
    """A value before it is known whose it is; None takes all chains that are not excluded, or all draws."""

    metric: str
    value: float
    standard_error: float | None = None
    note: str = ""
    chains: int | None = None
    draws: int | None = None


class Scored(NamedTuple):
    """What the metrics rule writes."""

    rows: list[Row]
    parameters: pd.DataFrame
    """One row per scalar parameter (diagnostics.PARAMETER_SCHEMA)."""
    functions: pd.DataFrame
    """One row per function value (diagnostics.FUNCTION_SCHEMA)."""
    chains: pd.DataFrame
    """Running LPPD of each chain alone (CHAIN_SCHEMA)."""


def score(
    pool: DrawPool, predict: Predict, data: HeldOut, identity: RunIdentity, settings: ScoreSettings | None = None
) -> Scored:
    """Score a pool of draws on the test rows of a split and diagnose its chains."""
    settings = settings or ScoreSettings()
    summary = summarise(
        pool,
        predict,
        data.x_test,
        data.y_test,
        max_bytes=settings.max_bytes,
        function_rows=settings.function_rows,
        running_points=settings.running_points,
    )
    return score_summary(pool, summary, data, identity, settings)


def score_summary(
    pool: DrawPool, summary: PredictiveSummary, data: HeldOut, identity: RunIdentity, settings: ScoreSettings
) -> Scored:
    """The same from a predictive summary that was made (and perhaps saved) before."""
    parameters = diagnostics.diagnose_parameters(pool, summary.kept, settings.max_bytes)
    functions = diagnostics.diagnose_functions(summary)
    measurements = [
        *prediction_measurements(summary, data.y_test, data.y_scale, settings),
        *convergence_measurements("weight", parameters, len(summary.kept), pool.draws),
        *convergence_measurements("function", functions, len(summary.kept), pool.draws),
        *energy_measurements(pool, summary.kept),
        *exclusion_measurements(summary),
    ]
    rows = as_rows(identity, measurements, summary)
    return Scored(rows, parameters, functions, running_frame(summary))


def write_scored(
    scored: Scored, *, table: str | Path, parameters: str | Path, functions: str | Path, chains: str | Path
) -> None:
    """Write the table of scores and the three Parquet files beside it."""
    tables.write_table(table, scored.rows)
    tables.write_frame(parameters, scored.parameters, diagnostics.PARAMETER_SCHEMA)
    tables.write_frame(functions, scored.functions, diagnostics.FUNCTION_SCHEMA)
    tables.write_frame(chains, scored.chains, CHAIN_SCHEMA)


def prediction_measurements(
    summary: PredictiveSummary, y: np.ndarray, y_scale: float, settings: ScoreSettings
) -> list[Measurement]:
    """Density, error and calibration of the average over the chains that are not divergent."""
    if not len(summary.kept):
        return [Measurement(name, float("nan"), note="no chain left to average") for name in HEADLINES[summary.task]]
    specific = _regression if summary.task == "regression" else _classification
    return [*_density(summary, settings), *specific(summary, y, y_scale, settings)]


def convergence_measurements(space: str, frame: pd.DataFrame, chains: int, draws: int) -> list[Measurement]:
    """Largest or smallest and median R-hat, ESS and variances over all quantities of a space (weight, function)."""
    plan = (
        ("rhat", "rhat_{}_max", np.max),
        ("rhat", "rhat_{}_median", np.median),
        ("rhat_chainwise_max", "rhat_chainwise_{}_max", np.max),
        ("rhat_chainwise_median", "rhat_chainwise_{}_median", np.median),
        ("ess_bulk", "ess_bulk_{}_min", np.min),
        ("ess_bulk", "ess_bulk_{}_median", np.median),
        ("ess_tail", "ess_tail_{}_min", np.min),
        ("ess_tail", "ess_tail_{}_median", np.median),
        ("within", "variance_within_{}_median", np.median),
        ("between", "variance_between_{}_median", np.median),
    )
    measurements = []
    for column, metric, reduce in plan:
        values = frame[column].to_numpy()
        defined = values[~np.isnan(values)]
        value = float(reduce(defined)) if len(defined) else float("nan")
        note = _undefined_note(column, len(values) - len(defined), len(values), chains, draws)
        measurements.append(Measurement(metric.format(space), value, note=note))
    return measurements


def energy_measurements(pool: DrawPool, kept: np.ndarray) -> list[Measurement]:
    """Energy error, acceptance and divergent transitions, as far as the traces have these statistics."""
    measurements = []
    change = energy.statistic(pool, energy.ENERGY_CHANGE, kept)
    if change is not None:
        values = energy.finite(change)
        measurements += [
            Measurement("energy_change_mean", energy.mean(values), note=values.note),
            Measurement(
                "energy_change_variance_per_dimension",
                energy.variance_per_dimension(values, pool.layout.size),
                note=values.note,
            ),
            Measurement("energy_change_max_abs", energy.largest(values), note=values.note),
            Measurement("energy_change_nonfinite", float(values.left_out)),
        ]
    squared = energy.statistic(pool, energy.ENERGY_CHANGE_SQUARED, kept)
    if squared is not None:
        values = energy.finite(squared)
        value = energy.mean_square_per_dimension(values, pool.layout.size)
        measurements.append(Measurement("energy_change_mean_square_per_dimension", value, note=values.note))
    acceptance = energy.statistic(pool, energy.ACCEPTANCE, kept)
    if acceptance is not None:
        values = energy.finite(acceptance)
        measurements.append(Measurement("acceptance_mean", energy.mean(values), note=values.note))
    divergent = energy.statistic(pool, energy.DIVERGENT)
    if divergent is not None:
        note = "steps of all chains"
        measurements.append(Measurement("divergences", float(divergent.sum()), note=note, chains=pool.chains))
    return measurements


def exclusion_measurements(summary: PredictiveSummary) -> list[Measurement]:
    """How many chains there are and how many were left out."""
    total = len(summary.divergent)
    return [Measurement("chains_excluded", float(summary.divergent.sum()), note=_exclusion_note(summary), chains=total)]


def as_rows(identity: RunIdentity, measurements: Iterable[Measurement], summary: PredictiveSummary) -> list[Row]:
    """Table rows; every one that a divergent chain is missing from says so."""
    excluded, rows = _exclusion_note(summary), []
    for m in measurements:
        chains = len(summary.kept) if m.chains is None else m.chains
        draws = summary.draws if m.draws is None else m.draws
        note = _join([m.note, excluded if m.metric not in ("chains_excluded", "divergences") else ""])
        rows.append(Row(*identity, chains, draws, m.metric, m.value, m.standard_error, note))
    return rows


def running_frame(summary: PredictiveSummary) -> pd.DataFrame:
    """LPPD of each chain alone after its first draws (CHAIN_SCHEMA); NaN for divergent chains."""
    chains, points = summary.running_lppd.shape
    return pd.DataFrame(
        {
            "chain": np.repeat(np.arange(chains), points),
            "divergent": np.repeat(summary.divergent, points),
            "draws": np.tile(summary.running_draws, chains),
            "lppd": summary.running_lppd.ravel(),
        }
    )


def _density(summary: PredictiveSummary, settings: ScoreSettings) -> list[Measurement]:
    """LPPD: of all chains, of single chains, cumulative over chains and over draws."""
    by_chain = summary.log_density_by_chain[summary.kept]
    mixture = scores.mixture_log_density(by_chain)
    value, error = float(mixture.mean()), scores.error_of_mean(mixture)
    note = _zero_density_note(mixture)
    single = scores.lppd_per_chain(by_chain)
    over_chains = scores.lppd_over_chains(
        by_chain, scores.chain_counts(len(by_chain)), settings.orderings, settings.ordering_seed
    )
    over_draws = scores.lppd_over_draws(summary.log_density_by_draw, summary.running_draws)
    orders = f"standard error is the sd over {settings.orderings} random orders of the same chains"
    return [
        Measurement("lppd", value, error, note),
        Measurement("nll", -value, error, note),
        Measurement("lppd_chain_mean", float(single.mean()), scores.error_of_mean(single)),
        Measurement("lppd_chain_min", float(single.min())),
        Measurement("lppd_chain_max", float(single.max())),
        *(
            Measurement("lppd_cumulative_chains", float(v), _or_none(sd), orders, chains=int(c))
            for c, v, sd in zip(*over_chains, strict=True)
        ),
        *(Measurement("lppd_cumulative_draws", float(v), draws=int(s)) for s, v, _ in zip(*over_draws, strict=True)),
    ]


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
    """Accuracy and calibration error of the averaged probabilities."""
    probabilities = _of(summary, "probabilities")
    hits = scores.hits(probabilities, y).astype(np.float64)
    ece = calibration.expected_calibration_error(probabilities.mean(axis=0), y, settings.ece_bins)
    return [
        Measurement("accuracy", float(hits.mean()), scores.error_of_mean(hits)),
        Measurement("ece", ece, note=f"{settings.ece_bins} equally wide bins"),
    ]


def _of(summary: PredictiveSummary, name: str) -> np.ndarray:
    """A field of the summary for the chains that are not divergent."""
    return getattr(summary, name)[summary.kept]


def _exclusion_note(summary: PredictiveSummary) -> str:
    count, total = int(summary.divergent.sum()), len(summary.divergent)
    return f"{count} of {total} chains excluded: not finite, or never moved" if count else ""


def _zero_density_note(log_density: np.ndarray) -> str:
    zero = int(np.isneginf(log_density).sum())
    return f"{zero} of {len(log_density)} rows have density 0" if zero else ""


def _undefined_note(column: str, undefined: int, total: int, chains: int, draws: int) -> str:
    """Why some or all quantities have no diagnostic."""
    if not undefined:
        return ""
    if chains == 0:
        return "undefined: no chain left"
    if column in ("rhat", "between") and chains < 2:
        return "undefined: needs at least 2 chains"
    needed = {"within": 2, "between": 1}.get(column, 2 * diagnostics.PIECES if "chainwise" in column else 4)
    if draws < needed:
        return f"undefined: needs at least {needed} draws"
    return f"{undefined} of {total} quantities left out: constant or not finite draws"


def _levels_note(levels: np.ndarray) -> str:
    return f"levels {', '.join(f'{a:g}' for a in levels)}"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _join(notes: Sequence[str]) -> str:
    return "; ".join(note for note in notes if note)
