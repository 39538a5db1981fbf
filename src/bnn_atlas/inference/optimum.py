"""How much further steps still raise the log posterior above an optimum."""

from collections.abc import Callable

import jax
import numpy as np
from jax import numpy as jnp
from scipy.optimize import minimize

from bnn_atlas.inference.problem import Problem
from bnn_atlas.inference.virial import virial_of
from bnn_atlas.metrics.gathering.virial import Virial
from bnn_atlas.posterior.density import Posterior, PosteriorData
from bnn_atlas.traces.draws import Draws

EVALUATIONS = (5, 50)
"""Fewest and most gradients on all rows for each optimum."""
MOST_ROWS = 2_000_000
"""Largest number of rows in all these gradients, unless these are the fewest."""


def gradients_of(draws: Draws, without_rows: Problem, load: Callable[[], Problem], of: int | None = None) -> Virial:
    """What gradients on all rows tell of draws: their virial or, of optima, how much further steps gain.

    Args:
        draws: all parameters of the draws.
        without_rows: their posterior, which is enough if no gradient is needed.
        load: loads it with its rows, on one device, within a budget for `virial.TOGETHER` draws.
        of: the number of chains of the run, if these are the draws of one block of its chains.
    """
    optima = are_optima(draws)
    problem = load() if optima or draws.draws > 1 else without_rows
    found = virial_of(problem.posterior, problem.data, draws, of)
    if not optima:
        return found
    return found._replace(rises=rises_above(problem.posterior, problem.data, draws.read()[:, -1]))


def are_optima(draws: Draws) -> bool:
    """Whether the only draw of each chain is where an optimiser ended, on the rows of the posterior as they are."""
    method = draws.attributes.get("provenance", {}).get("settings", {}).get("method", {})
    return draws.draws == 1 and method.get("kind") == "map" and not method.get("augmentation")


def rises_above(posterior: Posterior, data: PosteriorData, optima: np.ndarray) -> np.ndarray:
    """Rise [C] of the untempered log posterior above each of the optima [C, P], in nats, by further steps on all rows.

    L-BFGS (SciPy) starts at the optimum and takes a limited number of gradients, so this is a lower bound of what is
    left to gain: 0 at a maximum, up to rounding. It says nothing of other maxima. NaN where the density is not finite.
    """
    fewest, most = EVALUATIONS
    count = max(fewest, min(most, MOST_ROWS // max(1, len(data.y) * len(optima))))
    batch, evaluate = posterior.arrange(data), jax.jit(posterior.evaluate)

    def rise(point: np.ndarray) -> float:
        seen: list[float] = []

        def descend(theta: np.ndarray) -> tuple[float, np.ndarray]:
            density, gradient = evaluate(jnp.asarray(theta, data.prior.loc.dtype), batch)
            seen.append(float(density.log_likelihood) + float(density.log_prior))
            if not np.isfinite(seen[-1]):
                raise FloatingPointError
            return -seen[-1], -posterior.temperature * np.asarray(gradient, np.float64)

        try:
            options = {"maxfun": count, "maxiter": count, "ftol": 0.0, "gtol": 0.0}
            minimize(descend, point.astype(np.float64), jac=True, method="L-BFGS-B", options=options)
        except FloatingPointError:
            pass
        return float(np.nanmax(seen)) - seen[0] if np.isfinite(seen[0]) else float("nan")

    return np.array([rise(point) for point in optima])
