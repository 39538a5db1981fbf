"""Whether a run of Markov chains may serve as the reference with which others are compared."""

from collections.abc import Iterable

import numpy as np

from bnn_atlas.metrics.judgement.trust import UNCONVERGED
from bnn_atlas.metrics.tables.measurement import Measurement

FIT = "reference_fit"
"""Metric that is 1 where a run may serve as a reference."""
RHAT_LIMIT = "1.1"
MOST_ABOVE = 0.05
"""Share of the function values at test rows whose R-hat may be above `RHAT_LIMIT`."""
ACCEPTANCE = (0.6, 0.95)
"""Of the chain with the lowest, at least; on average over chains, at most. Nearly all proposals are accepted where
steps are far too small or a chain is still near its start."""
SMALLEST_ESS = 100.0
"""Bulk effective sample size of the log posterior."""
LARGEST_SHIFT = 3.0
"""Change of the mean of theta^2 between the halves of the chains, in its standard errors."""


def reference_measurement(found: Iterable[Measurement]) -> Measurement:
    """1 where the draws of Markov chains may serve as a reference, else 0; the note has every number that decides.

    The rule: R-hat of at least 95 % of the function values at test rows is up to 1.1, the bulk ESS of the log posterior
    is 100 or more, a Metropolis test accepts between 60 and 95 %, and the mean of theta^2 over the prior variance of
    the chains' second halves is within three standard errors of that of the first. A run without a Metropolis test, or
    with a prior of another form, is judged by the rest. `found` are the run's other measurements.
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
