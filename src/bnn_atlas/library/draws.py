"""Starting points of chains, draws, and predictions and scores of draws."""

import weakref
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile, mkdtemp
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bnn_atlas.library.posteriors import NetworkPosterior, as_int32, check_posterior, rows_like, section, targets_like

if TYPE_CHECKING:
    import arviz
    import pandas
    import xarray
    from numpy.typing import ArrayLike

    from bnn_atlas.inference.problem import Predictor
    from bnn_atlas.metrics.gathering.summary import PredictiveSummary
    from bnn_atlas.posterior.density import Predictive
    from bnn_atlas.traces.convert import Group
    from bnn_atlas.traces.draws import Draws
    from bnn_atlas.traces.pool import Pool


def starting_points(
    posterior: NetworkPosterior,
    chains: int,
    *,
    training: Mapping[str, Any] | None = None,
    validation: "tuple[ArrayLike, ArrayLike] | None" = None,
    seed: int = 0,
) -> np.ndarray:
    """Parameters [chain, P] at which chains start: initialised networks, or trained ones (a deep ensemble).

    Args:
        posterior: the network and the rows to train on; its prior is not used in training.
        chains: number of chains.
        training: settings of `bnn_atlas.config.parts.starts.WarmStartConfig`; `{}` for the defaults, None for untrained
            networks.
        validation: rows and targets for early stopping; if left out, training lasts `max_epochs`.
        seed: a whole number from 0 to 2^32 - 1; chain i depends only on the seed and i.

    Raises:
        ConfigError: a setting is wrong.
        DataError: an array or number is not valid for its argument; the message names the argument and says what to do.
        ValueError: there are fewer rows than `batch_size`.
        TrainingError: the loss of a network is not finite.
    """
    from jax import numpy as jnp

    from bnn_atlas import arrays
    from bnn_atlas.config.language.base import MOST_CHAINS, ConfigError, validated
    from bnn_atlas.config.parts.starts import WarmStartConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.warmstart.ensemble import Rows, initialise, train_ensemble

    check_posterior(posterior)
    members, dtype = np.arange(arrays.count(chains, "chains", 1, MOST_CHAINS)), posterior.dtype
    word = as_int32(arrays.seed(seed))
    x, y = posterior.rows
    watched = x[:0], y[:0]
    if validation is not None:
        if not (isinstance(validation, tuple | list) and len(validation) == 2):
            raise DataError("validation must be two arrays, (rows, targets)")
        arrays.check_order(*validation, "validation[0]", "validation[1]")
        held_out = rows_like(posterior, validation[0], "validation[0]")
        watched = held_out, targets_like(posterior, validation[1], len(held_out), "validation[1]")
    if training is None:
        return initialise(posterior.density, members, word, dtype)
    config = validated(WarmStartConfig, section(training), "training")
    if config.permuted is not None:
        raise ConfigError("training: permuted: only runs of the pipeline start from permuted copies; leave it out")
    rows = Rows(x, y, jnp.asarray(watched[0], x.dtype), jnp.asarray(watched[1], y.dtype))
    return np.asarray(train_ensemble(posterior.density, config, rows, members, word, dtype).parameters)


def sample(
    posterior: NetworkPosterior,
    method: str | Mapping[str, Any],
    starts: "ArrayLike | None" = None,
    folder: str | Path | None = None,
    *,
    chains: int = 4,
    seed: int = 0,
) -> "Pool":
    """Run a method from each start and return the draws, which are kept in `folder`.

    Repeating an interrupted call continues from its last checkpoint and yields bitwise the same draws; repeating a
    completed call returns its draws. With other settings, data or code, new draws replace the draws in the folder.

    Args:
        posterior: the target.
        method: kind of a method, or `kind` and settings, as under `method:` of a run in config/studies/.
        starts: starting points of the chains [chain, P], see `starting_points`; None for random networks, or for the
            parameters that were passed to `posterior_of`.
        folder: folder of the trace; created if it does not exist. None for a folder that is removed with the draws.
        chains: number of chains if `starts` is None.
        seed: a whole number from 0 to 2^32 - 1; chain i depends only on the seed, i and its start.

    Raises:
        ConfigError: a setting is wrong.
        DataError: the starting points, the folder or the seed are not valid; the message says what to do.
        StartError: the density at a starting point is not finite.
    """
    import jax
    from pydantic import RootModel

    from bnn_atlas import arrays, runtime
    from bnn_atlas.config.language.base import ConfigError, validated
    from bnn_atlas.config.methods.hmc import LeapfrogSettings
    from bnn_atlas.config.methods.registry import MethodConfig
    from bnn_atlas.config.parts.priors import standard_deviation
    from bnn_atlas.data import DataError
    from bnn_atlas.inference.fingerprint import fingerprint_of_draws
    from bnn_atlas.inference.problem import within_budget
    from bnn_atlas.methods.contract import build_method
    from bnn_atlas.posterior.compiled import kernel_name
    from bnn_atlas.runner.segments import Block, noted, run_block
    from bnn_atlas.traces.pool import open_pool, pool_traces

    check_posterior(posterior)
    method = {"kind": method} if isinstance(method, str) else method
    config = validated(RootModel[MethodConfig], section(method), "method").root
    if isinstance(config, LeapfrogSettings):
        try:
            config = config.resolved(standard_deviation(posterior.config.prior), posterior.config.temperature)
        except ValueError as error:
            raise ConfigError(f"method: {error}") from None
    config = config.for_rows(len(posterior.data.y))
    if config.kind == "laplace":
        _check_curvature(posterior)
    if config.kind == "psgld" and not len(posterior.data.y):
        raise ConfigError(
            "method: psgld scales gradients by the number of rows, and there are none: choose sgld or another sampler "
            "for a density alone"
        )
    seed = arrays.seed(seed)
    if starts is None:
        starts = starting_points(posterior, chains, seed=seed)
    starts = arrays.starts(starts, posterior.density.layout, posterior.dtype)
    if folder is None:
        return _sampled_for_now(posterior, method, starts, seed)
    if not isinstance(folder, str | Path) or folder == "":
        what = "empty" if folder == "" else f"a {type(folder).__name__}"
        raise DataError(f"folder is {what}: pass the name of a folder")
    target = Path(folder)
    at_once = 1 if runtime.on_cpu() else len(starts)
    budget = 1e6 * posterior.config.gradient_memory_mb / at_once
    density = posterior.density
    if len(posterior.data.y):
        density = within_budget(density, posterior.data, budget)
    settings = {
        "posterior": posterior.config.model_dump(mode="json"),
        "method": config.model_dump(mode="json"),
        "seed": seed,
        "kernel": kernel_name(density.kernel),
    }
    inputs = [np.asarray(leaf) for leaf in jax.tree.leaves((posterior.data, starts))]
    digest = fingerprint_of_draws(config, posterior.config, settings, inputs)
    notes = noted(config, density, len(posterior.data.y))
    attributes = {"provenance": {"settings": settings}, **notes}
    block = Block(starts, np.arange(len(starts)), as_int32(seed), target / "chains", digest, attributes)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=target):
            pass
    except (FileExistsError, NotADirectoryError):
        raise DataError(f"folder ({target}) is a file or in one: name a folder") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"folder ({str(target)!r:.80}) cannot be used ({why}): name one where you may write") from None
    run_block(build_method(config, density, posterior.data), density, posterior.data, block, config.checkpoint_every)
    pool_traces([block.destination], target / "pool.json")
    return open_pool(target / "pool.json")


def _check_curvature(posterior: NetworkPosterior) -> None:
    """Reject posteriors whose curvature a Laplace approximation would miss.

    It adds the likelihood's curvature and the diagonal of the prior's. For a prior of independent parameters with
    Hessian H, H v = (H 1) v for every vector v, and so for a random one.
    """
    import jax
    from jax import numpy as jnp

    from bnn_atlas.config.language.base import ConfigError
    from bnn_atlas.config.parts.user import UserPriorConfig

    if not isinstance(posterior.config.prior, UserPriorConfig):
        return
    if not len(posterior.data.y):
        raise ConfigError(
            "method: laplace takes its curvature from a likelihood, and there are no rows: choose mean_field, low_rank "
            "or a sampler for a density alone"
        )

    def second(direction: Any) -> Any:
        slope = jax.grad(lambda theta: posterior.density.log_prior(theta, posterior.data.prior))
        return jax.jvp(slope, (place,), (direction,))[1]

    random = np.random.default_rng(0)
    place = jnp.asarray(random.normal(size=posterior.density.layout.size), posterior.dtype)
    direction = jnp.asarray(random.normal(size=len(place)), posterior.dtype)
    diagonal = second(jnp.ones_like(place))
    if not jnp.allclose(second(direction), diagonal * direction, rtol=1e-2, atol=1e-3 * jnp.abs(diagonal).max()):
        raise ConfigError(
            "method: laplace needs a prior of independent parameters, but the prior function correlates them: choose "
            "mean_field, low_rank or a sampler"
        )


def _sampled_for_now(posterior: NetworkPosterior, method: Mapping[str, Any], starts: np.ndarray, seed: int) -> "Pool":
    """Draws in a folder that is removed when they are no longer used."""
    folder = mkdtemp(prefix="draws-")
    try:
        pool = sample(posterior, method, starts, folder, seed=seed)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(pool, rmtree, folder, ignore_errors=True)
    return pool


def predict(
    posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike", y: "ArrayLike | None" = None
) -> "PredictiveSummary":
    """Predictive distributions at the rows x [n, ...], averaged over the draws of each chain.

    With targets y [n], the densities of the targets are also returned. The draws can come from elsewhere, such as a run
    of the pipeline, if network, likelihood, prior and temperature are the same.

    Raises:
        DataError: an array is not valid for its argument, or the draws belong to another posterior; the message says
            which.
    """
    from bnn_atlas import arrays
    from bnn_atlas.metrics.gathering import streaming

    _check_draws(posterior, draws)
    arrays.check_order(x, y)
    rows = rows_like(posterior, x)
    targets = None if y is None else targets_like(posterior, y, len(rows))
    return streaming.summarise(draws, _predictor(posterior), rows, targets, classes=posterior.classes)


def predict_draws(posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike") -> "Predictive":
    """Predictive distributions of every draw at the rows x [n, ...], in memory.

    Regression: `mean` and `scale` [chain, draw, n]; classification: `log_probs` [chain, draw, n, k].

    Raises:
        DataError: an array is not valid for its argument, or the draws belong to another posterior; the message says
            which.
    """
    import jax

    _check_draws(posterior, draws)
    rows = rows_like(posterior, x)
    predictor = _predictor(posterior)
    by_chain = [predictor(draws.read([chain])[0], rows) for chain in range(draws.chains)]
    found: Predictive = jax.tree.map(lambda *leaves: np.stack(leaves), *by_chain)
    return found


def score(posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike", y: "ArrayLike") -> "pandas.DataFrame":
    """Scores of the average over all draws at the rows x [n, ...] with targets y [n], and diagnostics of the chains.

    The columns are `metric`, `value`, `standard_error` and `note`. Chains that never move or whose predictions are not
    finite are left out and counted. Raises the same errors as `predict`.
    """
    import pandas as pd

    from bnn_atlas import arrays
    from bnn_atlas.data import DataError
    from bnn_atlas.metrics.judgement import evaluate
    from bnn_atlas.metrics.tables.measurement import RunIdentity

    _check_draws(posterior, draws)
    method = _recorded(draws).get("method")
    if method is None:
        raise DataError(
            f"draws ({draws.path}) do not record the method that made them, which the scores depend on: pass a pool "
            "from `sample`, the pipeline or `open_reference`"
        )
    arrays.check_order(x, y)
    rows = rows_like(posterior, x)
    targets = targets_like(posterior, y, len(rows))
    identity = RunIdentity("", "", "", 0, "", posterior.config.model.label, method["kind"])
    summary = predict(posterior, draws, rows, targets)
    scored = evaluate.score(
        draws,
        summary,
        _HeldOut(rows, targets, 1.0),
        evaluate.RunFacts(identity, batch_rows=method.get("batch_size"), temperature=posterior.config.temperature),
    )
    return pd.DataFrame(scored.rows)[["metric", "value", "standard_error", "note"]]


def to_arviz(posterior: NetworkPosterior, draws: "Draws", *, seed: int = 0) -> "arviz.InferenceData | xarray.DataTree":
    """The draws with the groups that ArviZ needs to check and compare models, over the rows of the posterior.

    To the groups of `draws.to_arviz()`, this adds `log_likelihood` and `posterior_predictive` (`y` by chain, draw and
    row; the predictive targets are drawn at random), `observed_data` (the targets `y`) and `constant_data` (the inputs
    `x`), as arrays in memory. `log_likelihood` is used by `az.loo` and `az.compare`, which assume draws from the
    posterior at temperature 1: it is left out for other temperatures, and for draws that are not a Markov chain.

    Raises:
        DataError: the draws belong to another posterior or to other rows, or lack parameters.
    """
    from bnn_atlas import arrays
    from bnn_atlas.config.methods.registry import method
    from bnn_atlas.inference.pointwise import pointwise

    _check_draws(posterior, draws)
    seed = arrays.seed(seed)
    x, y = (np.asarray(array) for array in posterior.rows)
    found = pointwise(draws, _predictor(posterior), x, y, classes=posterior.classes, seed=seed)
    by_draw = ("chain", "draw", "row")
    inputs = ("row", *(f"x_dim_{axis}" for axis in range(x.ndim - 1)))
    groups: dict[str, Group] = {
        "posterior_predictive": {"y": (by_draw, found.replicated)},
        "observed_data": {"y": (("row",), y)},
        "constant_data": {"x": (inputs, x)},
    }
    made_by = _recorded(draws).get("method")
    if made_by and method(made_by["kind"]).kind_of_draws.are_chain and posterior.config.temperature == 1:
        groups["log_likelihood"] = {"y": (by_draw, found.log_likelihood)}
    return draws.to_arviz(groups)


def _predictor(posterior: NetworkPosterior) -> "Predictor":
    from bnn_atlas.inference.problem import Predictor

    return Predictor(posterior.density, posterior.data, 1e6 * posterior.config.gradient_memory_mb)


class _HeldOut(NamedTuple):
    """Rows and targets to score, in the units in which they were passed."""

    x_test: np.ndarray
    y_test: np.ndarray
    y_scale: float


def _recorded(draws: "Draws") -> Mapping[str, Any]:
    """The settings that the draws record."""
    found: Mapping[str, Any] = draws.attributes.get("provenance", {}).get("settings", {})
    return found


def _check_draws(posterior: NetworkPosterior, draws: Any) -> None:
    """Reject draws of another network or, if the draws record them, of another likelihood, prior or temperature."""
    from bnn_atlas.config.language.base import validated
    from bnn_atlas.config.parts.posterior import PosteriorConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.traces.draws import Draws

    check_posterior(posterior)
    if not isinstance(draws, Draws):
        raise DataError(
            f"draws is a {type(draws).__name__}: pass a pool, from `sample` or `open_pool`, or the `draws` "
            "of a reference"
        )
    differences = []
    if (recorded := _recorded(draws).get("posterior")) is not None:
        theirs = recorded
        if posterior.user is None:
            theirs = validated(PosteriorConfig, recorded, f"{draws.path}: posterior").model_dump(mode="json")
        ours = posterior.config.model_dump(mode="json")
        differences = [
            f"{part} ({theirs.get(part)}, here {ours[part]})"
            for part in ("model", "likelihood", "prior", "temperature")
            if theirs.get(part) != ours[part]
        ]
    layout = posterior.density.layout
    if not differences and draws.layout != layout:
        differences = [f"network ({draws.layout.size} parameters, here {layout.size}, with other arrays)"]
    if differences:
        raise DataError(
            f"draws ({draws.path}) are of another posterior; these differ: {'; '.join(differences)}. Build the "
            "posterior from the settings and rows that the draws were made with"
        )
