"""Posteriors of networks built from settings, of user-supplied networks, and of bare log densities."""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bnn_atlas.config.parts.posterior import PosteriorConfig
    from bnn_atlas.library.networks import UserNetwork
    from bnn_atlas.posterior.density import Posterior, PosteriorData
    from bnn_atlas.posterior.prior_densities import Prior


class NetworkPosterior(NamedTuple):
    """The posterior of a network's parameters given data."""

    density: "Posterior"
    """Log-likelihood, log-prior and gradients at parameters [P]; `density.layout` names the parameters."""
    data: "PosteriorData"
    """The rows that the posterior is conditioned on, and the prior's values."""
    config: "PosteriorConfig"
    """Settings of the network, the likelihood, the prior and the temperature."""
    classes: int
    """0 for regression."""
    vocabulary: int = 0
    """Number of token ids; 0 if rows are not sequences of tokens."""
    columns: tuple[Hashable, ...] = ()
    """Column names of the rows, if the rows were passed as a data frame."""
    user: "UserNetwork | None" = None
    """A user's network, from `posterior_of`."""

    def __repr__(self) -> str:
        """Network, likelihood, prior, number of parameters and number of rows."""
        from bnn_atlas.config.language.base import plural

        config, size = self.config, plural(self.density.layout.size, "parameter")
        return (
            f"NetworkPosterior({config.model.label}, {size}, {config.likelihood.kind}, {config.prior.kind}, "
            f"{plural(len(self.rows[1]), 'row')})"
        )

    def as_pytree(self, theta: "ArrayLike") -> Any:
        """Parameters [..., P] of one network or of many draws, as the user's pytree or else as a mapping by name.

        Raises:
            DataError: the last axis has another length, or these are not numbers.
        """
        from bnn_atlas import arrays

        vector = arrays.vectors(theta, self.density.layout.size)
        if self.user is None:
            return self.density.layout.unflatten(vector)
        return self.user.tree(vector[..., : self.density.network.layout.size])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle settings and arrays; the functions are built again from them."""
        if self.user is not None:
            raise TypeError(
                f"the posterior of {self.user.name} cannot be pickled: pickle the network, and call posterior_of again"
            )
        return _built_again, (self.config, self.data, *self[3:-1])

    @property
    def dtype(self) -> Any:
        """Number type of the parameters."""
        return self.data.prior.loc.dtype

    @property
    def rows(self) -> tuple[Any, Any]:
        """Rows and targets without the padding of the last shard."""
        x, y, weights = self.data.x, self.data.y, self.data.weights
        return (x, y) if weights is None else (x[weights > 0], y[weights > 0])


def build_posterior(
    x: "ArrayLike", y: "ArrayLike", settings: Mapping[str, Any], *, classes: int = 0, vocabulary: int = 0
) -> NetworkPosterior:
    """Posterior of a network given data, p(theta | x, y)^(1 / T) up to a constant.

    Nothing is scaled here: inputs and regression targets should have zero mean and unit variance. Warns about
    suspicious class labels (all equal, all different, counted from 1, or with classes that never occur). Like all
    functions that take rows and targets, also warns if the indexes of pandas x and y differ.

    Args:
        x: inputs, as tables [n, d], images [n, height, width, channels], or token ids [n, length].
        y: targets [n], or class numbers [n] from 0; a column [n, 1] is also accepted.
        settings: `model`, `likelihood` and, optionally, `prior`, `temperature` and the other fields of
            `bnn_atlas.config.parts.posterior.PosteriorConfig`, as in the runs of config/studies/.
        classes: number of classes; 0 for the largest label + 1.
        vocabulary: number of token ids, for sequences.

    Raises:
        ConfigError: a setting is wrong; the message gives its value and what is allowed.
        ShapeError: the model does not accept rows of this shape.
        DataError: an array or number is not valid for its argument; the message names the argument and says what to do.
        ValueError: `float64: true` without `configure(float64=True)`.
    """
    from bnn_atlas import arrays
    from bnn_atlas.config.language.base import MOST, WIDEST, validated
    from bnn_atlas.config.parts.posterior import CategoricalLikelihood, PosteriorConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.posterior import density

    config = validated(PosteriorConfig, section(settings), "posterior")
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


def posterior_of(
    network: Any,
    x: "ArrayLike | None" = None,
    y: "ArrayLike | None" = None,
    *,
    likelihood: "str | Mapping[str, Any] | Callable[..., Any]" = "learned_noise",
    mean: "Callable[..., Any] | None" = None,
    prior: "str | Mapping[str, Any] | Callable[[Any], Any]" = "standard_normal",
    start: Any = None,
    stochastic: Collection[str] | None = None,
    temperature: float = 1.0,
    classes: int = 0,
    vocabulary: int = 0,
    float64: bool = False,
) -> NetworkPosterior:
    """Posterior of a user's network given data, or of a user-supplied density, for use with every method.

    Args:
        network: a Flax module (linen or nnx); a function of parameters and rows [n, ...] that returns outputs
            [n, outputs] or [n]; or, without x and y, a function of parameters that returns a log density, which has its
            prior inside: `likelihood`, `mean`, `prior`, `classes` and `vocabulary` are left out.
        x: inputs, as in `build_posterior`.
        y: targets, as in `build_posterior`.
        likelihood: kind of the likelihood, its settings, or a function of outputs [n, outputs] and targets [n] that
            returns the log density of every row [n]. The network has one output for a regression, two for
            `heteroscedastic`, one per class for `categorical`, and any number for a function. Further arguments of a
            function that have no default are parameters of the likelihood, such as a `log_scale`: numbers that start
            at 0, have a standard normal prior unless `prior` says otherwise, and are sampled with the network's.
        mean: for a likelihood of your own, a function of outputs (and of the likelihood's parameters by name) that
            returns the predictive mean [n]; without it, draws have a density but no RMSE, mean or band.
        prior: kind of the prior, its settings, settings by patterns of names (`{"head*": {...}, "*": {...}}`; the first
            match counts), or a function of the parameters that returns their log density.
        start: a pytree of parameters, such as trained weights, from which chains start. Required for a function; taken
            from an nnx module; a linen module is initialised at random if omitted. All chains start at this one
            network, which hides what R-hat looks for, unless `sample` is given `starts`.
        stochastic: patterns of names of the parameters to sample; all others keep their value in `start`.
        temperature: T of the target, (likelihood x prior)^(1 / T).
        classes: number of classes; 0 for the largest label + 1.
        vocabulary: number of token ids, for sequences.
        float64: compute in double precision, after `configure(float64=True)`.

    Raises:
        ConfigError: a setting is wrong; the message gives its value and what is allowed.
        ShapeError: the network does not accept rows of this shape, or has the wrong number of outputs.
        DataError: an array or number is not valid for its argument, or the network is stateful.
        ValueError: `float64` without `configure(float64=True)`.
    """
    from jax import numpy as jnp
    from pydantic import RootModel

    from bnn_atlas import arrays
    from bnn_atlas.config.language.base import MOST, WIDEST, validated
    from bnn_atlas.config.parts.posterior import CategoricalLikelihood, GaussianLikelihood, LikelihoodConfig
    from bnn_atlas.config.parts.user import UserPosteriorConfig
    from bnn_atlas.data import DataError
    from bnn_atlas.library.likelihoods import likelihood_of
    from bnn_atlas.library.networks import is_module, user_density, user_network
    from bnn_atlas.library.priors import prior_of
    from bnn_atlas.models.layout import Layout
    from bnn_atlas.models.networks import ShapeError
    from bnn_atlas.posterior import density
    from bnn_atlas.posterior.likelihoods import extra_parameters, outputs_needed

    dtype = np.float64 if float64 else np.float32
    if float64 and jnp.asarray(0.5).dtype != jnp.float64:
        raise ValueError("float64 needs `bnn_atlas.configure(float64=True)` before anything else")
    if (x is None) != (y is None):
        raise DataError("pass both x and y, or neither if network is a log density")
    columns: tuple[Hashable, ...] = ()
    rows, targets = np.zeros((0, 1), dtype), np.zeros(0, dtype)
    if x is None or y is None:
        if is_module(network):
            raise DataError("x and y are missing: pass the rows and targets on which this network is conditioned")
        belong = {"likelihood": likelihood != "learned_noise", "prior": prior != "standard_normal"}
        belong |= {"mean": mean is not None, "classes": classes != 0, "vocabulary": vocabulary != 0}
        for name, given in belong.items():
            if given:
                raise DataError(
                    f"{name} belongs to a network with rows, and network is a log density alone: put it into the "
                    "density, or leave it out"
                )
        likelihood, prior = {"kind": "gaussian"}, network
        user = user_density(start, stochastic, dtype)
    else:
        arrays.check_order(x, y)
        columns = arrays.column_names(x)
        rows = arrays.rows(x, dtype, vocabulary=arrays.count(vocabulary, "vocabulary", 0, MOST))
        user = user_network(network, rows[:2], start, stochastic, dtype)
    own = callable(likelihood) and y is not None
    chosen: Any = {"kind": likelihood} if isinstance(likelihood, str) else likelihood
    if not (isinstance(chosen, Mapping) or callable(chosen)):
        raise DataError(
            f"likelihood is a {type(chosen).__name__}: pass a kind, settings, or a function of outputs and targets"
        )
    if isinstance(chosen, Mapping):
        validated(RootModel[LikelihoodConfig], dict(chosen), "likelihood")
    if mean is not None and not own:
        raise DataError("mean belongs to a likelihood given as a function: leave it out")
    if own:
        targets = arrays.targets(y, GaussianLikelihood(), 0, dtype, count=len(rows))
        first = slice(0, max(2, user.outputs + 1))
        chosen = likelihood_of(chosen, mean, user, rows[first], targets[first])
    named = {
        "model": {"name": user.name, "digest": user.digest},
        "likelihood": chosen,
        "temperature": temperature,
        "float64": float64,
    }
    built = prior_of(prior, user)
    config = validated(UserPosteriorConfig, named | {"prior": built.settings}, "posterior")
    valid: Any = config.likelihood
    if y is not None:
        classes = arrays.count(classes, "classes", 0, WIDEST)
        targets = arrays.targets(y, valid, classes, dtype, count=len(rows))
        categorical = isinstance(valid, CategoricalLikelihood)
        classes = arrays.classes_in(targets, classes) if categorical else 0
        needed = user.outputs if own else outputs_needed(valid, classes)
        if user.outputs != needed:
            raise ShapeError(
                f"{user.name} has {user.outputs} outputs, but likelihood '{valid.kind}' needs {needed}"
                + (f", one for each class (classes: {classes})" if categorical else "")
            )
    layout = Layout(user.network.layout.parameters + extra_parameters(valid))
    family, values = built.build(config.prior, layout, dtype)
    target = density.Posterior(layout, user.network, valid, family, config.temperature)
    data = density.posterior_data(rows, targets, density.Prior(family, values), vocabulary=vocabulary, classes=classes)
    return NetworkPosterior(target, data, config, classes, vocabulary, columns, user)


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
    """Rebuild a pickled posterior."""
    posterior, _ = _density(config, np.asarray(data.x), classes, vocabulary)
    return NetworkPosterior(posterior, data, config, classes, vocabulary, columns)


def section(settings: Any) -> Any:
    """Settings to pass to `validated`, which accepts only mappings."""
    return dict(settings) if isinstance(settings, Mapping) else settings


def as_int32(seed: int) -> int:
    """The signed number with the same 32 bits, as the samplers expect."""
    return int(np.uint32(seed).view(np.int32))


def check_posterior(posterior: Any) -> None:
    """Raise DataError if the argument is not a posterior."""
    from bnn_atlas.data import DataError

    if not isinstance(posterior, NetworkPosterior):
        what = type(posterior).__name__
        raise DataError(f"posterior is a {what}: pass what `build_posterior` or `posterior_of` returns")


def rows_like(posterior: NetworkPosterior, x: Any, name: str = "x") -> np.ndarray:
    """Additional rows, checked to be like the rows of the posterior."""
    from bnn_atlas import arrays
    from bnn_atlas.data import DataError

    if not len(posterior.data.y):
        raise DataError(
            f"{name} is given, but the posterior is a density alone, which predicts no rows: leave {name} out of "
            "`summary`; `read` and `to_arviz` give the draws"
        )
    arrays.check_columns(x, posterior.columns, name)
    shape = posterior.data.x.shape[1:]
    return arrays.rows(x, posterior.dtype, name, shape=shape, vocabulary=posterior.vocabulary)


def targets_like(posterior: NetworkPosterior, y: Any, count: int, name: str = "y") -> np.ndarray:
    """Targets of additional rows, checked to be like the targets of the posterior."""
    from bnn_atlas import arrays

    return arrays.targets(y, posterior.config.likelihood, posterior.classes, posterior.dtype, name, count=count)
