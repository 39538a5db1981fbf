"""A user's likelihood: a function of outputs and targets that returns the log density of every row."""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp
from scipy.special import logsumexp

from bnn_atlas.config.parts.user import UserLikelihoodConfig
from bnn_atlas.data import DataError
from bnn_atlas.inference.problem import Predictor
from bnn_atlas.library.networks import UserNetwork, digest_of, traced
from bnn_atlas.metrics.gathering.chain_statistics import stuck_chains
from bnn_atlas.metrics.gathering.streaming import Limits
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, running_counts
from bnn_atlas.models.networks import ShapeError
from bnn_atlas.posterior.density import Posterior
from bnn_atlas.posterior.likelihoods import log_density
from bnn_atlas.traces.draws import Draws, evenly

GIVE_MEAN = "pass `mean=`, a function of the outputs that returns the predictive mean of every row, to `posterior_of`"
"""Advice where a user's likelihood does not say enough."""


def likelihood_of(
    function: Callable[..., Any],
    mean: Callable[..., Any] | None,
    user: UserNetwork,
    rows: np.ndarray,
    targets: np.ndarray,
) -> UserLikelihoodConfig:
    """A likelihood from a function of outputs [n, outputs], targets [n] and its own parameters by name.

    Arguments after the first two that have no default are parameters of the likelihood: numbers that are sampled with
    the network's parameters. The rows and targets are the first of the data; with them, it is checked that the density
    of a row does not depend on the other rows.

    Raises:
        DataError: the functions take other arguments, or the density of a row depends on other rows.
        ShapeError: they fail, or do not return one number for each row.
    """
    name = getattr(function, "__name__", type(function).__name__)
    own = _own_parameters(function, name, {p.name for p in user.network.layout.parameters})
    count = user.outputs + 1  # differs from the number of outputs, so that the axes cannot be confused
    outputs, target, number = (
        jax.ShapeDtypeStruct(shape, user.dtype) for shape in ((count, user.outputs), (count,), ())
    )
    numbers = (number,) * len(own)
    what = f"outputs {[count, user.outputs]} and targets {[count]}"
    program = _for_rows(lambda o, y, *e: function(o, y, **_named(own, e)), name, what, outputs, target, *numbers)
    digest, of_mean = digest_of(program), None
    if mean is not None:
        label = getattr(mean, "__name__", type(mean).__name__)
        if not callable(mean):
            raise DataError(f"mean is a {label}: pass a function of the outputs [n, outputs] that returns [n]")
        wanted = [argument.name for argument in _arguments(mean, label)[1:] if argument.default is argument.empty]
        if unknown := [argument for argument in wanted if argument not in own]:
            has = f"has {', '.join(own)}" if own else "has no parameters of its own"
            raise DataError(f"mean takes '{unknown[0]}', and the likelihood {name} {has}: rename the argument")

        def of_mean(outputs: Any, **given: Any) -> Any:
            return mean(outputs, **{argument: given[argument] for argument in wanted})

        what = f"outputs {[count, user.outputs]}"
        again = _for_rows(lambda o, *e: of_mean(o, **_named(own, e)), label, what, outputs, *numbers)
        digest = hashlib.sha256(f"{digest} {digest_of(again)}".encode()).hexdigest()
    _check_rows(function, name, own, user, rows, targets)
    return UserLikelihoodConfig(name=name, digest=digest, parameters=own, log_density=function, mean=of_mean)


def _named(names: tuple[str, ...], values: Any) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


def _arguments(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise DataError(f"the arguments of {name} cannot be read: wrap it in a function of your own") from None
    return [argument for argument in found if argument.kind is not argument.VAR_KEYWORD]


def _own_parameters(function: Callable[..., Any], name: str, taken: set[str]) -> tuple[str, ...]:
    arguments = _arguments(function, name)
    if len(arguments) < 2 or any(one.kind is one.VAR_POSITIONAL for one in arguments):
        raise DataError(
            f"the likelihood {name} has to take outputs [n, outputs] and targets [n], and then its own parameters by "
            "name"
        )
    own = tuple(one.name for one in arguments[2:] if one.default is one.empty)
    if clash := [one for one in own if one in taken]:
        raise DataError(f"the likelihood {name} and the network both have a parameter '{clash[0]}': rename one")
    return own


def _for_rows(function: Callable[..., Any], name: str, what: str, *arguments: Any) -> Any:
    """The traced program of a function that returns one number for each row."""
    program, _ = traced(function, name, what, *arguments)
    shapes = [list(found.shape) for found in program.out_avals]
    count = arguments[0].shape[0]
    if shapes != [[count]]:
        raise ShapeError(
            f"{name} returns {' and '.join(map(str, shapes))} for {what}: return one number for each row, [{count}] "
            "(of a network with one output, `outputs[:, 0]` has the shape of the targets)"
        )
    return program


def _check_rows(
    function: Callable[..., Any],
    name: str,
    own: tuple[str, ...],
    user: UserNetwork,
    rows: np.ndarray,
    targets: np.ndarray,
) -> None:
    """Compare the density of the first row alone with its density among the others."""
    network = user.network
    theta = jnp.asarray(network.initialise(jax.random.key(0)) if user.start is None else user.start, user.dtype)
    few = jnp.asarray(rows, np.int32 if rows.dtype.kind in "iu" else user.dtype)
    outputs = network.apply(theta, network.arrange(few))[:, : len(few)].T
    y, zeros = jnp.asarray(targets, user.dtype), _named(own, jnp.zeros(len(own), user.dtype))
    among, alone = (np.asarray(function(outputs[:n], y[:n], **zeros))[0] for n in (len(few), 1))
    if np.isfinite(among) and np.isfinite(alone) and not np.isclose(among, alone, rtol=1e-4, atol=1e-5):
        raise DataError(
            f"{name} gives the first row the log density {alone:.6g} alone and {among:.6g} among {len(few)} rows: "
            "return the log density of every row by itself, without sums or means over rows"
        )


class OwnPrediction(NamedTuple):
    """Predictions of b draws at n rows."""

    outputs: np.ndarray
    """[b, n, outputs]."""
    mean: np.ndarray | None
    """[b, n]; None if the mean is not known."""
    log_density: np.ndarray | None
    """[b, n] float64; None without targets."""


class OwnPredictor:
    """Predictions of a posterior with a user's likelihood."""

    def __init__(self, posterior: Posterior, predictor: Predictor, width: int) -> None:
        """Take the posterior, the predictor that computes the network's outputs, and their number."""
        config = posterior.likelihood
        assert isinstance(config, UserLikelihoodConfig)
        self.config, self._size, self._outputs, self._width = config, posterior.network.layout.size, predictor, width
        self._density = jax.jit(jax.vmap(lambda o, e, y: log_density(config, o.T, e, y), (0, 0, None)))
        of_mean = config.mean
        self._mean: Any = of_mean and jax.jit(jax.vmap(lambda o, e: of_mean(o, **_named(config.parameters, e))))

    def __call__(self, theta: np.ndarray, x: np.ndarray, y: np.ndarray | None = None) -> OwnPrediction:
        """Predictions of draws theta [b, P] at rows x [n, ...], with the densities of targets y [n] if given."""
        outputs = np.asarray(self._outputs(theta, x).mean)
        extra = theta[:, self._size :].astype(outputs.dtype)
        mean = None if self._mean is None else np.asarray(self._mean(outputs, extra))
        density = None if y is None else np.asarray(self._density(outputs, extra, y.astype(outputs.dtype)), np.float64)
        return OwnPrediction(outputs, mean, density)

    def of_chain(
        self, draws: Draws, chain: int, x: np.ndarray, y: np.ndarray | None, max_bytes: int
    ) -> Iterator[tuple[slice, OwnPrediction]]:
        """Predictions of the draws of a chain, in pieces of nearly equal length."""
        each = draws.size * draws.dtype.itemsize + 24 * len(x) * self._width
        pieces = -(-draws.draws // max(1, max_bytes // each))
        length = -(-draws.draws // pieces)
        for start in range(0, draws.draws, length):
            part = slice(start, min(start + length, draws.draws))
            theta = draws.read([chain], part)[0]
            filled = np.concatenate([theta, np.repeat(theta[:1], length - len(theta), axis=0)])
            found = self(filled, x, y)
            mean, density = (None if leaf is None else leaf[: len(theta)] for leaf in (found.mean, found.log_density))
            yield part, OwnPrediction(found.outputs[: len(theta)], mean, density)


def summarise(
    draws: Draws, predict: OwnPredictor, x: np.ndarray, y: np.ndarray | None, limits: Limits | None = None
) -> PredictiveSummary:
    """Summarise predictions at the rows x [n, ...], with the densities of targets y [n] if given.

    The function values of a row are its predictive mean or, if that is not known, the network's outputs. A chain with a
    draw or a density that is not finite is divergent (a density of 0 is valid), and is left out of all averages.
    """
    limits = limits or Limits()
    shape, rows = (draws.chains, draws.draws), len(x)
    grid, chosen = running_counts(draws.draws, limits.running_points), evenly(rows, limits.function_rows)
    stuck = stuck_chains(draws, limits.max_bytes)
    divergent = stuck.copy()
    by_chain, running = np.full((draws.chains, rows), np.nan), np.full((draws.chains, len(grid)), np.nan)
    moments = np.full((2, draws.chains, rows), np.nan)
    by_draw, functions = np.full((draws.draws, rows), -np.inf), np.zeros((*shape, 0))
    for chain in range(draws.chains):
        density, sums, valid = np.zeros((0 if y is None else draws.draws, rows)), np.zeros((2, rows)), True
        for part, found in predict.of_chain(draws, chain, x, y, limits.max_bytes):
            values = found.outputs if found.mean is None else found.mean[..., None]
            if not functions.size:
                functions = np.full((*shape, len(chosen) * values.shape[2]), np.nan, values.dtype)
            functions[chain, part] = values[:, chosen].reshape(len(values), -1)
            valid &= bool(np.isfinite(values).all())
            if found.mean is not None:
                wide = found.mean.astype(np.float64)
                sums += wide.sum(axis=0), np.square(wide).sum(axis=0)
            if found.log_density is not None:
                valid &= bool((found.log_density < np.inf).all())  # NaN fails, too
                density[part] = found.log_density
        divergent[chain] |= not valid
        if divergent[chain]:
            functions[chain] = np.nan
            continue
        moments[:, chain] = sums / draws.draws
        if y is not None:
            by_draw = np.logaddexp(by_draw, density)
            by_chain[chain] = logsumexp(density, axis=0) - np.log(draws.draws)
            running[chain] = np.logaddexp.accumulate(density, axis=0)[grid - 1].mean(axis=1) - np.log(grid)
    each = functions.shape[2] // len(chosen)
    summary = PredictiveSummary(
        draws.draws, divergent, stuck, grid, functions, np.repeat(chosen, each), np.full(functions.shape[2], -1)
    )
    if predict.config.mean is not None:
        summary = summary._replace(mean=moments[0], second_moment=moments[1])
    if y is None:
        return summary
    kept = int((~divergent).sum())
    by_draw = by_draw - np.log(kept) if kept else np.full_like(by_draw, np.nan)
    return summary._replace(log_density_by_chain=by_chain, log_density_by_draw=by_draw, running_lppd=running)
