"""Whether a run can be trusted, from stated limits on its rows in the metric table."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
import pandas as pd


class Status(Enum):
    """What one check, or all of them together, say."""

    FINE = "fine"
    LOOK = "look closer"
    DISTRUST = "do not trust"
    UNKNOWN = "cannot be judged"


class Found(NamedTuple):
    """A row of the metric table."""

    value: float
    chains: int
    note: str


Rows = dict[str, Found]
"""Metric -> its row."""


class Limits(NamedTuple):
    """A value up to (or, if falling, down to) `fine` is fine, one up to `look` needs a look, one beyond is bad."""

    fine: float
    look: float
    falling: bool = False

    def status(self, value: float) -> Status:
        """Status of a value; limits belong to the better side."""
        sign = -1.0 if self.falling else 1.0
        if np.isnan(value):
            return Status.UNKNOWN
        if sign * value <= sign * self.fine:
            return Status.FINE
        return Status.LOOK if sign * value <= sign * self.look else Status.DISTRUST


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    status: Status
    text: str
    """The value in words, with the limits it is held against."""


EXCLUDED = Limits(0.0, 0.1)
"""Share of the chains."""
RHAT = Limits(1.05, 1.1)
"""Largest R-hat of function values; Vehtari et al. 2021 ask for 1.01 of a single quantity, and this is one of many."""
ESS = Limits(400.0, 100.0, falling=True)
"""Smallest bulk or tail ESS of function values; 400 is what Vehtari et al. 2021 ask for."""
DIVERGENT = Limits(0.0, 0.01)
"""Share of the steps."""
ACCEPTANCE = Limits(0.4, 0.1, falling=True)
"""Mean acceptance of the chain with the lowest."""
ENERGY = Limits(5e-4, 0.5)
"""Energy variance per dimension of an unadjusted sampler: at 5e-4 (BlackJAX's default) the variances of a Gaussian are
right to 5 percent; 0.5 is where the tuning of MILE begins."""

STOCHASTIC = frozenset({"sgld", "psgld", "sghmc", "sghmc_clr", "sghmc_clr_prec", "adaptive_sghmc"})
"""Methods whose draws are biased by the step size and by mini-batches, by an amount that nothing here measures."""
INDEPENDENT = frozenset({"mean_field", "laplace", "implicit"})
"""Methods whose draws are independent draws from an approximation: convergence says nothing about it."""


def checks(table: pd.DataFrame) -> list[Check]:
    """Everything that the metric table of one run and split allows to check, in order of weight."""
    columns = (table[name].tolist() for name in ("metric", "value", "chains", "note"))
    rows = {metric: Found(*row) for metric, *row in zip(*columns, strict=True)}
    method = table["method"].iloc[0]
    convergence = [_independent()] if method in INDEPENDENT else [_rhat(rows), _ess(rows)]
    bias = _bias() if method in STOCHASTIC else None
    found = [_excluded(rows), *convergence, bias, _divergences(rows), _acceptance(rows), _energy(rows)]
    return [check for check in found if check is not None]


def overall(found: list[Check]) -> Status:
    """The worst of all: bad, then what cannot be judged, then what needs a look."""
    for status in (Status.DISTRUST, Status.UNKNOWN, Status.LOOK):
        if any(check.status is status for check in found):
            return status
    return Status.FINE


def sentence(found: list[Check]) -> str:
    """The verdict in one line, with the checks that led to it."""
    status = overall(found)
    if status is Status.FINE:
        return "Nothing here speaks against this run."
    names = ", ".join(check.name for check in found if check.status is status)
    start = {
        Status.DISTRUST: "Do not trust this run",
        Status.UNKNOWN: "This run cannot be judged",
        Status.LOOK: "Look closer before you trust this run",
    }[status]
    return f"{start}: {names}."


def _excluded(rows: Rows) -> Check:
    count, total, note = rows["chains_excluded"]
    status = Status.DISTRUST if count == total else EXCLUDED.status(count / total)
    if not count:
        return Check("excluded chains", status, "no chain excluded")
    return Check("excluded chains", status, f"{note} (any: look closer; more than {EXCLUDED.look:.0%}: do not trust)")


def _independent() -> Check:
    text = "draws are independent: R-hat and ESS say nothing about how good the approximation is"
    return Check("approximation", Status.UNKNOWN, text)


def _bias() -> Check:
    text = "no Metropolis test: biased by the step size and by mini-batches, by how much is not known"
    return Check("bias", Status.LOOK, text)


def _rhat(rows: Rows) -> Check:
    value = _value(rows, "rhat_function_max")
    status = RHAT.status(value)
    if status is Status.UNKNOWN:
        return Check("convergence", status, f"R-hat of function values {_reason(rows)}")
    text = f"R-hat of function values at most {value:.2f} ({_limits(RHAT)})"
    weights = _value(rows, "rhat_weight_max")
    if weights > RHAT.look:
        text += f"; of weights {weights:.2f}, not judged: equivalent modes keep it high"
    return Check("convergence", status, text)


def _ess(rows: Rows) -> Check | None:
    values = [_value(rows, f"ess_{kind}_function_min") for kind in ("bulk", "tail")]
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return None
    return _limited("effective draws", ESS, min(known), "ESS of function values at least {:,.0f}", "{:,.0f}")


def _divergences(rows: Rows) -> Check | None:
    count = _value(rows, "divergences")
    if np.isnan(count):
        return None
    if not count:
        return Check("divergences", Status.FINE, "no step diverged")
    share, chains = _value(rows, "divergence_share"), _value(rows, "divergences_chains")
    status = Status.LOOK if np.isnan(share) else DIVERGENT.status(share)
    of_steps = "" if np.isnan(share) else f" ({100 * share:.2g}% of all)"
    total = rows["divergences"].chains
    text = (
        f"{count:,.0f} steps{of_steps} diverged, in {chains:,.0f} of {total:,} chains "
        f"(any: look closer; above {DIVERGENT.look:.0%} of all: do not trust)"
    )
    return Check("divergences", status, text)


def _acceptance(rows: Rows) -> Check | None:
    value = _value(rows, "acceptance_chain_min")
    if np.isnan(value):
        return None
    return _limited("acceptance", ACCEPTANCE, value, "acceptance of every chain at least {:.2f}", "{:g}")


def _energy(rows: Rows) -> Check | None:
    value = _value(rows, "energy_change_mean_square_per_dimension")
    if "covariance_bias_bound" not in rows:
        return None
    bias = _value(rows, "covariance_bias_bound")
    known = "no bound on the bias is known" if np.isnan(bias) else f"a Gaussian's covariance right to {bias:.1%}"
    start = f"energy variance per dimension {value:.2g} without Metropolis test: {known}"
    return Check("energy error", ENERGY.status(value), f"{start} ({_limits(ENERGY)})")


def _limited(name: str, limits: Limits, value: float, text: str, number: str) -> Check:
    shown: Callable[[float], str] = number.format
    return Check(name, limits.status(value), f"{text.format(value)} ({_limits(limits, shown)})")


def _limits(limits: Limits, shown: Callable[[float], str] = "{:g}".format) -> str:
    side = "from" if limits.falling else "up to"
    return (
        f"fine {side} {shown(limits.fine)}, do not trust {'below' if limits.falling else 'above'} {shown(limits.look)}"
    )


def _reason(rows: Rows) -> str:
    """Why R-hat of function values is undefined: the first part of its note."""
    return rows["rhat_function_max"].note.split(";")[0]


def _value(rows: Rows, metric: str) -> float:
    return rows[metric].value if metric in rows else float("nan")
