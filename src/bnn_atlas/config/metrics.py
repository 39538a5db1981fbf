"""The metrics that tables can contain: name, direction, unit and a one-line description of each.

`python -m bnn_atlas.config.metrics` generates docs/metrics.md from this list.
"""

import math
import re
from pathlib import Path
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A metric, under its name in the column `metric`."""

    name: str
    about: str
    better: Literal["higher", "lower", ""] = ""
    """Empty if neither direction is better."""
    unit: str = ""
    at: str = ""
    """Content of the column `at`; empty for a metric without a parameter."""


NATS, TARGET = "nats", "standardised target"
SPACES = {"weight": "scalar parameters", "function": "function values at test rows"}
"""Part of a metric's name -> quantities whose convergence it measures."""
RATES = {
    "per_gradient": "per gradient evaluation of the sampling phase",
    "per_gradient_total": "per gradient evaluation of all phases",
    "per_second": "per second of the sampling phase",
    "per_second_total": "per second of all phases",
}

DENSITY = (
    Metric(
        "lppd",
        "log pointwise predictive density per row: log of the density averaged over chains and draws",
        "higher",
        NATS,
    ),
    Metric("nll", "negative log-likelihood per row of the model average: -lppd", "lower", NATS),
    Metric("lppd_chain_mean", "LPPD of single chains, mean over chains", "higher", NATS),
    Metric("lppd_chain_min", "LPPD of single chains, lowest", "higher", NATS),
    Metric("lppd_chain_max", "LPPD of single chains, highest", "higher", NATS),
    Metric("lppd_cumulative_chains", "LPPD of the first `chains` chains, mean over random orders", "higher", NATS),
    Metric(
        "lppd_cumulative_chains_order_sd", "standard deviation of `lppd_cumulative_chains` over these orders", "", NATS
    ),
    Metric("lppd_cumulative_draws", "LPPD of the first `draws` draws of all chains", "higher", NATS),
    Metric(
        "lppd_chain_mean_cumulative_draws",
        "LPPD of the first `draws` draws of single chains, mean over chains",
        "higher",
        NATS,
    ),
    Metric(
        "lppd_at_infinity",
        "LPPD of infinitely many draws (of infinitely many chains, if chains do not mix): a jackknife removes the bias "
        "c / S of S draws",
        "higher",
        NATS,
    ),
    Metric(
        "layer_dependence",
        "worth of the dependence between layers: LPPD of evenly spread draws minus their LPPD after each layer is "
        "exchanged between the draws of a chain",
        "",
        NATS,
    ),
    Metric(
        "lppd_stacked",
        "LPPD with stacking weights for the chains (Yao, Vehtari, Gelman 2022), fitted to the other half of the test "
        "rows (not to validation rows, which chose the warm starts)",
        "higher",
        NATS,
    ),
    Metric("stacked_chains", "effective number of chains, exp(entropy of the stacking weights)", "", "chains"),
    Metric(
        "lppd_stacked_validation",
        "LPPD with stacking weights for the chains, fitted to validation rows that the likelihood does not see, by at "
        "most 20 draws of each chain",
        "higher",
        NATS,
    ),
    Metric("stacked_chains_validation", "`stacked_chains` of these weights", "", "chains"),
)
REGRESSION = (
    Metric("rmse", "root mean square error of the predictive mean", "lower", TARGET),
    Metric(
        "rmse_original_units",
        "root mean square error of the predictive mean, in the target's own units",
        "lower",
        "target",
    ),
    Metric("lppd_original_units", "LPPD for targets in their own units: lppd - log of their scale", "higher", NATS),
    Metric("nll_moment_matched", "negative log density under one Gaussian with the mixture's moments", "lower", NATS),
    Metric("coverage", "fraction of rows inside the central predictive interval", at="nominal level"),
    Metric("rmse_at_infinity", "`rmse` of infinitely many draws, as `lppd_at_infinity`", "lower", TARGET),
    Metric("calibration_error", "root mean square of nominal minus observed coverage over the levels", "lower"),
    Metric("pit_histogram", "fraction of rows whose predictive CDF value lies in a bin", at="right edge of the bin"),
    Metric("noise_sd", "standard deviation of the noise, root mean square over draws and test rows", "", TARGET),
    Metric(
        "crps", "continuous ranked probability score of the predictive distribution, mean over rows", "lower", TARGET
    ),
    Metric(
        "interval_score",
        "width of the central predictive interval, plus 2 / (1 - level) times the distance of a target outside it",
        "lower",
        TARGET,
        "nominal level",
    ),
    Metric("crps_original_units", "`crps`, in the target's own units", "lower", "target"),
    Metric(
        "interval_score_original_units",
        "`interval_score`, in the target's own units",
        "lower",
        "target",
        "nominal level",
    ),
)
ROWS = (
    Metric(
        "rmse_linear",
        "RMSE of a least-squares fit, without a network, on the rows that the likelihood sees",
        "lower",
        TARGET,
    ),
    Metric("rows_test", "number of test rows", "", "rows"),
    Metric("rows_train", "number of rows that training or the likelihood sees, validation rows included", "", "rows"),
)
CLASSIFICATION = (
    Metric("accuracy", "fraction of rows whose most probable class is the label", "higher"),
    Metric("accuracy_chain_mean", "accuracy of single chains, mean over chains", "higher"),
    Metric("accuracy_chain_min", "accuracy of single chains, lowest", "higher"),
    Metric("accuracy_chain_max", "accuracy of single chains, highest", "higher"),
    Metric("accuracy_cumulative_chains", "accuracy of the first `chains` chains, mean over random orders", "higher"),
    Metric("accuracy_cumulative_draws", "accuracy of the first `draws` draws of all chains", "higher"),
    Metric("ece_cumulative_chains", "ECE of the first `chains` chains, mean over random orders", "lower"),
    Metric("ece_cumulative_draws", "ECE of the first `draws` draws of all chains", "lower"),
    Metric(
        "accuracy_chain_mean_cumulative_draws",
        "accuracy of the first `draws` draws of single chains, mean over chains",
        "higher",
    ),
    Metric(
        "ece_chain_mean_cumulative_draws", "ECE of the first `draws` draws of single chains, mean over chains", "lower"
    ),
    Metric("brier", "Brier score, summed over classes (0 to 2)", "lower"),
    Metric("brier_at_infinity", "`brier` of infinitely many draws, as `lppd_at_infinity`", "lower"),
    Metric(
        "lppd_recalibrated",
        "LPPD of probabilities raised to a power (and normalised), which is fitted to the other half of the rows",
        "higher",
        NATS,
    ),
    Metric("recalibration_power", "that power: above 1 where the probabilities are not confident enough"),
    Metric("mean_maximum_confidence", "probability of the most probable class, mean over rows"),
    Metric("predictive_entropy", "entropy of the predictive distribution, mean over rows", "", NATS),
    Metric("ece", "expected calibration error, bins of equal width", "lower"),
    Metric("ece_equal_mass", "expected calibration error, bins with equal numbers of rows", "lower"),
    Metric(
        "calibration_confidence",
        "mean confidence in a bin, bins with equal numbers of rows",
        at="fraction of rows up to the bin's end",
    ),
    Metric(
        "calibration_accuracy",
        "accuracy in a bin, bins with equal numbers of rows",
        at="fraction of rows up to the bin's end",
    ),
    Metric(
        "calibration_share",
        "fraction of rows in a bin (bins differ only if confidences tie)",
        at="fraction of rows up to the bin's end",
    ),
    Metric("entropy_histogram", "fraction of rows whose predictive entropy lies in a bin", at="right edge of the bin"),
    Metric("mce", "maximum calibration error, bins of equal width", "lower"),
    Metric("sce", "static calibration error, class by class", "lower"),
    Metric("agreement_ceiling", "agreement of a chain with the average of the others", "higher"),
    Metric(
        "total_variation_ceiling", "total variation distance between a chain and the average of the others", "lower"
    ),
)
SETS = (
    Metric(
        "function_sd",
        "standard deviation of the function's values over all draws, mean over an interval of the input",
        "",
        TARGET,
    ),
    Metric(
        "auroc_confidence", "area under the ROC curve for telling test rows from other rows by confidence", "higher"
    ),
    Metric(
        "auroc_entropy",
        "area under the ROC curve for telling test rows from other rows by predictive entropy",
        "higher",
    ),
    Metric("fpr95_confidence", "fraction of other rows with a confidence that 95 % of test rows reach", "lower"),
    Metric(
        "fpr95_entropy",
        "fraction of other rows with at most the predictive entropy that 95 % of test rows do not exceed",
        "lower",
    ),
    Metric("mean_maximum_confidence_ood", "probability of the most probable class, mean over other rows"),
    Metric("predictive_entropy_ood", "entropy of the predictive distribution, mean over other rows", "", NATS),
    Metric("agreement", "fraction of rows with the reference's most probable class", "higher", "", "reference"),
    Metric("total_variation", "total variation distance from the reference, mean over rows", "lower", "", "reference"),
    Metric(
        "agreement_cross_fitted",
        "agreement without the disagreement that is due to few draws: 1 on average for equal distributions",
        "higher",
        "",
        "reference",
    ),
    Metric(
        "total_variation_cross_fitted",
        "total variation without the part that is due to few draws: 0 on average for equal distributions",
        "lower",
        "",
        "reference",
    ),
    Metric(
        "wasserstein_1",
        "first Wasserstein distance between predictive distributions, noise included, mean over rows",
        "lower",
        TARGET,
        "reference",
    ),
    Metric(
        "elpd_diff",
        "LPPD minus the LPPD of another run on the same test rows, paired by row",
        "higher",
        NATS,
        "reference",
    ),
)
PUBLISHED = (
    Metric(
        "lppd_sommer",
        "LPPD with the noise level that the scorer of Sommer et al. 2025 reads by mistake",
        "higher",
        NATS,
    ),
    Metric("calibration_error_sommer", "calibration error averaged a second time, as in Sommer et al. 2025", "lower"),
    Metric(
        "lppd_izmailov",
        "log density under one Gaussian with the mixture's moments, in target units, as in Izmailov et al. 2021",
        "higher",
        NATS,
    ),
    Metric("ece_izmailov", "ECE without rows on the edges of bins, as in Izmailov et al. 2021", "lower"),
    Metric("ece_uppal", "ECE without rows of confidence 0.99 and above, as in Uppal et al. 2023", "lower"),
    Metric("mce_uppal", "MCE without rows of confidence 0.99 and above, as in Uppal et al. 2023", "lower"),
    Metric("sce_uppal", "SCE by rank instead of by class, as in Uppal et al. 2023", "lower"),
    Metric(
        "fpr95_confidence_uppal",
        "`fpr95_confidence` at the interpolated 5th percentile, as in Uppal et al. 2023",
        "lower",
    ),
    Metric("fpr95_entropy_uppal", "`fpr95_entropy` at the interpolated percentile, as in Uppal et al. 2023", "lower"),
)
REFEREE = (
    Metric(
        "referee_log_likelihood_shift",
        "log-likelihood of the referee minus that of the run, mean over chains",
        "",
        "sd of the run's draws",
    ),
    Metric(
        "referee_log_prior_shift",
        "log-prior of the referee minus that of the run, mean over chains",
        "",
        "sd of the run's draws",
    ),
    Metric(
        "referee_log_likelihood_change",
        "log-likelihood of the referee minus that of the run, mean over chains",
        "",
        NATS,
    ),
    Metric("referee_log_prior_change", "log-prior of the referee minus that of the run, mean over chains", "", NATS),
    Metric("referee_lppd", "LPPD of all the referee's chains together", "higher", NATS),
    Metric("referee_lppd_change", "`referee_lppd` minus the LPPD of the run", "", NATS),
    Metric("referee_lppd_chain_mean", "LPPD of single chains of the referee, mean over chains", "higher", NATS),
    Metric("referee_lppd_chain_change", "`referee_lppd_chain_mean` minus `lppd_chain_mean` of the run", "", NATS),
    Metric(
        "referee_rhat_max",
        "R-hat of the log posterior between the two halves of each of the referee's chains, largest",
        "lower",
    ),
    Metric(
        "referee_ess_min",
        "effective sample size of the log posterior in each of the referee's chains, smallest",
        "higher",
        "draws",
    ),
    Metric("referee_trend", "rise of the referee's log-likelihood over its draws, mean over chains", "", NATS),
    Metric("referee_mixed", "whether the referee has mixed (1) or not (0); if not, its values are no bound"),
)
STATE = "rows and state of the second network"
DEFINITIONS = {
    "sup": "largest excess over the chord",
    "midpoint": "at the middle minus the mean of the ends",
    "max": "largest on the line minus the mean of the ends",
}
"""Definition of a barrier, as part of a metric's name -> text."""
PAIRS = (
    *(
        Metric(
            f"barrier_{score}_{definition}",
            f"{of} on the line between two networks: {text}, mean over pairs",
            "lower",
            unit,
            STATE,
        )
        for score, of, unit in (("loss", "negative log-likelihood per row", NATS), ("error", "error", ""))
        for definition, text in DEFINITIONS.items()
    ),
    Metric(
        "barrier_loss_far",
        "`barrier_loss_midpoint`, mean over pairs with a number of transpositions of at least 400/512 of the units",
        "lower",
        NATS,
        STATE,
    ),
    Metric(
        "pair_transpositions",
        "transpositions (NoT) in the permutation that aligns a pair's second network with its first, mean over pairs",
        at="state of the second network",
    ),
    Metric("pair_transpositions_ceiling", "mean NoT of uniformly random permutations, n - (1 + 1/2 + ... + 1/n)"),
    Metric(
        "pair_transpositions_change_max", "NoT of a pair's last draws minus NoT of its starts, largest absolute value"
    ),
    Metric(
        "pair_squared_distance",
        "squared distance between the two networks of a pair, mean over pairs",
        at="state of the second network",
    ),
    Metric(
        "correlation_transpositions_barrier",
        "correlation, over pairs, of NoT with `barrier_loss_midpoint` on training rows, networks as trained",
        at="pearson or spearman",
    ),
    Metric(
        "correlation_transpositions_distance",
        "correlation, over pairs, of NoT with `pair_squared_distance`, networks as trained",
        at="pearson or spearman",
    ),
)
PRUNED = (
    Metric(
        "accuracy_pruned",
        "accuracy of a network in which some parameters are set to 0, for runs with `evaluate.pruning`",
        "higher",
        "",
        "`<network> <of> by <rank>, <kept> % kept`",
    ),
)
CONVERGENCE = tuple(
    metric
    for space, of in SPACES.items()
    for metric in (
        Metric(f"rhat_{space}_max", f"rank-normalised split R-hat of {of}, largest", "lower"),
        Metric(f"rhat_{space}_median", f"rank-normalised split R-hat of {of}, median", "lower"),
        Metric(
            f"rhat_{space}_share_above", f"share of {of} with an R-hat above the limit", "lower", "", "limit of R-hat"
        ),
        Metric(f"rhat_chainwise_{space}_max", f"R-hat of {of} within single chains, largest", "lower"),
        Metric(
            f"rhat_chainwise_{space}_median",
            f"R-hat of {of} within single chains, median of the chains' medians",
            "lower",
        ),
        Metric(f"ess_bulk_{space}_min", f"bulk effective sample size of {of}, smallest", "higher", "draws"),
        Metric(f"ess_bulk_{space}_median", f"bulk effective sample size of {of}, median", "higher", "draws"),
        Metric(f"ess_tail_{space}_min", f"tail effective sample size of {of}, smallest", "higher", "draws"),
        Metric(f"ess_tail_{space}_median", f"tail effective sample size of {of}, median", "higher", "draws"),
        Metric(f"variance_within_{space}_median", f"variance of {of} within a chain, median"),
        Metric(f"variance_between_{space}_median", f"variance of {of} between chain means, median"),
    )
)
CONVERGENCE += (
    Metric("rhat_weight_layer_max", "R-hat of the scalar parameters of a layer, largest", "lower", "", "layer"),
    Metric("rhat_weight_layer_median", "R-hat of the scalar parameters of a layer, median", "lower", "", "layer"),
    Metric("rhat_noise_max", "R-hat of log sigma at test rows, largest", "lower"),
    Metric("ess_bulk_noise_min", "bulk effective sample size of log sigma at test rows, smallest", "higher", "draws"),
    Metric("ess_tail_noise_min", "tail effective sample size of log sigma at test rows, smallest", "higher", "draws"),
    Metric("rhat_log_score_max", "R-hat of the log score of test rows, largest", "lower"),
    Metric("rhat_log_score_median", "R-hat of the log score of test rows, median", "lower"),
    Metric(
        "ess_bulk_log_score_min",
        "bulk effective sample size of the log score of test rows, smallest",
        "higher",
        "draws",
    ),
    Metric("rhat_log_posterior", "R-hat of the log posterior", "lower"),
    Metric("ess_bulk_log_posterior", "bulk effective sample size of the log posterior", "higher", "draws"),
    Metric("ess_tail_log_posterior", "tail effective sample size of the log posterior", "higher", "draws"),
    Metric(
        "log_posterior_late_shift",
        "mean of the log posterior over the last tenth of the draws minus that over the tenth before; the error is too "
        "small for draws with an autocorrelation above 0.95",
        "",
        "standard errors",
    ),
    Metric(
        "bound_late_change",
        "lower bound over the last tenth of a fit's steps minus that over the tenth before, of the chain whose fit "
        "moved most",
        "",
        NATS,
    ),
    Metric(
        "bound_gain",
        "lower bound over the last tenth of a fit's steps minus that over the first, of the chain whose fit fell most",
        "higher",
        NATS,
    ),
    Metric(
        "kl_late_change",
        "the same change of the bound's part of prior and entropy, which depends on the moments of the fit alone, "
        "divided by its size",
    ),
    Metric(
        "loss_late_change",
        "loss that ends the training of an ensemble (on validation rows, if there are any) over the last tenth of the "
        "epochs minus that over the tenth before, of the worst member",
        "",
        NATS,
    ),
    Metric(
        "optimum_rise",
        "rise of the log posterior by at most 50 further gradients on all rows (L-BFGS) from an optimum, per row; the "
        "largest over chains",
        "lower",
        NATS,
    ),
    Metric(
        "newton_decrement",
        "about how far a Laplace approximation is from the point where the gradient vanishes; the largest over chains",
        "lower",
        "posterior standard deviations",
    ),
    Metric(
        "log_likelihood",
        "log-likelihood of all rows that the likelihood sees, mean over the second halves of the chains",
        "",
        NATS,
    ),
    Metric("prior_shell", "theta^2 divided by the prior variance, mean over parameters, draws and chains"),
    Metric(
        "prior_shell_determined",
        "first-layer weights squared, weighted by the second moments of the inputs, divided by the prior variance: "
        "theta^2 in the directions that the data determine",
    ),
    Metric(
        "prior_shell_undetermined",
        "first-layer weights squared, divided by the prior variance, in the directions that no row reaches: "
        "T for draws from the posterior at temperature T",
    ),
    Metric(
        "prior_shell_shift",
        "mean of `prior_shell` over the second halves of the chains minus that over the first halves",
        "",
        "standard errors",
    ),
    Metric(
        "effective_temperature",
        "-theta . grad log p, mean over draws, divided by the number of parameters: T for draws from the posterior at "
        "temperature T",
    ),
    Metric(
        "effective_temperature_part",
        "`effective_temperature` of the parameters of a layer, and the parts of likelihood and prior, whose sum it is",
        at="layer, part, or both",
    ),
    Metric(
        "layer_imbalance",
        "theta^2 over the prior variance, incoming minus outgoing parameters of hidden units, minus its expectation, "
        "per parameter (networks whose units can be rescaled): 0 for draws from the posterior",
        at="layer",
    ),
    Metric("source_trusted", "for `compact`: whether the run that gave the moments can be trusted (1) or not (0)"),
    Metric(
        "reference_fit", "whether the draws may serve as a reference (1) or not (0), by the rule in docs/verdicts.md"
    ),
)
MARGINALS = (
    Metric("marginal_sd", "standard deviation over all draws of all scalars in an array", at="array"),
    Metric(
        "smaller_sign_share",
        "fraction of draws of the scalars in an array with the rarer sign",
        "",
        "",
        "array",
    ),
    Metric(
        "prior_circle_share",
        "fraction of hidden units whose two weights lie in the circle with 95 % of the prior (1-M-1 networks)",
    ),
    Metric("weight_sd_dead_inputs", "root mean square of first-layer weights from inputs that never vary"),
    Metric(
        "weight_sd_live_inputs",
        "root mean square of first-layer weights from the other inputs, if some inputs never vary",
    ),
    Metric(
        "prior_distance",
        "Kolmogorov distance between the draws of all scalars in an array and the prior N(0, sd^2)",
        "",
        "",
        "array",
    ),
)
VARIANT, OF_ALIGNMENT = "alignment/variant", "alignment"
ALIGNMENT = (
    Metric("aligned_rhat_median", "R-hat of the permuted parameters, median", "lower", "", VARIANT),
    Metric("aligned_rhat_q95", "R-hat of the permuted parameters, 95 % quantile", "lower", "", VARIANT),
    Metric("aligned_variance", "variance of the permuted parameters over all draws, mean over parameters", at=VARIANT),
    Metric(
        "aligned_variance_within",
        "variance of the permuted parameters within a chain, mean over chains and parameters",
        at=VARIANT,
    ),
    Metric(
        "transpositions_within", "NoT between draws of one chain when matched to each other, mean", "", "", OF_ALIGNMENT
    ),
    Metric(
        "transpositions_across",
        "NoT between draws of different chains when matched to each other, mean",
        "",
        "",
        OF_ALIGNMENT,
    ),
    Metric(
        "transpositions_ceiling", "mean NoT of random permutations, summed over groups of units", "", "", OF_ALIGNMENT
    ),
    Metric(
        "transpositions_to_frame", "NoT of the permutations that bring draws into the frame, mean", "", "", OF_ALIGNMENT
    ),
    Metric(
        "cycle_consistency",
        "fraction of units with P_ab P_bc = P_ac in triples of draws",
        "higher",
        "",
        OF_ALIGNMENT,
    ),
    Metric("alignment_fixed", "whether the last pass for a barycentre moved no units (1) or some (0)", at=OF_ALIGNMENT),
    Metric(
        "alignment_gain",
        "share that the last pass for a barycentre added to the squared norm of the mean; 0 where nothing moves",
        "lower",
        at=OF_ALIGNMENT,
    ),
    Metric(
        "draws_not_finite",
        "draws that were left out of an alignment because they are not finite",
        "lower",
        "draws",
        OF_ALIGNMENT,
    ),
)
SAMPLER = (
    Metric("chains_excluded", "chains that were left out because they are not finite or never moved", "lower"),
    Metric("acceptance_mean", "acceptance probability, mean over chains"),
    Metric("acceptance_chain_min", "mean acceptance probability of a chain, lowest"),
    Metric("bfmi_min", "Bayesian fraction of missing information of a chain, lowest; HMC and NUTS only", "higher"),
    Metric(
        "cut_short_share",
        "fraction of transitions cut short at the largest tree depth or number of integration steps",
        "lower",
    ),
    Metric("cut_short_share_chain_max", "`cut_short_share` of a single chain, highest", "lower"),
    Metric("divergences", "number of divergent steps in all chains", "lower"),
    Metric("divergences_chains", "number of chains with a divergent step", "lower"),
    Metric("divergence_share", "fraction of steps that diverged", "lower"),
    Metric("guarded_steps", "number of steps in all chains that the energy guard undid", "lower"),
    Metric("guarded_steps_chains", "number of chains with a step that the energy guard undid", "lower"),
    Metric("guarded_step_share", "fraction of steps that the energy guard undid", "lower"),
    Metric("energy_change_mean", "energy change in the last step before a draw, mean"),
    Metric(
        "energy_change_sd",
        "energy change in the last step before a draw, root of its mean within-chain variance",
    ),
    Metric(
        "energy_change_variance_per_dimension",
        "energy change in the last step before a draw, mean within-chain variance, per parameter",
    ),
    Metric("energy_change_max_abs", "energy change in the last step before a draw, largest absolute value"),
    Metric("energy_change_nonfinite", "number of draws with an energy change that is not finite", "lower"),
    Metric("energy_change_mean_square_per_dimension", "squared energy change, mean over steps, per parameter"),
    Metric(
        "covariance_bias_bound",
        "bound on the relative error in the covariance of a Gaussian target with equal variances",
        "lower",
    ),
    Metric("step_size_min", "smallest step size over chains and draws"),
    Metric("step_size_median", "median over chains of the median step size"),
    Metric("step_size_max", "largest step size over chains and draws"),
)
VARIATIONAL = (
    Metric(
        "elbo",
        "evidence lower bound: log-likelihood and log-prior over T, plus the lower bound on the entropy, mean "
        "over draws",
        "higher",
        NATS,
    ),
    Metric(
        "elbo_of_starts",
        "with `starts` above 1: evidence lower bound of the fit from each start, by 100 draws; draws are made from the "
        "fit with the highest",
        "higher",
        NATS,
        "chain.start",
    ),
    Metric(
        "log_likelihood_of_starts",
        "with `starts` above 1: log-likelihood of all training rows under the fit from each start, mean over 100 draws",
        "higher",
        NATS,
        "chain.start",
    ),
    Metric("start_kept", "with `starts` above 1: number of the start whose fit is kept", "", "", "chain"),
    Metric(
        "objective",
        "the fit's objective, with its own weights and form of the entropy; the note names the bound that it equals",
        "higher",
        NATS,
    ),
    Metric("entropy", "entropy of an implicit distribution, computed as for scoring draws, mean over draws", "", NATS),
    Metric(
        "entropy_error",
        "estimated error of `entropy`: standard error over random probes, plus `entropy_bracket`",
        "lower",
        NATS,
    ),
    Metric("entropy_bracket", "how far `entropy` may be too large because Lanczos took too few steps", "lower", NATS),
    Metric(
        "entropy_ceiling",
        "largest entropy with the variances of the draws, that of independent normals: `entropy` cannot be above it",
        "",
        NATS,
    ),
    Metric(
        "linearisation_gap",
        "how much `entropy`, which is that of the generator linearised at each draw, is too large, mean over draws; at "
        "least this much if the integral over the noise misses a part",
        "lower",
        NATS,
    ),
    Metric("entropy_as_trained", "entropy in the form used by the fit, mean over draws", "", NATS),
    Metric("entropy_is_bound", "fraction of draws at which the search for the smallest singular value has converged"),
    Metric(
        "curvature_change",
        "IVON: how far the logarithm of the fit's curvature is from its start, mean absolute value over parameters",
    ),
    Metric("skipped_updates", "updates that were skipped because a value was not finite", "lower"),
    Metric(
        "noise_sd_optimal",
        "single noise level that maximises the log-likelihood of the draws' functions, averaged over draws",
        "",
        TARGET,
    ),
    Metric("singular", "samples at which the Jacobian of the generator was singular up to rounding", "lower"),
)
COST = (
    Metric("gradients_sampling", "gradient evaluations of all chains in the sampling phase", "lower"),
    Metric("gradients_total", "gradient evaluations of all chains in all phases", "lower"),
    Metric("seconds_phase", "wall time of a phase, summed over blocks", "lower", "s", "phase"),
    Metric("seconds_sampling", "wall time of the sampling phase, summed over blocks", "lower", "s"),
    Metric("seconds_total", "wall time of all phases, summed over blocks", "lower", "s"),
    Metric("gradients_per_second", "gradient evaluations per second of the sampling phase", "higher", "1/s"),
    *(
        Metric(f"{size}_{space}_{over}_{suffix}", f"{size}_{space}_{over} {rate}", "higher")
        for suffix, rate in RATES.items()
        for space in SPACES
        for size, over in (("ess_bulk", "min"), ("ess_bulk", "median"), ("ess_tail", "min"))
    ),
)
GROUPS = {
    "Predictive density": DENSITY,
    "Regression": REGRESSION,
    "Classification": CLASSIFICATION,
    "Other sets and references": SETS,
    "A run against its referee, the same chains continued with a Metropolis test": REFEREE,
    "Published variants, for studies that request them": PUBLISHED,
    "Pairs of networks, for runs with `evaluate.barriers`": PAIRS,
    "Pruned networks": PRUNED,
    "Rows": ROWS,
    "Convergence": CONVERGENCE,
    "Marginals of the weights": MARGINALS,
    "Alignments: `variant` is `sampled`, `aligned`, `scrambled` or `chain_wise`": ALIGNMENT,
    "Sampler": SAMPLER,
    "Variational fits": VARIATIONAL,
    "Cost and efficiency": COST,
}
OF_REFEREE = {metric.name for metric in REFEREE} - {f"referee_{of}" for of in ("rhat_max", "ess_min", "trend", "mixed")}
"""Metrics whose values depend on a referee; the other referee metrics show whether it has mixed."""
OF_CHAINS = {metric.name for metric in (*CONVERGENCE, *SAMPLER, *COST)}
"""Metrics that describe the chains themselves, whether or not these have converged."""
OF_ROWS = {metric.name for metric in ROWS}
"""Metrics that depend only on the split, not on any chain."""
METRICS = {metric.name: metric for group in GROUPS.values() for metric in group}
"""Name -> metric."""
RANGES: dict[str, tuple[float, float]] = {
    r"correlation_.*|barrier_error_.*": (-1.0, 1.0),
    r"brier.*": (0.0, 2.0),
    r"accuracy.*|agreement.*|auroc_.*|calibration_.*|coverage|cycle_consistency|ece.*|entropy_histogram|fpr95_.*"
    r"|mce.*|mean_maximum_confidence.*|pit_histogram|sce.*|total_variation.*|acceptance_.*|prior_distance|.*_share(_.*)?"
    r"|alignment_(fixed|gain)|entropy_is_bound|reference_fit|referee_mixed|source_trusted": (0.0, 1.0),
    r"rmse.*|noise_sd.*|(.*_)?sd|function_sd|marginal_sd|weight_sd_.*|variance_.*|aligned_variance.*|wasserstein_1"
    r"|predictive_entropy.*|.*rhat_.*|.*ess_.*|bfmi_min|chains_.*|divergences.*|guarded_steps.*|draws_not_finite"
    r"|energy_change_(sd|variance.*|max_abs|nonfinite|mean_square.*)|step_size_.*|covariance_bias_bound|prior_shell(_(un)?determined)?"
    r"|transpositions_.*|pair_(transpositions.*|squared_distance)|gradients_.*|seconds_.*|rows_.*"
    r"|recalibration_power"
    r"|curvature_change|skipped_updates|singular|entropy_(error|bracket)|stacked_chains.*|crps.*|interval_score.*": (
        0.0,
        math.inf,
    ),
}
"""Pattern of names -> smallest and largest value; the first matching pattern counts, and other metrics have no
bounds."""


def value_range(name: str, classes: bool = False) -> tuple[float, float]:
    """Smallest and largest value that a metric can have; for a classification (`classes`), no density exceeds 1."""
    if classes and re.match(r"lppd(?!.*_sd$)", name):
        return -math.inf, 0.0
    if classes and name == "nll":
        return 0.0, math.inf
    return next((limits for names, limits in RANGES.items() if re.fullmatch(names, name)), (-math.inf, math.inf))


def natural_scale(name: str, classes: bool = False) -> float:
    """Typical size of a large difference between values of a metric; infinite for a metric without such a scale.

    The scale is the width of the metric's range, the standard deviation of a standardised target, or one nat; the
    log-likelihood of all training rows has no scale.
    """
    low, high = value_range(name, classes)
    if name == "log_likelihood":
        return math.inf
    return 1.0 if METRICS[name].unit in (TARGET, NATS) else high - low


def page() -> str:
    """Text of docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "These are all names that the column `metric` of a table can have. The column `at` holds a metric's parameter,",
        'if it has one: a claim about the coverage of 90 % intervals has `metric: coverage` and `at: "0.9"`.',
        "",
        "Made from `src/bnn_atlas/config/metrics.py` by `python -m bnn_atlas.config.metrics`.",
    ]
    for title, group in GROUPS.items():
        lines += ["", f"## {title}", "", "| metric | what it is | better | unit | at |", "|---|---|---|---|---|"]
        lines += [f"| `{m.name}` | {m.about} | {m.better} | {m.unit} | {m.at} |" for m in group]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from bnn_atlas.files import atomic  # imports NumPy, but claims need only the names

    with atomic(Path("docs/metrics.md")) as temporary:
        temporary.write_text(page(), encoding="utf-8")
