"""Checks of a run against stated thresholds, from its rows in the metric table."""

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.gaussian import IVONConfig
from bnn_atlas.config.methods.registry import method
from bnn_atlas.metrics.gathering.log_densities import (
    LATE_CHANGE,
    NOT_FINITE,
    OPTIMAL,
    SMALL_CHANGE,
    VALIDATION_LOSS,
    Change,
    size_of,
)


class Status(Enum):
    """The outcome of one check, or of all checks together."""

    FINE = "fine"
    LOOK = "look closer"
    DISTRUST = "do not trust"
    UNKNOWN = "cannot be judged"


class Value(NamedTuple):
    """The columns of a metric row that the checks use."""

    value: float
    chains: int
    note: str
    monte_carlo_error: float | None
    """None or NaN if unknown."""


Values = dict[str, Value]
"""Metric -> its row."""


class Thresholds(NamedTuple):
    """A value up to `fine` is fine, a value up to `look` needs a look, a larger value is bad; reversed if `falling`."""

    fine: float
    look: float
    falling: bool = False

    def status(self, value: float) -> Status:
        """Status of a value; a value equal to a limit has the better status."""
        sign = -1.0 if self.falling else 1.0
        if np.isnan(value):
            return Status.UNKNOWN
        if sign * value <= sign * self.fine:
            return Status.FINE
        return Status.LOOK if sign * value <= sign * self.look else Status.DISTRUST


class Check(NamedTuple):
    """The result of checking one aspect of a run."""

    name: str
    status: Status
    text: str
    """The value in words, with the limits."""

    @property
    def short(self) -> str:
        """The value in words, without limits and without values that are not judged."""
        return re.sub(r" \((?:fine|any|limits)[^)]*\)", "", self.text).split("; of weights")[0]


BY_WEIGHT = (Status.DISTRUST, Status.UNKNOWN, Status.LOOK)
"""Statuses other than fine, the most serious first."""
EXCLUDED = Thresholds(0.0, 0.1)
"""Excluded chains, as a fraction of all chains."""
RHAT = Thresholds(1.05, 1.1)
"""Largest R-hat of function values. Vehtari et al. 2021 recommend 1.01 for one quantity; this is a maximum over
many."""
ESS = Thresholds(400.0, 100.0, falling=True)
"""Smallest bulk or tail ESS of function values; Vehtari et al. 2021 recommend 400."""
DIVERGENT = Thresholds(0.0, 0.01)
"""Divergent steps, as a fraction of all steps."""
ACCEPTANCE = Thresholds(0.4, 0.1, falling=True)
"""Lowest mean acceptance of a chain."""
CUT_SHORT = Thresholds(0.1, 1.0)
"""Fraction of the transitions whose trajectory was ended by a limit. Such transitions are valid but do not move as far
as intended, so even many of them are only a reason to look at R-hat and ESS."""
BFMI = Thresholds(0.3, 0.0, falling=True)
"""Smallest Bayesian fraction of missing information of a chain; Stan warns below 0.3. Low values make draws dependent,
which shows in R-hat and ESS, so even the lowest value is only a reason to look."""
NOISES = ("noise_sd", OPTIMAL)
"""Names of two metrics: the noise of a fit, and the noise that is optimal for the functions of the fit."""
NOISE_OF_FIT = Thresholds(0.05, 0.15)
"""Relative difference between the single noise parameter of a fit and the noise that maximises the objective for the
functions of the fit. 250 draws determine the optimal noise to about 1 %."""
LEARNED = Thresholds(IVONConfig.unlearned, IVONConfig.unlearned, falling=True)
"""Mean change of the log curvature of IVON since the start of the fit."""
ENERGY = Thresholds(5e-4, 0.5)
"""Energy variance per dimension of an unadjusted sampler: at 5e-4 (BlackJAX's default), the variances of a Gaussian
with equal variances are accurate to 5 percent; MILE's tuning starts at 0.5."""

SHELL = Thresholds(0.1, 0.1)
"""Relative distance of theta^2 / (prior variance) from its value for draws of the prior. Used if there are at least
`DOMINATED` parameters per training row, so that the prior determines nearly all directions."""
DOMINATED = 10.0
EXPLODED = 10.0
"""In such networks, a run has diverged if theta^2 is more than this many times its value for draws of the prior."""
LARGEST_RMSE = 2.0
"""RMSE of standardised targets beyond which a fit has diverged; a constant has about 1."""

TEMPERATURE = 0.05
"""Relative distance of the effective temperature from the posterior's that is fine, as is one within three errors."""

GAP = 1.0
"""Linearisation gap in nats that is fine whatever its error, as is one within three errors."""

UNBOUNDED = ("unadjusted_hmc", "baoab")
"""Full-gradient methods that have no Metropolis test and no metric that bounds the bias."""


FUNCTIONS = "function values"


def checks(table: pd.DataFrame, judged: str = FUNCTIONS) -> list[Check]:
    """All checks that the metric table of one run and split allows, the most serious first.

    `judged` says what the rows of function values are of, where they are of something else.

    If a run passes the rule for references (`judgement.trust`) and none of its chains is excluded, its function values
    and log posterior are never worse than "look closer": the limits here apply to the worst function value, whereas the
    rule applies to 95 % of the function values and to the bulk of the log posterior.
    """
    rows = metric_rows(table)
    kind = table["method"].iloc[0]
    kind_of_draws = method(kind).kind_of_draws
    # Convergence is no evidence for an approximation, and no check measures the bias of stochastic gradients.
    convergence: list[Check | None] = [independent_check()]
    if kind_of_draws is not KindOfDraws.INDEPENDENT:
        others = [_also(rows, name, of, judged) for name, of in ALSO_CONVERGED.items()]
        convergence = [_as_reference(check, rows) for check in (_rhat(rows, judged), _ess(rows, judged), *others)]
    bias = None
    if kind_of_draws is KindOfDraws.STOCHASTIC_GRADIENT_CHAIN:
        bias = _bias("the step size and by mini-batches")
    elif kind in UNBOUNDED:
        bias = _bias("the step size")
    # Divergences come first: they make the convergence diagnostics meaningless.
    first = [diverged_check(rows), excluded_check(rows), noise_check(rows), curvature_check(rows)]
    first += [divergences(rows), shell_check(rows)]
    convergence += [settled_check(rows), linearisation_check(rows), _temperature(rows)]
    chains = [_acceptance(rows), _cut_short(rows), _energy(rows), _missing_information(rows)]
    return [check for check in (*first, *convergence, bias, *chains) if check is not None]


def metric_rows(table: pd.DataFrame) -> Values:
    """Metric -> row, for metrics without a parameter."""
    plain = table[table["at"] == ""]
    columns = (plain[name].tolist() for name in ("metric", "value", "chains", "note", "monte_carlo_error"))
    return {metric: Value(*row) for metric, *row in zip(*columns, strict=True)}


def excluded_check(rows: Values) -> Check:
    """The check of how many chains are excluded."""
    count, total, note, _ = rows["chains_excluded"]
    status = Status.DISTRUST if count == total else EXCLUDED.status(count / total)
    if not count:
        return Check("excluded chains", status, "no chain excluded")
    return Check("excluded chains", status, f"{note} (any: look closer; more than {EXCLUDED.look:.0%}: do not trust)")


def independent_check() -> Check:
    """The check for methods with independent draws, whose quality cannot be judged."""
    text = "draws are independent: R-hat and ESS say nothing about how good the approximation is"
    return Check("approximation", Status.UNKNOWN, text)


def noise_check(rows: Values) -> Check | None:
    """Check that a single noise parameter has converged; None for other kinds of noise."""
    noise, optimal = (_value(rows, name) for name in NOISES)
    if np.isnan(optimal):
        return None
    text = (
        f"the noise is {noise:.2g} where {optimal:.2g} is optimal for the functions of the fit "
        f"(fine up to {NOISE_OF_FIT.fine:.0%} off, do not trust beyond {NOISE_OF_FIT.look:.0%})"
    )
    return Check("noise of the fit", NOISE_OF_FIT.status(abs(noise / optimal - 1)), text)


def curvature_check(rows: Values) -> Check | None:
    """Check that a fit has learned something of the curvature; None for methods without a running estimate of it."""
    change = _value(rows, "curvature_change")
    if np.isnan(change):
        return None
    text = (
        f"the curvature of the fit is {change:.1%} from that at its start, on average (limits: do not trust below "
        f"{LEARNED.fine:.0%}, where it learned nothing of the curvature)"
    )
    return Check("curvature", LEARNED.status(change), text)


def linearisation_check(rows: Values) -> Check | None:
    """Check that the bound of an implicit fit is not too large by its linearised entropy; None if it is not known."""
    gap, error = _value(rows, "linearisation_gap"), _error(rows, "linearisation_gap")
    if np.isnan(gap):
        return None
    far = gap > max(3 * error, GAP)
    size = f"{gap:.3g} \N{PLUS-MINUS SIGN} {error:.2g} nats"
    what = f"the bound may be too large by {size}" if far else f"the linearised entropy is {size} too large"
    text = f"{what} (fine up to {GAP:g} nat or three errors; beyond them look closer: weights are counted twice)"
    return Check("linearised entropy", Status.LOOK if far else Status.FINE, text)


def shell_check(rows: Values) -> Check | None:
    """Check that theta^2 has its value under the prior; None if the data could change theta^2, or it is unknown."""
    ratio = _shell(rows)
    if np.isnan(ratio):
        return None
    text = (
        f"theta^2 is {ratio:.3g} of that of draws from the prior, which determines nearly all directions here "
        f"(do not trust beyond 1 \N{PLUS-MINUS SIGN} {SHELL.look:g})"
    )
    return Check("theta^2 over the prior variance", SHELL.status(abs(ratio - 1)), text)


def diverged(rows: Values) -> str:
    """Why a fit or its chains have diverged, so that their numbers are not shown; empty if they have not diverged.

    They have if they have exploded, or if more than 1 % of the steps diverged in chains that do not pass the rule for
    references (`judgement.trust`). This one rule holds for claims, tables of scores and figures.
    """
    if why := exploded(rows):
        return why
    steps = divergences(rows)
    bad = steps is not None and steps.status is Status.DISTRUST and _value(rows, "reference_fit") != 1
    return steps.short if steps is not None and bad else ""


def exploded(rows: Values) -> str:
    """Why the values of a fit or of chains are meaningless whatever they measure; empty if they are not."""
    rmse, ratio = _value(rows, "rmse"), _shell(rows)
    if rmse > LARGEST_RMSE:
        return f"an RMSE of {rmse:.3g}, where a constant has about 1"
    if ratio > EXPLODED:
        return f"theta^2 of {ratio:.3g} times that of draws from the prior"
    return ""


DIVERGED = "the fit diverged"
"""Start of the text of the check for fits and chains that have diverged, so that their values are meaningless."""


def diverged_check(rows: Values) -> Check | None:
    """The check for a fit or chains that have diverged; None if they have not diverged."""
    why = diverged(rows)
    return Check("divergence", Status.DISTRUST, f"{DIVERGED}: {why}") if why else None


def _shell(rows: Values) -> float:
    """theta^2 relative to draws of the prior; NaN if the data determine many directions or theta^2 is unknown.

    The metric's note contains the number of parameters, and the value for draws from the prior.
    """
    found = (
        re.search(r"([\d,]+) parameters; draws from the prior have ([\d.]+)", rows["prior_shell"].note)
        if ("prior_shell" in rows)
        else None
    )
    if found is None:
        return float("nan")
    parameters, temperature = float(found[1].replace(",", "")), float(found[2].rstrip("."))
    # At temperature T, the likelihood has the weight of 1 / T times as many rows.
    if not parameters >= DOMINATED * _value(rows, "rows_train") / temperature:
        return float("nan")
    return rows["prior_shell"].value / temperature


def _bias(source: str) -> Check:
    return Check("bias", Status.LOOK, f"no Metropolis test: biased by {source}; by how much is not known")


def _rhat(rows: Values, judged: str) -> Check:
    value = _value(rows, "rhat_function_max")
    status = RHAT.status(value)
    if status is Status.UNKNOWN:
        return Check("convergence", status, f"R-hat of {judged} {_reason(rows)}")
    text = f"R-hat of {judged} up to {value:.2f} ({_limits(RHAT)})"
    weights = _value(rows, "rhat_weight_max")
    if weights > RHAT.look:
        text += f"; of weights {weights:.2f}, not judged: equivalent modes keep it high"
    return Check("convergence", status, text)


def _ess(rows: Values, judged: str) -> Check | None:
    values = [_value(rows, f"ess_{kind}_function_min") for kind in ("bulk", "tail")]
    defined = [value for value in values if not np.isnan(value)]
    if not defined:
        return None
    return _limited("effective draws", ESS, min(defined), f"ESS of {judged} as low as {{:,.0f}}", "{:,.0f}")


ALSO_CONVERGED = {
    "log posterior": ("rhat_log_posterior", "ess_bulk_log_posterior", "ess_tail_log_posterior"),
    "noise": ("rhat_noise_max", "ess_bulk_noise_min", "ess_tail_noise_min"),
}
"""Other quantity that must converge -> metrics with its largest R-hat and smallest effective sample sizes."""


JUDGED_AS_REFERENCE = ("convergence", "effective draws", "log posterior")
"""Names of the checks that the rule for references also covers."""


def _as_reference(check: Check | None, rows: Values) -> Check | None:
    """The check, with "do not trust" softened to "look closer" if the run passes the rule for references."""
    fit = _value(rows, "reference_fit") == 1 and rows["chains_excluded"].value == 0
    if check is None or check.status is not Status.DISTRUST or check.name not in JUDGED_AS_REFERENCE or not fit:
        return check
    judged = re.sub(
        r" \((.*?)\)", r" (\1; look closer, since the run passes the rule for references)", check.text, count=1
    )
    return check._replace(status=Status.LOOK, text=judged)


def _also(rows: Values, name: str, metrics: tuple[str, ...], judged: str) -> Check | None:
    """The check of R-hat and effective sample sizes of another quantity; the worse of the two decides."""
    rhat, *sizes = (_value(rows, metric) for metric in metrics)
    defined = [size for size in sizes if not np.isnan(size)]
    if np.isnan(rhat) and not defined:
        return None
    ess = min(defined, default=float("nan"))
    statuses = {limits.status(v) for limits, v in ((RHAT, rhat), (ESS, ess)) if not np.isnan(v)}
    status = next((status for status in (*BY_WEIGHT, Status.FINE) if status in statuses), Status.FINE)
    values = ([f"R-hat {rhat:.2f}"] if not np.isnan(rhat) else []) + ([f"ESS {ess:,.0f}"] if defined else [])
    return Check(name, status, f"{name}: {', '.join(values)} (limits as for {judged})")


def divergences(rows: Values) -> Check | None:
    """The check of divergent steps; None if such steps are not counted."""
    count = _value(rows, "divergences")
    if np.isnan(count):
        return None
    if not count:
        return Check("divergences", Status.FINE, "no step diverged")
    share, chains = _value(rows, "divergence_share"), _value(rows, "divergences_chains")
    status = Status.LOOK if np.isnan(share) else DIVERGENT.status(share)
    of_steps = "" if np.isnan(share) else f" ({100 * share:.3g}% of all)"
    total = rows["divergences"].chains
    text = (
        f"{count:,.0f} steps{of_steps} diverged, in {chains:,.0f} of {total:,} chains "
        f"(any: look closer; above {DIVERGENT.look:.0%} of all: do not trust)"
    )
    return Check("divergences", status, text)


def settled_check(rows: Values) -> Check | None:
    """The one rule of convergence for chains, fits and optima; None if nothing of it is known.

    What the method maximises must not change from the tenth before the last to the last, the bound of a fit must not
    be below that of its start, and moments must not move: theta^2 of chains between their halves, and the part of the
    bound that depends on the moments of a fit alone. A change counts beyond three errors, and if it is not small
    (`SMALL_CHANGE`). Above an optimum, what further steps gain, or its distance to the maximum, must be small and
    known. Of several fits or optima the worst counts (`gathering.log_densities`). Only a fit that ends below its start
    is not to be trusted; the others are reasons to look.
    """
    known, failed, small = [], [], []

    def judge(text: str, bad: bool) -> None:
        known.append(text)
        failed.extend([text] if bad else [])

    for metric, what in (
        (
            "log_posterior_late_shift",
            "the log posterior changes by {:+.1f} standard errors in the last tenth of the draws",
        ),
        ("prior_shell_shift", "theta^2 changes by {:+.1f} standard errors between the halves of the chains"),
    ):
        if not np.isnan(shift := _value(rows, metric)):
            judge(what.format(shift), abs(shift) > LATE_CHANGE)
    validated = "loss_late_change" in rows and rows["loss_late_change"].note.startswith(VALIDATION_LOSS)
    for metric, what, unit, limit in (
        ("bound_late_change", "the bound", "nats", "{:g} nat"),
        ("kl_late_change", "the KL divergence from the prior", "of it", "{:.0%} of the KL divergence"),
        (
            "loss_late_change",
            "the validation loss" if validated else "the training loss",
            "nats per row",
            "{:g} nats per row",
        ),
    ):
        change, error = _value(rows, metric), _error(rows, metric)
        if not np.isnan(change):
            # A loss on validation rows that rises has ended the training, and the best epoch is kept.
            falls = validated and metric == "loss_late_change"
            bad, _ = size_of(metric, Change(change, error), falls=falls)
            judge(f"{what} changes by {change:+.3g} \N{PLUS-MINUS SIGN} {error:.2g} {unit} in the last tenth", bad)
            small.append(limit.format(SMALL_CHANGE[metric]))
    for metric, what, unit in (
        ("optimum_rise", "further steps raise the log posterior by {:.3g} nats per row", "{:g} nats per row"),
        (
            "newton_decrement",
            "the maximum is about {:.3g} posterior standard deviations away",
            "{:g} standard deviation",
        ),
    ):
        if metric in rows and rows[metric].note.startswith(NOT_FINITE):
            judge(f"`{metric}` is {rows[metric].note.split(';')[0]}", True)
        if not np.isnan(distance := _value(rows, metric)):
            judge(what.format(distance), distance > SMALL_CHANGE[metric])
            small.append(unit.format(SMALL_CHANGE[metric]))
    gain, error = _value(rows, "bound_gain"), _error(rows, "bound_gain")
    below, _ = size_of("bound_gain", Change(gain, error), falls=True)
    if below:
        judge(f"the bound is {-gain:.3g} \N{PLUS-MINUS SIGN} {error:.2g} nats below that of the start", True)
    if not known:
        return None
    limits = (
        f"fine within {' or '.join([f'{LATE_CHANGE:g} errors', *small])}; beyond them look closer: it had not converged"
    )
    status = Status.DISTRUST if below else Status.LOOK if failed else Status.FINE
    return Check("last tenth", status, f"{', '.join(failed or known)} ({limits})")


def _temperature(rows: Values) -> Check | None:
    """The check of the draws' effective temperature; None if it was not measured.

    The limit is only a reason to look: the temperature of all parameters together hides errors of few directions, and
    says little about predictions.
    """
    found = (
        re.match(r"draws from the posterior have ([\d.e+-]+)", rows["effective_temperature"].note)
        if ("effective_temperature" in rows)
        else None
    )
    if found is None:
        return None
    measured, aim = rows["effective_temperature"], float(found[1].rstrip("."))
    error = _error(rows, "effective_temperature")
    distance = abs(measured.value - aim)
    status = Status.UNKNOWN if np.isnan(distance) else Status.LOOK
    if distance <= max(3 * error, TEMPERATURE * aim):
        status = Status.FINE
    spread = f" \N{PLUS-MINUS SIGN} {error:.2g}" if error else ""
    text = (
        f"effective temperature of the draws {measured.value:.3g}{spread}, of the posterior {aim:g} (fine within "
        f"{TEMPERATURE:.0%} or three errors; beyond it look closer: the draws are not from this posterior)"
    )
    return Check("temperature", status, text)


def _acceptance(rows: Values) -> Check | None:
    value = _value(rows, "acceptance_chain_min")
    if np.isnan(value):
        return None
    return _limited("acceptance", ACCEPTANCE, value, "acceptance of a chain as low as {:.2f}", "{:g}")


def _cut_short(rows: Values) -> Check | None:
    value = _value(rows, "cut_short_share")
    if np.isnan(value):
        return None
    text = (
        f"{value:.0%} of trajectories ended at the largest tree depth or number of steps, "
        f"{_value(rows, 'cut_short_share_chain_max'):.0%} in a chain (fine up to {CUT_SHORT.fine:.0%}; above it "
        "look closer: a larger limit or a better start makes draws less dependent)"
    )
    return Check("trajectories cut short", CUT_SHORT.status(value), text)


def _missing_information(rows: Values) -> Check | None:
    value = _value(rows, "bfmi_min")
    if np.isnan(value):
        return None
    text = f"BFMI as low as {value:.2f} (fine from {BFMI.fine:g}; below it look closer: energies change slowly)"
    return Check("missing information", BFMI.status(value), text)


def _energy(rows: Values) -> Check | None:
    value = _value(rows, "energy_change_mean_square_per_dimension")
    if "covariance_bias_bound" not in rows:
        return None
    bias = _value(rows, "covariance_bias_bound")
    bound = (
        "no bound on the bias is known"
        if np.isnan(bias)
        else f"variances of an equal-variance Gaussian would be correct to within {bias:.1%}"
    )
    start = f"energy variance per dimension {value:.2g} without Metropolis test: {bound}"
    return Check("energy error", ENERGY.status(value), f"{start} ({_limits(ENERGY)})")


def _limited(name: str, limits: Thresholds, value: float, text: str, number: str) -> Check:
    shown: Callable[[float], str] = number.format
    return Check(name, limits.status(value), f"{text.format(value)} ({_limits(limits, shown)})")


def _limits(limits: Thresholds, shown: Callable[[float], str] = "{:g}".format) -> str:
    side = "from" if limits.falling else "up to"
    return (
        f"fine {side} {shown(limits.fine)}, do not trust {'below' if limits.falling else 'above'} {shown(limits.look)}"
    )


def _reason(rows: Values) -> str:
    """Why R-hat of function values is undefined: the first part of its note."""
    return rows["rhat_function_max"].note.split(";")[0] if "rhat_function_max" in rows else "not measured"


def _value(rows: Values, metric: str) -> float:
    return rows[metric].value if metric in rows else float("nan")


def _error(rows: Values, metric: str) -> float:
    """Monte Carlo error of a metric; 0 if it is not known."""
    error = rows[metric].monte_carlo_error if metric in rows else None
    return 0.0 if error is None or np.isnan(error) else error
