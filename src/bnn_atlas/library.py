"""The public functions of this package: build the posterior of a network, sample it, predict and score.

The modules that they need are imported on the first call, because JAX must not be imported before `configure`.
"""

from collections.abc import Hashable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import arviz
    import pandas
    import xarray
    from numpy.typing import ArrayLike

    from bnn_atlas.config.parts.posterior import PosteriorConfig
    from bnn_atlas.metrics.gathering.summary import PredictiveSummary
    from bnn_atlas.posterior.density import Posterior, PosteriorData
    from bnn_atlas.posterior.prior_densities import Prior
    from bnn_atlas.traces.convert import Group
    from bnn_atlas.traces.draws import Draws
    from bnn_atlas.traces.pool import Pool


class NetworkPosterior(NamedTuple):
    """The posterior of a network's parameters given data."""

    density: "Posterior"
    """Log-likelihood, log-prior and gradients at parameters [P]; `density.layout` names the parameters."""
    data: "PosteriorData"
    """The rows that the posterior is conditioned on, and the prior's numbers."""
    config: "PosteriorConfig"
    """Settings of the network, the likelihood, the prior and the temperature."""
    classes: int
    """0 for regression."""
    vocabulary: int = 0
    """Number of token ids; 0 for rows of numbers."""
    columns: tuple[Hashable, ...] = ()
    """Names of the columns of the rows, if they were a frame."""

    def __repr__(self) -> str:
        """Network, likelihood, prior and numbers of parameters and rows."""
        from bnn_atlas.config.language.base import plural

        config, size = self.config, plural(self.density.layout.size, "parameter")
        return (
            f"NetworkPosterior({config.model.label}, {size}, {config.likelihood.kind}, {config.prior.kind}, "
            f"{plural(len(self._rows[1]), 'row')})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle settings and arrays; the functions are built again from them."""
        return _built_again, (self.config, self.data, *self[3:])

    @property
    def _dtype(self) -> Any:
        return self.data.prior.loc.dtype

    @property
    def _rows(self) -> tuple[Any, Any]:
        """Rows and targets without the padding of the last shard."""
        x, y, weights = self.data.x, self.data.y, self.data.weights
        return (x, y) if weights is None else (x[weights > 0], y[weights > 0])


def build_posterior(
    x: "ArrayLike", y: "ArrayLike", settings: Mapping[str, Any], *, classes: int = 0, vocabulary: int = 0
) -> NetworkPosterior:
    """Posterior of a network given data, p(theta | x, y)^(1 / T) up to a constant.

    Nothing is scaled here: inputs and regression targets should have zero mean and unit variance. Warns of labels that
    look like a mistake (all the same, another one in each row, counted from 1, or with classes that never occur), and,
    as all functions that take rows and targets, of frames of pandas whose rows have other labels than the targets.

    Args:
        x: inputs, as tables [n, d], images [n, height, width, channels], or token ids [n, length].
        y: targets [n], or class numbers [n] from 0; a column [n, 1] is the same.
        settings: `model`, `likelihood` and, optionally, `prior`, `temperature` and the other fields of
            `bnn_atlas.config.parts.posterior.PosteriorConfig`, as in the runs of config/studies/.
        classes: number of classes; 0 for the largest label + 1.
        vocabulary: number of token ids, for sequences.

    Raises:
        ConfigError: a setting is wrong; the message gives its value and what is allowed.
        ShapeError: the model does not take rows of this shape.
        DataError: an array or a number is not what it stands for; the message names it and says what to do.
        ValueError: `float64: true` without `configure(float64=True)`.
    """
    from bnn_atlas import arrays
    from bnn_atlas.config.language.base import MOST, WIDEST, validated
    from bnn_atlas.config.parts.posterior import CategoricalLikelihood, PosteriorConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.posterior import density

    config = validated(PosteriorConfig, _section(settings), "posterior")
    dtype = np.float64 if config.float64 else np.float32
    categorical = isinstance(config.likelihood, CategoricalLikelihood)
    classes = arrays.count(classes, "classes", 0, WIDEST)
    vocabulary = arrays.count(vocabulary, "vocabulary", 0, MOST)
    if classes and not categorical:
        raise DataError(
            f"classes is {classes}, but likelihood '{config.likelihood.kind}' is a regression: leave it out"
        )
    arrays.check_order(x, y)
    columns = arrays.column_names(x)
    x = arrays.rows(x, dtype, vocabulary=vocabulary)
    y = arrays.targets(y, config.likelihood, classes, dtype, count=len(x))
    if not vocabulary:
        arrays.check_spread(x, dtype, "x")
    if categorical:
        classes = arrays.classes_in(y, classes)
    else:
        arrays.check_spread(y, dtype, "y")
    posterior, prior = _density(config, x, classes, vocabulary)
    data = density.posterior_data(x, y, prior, config.data_shards, vocabulary, shape=x.shape[1:], classes=classes)
    return NetworkPosterior(posterior, data, config, classes, vocabulary, columns)


def _density(config: "PosteriorConfig", x: np.ndarray, classes: int, vocabulary: int) -> "tuple[Posterior, Prior]":
    """The density, and the prior, for rows like x."""
    from jax import numpy as jnp

    from bnn_atlas.posterior import density

    if config.float64 and jnp.asarray(0.5).dtype != jnp.float64:
        raise ValueError("float64: true needs `bnn_atlas.configure(float64=True)` before anything else")
    return density.build_posterior(
        config.model,
        config.likelihood,
        config.prior,
        temperature=config.temperature,
        shape=x.shape[1:],
        classes=classes,
        vocabulary=vocabulary,
        dtype=jnp.float64 if config.float64 else jnp.float32,
        shards=config.data_shards,
        kernel=config.kernel,
        rows=x,
    )


def _built_again(
    config: "PosteriorConfig", data: "PosteriorData", classes: int, vocabulary: int, columns: tuple[Hashable, ...]
) -> NetworkPosterior:
    """A posterior from its pickle."""
    posterior, _ = _density(config, np.asarray(data.x), classes, vocabulary)
    return NetworkPosterior(posterior, data, config, classes, vocabulary, columns)


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
        training: settings of `bnn_atlas.config.parts.starts.WarmStartConfig`; `{}` for the defaults, None not to train.
        validation: rows and targets for early stopping; without them training lasts `max_epochs`.
        seed: a whole number from 0 to 2^32 - 1; chain i depends only on the seed and i.

    Raises:
        ConfigError: a setting is wrong.
        DataError: an array or a number is not what it stands for; the message names it and says what to do.
        ValueError: there are fewer rows than `batch_size`.
        TrainingError: the loss of a network is not finite.
    """
    from jax import numpy as jnp

    from bnn_atlas import arrays
    from bnn_atlas.config.language.base import MOST_CHAINS, ConfigError, validated
    from bnn_atlas.config.parts.starts import WarmStartConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.warmstart.ensemble import Rows, initialise, train_ensemble

    _check_posterior(posterior)
    members, dtype = np.arange(arrays.count(chains, "chains", 1, MOST_CHAINS)), posterior._dtype
    word = _as_int32(arrays.seed(seed))
    x, y = posterior._rows
    watched = x[:0], y[:0]
    if validation is not None:
        if not (isinstance(validation, tuple | list) and len(validation) == 2):
            raise DataError("validation must be two arrays, (rows, targets)")
        arrays.check_order(*validation, "validation[0]", "validation[1]")
        held_out = _rows_like(posterior, validation[0], "validation[0]")
        watched = held_out, _targets_like(posterior, validation[1], len(held_out), "validation[1]")
    if training is None:
        return initialise(posterior.density, members, word, dtype)
    config = validated(WarmStartConfig, _section(training), "training")
    if config.permuted is not None:
        raise ConfigError("training: permuted: only runs of the pipeline start from permuted copies; leave it out")
    rows = Rows(x, y, jnp.asarray(watched[0], x.dtype), jnp.asarray(watched[1], y.dtype))
    return np.asarray(train_ensemble(posterior.density, config, rows, members, word, dtype).parameters)


def sample(
    posterior: NetworkPosterior, method: Mapping[str, Any], starts: "ArrayLike", folder: str | Path, *, seed: int = 0
) -> "Pool":
    """Run a method from each start and return the draws, which are kept in `folder`.

    Repeating an interrupted call continues from its last checkpoint, with the same bits; repeating a completed call
    returns its draws. With other settings, data or code, new draws replace those in the folder.

    Args:
        posterior: the target.
        method: `kind` and settings of a method, as under `method:` of a run in config/studies/.
        starts: starting points of the chains [chain, P], see `starting_points`.
        folder: folder of the trace; created if it does not exist.
        seed: a whole number from 0 to 2^32 - 1; chain i depends only on the seed, i and its start.

    Raises:
        ConfigError: a setting is wrong.
        DataError: the starting points, the folder or the seed are not what they stand for; the message says what to do.
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

    _check_posterior(posterior)
    config = validated(RootModel[MethodConfig], _section(method), "method").root
    if isinstance(config, LeapfrogSettings):
        try:
            config = config.resolved(standard_deviation(posterior.config.prior), posterior.config.temperature)
        except ValueError as error:
            raise ConfigError(f"method: {error}") from None
    config = config.for_rows(len(posterior.data.y))
    starts = arrays.starts(starts, posterior.density.layout, posterior._dtype)
    seed = arrays.seed(seed)
    if not isinstance(folder, str | Path) or folder == "":
        what = "empty" if folder == "" else f"a {type(folder).__name__}"
        raise DataError(f"folder is {what}: pass the name of a folder")
    target = Path(folder)
    at_once = 1 if runtime.on_cpu() else len(starts)
    budget = 1e6 * posterior.config.gradient_memory_mb / at_once
    density = within_budget(posterior.density, posterior.data, budget)
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
    block = Block(starts, np.arange(len(starts)), _as_int32(seed), target / "chains", digest, attributes)
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


def predict(
    posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike", y: "ArrayLike | None" = None
) -> "PredictiveSummary":
    """Predictive distributions at the rows x [n, ...], averaged over the draws of each chain.

    With targets y [n] there are also their densities. The draws can come from elsewhere, such as a run of the pipeline,
    if they are of the same network, likelihood, prior and temperature.

    Raises:
        DataError: an array is not what it stands for, or the draws belong to another posterior; the message names it.
    """
    from bnn_atlas import arrays
    from bnn_atlas.inference.problem import Predictor
    from bnn_atlas.metrics.gathering import streaming

    _check_posterior(posterior)
    _check_draws(posterior, draws)
    arrays.check_order(x, y)
    rows = _rows_like(posterior, x)
    targets = None if y is None else _targets_like(posterior, y, len(rows))
    predictor = Predictor(posterior.density, posterior.data, 1e6 * posterior.config.gradient_memory_mb)
    return streaming.summarise(draws, predictor, rows, targets, classes=posterior.classes)


def score(posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike", y: "ArrayLike") -> "pandas.DataFrame":
    """Scores of the average over all draws at the rows x [n, ...] with targets y [n], and diagnostics of the chains.

    The columns are `metric`, `value`, `standard_error` and `note`. Chains that never move, or with predictions that are
    not finite, are left out and counted. Raises the same errors as `predict`.
    """
    import pandas as pd

    from bnn_atlas import arrays
    from bnn_atlas.data import DataError
    from bnn_atlas.metrics.judgement import evaluate
    from bnn_atlas.metrics.tables.measurement import RunIdentity

    _check_posterior(posterior)
    _check_draws(posterior, draws)
    method = _recorded(draws).get("method")
    if method is None:
        raise DataError(
            f"draws ({draws.path}) do not record the method that made them, which the scores depend on: pass the pool "
            "that `sample`, the pipeline or `open_reference` gives"
        )
    arrays.check_order(x, y)
    rows = _rows_like(posterior, x)
    targets = _targets_like(posterior, y, len(rows))
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
    """The draws with what ArviZ needs to check and compare models, over the rows of the posterior.

    To the groups of `draws.to_arviz()`, this adds `log_likelihood` and `posterior_predictive` (`y` by chain, draw and
    row, the latter drawn at random), `observed_data` (the targets `y`) and `constant_data` (the inputs `x`), as arrays
    in memory. `log_likelihood` is for `az.loo` and `az.compare`, which take draws for those of the posterior at
    temperature 1: it is left out for other temperatures, and for draws that are not a Markov chain.

    Raises:
        DataError: the draws belong to another posterior or to other rows, or lack parameters.
    """
    from bnn_atlas import arrays
    from bnn_atlas.config.methods.registry import method
    from bnn_atlas.inference.pointwise import pointwise
    from bnn_atlas.inference.problem import Predictor

    _check_posterior(posterior)
    _check_draws(posterior, draws)
    seed = arrays.seed(seed)
    x, y = (np.asarray(array) for array in posterior._rows)
    predictor = Predictor(posterior.density, posterior.data, 1e6 * posterior.config.gradient_memory_mb)
    found = pointwise(draws, predictor, x, y, classes=posterior.classes, seed=seed)
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


class _HeldOut(NamedTuple):
    """Rows to score, in the units in which they were passed."""

    x_test: np.ndarray
    y_test: np.ndarray
    y_scale: float


def _section(settings: Any) -> Any:
    """Settings for `validated`, which refuses what is no mapping."""
    return dict(settings) if isinstance(settings, Mapping) else settings


def _as_int32(seed: int) -> int:
    """The number with the same 32 bits that the samplers take."""
    return int(np.uint32(seed).view(np.int32))


def _check_posterior(posterior: Any) -> None:
    from bnn_atlas.data import DataError

    if not isinstance(posterior, NetworkPosterior):
        raise DataError(f"posterior is a {type(posterior).__name__}: pass what `build_posterior` returns")


def _rows_like(posterior: NetworkPosterior, x: Any, name: str = "x") -> np.ndarray:
    """Further rows, like those of the posterior."""
    from bnn_atlas import arrays

    arrays.check_columns(x, posterior.columns, name)
    shape = posterior.data.x.shape[1:]
    return arrays.rows(x, posterior._dtype, name, shape=shape, vocabulary=posterior.vocabulary)


def _targets_like(posterior: NetworkPosterior, y: Any, count: int, name: str = "y") -> np.ndarray:
    """Their targets."""
    from bnn_atlas import arrays

    return arrays.targets(y, posterior.config.likelihood, posterior.classes, posterior._dtype, name, count=count)


def _recorded(draws: "Draws") -> Mapping[str, Any]:
    """The settings that the draws record."""
    found: Mapping[str, Any] = draws.attributes.get("provenance", {}).get("settings", {})
    return found


def _check_draws(posterior: NetworkPosterior, draws: Any) -> None:
    """Refuse draws of another network and, where they record it, of another likelihood, prior or temperature."""
    from bnn_atlas.config.language.base import validated
    from bnn_atlas.config.parts.posterior import PosteriorConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.traces.draws import Draws

    if not isinstance(draws, Draws):
        raise DataError(
            f"draws is a {type(draws).__name__}: pass a pool, from `sample` or `open_pool`, or the `draws` "
            "of a reference"
        )
    differences = []
    if (recorded := _recorded(draws).get("posterior")) is not None:
        theirs = validated(PosteriorConfig, recorded, f"{draws.path}: posterior").model_dump(mode="json")
        ours = posterior.config.model_dump(mode="json")
        differences = [
            f"{part} ({theirs[part]}, here {ours[part]})"
            for part in ("model", "likelihood", "prior", "temperature")
            if theirs[part] != ours[part]
        ]
    layout = posterior.density.layout
    if not differences and draws.layout != layout:
        differences = [f"network ({draws.layout.size} parameters, here {layout.size}, with other arrays)"]
    if differences:
        raise DataError(
            f"draws ({draws.path}) are of another posterior; these differ: {'; '.join(differences)}. Build the "
            "posterior with the settings and rows that the draws are of"
        )
