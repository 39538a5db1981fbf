"""Whether a run can be trusted (decided by its worst check), and whether it can serve as a reference."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import method
from bnn_atlas.metrics.judgement.checks import (
    BY_WEIGHT,
    DIVERGED,
    Check,
    Status,
    checks,
    curvature_check,
    diverged_check,
    excluded_check,
    independent_check,
    linearisation_check,
    metric_rows,
    noise_check,
    settled_check,
    shell_check,
)
from bnn_atlas.metrics.tables.measurement import Measurement, joined


class Trust(NamedTuple):
    """Whether a run's draws on one or more splits can be trusted."""

    status: Status
    text: str
    """The checks that led to the status, with their values; empty if all is fine."""

    @property
    def words(self) -> str:
        """The status and the checks that led to it."""
        if self.status is Status.FINE and self.text:
            return self.text
        return f"{self.status.value}: {self.text}" if self.text else self.status.value


NO_CHAIN = "no chain: nothing to converge"
"""Text for methods with one point per chain."""
SOURCE = "source_trusted"
"""Metric for draws generated from another run's moments: 0 if that other run should not be trusted, else 1."""
UNCONVERGED = "reference not converged"
"""Note on every comparison with a reference that has not converged."""


def trust(table: pd.DataFrame) -> Trust:
    """Whether the run and split of these rows can be trusted; UNKNOWN if the table has no diagnostics."""
    if "chains_excluded" not in set(table["metric"]):
        return Trust(Status.UNKNOWN, "the table has no diagnostics")
    if not method(table["method"].iloc[0]).kind_of_draws.are_chain:
        return _point_or_approximation(table)
    made = checks(table)
    status = overall(made)
    texts = [check.short for check in made if check.status is status is not Status.FINE]
    return Trust(status, "; ".join(text for text in texts if f"{DIVERGED}: {text}" not in texts))


def trusts(table: pd.DataFrame) -> dict[tuple[str, int], Trust]:
    """(Run, split) -> `trust` of its rows, for every run and split in a metric table."""
    own = table[~table["dataset"].str.contains("/")]
    found = {}
    for _, rows in own.groupby(["run", "split"], sort=False):
        found[str(rows["run"].iloc[0]), int(rows["split"].iloc[0])] = trust(rows)
    return found


def worst(found: Collection[Trust]) -> Trust:
    """The first item with the worst status, one that diverged before others; UNKNOWN if there are no items."""
    for status in (*BY_WEIGHT, Status.FINE):
        if alike := [one for one in found if one.status is status]:
            return next((one for one in alike if one.text.startswith(DIVERGED)), alike[0])
    return Trust(Status.UNKNOWN, "nothing was measured")


def source_measurement(table: pd.DataFrame) -> Measurement:
    """0 if these rows come from an untrusted run whose moments generated other draws, else 1; the note says why."""
    found = trust(table)
    return Measurement(SOURCE, float(found.status is not Status.DISTRUST), note=f"source: {found.words}")


def reference_word(note: str) -> str:
    """The part of a row's note saying that the reference has not converged; empty if there is no such part."""
    return next((part for part in note.split("; ") if part.startswith(UNCONVERGED)), "")


def overall(made: list[Check]) -> Status:
    """The worst status: "do not trust", then "cannot be judged", then "look closer"."""
    for status in BY_WEIGHT:
        if any(check.status is status for check in made):
            return status
    return Status.FINE


def sentence(made: list[Check]) -> str:
    """The overall status in one line, with the checks that led to it."""
    status = overall(made)
    if status is Status.FINE:
        return "Nothing here speaks against this run."
    names = ", ".join(check.name for check in made if check.status is status)
    start = {
        Status.DISTRUST: "Do not trust this run",
        Status.UNKNOWN: "This run cannot be judged",
        Status.LOOK: "Look closer before you trust this run",
    }[status]
    return f"{start}: {names}."


def _point_or_approximation(table: pd.DataFrame) -> Trust:
    """Trust of an optimum, a mean network, or an approximation, whose quality cannot be judged from its own draws.

    None of these is trusted if it has diverged, its single noise parameter has not converged, it has learned nothing of
    the curvature, or its bound is below that of its start; what still moved at its end is said
    (`checks.settled_check`), and by how much the bound of an implicit fit may be too large. An approximation is also
    not trusted if the size of its weights differs from the posterior's. Draws generated from another run's moments are
    trusted no more than that run.
    """
    rows = metric_rows(table)
    if gone := diverged_check(rows):
        return Trust(gone.status, gone.short)
    excluded = excluded_check(rows)
    if excluded.status is not Status.FINE:
        return Trust(excluded.status, excluded.short)
    for check in (noise_check(rows), curvature_check(rows)):
        if check is not None and check.status is Status.DISTRUST:
            return Trust(check.status, check.short)
    for value, note in table.loc[table["metric"] == SOURCE, ["value", "note"]].itertuples(index=False):
        if value == 0:
            return Trust(Status.DISTRUST, note.split("; ")[0])
    settled = settled_check(rows)
    if settled is not None and settled.status is Status.DISTRUST:
        return Trust(settled.status, settled.short)
    moved = settled.short if settled is not None and settled.status is Status.LOOK else ""
    is_point = method(table["method"].iloc[0]).kind_of_draws is KindOfDraws.POINT
    if is_point or table[["chains", "draws"]].to_numpy().max() == 1:
        return Trust(Status.LOOK, moved) if moved else Trust(Status.FINE, NO_CHAIN)
    shell = shell_check(rows)
    if shell is not None and shell.status is Status.DISTRUST:
        return Trust(shell.status, shell.short)
    gap = linearisation_check(rows)
    too_large = gap.short if gap is not None and gap.status is Status.LOOK else ""
    return Trust(Status.UNKNOWN, joined(moved, too_large, independent_check().short))


FIT = "reference_fit"
"""Metric that is 1 if a run may serve as a reference, else 0."""
RHAT_LIMIT = "1.1"
MOST_ABOVE = 0.05
"""Largest fraction of function values at test rows with an R-hat above `RHAT_LIMIT`."""
ACCEPTANCE = (0.6, 0.95)
"""Smallest acceptance of a chain, and largest mean acceptance over chains: nearly all proposals are accepted if steps
are far too small or a chain is still near its start."""
SMALLEST_ESS = 100.0
"""Smallest bulk effective sample size of the log posterior."""
LARGEST_SHIFT = 3.0
"""Largest change in the mean of theta^2 between the halves of the chains, in standard errors."""


def reference_measurement(found: Iterable[Measurement]) -> Measurement:
    """1 if draws of Markov chains may serve as a reference, else 0; the note lists every number behind the decision.

    The rule: at least 95 % of the function values at test rows have an R-hat up to 1.1, the bulk ESS of the log
    posterior is at least 100, a Metropolis test accepts between 60 and 95 %, and theta^2 divided by the prior variance
    changes, on average, by at most three standard errors from the first to the second halves of the chains. If there is
    no Metropolis test, or the prior is not one normal distribution for all parameters, only the remaining criteria
    apply. `found` holds the run's other measurements.
    """
    values = {(one.metric, one.at): one.value for one in found}

    def value(metric: str, at: str = "") -> float:
        return values.get((metric, at), float("nan"))

    above, ess = value("rhat_function_share_above", RHAT_LIMIT), value("ess_bulk_log_posterior")
    lowest, mean = value("acceptance_chain_min"), value("acceptance_mean")
    shell, shift = value("prior_shell"), value("prior_shell_shift")
    checks = [
        (
            above <= MOST_ABOVE,
            "R-hat of function values not known (needs two chains)"
            if np.isnan(above)
            else f"R-hat above {RHAT_LIMIT} at {above:.1%} of function values (at most {MOST_ABOVE:.0%})",
        ),
        (
            ess >= SMALLEST_ESS,
            "ESS of the log posterior not known"
            if np.isnan(ess)
            else f"ESS of the log posterior {ess:,.0f} (at least {SMALLEST_ESS:.0f})",
        ),
    ]
    if not np.isnan(lowest):
        low, high = ACCEPTANCE
        text = f"acceptance {mean:.2f}, lowest {lowest:.2f} (from {low:g} to {high:g})"
        checks.append((lowest >= low and mean <= high, text))
    if not np.isnan(shift):
        text = f"theta^2 over the prior variance {shell:.3f}, changing by {shift:+.1f} standard errors"
        checks.append((abs(shift) <= LARGEST_SHIFT, f"{text} (at most {LARGEST_SHIFT:g})"))
    failed = [text for passed, text in checks if not passed]
    passed = [text for holds, text in checks if holds]
    note = f"{UNCONVERGED}: {', '.join(failed)}" if failed else f"reference converged: {', '.join(passed)}"
    return Measurement(FIT, 0.0 if failed else 1.0, note=note)
