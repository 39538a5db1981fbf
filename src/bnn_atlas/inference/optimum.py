"""How much further steps still raise the log posterior above an optimum."""

from collections.abc import Callable
from contextlib import suppress

import jax
import numpy as np
from jax import numpy as jnp

from bnn_atlas.inference.problem import Problem
from bnn_atlas.inference.virial import virial_of
from bnn_atlas.metrics.gathering.virial import FURTHER_GRADIENTS, Virial
from bnn_atlas.posterior.density import Posterior, PosteriorData
from bnn_atlas.traces.draws import Draws


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

    L-BFGS (SciPy) starts at the optimum and takes at most `FURTHER_GRADIENTS` gradients, so this is a lower bound of
    what is left to gain: 0 at a maximum, up to rounding. It says nothing of other maxima. A step to where the density
    is not finite is shortened. NaN where it is not finite at the optimum, or at all other points of the search.
    """
    from scipy.optimize import minimize  # slow to import

    batch, evaluate = posterior.arrange(data), jax.jit(posterior.evaluate)

    def rise(point: np.ndarray) -> float:
        seen: list[float] = []

        def descend(theta: np.ndarray) -> tuple[float, np.ndarray]:
            place = theta.astype(data.prior.loc.dtype)
            # A line search that finds nothing ends where it started.
            if len(seen) > FURTHER_GRADIENTS or (seen and np.array_equal(place, point.astype(place.dtype))):
                raise StopIteration
            density, gradient = evaluate(jnp.asarray(place), batch)
            value, slope = float(density.log_likelihood) + float(density.log_prior), np.asarray(gradient, np.float64)
            finite = np.isfinite(value) and np.isfinite(slope).all()
            seen.append(value if finite else np.nan)
            if finite:
                return -value, -posterior.temperature * slope
            if len(seen) == 1:
                raise StopIteration
            # A flat point a nat below the best makes the line search take about half the step.
            return 1 - float(np.nanmax(seen)), np.zeros_like(theta)

        with suppress(StopIteration):
            minimize(descend, point.astype(np.float64), jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 0.0})
        start, *others = seen
        known = np.isfinite(start) and (not others or np.isfinite(others).any())
        return float(np.nanmax(seen)) - start if known else float("nan")

    return np.array([rise(point) for point in optima])
