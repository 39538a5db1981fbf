"""Starting points of chains, and draws with what can be asked of them."""

import logging
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile, mkdtemp
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bnn_atlas.library import plots, predictions
from bnn_atlas.library.posteriors import (
    NetworkPosterior,
    as_int32,
    build_posterior,
    check_posterior,
    rows_like,
    section,
    targets_like,
)
from bnn_atlas.library.summaries import DrawsSummary, summarise
from bnn_atlas.traces.draws import Draws, Selection

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from bnn_atlas.metrics.gathering.summary import PredictiveSummary
    from bnn_atlas.posterior.density import Predictive


log = logging.getLogger(__name__)

ROWS = "rows"
"""Attribute of a trace that has the rows of its posterior beside it (`rows.npz`), and what these do not tell."""


class PosteriorDraws(Selection):
    """Draws on disk, with the posterior that they are of: what `sample` and `open_pool` return.

    `draws["layer0.weight"]` reads one array [chain, draw, ...]; `as_pytree`, `select`, `thin`, `read`, `statistic`,
    `batches`, `to_xarray` and `to_arviz` work as for every trace. The methods below also need the posterior.
    """

    posterior: NetworkPosterior | None
    """None if `open_pool` was not given one."""

    def __init__(self, source: Draws, posterior: NetworkPosterior | None) -> None:
        """All draws of a pool or selection.

        Raises:
            DataError: the draws belong to another posterior.
        """
        predictions.check_type(source)
        super().__init__(source, np.arange(source.chains), np.arange(source.draws), np.arange(source.size))
        if posterior is not None:
            predictions.check_draws(posterior, self)
        self.posterior = posterior

    def select(self, **conditions: Any) -> "PosteriorDraws":
        """Some chains, draws and scalars; see `Draws.select`."""
        known = list(Draws.select.__kwdefaults__ or ())
        if unknown := [name for name in conditions if name not in known]:
            raise ValueError(f"there is no condition '{unknown[0]}'; choose {', '.join(known)}")
        return PosteriorDraws(super().select(**conditions), self.posterior)

    def as_pytree(self) -> Any:
        """All draws [chain, draw, ...] in memory, in the form in which the user's network takes its parameters.

        Parameters that have no posterior are in it, too; those of the likelihood, such as `log_sigma`, are not. Without
        a user's network, arrays are in mappings: array `a/b` is entry `b` of the mapping `a`.

        Raises:
            ValueError: these draws are a selection of parameters.
        """
        if self.posterior is None or self.posterior.user is None or self.size != self.layout.size:
            return super().as_pytree()
        return self.posterior.as_pytree(self.read())

    def save(self, folder: str | Path) -> None:
        """Write the draws into a new folder, which appears whole or not at all; `open_pool(folder)` opens it.

        It has the draws, their statistics and the settings that they record, as a trace (Zarr) with its `pool.json`.
        For a posterior of `build_posterior` it also has the rows, from which `open_pool` builds the posterior. A
        network, likelihood or prior of yours is code and not written: `open_pool(folder, posterior)` takes it. Chains
        keep their numbers; draws are numbered from 0.

        Raises:
            FileExistsError: the folder exists already.
            DataError: the name of the folder is not valid, or these draws are a selection of parameters.
            DiskError: the disk cannot be written.
        """
        from bnn_atlas.data import DataError
        from bnn_atlas.files import atomic, save_arrays
        from bnn_atlas.traces.pool import pool_traces
        from bnn_atlas.traces.store import write_trace

        target = _named(folder)
        _make(target.parent, target)
        if target.exists():
            raise FileExistsError(f"{target} exists already: name a new folder, or remove this one")
        if self.size != self.layout.size:
            raise DataError(
                f"draws ({self.path}) have {self.size} of {self.layout.size} parameters, and a trace has all of them: "
                "save all, or keep a part with to_arviz().to_netcdf(...)"
            )
        attributes = {name: value for name, value in self.attributes.items() if name not in ("fingerprint", ROWS)}
        posterior = self.posterior
        with atomic(target) as temporary:
            temporary.mkdir()
            if posterior is not None:
                provenance = dict(attributes.get("provenance", {}))
                settings = {"posterior": posterior.config.model_dump(mode="json"), **provenance.get("settings", {})}
                attributes["provenance"] = {**provenance, "settings": settings}
            if posterior is not None and posterior.user is None:
                x, y = posterior.rows
                save_arrays(temporary / f"{ROWS}.npz", {"x": x, "y": y})
                columns = [name for name in posterior.columns if isinstance(name, str | int)]
                facts = {"classes": posterior.classes, "vocabulary": posterior.vocabulary}
                attributes[ROWS] = facts | {"columns": columns if len(columns) == len(posterior.columns) else []}
            write_trace(temporary / "chains", self, attributes)
            pool_traces([temporary / "chains"], temporary / "pool.json")

    def predict(self, x: "ArrayLike", y: "ArrayLike | None" = None) -> "PredictiveSummary":
        """`bnn_atlas.predict` with these draws."""
        return predictions.predict(self._known(), self, x, y)

    def predict_draws(self, x: "ArrayLike") -> "Predictive":
        """`bnn_atlas.predict_draws` with these draws."""
        return predictions.predict_draws(self._known(), self, x)

    def score(self, x: "ArrayLike", y: "ArrayLike") -> "pandas.DataFrame":
        """`bnn_atlas.score` with these draws."""
        return predictions.score(self._known(), self, x, y)

    def summary(self, x: "ArrayLike | None" = None) -> DrawsSummary:
        """Whether the chains can be trusted, and why: R-hat, effective sample sizes, divergences.

        Functions are judged at the rows x [n, ...] (up to 64 of them, evenly chosen), by default at the posterior's
        own. Of a density alone, and of draws whose posterior is not known, the parameters are, which is stricter: equal
        functions can have their units in different orders. The verdict follows the rule for the pipeline's tables.

        Raises:
            DataError: x is not valid or given without a posterior, or the draws do not record their method.
        """
        return summarise(self.posterior if x is None else self._known(), self, x)

    def plot_trace(self, parameters: Collection[str] | None = None) -> "Figure":
        """Draws of the log posterior and of single parameters, chain by chain, with their densities.

        Args:
            parameters: scalars (`layer0.weight[3,2]`) or small arrays, up to 12 numbers; one of each array if left out.

        Raises:
            ValueError: a name is not known, or there are too many numbers.
        """
        return plots.trace(self, parameters)

    def plot_pair(self, parameters: Collection[str] | None = None) -> "Figure":
        """Joint densities of two to six parameters: regions that hold 50, 80 and 95 % of the draws, and their margins.

        Arguments and errors as for `plot_trace`; four parameters, evenly chosen, if left out.
        """
        return plots.pair(self, parameters)

    def plot_reliability(self, x: "ArrayLike", y: "ArrayLike") -> "Figure":
        """Whether predictions of targets y [n] at rows x [n, ...] are calibrated.

        Regression: coverage of central intervals against their level, and the histogram of PIT values. Classification:
        accuracy against confidence, in bins of equal numbers of rows.

        Raises:
            DataError: an array is not valid, the posterior is not known, or the likelihood is your own.
        """
        return plots.reliability(self._known(), self, x, y)

    def plot_bands(self, x: "ArrayLike | None" = None) -> "Figure":
        """Mean, 90 % bands of the function and with noise, and some functions, over the only input of a regression.

        Args:
            x: ascending inputs [n, 1]; if left out, 200 that reach a tenth beyond the posterior's rows.

        Raises:
            DataError: x is not valid, the posterior is not known, is of classes or has several inputs.
        """
        return plots.bands(self._known(), self, x)

    def _known(self) -> NetworkPosterior:
        from bnn_atlas.data import DataError

        if self.posterior is None:
            raise DataError(
                f"the posterior of the draws ({self.path}) is not known: open_pool(..., posterior=posterior)"
            )
        return self.posterior


def open_pool(path: str | Path, posterior: NetworkPosterior | None = None) -> PosteriorDraws:
    """Open draws on disk, of `sample`, of `PosteriorDraws.save` or of a run of the pipeline.

    Args:
        path: a `pool.json`, or the folder that has it.
        posterior: what they are draws of, for `predict`, `score` and plots; None if `save` wrote its rows, too.

    Raises:
        TraceError: the pool or one of its traces is missing, damaged or changed since it was written.
        DataError: the draws belong to another posterior, or its rows are missing or damaged.
        ConfigError: this version does not know a setting of the posterior.
        ValueError: a posterior in float64 without `configure(float64=True)`.
    """
    from bnn_atlas.traces import pool
    from bnn_atlas.traces.shard import TraceError

    if isinstance(path, str | Path) and Path(path).is_dir():
        if not (Path(path) / "pool.json").exists():
            raise TraceError(
                f"{path} is a folder without a pool.json: pass one that `sample`, `save` or the rule pool wrote"
            )
        path = Path(path) / "pool.json"
    found = pool.open_pool(path)
    return PosteriorDraws(found, _posterior_of(found) if posterior is None and ROWS in found.attributes else posterior)


def _posterior_of(draws: Draws) -> NetworkPosterior:
    """The posterior of draws that `PosteriorDraws.save` wrote with their rows."""
    from bnn_atlas.data import DataError
    from bnn_atlas.files import load_arrays

    file, facts = draws.path.parent / f"{ROWS}.npz", draws.attributes[ROWS]
    try:
        rows = load_arrays(file, ("x", "y"), DataError, "the rows of a posterior")
    except FileNotFoundError:
        raise DataError(f"{file} is missing: put it back, or pass the posterior, open_pool(..., posterior)") from None
    settings = predictions.recorded_settings(draws)["posterior"]
    sizes = {name: facts[name] for name in ("classes", "vocabulary")}
    return build_posterior(rows["x"], rows["y"], settings, **sizes)._replace(columns=tuple(facts["columns"]))


def starting_points(
    posterior: NetworkPosterior,
    chains: int,
    *,
    training: Mapping[str, Any] | None = None,
    validation: "tuple[ArrayLike, ArrayLike] | None" = None,
    seed: int = 0,
    progress: bool | None = None,
) -> np.ndarray:
    """Parameters [chain, P] at which chains start: initialised networks, or trained ones (a deep ensemble).

    Args:
        posterior: the network and the rows to train on; its prior is not used in training.
        chains: number of chains.
        training: settings of `bnn_atlas.config.parts.starts.WarmStartConfig`; `{}` for the defaults (with fewer rows
            than a batch, all of them), None for untrained networks.
        validation: rows and targets for early stopping; if left out, training lasts `max_epochs`.
        seed: a whole number from 0 to 2^32 - 1; chain i depends only on the seed and i.
        progress: whether to show how long the training has lasted; None shows it at terminals and in notebooks.

    Raises:
        ConfigError: a setting is wrong.
        DataError: an array or number is not valid for its argument; the message names the argument and says what to do.
        ValueError: there are fewer rows than the given `batch_size`.
        TrainingError: the loss of a network is not finite.
    """
    from jax import numpy as jnp

    from bnn_atlas import arrays
    from bnn_atlas.config.language.base import MOST_CHAINS, ConfigError, plural, validated
    from bnn_atlas.config.parts.starts import WarmStartConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.runner.timing import Elapsed, shown
    from bnn_atlas.warmstart.ensemble import Rows, initialise, train_ensemble

    check_posterior(posterior)
    progress = arrays.switch(progress, "progress")
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
    if not len(y):
        raise DataError("the posterior is a density alone, without rows to train on: leave training out")
    if isinstance(training, Mapping):
        training = {"batch_size": min(WarmStartConfig().batch_size or len(y), len(y)), **training}
    config = validated(WarmStartConfig, training, "training")
    if config.permuted is not None:
        raise ConfigError("training: permuted: only runs of the pipeline start from permuted copies; leave it out")
    rows = Rows(x, y, jnp.asarray(watched[0], x.dtype), jnp.asarray(watched[1], y.dtype))
    what = f"training {plural(len(members), 'network')}, at most {plural(config.max_epochs, 'epoch')}"
    with shown(progress), Elapsed(what):
        return np.asarray(train_ensemble(posterior.density, config, rows, members, word, dtype).parameters)


def sample(
    posterior: NetworkPosterior,
    method: str | Mapping[str, Any],
    starts: "ArrayLike | None" = None,
    folder: str | Path | None = None,
    *,
    chains: int = 4,
    seed: int = 0,
    progress: bool | None = None,
) -> PosteriorDraws:
    """Run a method from each start and return the draws, which are kept in `folder`.

    Repeating an interrupted call continues from its last checkpoint and yields bitwise the same draws; repeating a
    completed call returns its draws. With other settings, data or code, new draws replace the draws in the folder.

    Args:
        posterior: the target.
        method: kind of a method, or `kind` and settings, as under `method:` of a run in config/studies/. Those of
            `hmc`, `nuts`, `adjusted_mclmc` and the stochastic-gradient methods include a step size. If `batch_size` is
            left out and there are fewer rows than its default, a batch is all rows.
        starts: starting points of the chains: an array [chain, P], see `starting_points`; a list of networks, each a
            pytree of parameters as the network takes them, such as your own trained ones; or one such pytree whose
            arrays have an axis of chains first. None for random networks, or for the parameters that were passed to
            `posterior_of`. These are the same for all chains, so that R-hat looks better than it is, which is logged as
            a warning. A deep ensemble is its starts, and needs trained ones that differ.
        folder: folder of the trace; created if it does not exist. None for a folder that is removed with the draws.
        chains: number of chains if `starts` is None.
        seed: a whole number from 0 to 2^32 - 1; chain i depends only on the seed, i and its start.
        progress: whether to show a bar with rate and time left; None shows it at terminals and in notebooks.

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
    from bnn_atlas.runner.timing import shown
    from bnn_atlas.traces.pool import pool_traces

    check_posterior(posterior)
    progress = arrays.switch(progress, "progress")
    method = {"kind": method} if isinstance(method, str) else method
    config = validated(RootModel[MethodConfig], section(method), "method").root
    if isinstance(config, LeapfrogSettings):
        try:
            config = config.resolved(standard_deviation(posterior.config.prior), posterior.config.temperature)
        except ValueError as error:
            raise ConfigError(f"method: {error}") from None
    config = _with_batches(config, len(posterior.rows[1])).for_rows(len(posterior.data.y))
    if config.kind == "laplace":
        _check_curvature(posterior)
    if config.kind == "psgld" and not len(posterior.data.y):
        raise ConfigError(
            "method: psgld scales gradients by the number of rows, and there are none: choose sgld or another sampler "
            "for a density alone"
        )
    seed = arrays.seed(seed)
    if starts is None:
        if config.kind == "deep_ensemble" and (posterior.user is None or posterior.user.start is None):
            raise DataError(
                "starts is missing: a deep ensemble is the networks that it starts from, so pass trained ones, "
                "starting_points(posterior, chains, training={})"
            )
        starts = starting_points(posterior, chains, seed=seed)
    starts = arrays.starts(_vectors(posterior, starts, seed), posterior.density.layout, posterior.dtype)
    if len(starts) > 1 and (starts == starts[0]).all():
        if config.kind == "deep_ensemble":
            raise DataError(
                "all members of the deep ensemble would be equal, since it is the networks that it starts from: pass "
                "starts= with networks that differ, such as your own, or starting_points(posterior, chains, "
                "training={'batch_size': ...}) with batches smaller than the data"
            )
        if config.kind_of_draws.are_chain and folder is not None:
            log.warning(
                "all %d chains start at one network, so R-hat looks better than it is: pass starts= with networks that "
                "differ",
                len(starts),
            )
    if folder is None:
        return _sampled_for_now(posterior, method, starts, seed, progress)
    target = _named(folder)
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
    _make(target, target)
    with shown(progress):
        made = build_method(config, density, posterior.data)
        run_block(made, density, posterior.data, block, config.checkpoint_every)
    pool_traces([block.destination], target / "pool.json")
    return open_pool(target, posterior)


def _with_batches(config: Any, rows: int) -> Any:
    """Settings with all rows as a batch if `batch_size` was left out and its default exceeds the number of rows.

    Raises:
        ConfigError: there are no rows, and the method computes from batches only.
    """
    from bnn_atlas.config.language.base import ConfigError

    batch = getattr(config, "batch_size", None)
    if batch is None or batch <= rows or "batch_size" in config.model_fields_set:
        return config
    if rows:
        return config.model_copy(update={"batch_size": rows})
    if type(config).model_fields["batch_size"].annotation is int:
        raise ConfigError(
            f"method: {config.kind} computes from batches of rows, and there are none: choose mean_field, sghmc or "
            "another sampler for a density alone"
        )
    return config.model_copy(update={"batch_size": None})


def _vectors(posterior: NetworkPosterior, starts: Any, seed: int) -> Any:
    """Starts that are pytrees as an array [chain, P]; all others as they are.

    Parameters of a likelihood that the pytrees do not have are those of `starting_points`.
    """
    import jax

    from bnn_atlas.library.networks import Networks, is_numbers

    listed = isinstance(starts, list | tuple)
    if not jax.tree.leaves(starts) or (not listed and jax.tree_util.all_leaves([starts])):
        return starts
    layout = posterior.density.layout
    networks = Networks(layout, posterior.as_pytree(np.zeros(layout.size, posterior.dtype)), posterior.dtype)
    if listed and is_numbers(starts[0]) and not networks.stacked(starts):
        return starts
    found = networks.arrays(starts)
    vectors = np.array(starting_points(posterior, len(next(iter(found.values()))), seed=seed))
    by_name: Any = layout.unflatten(cast(Any, vectors))
    return np.concatenate(
        [found.get(p.name, by_name[p.name]).reshape(len(vectors), p.size) for p in layout.parameters], axis=1
    )


def _named(folder: Any) -> Path:
    """The folder with this name; DataError for what is no name."""
    from bnn_atlas.data import DataError

    if not isinstance(folder, str | Path) or folder == "":
        what = "empty" if folder == "" else f"a {type(folder).__name__}"
        raise DataError(f"folder is {what}: pass the name of a folder")
    return Path(folder)


def _make(folder: Path, target: Path) -> None:
    """Make a folder to write in, for the folder `target` that was named; DataError if nothing can be written in it."""
    from bnn_atlas.data import DataError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        raise DataError(f"folder ({target}) is a file or in one: name a folder") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"folder ({str(target)!r:.80}) cannot be used ({why}): name one where you may write") from None


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


def _sampled_for_now(
    posterior: NetworkPosterior, method: Mapping[str, Any], starts: np.ndarray, seed: int, progress: bool | None
) -> PosteriorDraws:
    """Draws in a folder that is removed when they are no longer used."""
    folder = mkdtemp(prefix="draws-")
    try:
        pool = sample(posterior, method, starts, folder, seed=seed, progress=progress)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(pool, rmtree, folder, ignore_errors=True)
    return pool
