"""Measurements from the log densities of the draws: fit to the data, size of the weights, and the variational bound."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.signal import correlate
from scipy.special import digamma, polygamma

from bnn_atlas.metrics.formulas.averages import error_of_mean
from bnn_atlas.metrics.formulas.rhat_ess import error_of_chain_mean
from bnn_atlas.metrics.gathering.chain_statistics import LOG_DENSITIES, by_chains
from bnn_atlas.metrics.gathering.virial import FURTHER_GRADIENTS
from bnn_atlas.metrics.tables.measurement import Measurement, joined
from bnn_atlas.traces.draws import NOTES, Draws

LOG_LIKELIHOOD, LOG_PRIOR = LOG_DENSITIES


def log_likelihood_measurements(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """Mean of the untempered log-likelihood over the second halves of the chains `kept`, with its Monte Carlo error.

    First halves are left out, so that a run that keeps its burn-in still reports the level that its chains reached.
    Empty for traces without log-likelihoods.
    """
    if LOG_LIKELIHOOD not in pool.statistics or not len(kept):
        return []
    values = _of(pool, LOG_LIKELIHOOD, kept, max_bytes)
    late = values[:, values.shape[1] // 2 :]
    return [_mean("log_likelihood", late, f"second halves of the chains, {late.shape[1]:,} draws each")]


def settling_measurements(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """How much the log posterior still moves at the end of the chains `kept`, in standard errors (`late_change`).

    A value beyond about 3 means that the chains still depend on their starts, if the autocorrelation of their draws is
    at most `LARGEST_CORRELATION`; with more of it the error is too small. Of settled chains of 1,000 draws with an
    autocorrelation of 0.99, 16 % are beyond three errors, and 4 % of runs of four such chains (at 0.95, at most 0.4 %).
    Empty for fewer than 40 draws, and for traces without log densities.
    """
    if not set(LOG_DENSITIES) <= set(pool.statistics) or not len(kept):
        return []
    values = np.concatenate([part for _, part in by_chains(pool, LOG_DENSITIES, max_bytes)])[kept]
    change, tenth = late_change(values), pool.draws // 10
    if change is None:
        return []
    note = f"last {tenth:,} draws minus the {tenth:,} before, in standard errors"
    return [Measurement("log_posterior_late_shift", change.value / change.error, note=note)]


class Change(NamedTuple):
    """The difference of two means, with its standard error."""

    value: float
    error: float


def course_measurements(courses: Mapping[str, np.ndarray], kept: np.ndarray) -> list[Measurement]:
    """How much the fit or optimum that moved most of the chains `kept` still moved at its end (`late_change`).

    `bound_late_change`, `kl_late_change` and `loss_late_change`, each with its error: the mean over the last tenth of
    the steps minus the mean over the tenth before, of the lower bound or the objective in nats, of its part of prior
    and entropy (which depends on q alone, and so tells whether the moments of q still move) relative to its size, and
    of the loss that ended the training of an ensemble, in nats per row. `bound_gain` is the bound of the last tenth
    minus that of the first.

    Each fit is judged on its own, with an error from its own course: several fits that still rise by different amounts
    would otherwise hide their movement in the spread over them. The value is that of the worst chain: the largest
    change of those beyond what is fine, max(`LATE_CHANGE` errors, `SMALL_CHANGE`), or else of all. Only a fall counts
    for `bound_gain` and for a loss on validation rows, which rises where training ends and the best epoch is kept.
    Nothing is said of chains of which a point of one of the two tenths is not finite. Of settled fits with 100 points
    of autocorrelation 0, 0.5 and 0.9, at most 0.6 % are beyond three errors, and so is the worst of ten in 6 % of the
    cases.

    Args:
        courses: `elbo` and `kl`, `objective`, `training_loss` or `validation_loss` [chain, point]; empty if the method
            has none.
        kept: indices of the chains that are not excluded.
    """
    rows = []
    for name, metric, falls in COURSES:
        if name not in courses:
            continue
        unit, before = "epochs" if metric == LOSS else "steps", "first" if metric == GAIN else "tenth before"
        found = {}
        for chain in kept.tolist():
            values = courses[name][chain]
            change = late_change(values[None], from_start=metric == GAIN)
            if change is not None:
                tenth = values[-(len(values) // 10) :]
                scale = max(1.0, abs(float(tenth.mean()))) if name == "kl" else 1.0
                found[chain] = Change(change.value / scale, change.error / scale)
        if found:
            chain, change = max(found.items(), key=lambda one: size_of(metric, one[1], falls=falls))
            parts = (name.replace("_", " ") * (metric == LOSS), f"last tenth of the {unit} minus the {before}")
            worst = f"chain {chain}, the worst of {len(found)}" * (len(found) > 1)
            note = joined(*parts, "relative to its size" * (name == "kl"), worst)
            rows.append(Measurement(metric, change.value, note=note, monte_carlo_error=change.error))
    return rows


def losses_of_path(pool: Draws, rows: int | None, max_bytes: int) -> dict[str, np.ndarray]:
    """`training_loss` [chain, draw]: -log-likelihood per row along a path of optima; empty if it is not known."""
    if not rows or pool.draws < 2 or LOG_LIKELIHOOD not in pool.statistics:
        return {}
    return {"training_loss": -_of(pool, LOG_LIKELIHOOD, np.arange(pool.chains), max_bytes) / rows}


def optimum_measurements(
    pool: Draws, kept: np.ndarray, rises: np.ndarray, rows: int | None, max_bytes: int, temperature: float = 1.0
) -> list[Measurement]:
    """How far the optima of the chains `kept` are from a maximum; of several, the farthest counts.

    `optimum_rise`: by how much further steps raise the log posterior, in nats per row; `newton_decrement`: of a Laplace
    approximation, about the distance to the point where the gradient vanishes, in standard deviations of the posterior
    at temperature T: the statistic, which is that at T = 1, divided by sqrt(T). The note says for how many chains it is
    not finite, and the value is NaN if it is so for all.

    Args:
        pool: the draws.
        kept: indices of the chains that are not excluded.
        rises: rise [C] in nats above the optimum of each chain; empty if the draws are no optima.
        rows: the number of rows, if known.
        max_bytes: working memory.
        temperature: T of the posterior.
    """
    found = {"optimum_rise": rises / rows} if len(rises) and rows else {}
    if "newton_decrement" in pool.statistics:
        decrement = _of(pool, "newton_decrement", np.arange(pool.chains), max_bytes)[:, -1]
        found["newton_decrement"] = decrement / math.sqrt(temperature)
    measured = []
    for metric, of_chains in found.items():
        known = kept[np.isfinite(of_chains[kept])]
        if len(kept):
            chain = known[np.argmax(of_chains[known])] if len(known) else None
            lost = f"{NOT_FINITE} {len(kept) - len(known)} of {len(kept)} chains" * (len(known) < len(kept))
            how = f"at most {FURTHER_GRADIENTS} further gradients" * (metric == "optimum_rise")
            note = joined(lost, how, f"chain {chain}, the worst of {len(known)}" * (len(known) > 1))
            value = math.nan if chain is None else float(of_chains[chain])
            measured.append(Measurement(metric, value, note=note))
    return measured


LOSS, GAIN = "loss_late_change", "bound_gain"
VALIDATION_LOSS = "validation loss"
"""Start of the note on a change of the loss on validation rows."""
NOT_FINITE = "not finite for"
"""Start of the note on the convergence of optima of which some is not known."""
COURSES = (
    ("elbo", "bound_late_change", False),
    ("elbo", GAIN, True),
    ("objective", "bound_late_change", False),
    ("objective", GAIN, True),
    ("kl", "kl_late_change", False),
    ("training_loss", LOSS, False),
    ("validation_loss", LOSS, True),
)
"""Course, metric of its change, and whether only falls count."""
LATE_CHANGE = 3.0
"""Change from the tenth of draws, steps or epochs before the last to the last, in standard errors, that is fine."""
SMALL_CHANGE = {
    "bound_late_change": 1.0,
    GAIN: 1.0,
    "kl_late_change": 0.01,
    LOSS: 0.01,
    "optimum_rise": 0.01,
    "newton_decrement": 1.0,
}
"""Changes that are fine whatever their error: a nat of the bound, 1 % of its part of prior and entropy, and 0.01 nats
per row of a loss, or of the log posterior above an optimum; and a posterior standard deviation to its maximum."""


def size_of(metric: str, change: Change, *, falls: bool) -> tuple[bool, float]:
    """Whether a change is beyond what is fine, and its size in the direction that counts; the larger is the worse."""
    size = -change.value if falls else abs(change.value)
    return size > max(LATE_CHANGE * change.error, SMALL_CHANGE[metric]), size


def late_change(values: np.ndarray, *, from_start: bool = False) -> Change | None:
    """Mean over the last tenth of a course [C, S] minus the mean over the tenth before (or, `from_start`, the first).

    The one rule for chains, fits and optima. The error is the largest of the spread over chains, sd / sqrt(C) of the
    chains' own differences, of the errors sd / sqrt(ESS) of the two means within chains, so that chains at different
    levels hide nothing, and of that under autocorrelated noise (`error_under_noise`), which a tenth of few points does
    not show. None for fewer than 40 points, where the error is 0 or not known, and where a point of these two tenths is
    not finite; the other points do not count.
    """
    total = values.shape[1]
    tenth = total // 10
    if tenth < FEWEST_OF_TENTH:
        return None
    begin = 0 if from_start else total - 2 * tenth
    last, before = values[:, -tenth:], values[:, begin : begin + tenth]
    if not (np.isfinite(last).all() and np.isfinite(before).all()):
        return None
    change = last.mean(axis=1) - before.mean(axis=1)
    within = [error_of_chain_mean(part - part.mean(axis=1, keepdims=True)) for part in (last, before)]
    noise = error_under_noise(values, tenth, total - tenth - begin)
    error = float(np.nanmax([math.hypot(*within), error_of_mean(change) or 0.0, noise]))
    return Change(float(change.mean()), error) if error > 0 else None


def error_under_noise(values: np.ndarray, length: int, distance: int) -> float:
    """Standard error of the difference of two means of a course [C, S], of `length` points `distance` points apart.

    The model is a parabola and first-order autoregressive noise, fitted to the second half of each chain, or to as much
    of it as is finite. From the n residuals of a parabola, the autocorrelation is found too small on average, by
    (3 + 5 rho) / n; (n rho + 6) / (n - 10) takes its place, since an error of rho that makes it too small makes more
    false alarms than one of the other sign prevents. NaN for too few points.
    """
    late = values[:, values.shape[1] // 2 :].astype(np.float64)
    late = late[:, np.flatnonzero(np.append(True, ~np.isfinite(late).all(axis=0)))[-1] :]
    count = late.shape[1]
    if count < FEWEST_OF_NOISE:
        return math.nan
    parabola = np.linalg.qr(np.vander(np.linspace(-1, 1, count), 3))[0]
    late -= late[:, :1]
    rest = late - late @ parabola @ parabola.T
    squares, products = (rest**2).sum(axis=1), (rest[:, 1:] * rest[:, :-1]).sum(axis=1)
    rho = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    rho = np.clip((count * rho + 6) / (count - 10), 0, LARGEST_CORRELATION)
    innovations = rest[:, 1:] - rho[:, None] * rest[:, :-1]
    variance = (innovations**2).sum(axis=1) / (count - 4) / (1 - rho**2)
    weights = np.zeros(distance + length)
    weights[:length] -= 1 / length
    weights[distance:] += 1 / length
    at_lags = correlate(weights, weights)[len(weights) - 1 :] * np.r_[1, np.full(len(weights) - 1, 2)]
    of_difference = variance * (rho[:, None] ** np.arange(len(weights)) @ at_lags)
    return math.sqrt(of_difference.sum()) / len(values)


LARGEST_CORRELATION = 0.95
"""Largest autocorrelation of the noise of a course: one still larger cannot be told from a change of the course."""
FEWEST_OF_NOISE = 16
"""Fewest points from which the noise of a course is estimated."""
FEWEST_OF_TENTH = 4
"""Fewest draws of a tenth whose mean has an error."""


def shell_measurements(
    pool: Draws, kept: np.ndarray, prior_sd: float | None, max_bytes: int, temperature: float = 1.0
) -> list[Measurement]:
    """Mean of theta^2 divided by the prior variance, and how much it changes between the halves of the chains.

    With P parameters of prior N(0, s^2), a draw theta has

        r = |theta|^2 / (P s^2) = -2 log p(theta) / P - log(2 pi s^2),

    so r can be computed from the log-prior in the trace. Draws from the prior at temperature T have r = T, give or take
    T sqrt(2 / P): nearly all of the prior's mass is on a thin shell. If there are many more parameters than the data
    determine, draws of the posterior are near this shell as well, and r of a chain that has not left its start is far
    below T, even if its diagnostics look good.

    Args:
        pool: the draws.
        kept: indices of the chains that are not excluded.
        prior_sd: s of the prior of all parameters; None for other priors.
        max_bytes: working memory.
        temperature: T of the posterior.

    Returns:
        `prior_shell`, the mean of r over draws and chains, with its Monte Carlo error; and, if there are enough draws,
        `prior_shell_shift`, the mean over the second halves of the chains minus the mean over the first halves, in
        standard errors of that difference. Empty for other priors, and for traces without log-priors.
    """
    if prior_sd is None or not len(kept) or LOG_PRIOR not in pool.statistics:
        return []
    log_prior = _of(pool, LOG_PRIOR, kept, max_bytes)
    radius = -2 * log_prior / pool.layout.size - math.log(2 * math.pi * prior_sd**2)
    rows = [_mean("prior_shell", radius, f"{pool.layout.size:,} parameters; draws from the prior have {temperature:g}")]
    if half := radius.shape[1] // 2:
        first, second = radius[:, :half], radius[:, radius.shape[1] - half :]
        error = math.hypot(error_of_chain_mean(first), error_of_chain_mean(second))
        if error > 0:
            shift = float(second.mean() - first.mean()) / error
            note = "second halves of the chains minus the first, in standard errors"
            rows.append(Measurement("prior_shell_shift", shift, note=note))
    return rows


MEANS = (
    "elbo",
    "objective",
    "entropy",
    "entropy_bracket",
    "entropy_as_trained",
    "entropy_is_bound",
    "linearisation_gap",
    "curvature_change",
)
"""Statistics that are averaged over draws and reported under their own names."""
LAST = {"skipped_updates": "updates of all chains", "singular": "samples of all chains"}
"""Statistics that are counted from the start of a fit -> note on the sum over chains."""
OF_ERROR = "of the mean entropy; 0 is exact"


def variational_measurements(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """Means of a fit's statistics over the chains `kept`, with Monte Carlo errors; empty for methods without a fit.

    `entropy_error` = sqrt(mean of e^2 / n) + mean of b, for n draws, each with a standard error e over random probes
    and a bracket b, the largest error due to too few steps. Probes are independent, so their error falls with the
    number of draws; the bracket does not. The notes, for example on the form of the entropy, come from the trace.
    """
    if "elbo" not in pool.statistics or not len(kept):
        return []
    found = [_mean(name, _of(pool, name, kept, max_bytes)) for name in MEANS if name in pool.statistics]
    if "entropy_error" in pool.statistics:
        errors = _of(pool, "entropy_error", kept, max_bytes)
        brackets = [one.value for one in found if one.metric == "entropy_bracket"]
        value = float(np.sqrt(np.mean(errors**2) / errors.size)) + sum(brackets)
        found.append(Measurement("entropy_error", value, note=OF_ERROR))
    for name, note in LAST.items():
        if name in pool.statistics:
            found.append(Measurement(name, float(_of(pool, name, kept, max_bytes)[:, -1].sum()), note=note))
    found += _of_starts(pool, kept, max_bytes)
    notes = pool.attributes.get(NOTES, {})
    return [one._replace(note=joined(one.note, notes.get(one.metric, ""))) for one in found]


def _of_starts(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """Bound and log-likelihood of the fit from each start, and the start kept, for each chain (`methods.restarts`)."""
    if "start_kept" not in pool.statistics:
        return []

    def last(name: str) -> np.ndarray:
        return _of(pool, name, kept, max_bytes)[:, -1]

    found = []
    for start in range(sum(name.startswith("elbo_of_start_") for name in pool.statistics)):
        names = ("elbo", "elbo_error", "log_likelihood")
        for chain, bound, error, fit in zip(kept, *(last(f"{name}_of_start_{start}") for name in names), strict=True):
            at = f"{chain}.{start}"
            one = Measurement("elbo_of_starts", float(bound), at=at, monte_carlo_error=float(error))
            if not math.isfinite(bound):
                one = one._replace(value=math.nan, note=NO_BOUND, monte_carlo_error=None)
            found += [one, Measurement("log_likelihood_of_starts", float(fit), at=at)]
    chosen = zip(kept, last("start_kept"), strict=True)
    return found + [Measurement("start_kept", float(start), at=str(chain)) for chain, start in chosen]


NO_BOUND = "no bound: a draw has no finite density"


def ceiling_measurements(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """Largest entropy that an implicit distribution with the variances of its draws can have, mean over chains.

    No density with the variances v_i has more entropy than independent normals with these variances,

        H <= 1/2 sum_i log(2 pi e v_i)

    (Cover and Thomas 2006, Elements of Information Theory, theorem 8.6.5, with Hadamard's inequality). An `entropy`
    above it is not the entropy of the draws: a linearised form counts a parameter vector as often as noise vectors lead
    to it. Each log v_i, from S draws, has the mean digamma((S - 1) / 2) - log((S - 1) / 2) of normals subtracted. The
    Monte Carlo error is that of independent normals, 1/2 sqrt(P trigamma((S - 1) / 2) / C) for P parameters and C
    chains; it is up to sqrt(P) times as large if they depend on each other, and the note says that `entropy` is above
    the ceiling only if it is so by twice that. Parameters that never vary, such as a point estimate of the noise, have
    no part in it. Empty for traces without an entropy, and for fewer than ten draws.
    """
    if "entropy" not in pool.statistics or not len(kept) or pool.draws < FEWEST_FOR_VARIANCE:
        return []
    freedom, total, varying = (pool.draws - 1) / 2, 0.0, 0
    width = max(1, max_bytes // (8 * pool.chains * pool.draws))
    for start in range(0, pool.layout.size, width):
        part = slice(start, min(start + width, pool.layout.size))
        draws = pool.read(slice(0, pool.chains), slice(0, pool.draws), part)[kept]
        variance = draws.astype(np.float64).var(axis=1, ddof=1)
        total += float(np.log(variance[variance > 0]).sum())
        varying += int((variance > 0).sum())
    if not varying:
        return []
    constant = math.log(2 * math.pi * math.e) - float(digamma(freedom)) + math.log(freedom)
    value = 0.5 * (total + varying * constant) / len(kept)
    error = 0.5 * math.sqrt(varying * float(polygamma(1, freedom))) / len(kept)
    largest_error = error * math.sqrt(varying / len(kept))
    excess = float(_of(pool, "entropy", kept, max_bytes).mean()) - value
    above = f"`entropy` is {excess:.3g} above it: not the entropy of these draws" if excess > 2 * largest_error else ""
    note = joined(f"{varying // len(kept):,} parameters vary", above)
    return [Measurement("entropy_ceiling", value, note=note, monte_carlo_error=error)]


FEWEST_FOR_VARIANCE = 10
"""Fewest draws whose variances bound an entropy."""


def _mean(metric: str, draws: np.ndarray, note: str = "") -> Measurement:
    """The mean over all draws [c, S], with the Monte Carlo error of the mean."""
    error = error_of_chain_mean(draws)
    return Measurement(metric, float(draws.mean()), note=note, monte_carlo_error=error if error > 0 else None)


def _of(pool: Draws, name: str, kept: np.ndarray, max_bytes: int) -> np.ndarray:
    return np.concatenate([part for _, part in by_chains(pool, (name,), max_bytes)])[kept]


OPTIMAL = "noise_sd_optimal"


def point_noise_measurements(pool: Draws, kept: np.ndarray, rows: int | None, max_bytes: int) -> list[Measurement]:
    """The noise that maximises the mean log-likelihood of the draws of the chains `kept`, given the draws' functions.

    The noise is sqrt(E r^2 / N), with r^2 the sum of squared residuals of N = `rows` rows. This is optimal for any fit
    with a single noise parameter, whatever the prior, entropy or temperature. A draw with noise s and log-likelihood l
    has r^2 = -2 s^2 (l + N log s + N/2 log 2 pi). If the chains have different noise levels, the root mean square over
    chains is returned. Empty if the noise varies between draws, if there is only one draw (so this cannot be checked),
    or if the method fits nothing.
    """
    noise_at = pool.layout.size - 1
    fitted = "elbo" in pool.statistics and pool.layout.names()[noise_at] == "log_sigma"
    if rows is None or not fitted or not len(kept) or pool.draws < 2:
        return []
    log_noise = pool.read(slice(None), slice(None), [noise_at])[kept, :, 0].astype(float)
    if (log_noise != log_noise[:, :1]).any():
        return []
    likelihood = _of(pool, LOG_LIKELIHOOD, kept, max_bytes)
    squares = -2 * np.exp(2 * log_noise) * (likelihood + rows * (log_noise + 0.5 * np.log(2 * np.pi)))
    own = np.sqrt(squares.mean(axis=1) / rows)
    return [Measurement(OPTIMAL, float(np.sqrt(np.mean(own**2))), note="for the functions of the draws")]
