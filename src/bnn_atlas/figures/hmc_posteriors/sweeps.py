"""Scores of HMC and its posterior against one setting, as in the experiments of Izmailov et al. 2021."""

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.parts.figures import PERIODS, VARIANCE
from bnn_atlas.figures.xy.figure import sweep
from bnn_atlas.figures.xy.panels import Panel
from bnn_atlas.figures.xy.table import Field
from bnn_atlas.metrics.judgement.checks import RHAT

KINDS = {
    "cold_posterior": {
        "files": ["table"], "levels": "one point per chain", "same": ["task"],
        "repeats": ["line", "place"], "along": {"temperature": []},
        "columns": "kind field label method x metric value error error_over repetitions converged rhat_share_above "
        "trust approximate",
    },
    "prior_family": {
        "files": ["table"], "levels": "one point per chain", "same": ["task"], "repeats": ["line", "place"],
        "along": {"prior.kind": ["normal", "mixture", "logistic", "laplace", "student_t"]},
        "columns": "kind field label method x metric value error error_over repetitions converged rhat_share_above "
        "trust approximate",
    },
    "prior_scale": {
        "files": ["table"], "levels": "one point per chain", "same": ["task"],
        "repeats": ["line", "place"], "along": {"prior.variance": []},
        "columns": "kind field label method x metric value error error_over repetitions converged rhat_share_above "
        "trust approximate",
    },
    "sgmcmc_bias": {
        "files": ["table"], "levels": "Markov chain, exact in the limit", "same": ["task"],
        "repeats": ["line", "place"], "along": {"method.step_size": []},
        "columns": "kind field label method x metric value error error_over repetitions converged rhat_share_above "
        "trust approximate",
    },
    "step_size_acceptance": {
        "files": ["table"], "levels": "one point per chain", "same": ["task"],
        "repeats": ["line", "place"], "along": {"method.step_size": []},
        "columns": "kind field label method x metric value error error_over repetitions converged rhat_share_above "
        "trust approximate",
    },
    "trajectory_length": {
        "files": ["table"], "levels": "one point per chain", "same": ["task"],
        "repeats": ["line", "place"], "along": {"method.quarter_periods": []},
        "columns": "kind field label method x metric value error error_over repetitions converged rhat_share_above "
        "trust approximate",
    },
}  # fmt: skip

MIXING = (
    Panel("rhat_function_median", "R-hat of function values", second="rhat_function_max", limit=RHAT.look),
    Panel("ess_bulk_function_median", "bulk ESS of function values", second="ess_bulk_function_min", is_log=True),
)
FAMILIES = {
    "normal": "Gaussian",
    "mixture": "mixture",
    "logistic": "logistic",
    "laplace": "Laplace",
    "student_t": "Student's t",
}

cold_posterior = sweep(Field("temperature", "temperature", marks=(1.0,)), published="cold_posterior")
"""Scores against the temperature T of (likelihood x prior)^(1 / T), section 7: a cold posterior effect is a score that
is best below T = 1."""

prior_family = sweep(Field("prior.kind", "prior", categories=FAMILIES), published="prior_family")
"""Scores under priors of different families and equal variance, section 8.2."""

prior_scale = sweep(Field(VARIANCE, "prior variance"), published="prior_scale")
"""Scores against the variance of the prior that all parameters share, section 8.1."""

sgmcmc_bias = sweep(
    Field("method.step_size", "step size"),
    after=(Panel("log_likelihood", "log-likelihood of\nthe training rows"), *MIXING),
    scores=False,
    levels=(KindOfDraws.EXACT_CHAIN,),
)
"""Bias and mixing of chains with stochastic gradients against their step size: the training log-likelihood, which a
short chain measures well, next to that of chains with a Metropolis test (level lines), and R-hat and ESS, which say
whether anything else that the chains predict can be compared."""

step_size_acceptance = sweep(
    Field("method.step_size", "step size"),
    before=(Panel("acceptance_mean", "acceptance probability", second="acceptance_chain_min"),),
    published="step_size_acceptance",
)
"""Acceptance probability (mean over chains, and lowest chain) and scores against the step size, section 4.2."""

trajectory_length = sweep(
    Field(PERIODS, "trajectory length,\nquarter periods of the prior", is_log=False),
    after=(*MIXING, Panel("ess_bulk_function_median_per_gradient", "bulk ESS per gradient")),
    published="trajectory_length",
)
"""Scores and mixing against the length of trajectories in quarter periods, section 4.1: a quarter period
pi / 2 sd sqrt(T) is the time in which a trajectory under the prior alone turns position into momentum."""
