"""Measurements of predictions, with the names listed in `config.metrics`. Add new metrics of predictions here.

Metrics of class probabilities are in `judgement.classes`.
"""

from collections.abc import Collection

import numpy as np

from bnn_atlas.metrics.formulas import averages, function_distances, reliability, variants
from bnn_atlas.metrics.gathering.exchange import DRAWS_OF_VALIDATION
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, with_targets
from bnn_atlas.metrics.judgement.classes import (
    ECE_BINS,
    OVER_CHAINS,
    chain_scores,
    classification_scores,
    cumulative_scores,
)
from bnn_atlas.metrics.judgement.monte_carlo import monte_carlo_errors, scores_at_infinity, spread_error
from bnn_atlas.metrics.judgement.rows import average
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError, joined

ORDERINGS, ORDERING_SEED = 50, 0
"""Random orders of the chains for the LPPD over chains, and their seed. Sommer et al. 2025 use 5; at 20 of 1,000 chains
on airfoil the mean over 5 has a standard deviation of 0.005, and the mean over 50 of 0.0015."""
COVERAGE_LEVELS = (0.5, 0.75, 0.9, 0.95)
"""Nominal levels of central intervals, as in MILE (Sommer et al. 2025)."""
INTERVAL = 0.9
"""Nominal level of the interval that `interval_score` judges."""
KAPPA = 1.0
"""Exponent of the weights in `calibration_error_sommer`."""
PIT_BINS = 10
ROUNDING = 1e-5
"""Relative tolerance of class probabilities: averages in single precision depend on their order."""
NO_CHAIN = "no chain left to average"
HEADLINES = {
    "regression": ("lppd", "nll", "rmse", "rmse_original_units", "lppd_original_units"),
    "classification": ("lppd", "nll", "accuracy"),
}
"""Metrics that are reported as NaN, with the note `NO_CHAIN`, if every chain is excluded."""
SOMMER = {
    "deep_ensemble": "the mean is taken for the log of the noise",
    **dict.fromkeys(("laplace", "mean_field"), "the predictive variance is taken for the log of the noise"),
}
"""Method -> the error in its LPPD, as computed by the code of Sommer et al. 2025, if there is one noise level."""


def prediction_measurements(
    summary: PredictiveSummary, y: np.ndarray, y_scale: float, method: str, papers: Collection[str] = ()
) -> list[Measurement]:
    """Density, error and calibration of the average over the chains that are not divergent.

    Args:
        summary: predictions of rows with targets.
        y: targets or labels [n].
        y_scale: standard deviation by which the targets were divided, for scores in original units.
        method: kind of the method, on which `lppd_sommer` depends.
        papers: authors of published variants to measure in addition (`formulas.variants`).
    """
    if not len(summary.kept):
        return [Measurement(name, float("nan"), note=NO_CHAIN) for name in HEADLINES[summary.task]]
    if summary.task == "regression" and summary.pit is None:
        found = [*_density(summary), _rmse_of_means(summary, y)]
    elif summary.task == "regression":
        variants = _sommer(summary, y, method) if "sommer" in papers else []
        variants += _moments_izmailov(summary, y, y_scale) if "izmailov" in papers else []
        found = [*_density(summary), *_regression(summary, y, y_scale), *variants]
    else:
        found = [*_density(summary), *_classification(summary, y, papers)]
    errors = monte_carlo_errors(summary, y, y_scale, np.array(COVERAGE_LEVELS))
    found = [m._replace(monte_carlo_error=errors.get((m.metric, m.at))) for m in found]
    return [*found, *scores_at_infinity(summary, y)]


def nll(summary: PredictiveSummary) -> Measurement:
    """Negative log-likelihood per row, -(1/n) sum_i log (1/(CS)) sum_cs p(y_i | theta_cs), in nats.

    The C chains are those that are not divergent. Log densities are used, since small probabilities would round to 0.
    The result is inf, with a note, if a row has density 0.
    """
    mixture = _mixture(summary)
    return Measurement("nll", -float(mixture.mean()), averages.error_of_mean(mixture), _zero_density_note(mixture))


def correct_rows(summary: PredictiveSummary) -> np.ndarray:
    """[n] whether the observed class of a row is the most probable class."""
    return np.exp(_mixture(summary)) > average(summary).max(axis=1) * (1 - ROUNDING)


def function_sd(summary: PredictiveSummary) -> Measurement:
    """Mean over inputs x of sqrt(Var f(x)), the variance without noise over all draws of the non-divergent chains.

    The Monte Carlo error is a jackknife over chains (over batches of draws if there is one chain).
    """
    mean, second = (_of(summary, name).mean(axis=0) for name in ("mean", "second_moment"))
    return Measurement(
        "function_sd",
        averages.function_spread(mean, second),
        note=f"mean over {len(mean)} inputs",
        monte_carlo_error=spread_error(summary),
    )


def elpd_difference(own: PredictiveSummary, other: PredictiveSummary, reference: str, note: str = "") -> Measurement:
    """Difference of the LPPD of two runs on the same test rows, with a standard error paired by row.

    With d_i the difference of the log densities at row i, the error is sd(d) / sqrt(n): variation that both runs share,
    such as rows that are hard to predict, cancels. Vehtari, Gelman and Gabry 2017, Practical Bayesian Model Evaluation,
    section 5.1 (means over rows instead of sums). Raises PredictionError if the numbers of rows differ.
    """
    first, second = _mixture(own), _mixture(other)
    if len(first) != len(second):
        raise PredictionError(f"{len(first)} rows cannot be paired with {len(second)} rows of '{reference}'")
    gap = first - second
    return Measurement("elpd_diff", float(gap.mean()), averages.error_of_mean(gap), note, at=reference)


def _density(summary: PredictiveSummary) -> list[Measurement]:
    """LPPD of all chains, of single chains, and cumulative over chains and over draws."""
    by_chain, mixture = _of(summary, "log_density_by_chain"), _mixture(summary)
    single = averages.lppd_per_chain(by_chain)
    over_chains = averages.lppd_over_chains(by_chain, averages.chain_counts(len(by_chain)), ORDERINGS, ORDERING_SEED)
    over_draws = averages.lppd_over_draws(with_targets(summary.log_density_by_draw), summary.running_draws)
    orders = f"{ORDERINGS} random orders of the chains"
    return [
        Measurement("lppd", float(mixture.mean()), averages.error_of_mean(mixture), _zero_density_note(mixture)),
        nll(summary),
        Measurement("lppd_chain_mean", float(single.mean()), averages.error_of_mean(single), over=OVER_CHAINS),
        Measurement("lppd_chain_min", float(single.min())),
        Measurement("lppd_chain_max", float(single.max())),
        *_stacked(by_chain),
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
        *_first_draws_alone(summary),
    ]


def _first_draws_alone(summary: PredictiveSummary) -> list[Measurement]:
    """LPPD of single chains over their first draws, as a mean over chains."""
    return [
        Measurement(
            "lppd_chain_mean_cumulative_draws", float(chains.mean()), averages.error_of_mean(chains), draws=count,
            over=OVER_CHAINS,
        )
        for count, chains in zip(summary.running_draws.tolist(), _of(summary, "running_lppd").T, strict=True)
    ]  # fmt: skip


def _stacked(by_chain: np.ndarray) -> list[Measurement]:
    """LPPD of the chains weighted by stacking; empty for fewer than two chains or four rows."""
    if len(by_chain) < 2 or by_chain.shape[1] < 4:
        return []
    found = averages.cross_fitted(by_chain)
    value, note = float(found.log_density.mean()), "weights of each half of the test rows fitted to the other half"
    return [
        Measurement("lppd_stacked", value, averages.error_of_mean(found.log_density), note),
        Measurement("stacked_chains", found.effective_chains, note=note),
    ]


def stacked_on_validation(summary: PredictiveSummary, validation: np.ndarray) -> list[Measurement]:
    """LPPD with weights of the chains fitted to validation rows, and the effective number of chains.

    Args:
        summary: predictions of test rows.
        validation: log density [C, m] of validation rows by each chain, excluded chains included; empty if not known.
            It is that of a few draws of each chain (`gathering.exchange.DRAWS_OF_VALIDATION`).

    Empty for fewer than two chains or four validation rows, and where a density is not known.
    """
    kept = summary.kept
    if len(kept) < 2 or validation.shape[1] < 4 or np.isnan(validation[kept]).any():
        return []
    weights = averages.stacking_weights(validation[kept])
    rows = averages.weighted(_of(summary, "log_density_by_chain"), weights)
    by = f"by at most {DRAWS_OF_VALIDATION} draws of each chain"
    note = f"weights fitted to {validation.shape[1]:,} validation rows, {by}; the rows may have chosen the warm starts"
    return [
        Measurement("lppd_stacked_validation", float(rows.mean()), averages.error_of_mean(rows), note),
        Measurement("stacked_chains_validation", averages.effective_number(weights), note=note),
    ]


def _regression(summary: PredictiveSummary, y: np.ndarray, y_scale: float) -> list[Measurement]:
    """RMSE, moment-matched density, interval coverage, PIT, CRPS and interval score."""
    mean, second, noise = (_of(summary, name) for name in ("mean", "second_moment", "noise_variance"))
    matched = averages.moment_matched_log_density(mean, second, noise, y)
    rmse = averages.rmse(mean, y)
    levels, covered = _coverage(summary)
    shares = reliability.pit_histogram(_of(summary, "pit").mean(axis=0), PIT_BINS)
    return [
        Measurement("rmse", rmse),
        Measurement("rmse_original_units", rmse * y_scale),
        _in_original_units(_mixture(summary), y_scale),
        Measurement("nll_moment_matched", -float(matched.mean()), averages.error_of_mean(matched)),
        Measurement("noise_sd", float(np.sqrt(noise.mean())), note="in units of the target as it is scaled"),
        *(Measurement("coverage", float(c), at=f"{a:g}") for a, c in zip(levels, covered, strict=True)),
        Measurement("calibration_error", reliability.calibration_error(levels, covered), note=_levels_note(levels)),
        *(
            Measurement("pit_histogram", float(share), note="share of rows", at=f"{(b + 1) / PIT_BINS:g}")
            for b, share in enumerate(shares)
        ),
        *_scores_of_mixture(summary, y, y_scale),
    ]


def _rmse_of_means(summary: PredictiveSummary, y: np.ndarray) -> Measurement:
    """RMSE under a user's likelihood, of which only the mean can be known; NaN if it is not."""
    if summary.mean is None:
        return Measurement("rmse", float("nan"), note="the predictive mean is not known: pass mean= to posterior_of")
    return Measurement("rmse", averages.rmse(_of(summary, "mean"), y))


def _scores_of_mixture(summary: PredictiveSummary, y: np.ndarray, y_scale: float) -> list[Measurement]:
    """Scores, in units of the target, from the single draws that are kept at all rows; empty if there are none."""
    if summary.mixture_mean is None:
        return []
    mean, log_noise = (
        _of(summary, name).reshape(-1, len(y)).astype(np.float64) for name in ("mixture_mean", "mixture_log_noise")
    )
    scale, total = np.exp(log_noise), len(summary.kept) * summary.draws
    scores = {
        ("crps", ""): function_distances.crps(mean, scale, y),
        ("interval_score", f"{INTERVAL:g}"): function_distances.interval_score(mean, scale, y, INTERVAL),
    }
    note = f"mixture of {len(mean)} of {total} draws, evenly spread" if len(mean) < total else ""
    return [
        Measurement(f"{name}{ending}", float((unit * rows).mean()), averages.error_of_mean(unit * rows), note, at=at)
        for (name, at), rows in scores.items()
        for ending, unit in (("", 1.0), ("_original_units", y_scale))
    ]


def _in_original_units(mixture: np.ndarray, y_scale: float) -> Measurement:
    """LPPD of unscaled targets: their density is the density of scaled targets divided by `y_scale`."""
    note = joined(f"lppd - log {y_scale:.6g}", _zero_density_note(mixture))
    value = float(mixture.mean()) - float(np.log(y_scale))
    return Measurement("lppd_original_units", value, averages.error_of_mean(mixture), note)


def _moments_izmailov(summary: PredictiveSummary, y: np.ndarray, y_scale: float) -> list[Measurement]:
    mean, second, noise = (_of(summary, name) for name in ("mean", "second_moment", "noise_variance"))
    matched = averages.moment_matched_log_density(mean, second, noise, y)
    value = float(matched.mean()) - float(np.log(y_scale))
    note = "one Gaussian in place of the mixture; Izmailov et al.'s code"
    return [Measurement("lppd_izmailov", value, averages.error_of_mean(matched), note)]


def _classification(summary: PredictiveSummary, y: np.ndarray, papers: Collection[str]) -> list[Measurement]:
    probabilities = _of(summary, "probabilities")
    return [
        *classification_scores(probabilities.mean(axis=0), y, papers),
        *chain_scores(probabilities, y),
        *cumulative_scores(summary, y, ECE_BINS, ORDERINGS, ORDERING_SEED),
    ]


def _sommer(summary: PredictiveSummary, y: np.ndarray, method: str) -> list[Measurement]:
    """Calibration error and, if all rows have one noise level, the LPPD of the methods in SOMMER."""
    levels, covered = _coverage(summary)
    error = Measurement(
        "calibration_error_sommer",
        variants.calibration_error_sommer(levels, covered, KAPPA),
        note=f"{_levels_note(levels)}; kappa {KAPPA:g}; weights and mean over levels",
    )
    mean, second, noise = (_of(summary, name) for name in ("mean", "second_moment", "noise_variance"))
    if method not in SOMMER or not np.allclose(noise, noise[:, :1], rtol=1e-9, atol=0):
        return [error]
    if method == "deep_ensemble":
        density = variants.lppd_of_means_sommer(mean, y)
    else:
        density = variants.lppd_of_moments_sommer(mean, second, noise, y)
    note = joined(SOMMER[method], _zero_density_note(density))
    return [error, Measurement("lppd_sommer", float(density.mean()), averages.error_of_mean(density), note)]


def _coverage(summary: PredictiveSummary) -> tuple[np.ndarray, np.ndarray]:
    """Nominal levels [J], and the fractions of rows that the intervals cover [J]."""
    levels = np.array(COVERAGE_LEVELS)
    return levels, reliability.coverage(_of(summary, "pit").mean(axis=0), levels)


def _mixture(summary: PredictiveSummary) -> np.ndarray:
    """Log density [n] of the mixture of all draws of the non-divergent chains."""
    return averages.mixture_log_density(with_targets(summary.log_density_by_chain)[summary.kept])


def _of(summary: PredictiveSummary, name: str) -> np.ndarray:
    """A field of the summary for the chains that are not divergent."""
    return with_targets(getattr(summary, name))[summary.kept]


def _zero_density_note(log_density: np.ndarray) -> str:
    zero = int(np.isneginf(log_density).sum())
    return f"{zero} of {len(log_density)} rows have density 0" if zero else ""


def _levels_note(levels: np.ndarray) -> str:
    return f"levels {', '.join(f'{a:g}' for a in levels)}"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
