"""What variational fits reported with their draws: lower bound, entropy and how it was found."""

import numpy as np

from bnn_atlas.metrics.formulas.chain_mean import error_of_chain_mean
from bnn_atlas.metrics.gathering.by_chains import by_chains
from bnn_atlas.metrics.tables.measurement import Measurement
from bnn_atlas.traces.draws import NOTES, Draws

MEANS = ("elbo", "objective", "entropy", "entropy_bracket", "entropy_as_trained", "entropy_is_bound")
"""Statistics whose mean over draws is given, under their own names."""
LAST = {"skipped_updates": "updates of all chains", "singular": "samples of all chains"}
"""Statistics that count from the start of a fit -> what the sum over chains is of."""
OF_ERROR = "of the mean entropy; 0 is exact"


def variational_measurements(pool: Draws, kept: np.ndarray, max_bytes: int) -> list[Measurement]:
    """Means over the draws of the chains `kept`, with their Monte Carlo errors; none for methods that fit nothing.

    `entropy_error` = sqrt(mean of e^2 / n) + mean of b for n draws with the errors e over probes and the brackets b:
    probes are independent, so that their error falls with the number of draws, and a bracket does not. Notes are those
    of the trace, such as the form of the entropy.
    """
    if "elbo" not in pool.statistics or not len(kept):
        return []
    found = []
    for name in MEANS:
        if name in pool.statistics:
            values = _of(pool, name, kept, max_bytes)
            error = error_of_chain_mean(values)
            found.append(Measurement(name, float(values.mean()), monte_carlo_error=error if error > 0 else None))
    if "entropy_error" in pool.statistics:
        errors = _of(pool, "entropy_error", kept, max_bytes)
        brackets = [one.value for one in found if one.metric == "entropy_bracket"]
        value = float(np.sqrt(np.mean(errors**2) / errors.size)) + sum(brackets)
        found.append(Measurement("entropy_error", value, note=OF_ERROR))
    for name, note in LAST.items():
        if name in pool.statistics:
            found.append(Measurement(name, float(_of(pool, name, kept, max_bytes)[:, -1].sum()), note=note))
    notes = pool.attributes.get(NOTES, {})
    return [one._replace(note="; ".join(filter(None, (one.note, notes.get(one.metric, ""))))) for one in found]


def _of(pool: Draws, name: str, kept: np.ndarray, max_bytes: int) -> np.ndarray:
    """A statistic of the chains `kept` [c, S]."""
    return np.concatenate([part for _, part in by_chains(pool, (name,), max_bytes)])[kept]
