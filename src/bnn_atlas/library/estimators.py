"""Estimators for scikit-learn: a Bayesian neural network with one call of `fit`, and its predictive distributions."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bnn_atlas.data import DataError
from bnn_atlas.files import atomic, load_arrays, save_arrays
from bnn_atlas.library.draws import PosteriorDraws, open_pool, sample, starting_points
from bnn_atlas.library.posteriors import NetworkPosterior, build_posterior, posterior_of
from bnn_atlas.library.predictions import predict, predict_draws
from bnn_atlas.library.predictions import score as scores_of
from bnn_atlas.metrics.formulas.function_distances import mixture_quantile

MILE: dict[str, Any] = {"kind": "mclmc", "warmup": 10_000, "steps": 5_000, "thinning": 10}
"""The default method: MILE (Sommer et al. 2025), with fewer tuning steps than published."""
ARRAYS, SETTINGS = "arrays.npz", "estimator.json"
AT_ONCE = 1 << 24
"""Largest number of values (draws times rows) of a predictive distribution held in memory at a time."""


class _Estimator(BaseEstimator, ABC):
    """The common part of regressor and classifier."""

    _likelihood: str
    draws_: PosteriorDraws
    posterior_: NetworkPosterior
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (16, 16),
        activation: str = "relu",
        network: Any = None,
        likelihood: Any = None,
        prior: Any = "standard_normal",
        method: str | Mapping[str, Any] | None = None,
        chains: int = 4,
        training: Mapping[str, Any] | None = None,
        validation_fraction: float = 0.1,
        folder: str | Path | None = None,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.network = network
        self.likelihood = likelihood
        self.prior = prior
        self.method = method
        self.chains = chains
        self.training = training
        self.validation_fraction = validation_fraction
        self.folder = folder
        self.random_state = random_state

    def _fit(self, x: np.ndarray, y: np.ndarray, classes: int) -> Self:
        """Scale and split the rows, train the networks from which chains start, and sample."""
        seed = int(check_random_state(self.random_state).randint(2**31))
        if not (isinstance(self.validation_fraction, float | int) and 0 <= self.validation_fraction < 1):
            raise ValueError(
                f"validation_fraction is {self.validation_fraction!r}, but has to be at least 0 and below 1"
            )
        order = np.random.default_rng(seed).permutation(len(x))
        held = round(self.validation_fraction * len(x))
        if held == len(x):
            raise ValueError(
                f"validation_fraction is {self.validation_fraction!r} and takes all {len(x)} rows, so that none is "
                "left to train on: make it smaller"
            )
        held_out, rows = order[:held], order[held:]
        self._centre, spread = x[rows].mean(axis=0), x[rows].std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        x = self._scaled(x)
        self.posterior_ = self._posterior(x, y, classes)
        trained = self._posterior(x[rows], y[rows], classes) if held else self.posterior_
        validation = (x[held_out], y[held_out]) if held else None
        training = self.training or {}
        starts = starting_points(trained, self.chains, training=training, validation=validation, seed=seed)
        self.draws_ = sample(self.posterior_, self.method or MILE, starts, self.folder, seed=seed)
        return self

    def _posterior(self, x: np.ndarray, y: np.ndarray, classes: int) -> NetworkPosterior:
        prior = {"kind": self.prior} if isinstance(self.prior, str) else self.prior
        likelihood = self._likelihood if self.likelihood is None else self.likelihood
        likelihood = {"kind": likelihood} if isinstance(likelihood, str) else likelihood
        if self.network is not None:
            return posterior_of(self.network, x, y, likelihood=likelihood, prior=prior, classes=classes)
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence | np.ndarray):
            raise ValueError(f"hidden is {self.hidden!r:.80}: pass the widths of the hidden layers, such as (16, 16)")
        model = {"kind": "mlp", "hidden": list(self.hidden), "activation": self.activation}
        settings = {"model": model, "likelihood": likelihood, "prior": prior}
        return build_posterior(x, y, settings, classes=classes)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((x - self._centre) / self._spread)

    def _rows(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._scaled(validate_data(self, x, dtype=np.float64, reset=False))

    def diagnostics(self, x: Any, y: Any) -> Any:
        """Scores at rows x [n, d] with targets y [n], and convergence diagnostics, as the table of `bnn_atlas.score`.

        For a regression, densities refer to standardised targets.
        """
        rows = self._rows(x)
        return scores_of(self.posterior_, self.draws_, rows, self._targets(np.asarray(y)))

    @abstractmethod
    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Targets, or numbers of classes, as the posterior takes them."""

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator into a new folder: settings (JSON), arrays (npz) and draws (Zarr).

        Numbers and arrays of NumPy in parameters become plain numbers and lists. A `random_state` that is a whole
        number is kept, and a generator is not.

        Raises:
            FileExistsError: the folder exists already; name a new one.
            ValueError: the network is the user's own and can be rebuilt only from its code, or a parameter cannot be
                written as JSON.
        """
        check_is_fitted(self)
        if self.network is not None or callable(self.prior):
            raise ValueError("a network or a prior of yours cannot be saved: keep the draws (folder=...) and its code")
        target = Path(folder)
        if target.exists():
            raise FileExistsError(f"{target} exists already: name a new folder, or remove this one")
        settings = {name: value for name, value in self.get_params().items() if name not in ("network", "folder")}
        if not isinstance(self.random_state, int | np.integer):
            del settings["random_state"]
        for name, value in settings.items():
            try:
                settings[name] = json.loads(json.dumps(value, default=_plain))
            except (TypeError, ValueError) as error:
                raise ValueError(f"the parameter {name} of this estimator cannot be written: {error}") from None
        content = {"class": type(self).__name__, "parameters": settings, "features": self.n_features_in_}
        if (names := getattr(self, "feature_names_in_", None)) is not None:
            content["feature_names"] = list(names)
        text = json.dumps(content, indent=1) + "\n"
        with atomic(target) as temporary:
            self.draws_.save(temporary / "draws")
            save_arrays(temporary / ARRAYS, {"centre": self._centre, "spread": self._spread, **self._fitted()})
            (temporary / SETTINGS).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open an estimator that `save` wrote; the draws stay on disk.

        Raises:
            DataError: the folder does not hold an estimator of this class.
        """
        source = Path(folder)
        try:
            content = json.loads((source / SETTINGS).read_text(encoding="utf-8"))
            arrays = load_arrays(source / ARRAYS, ("centre", "spread"), DataError, "the arrays of an estimator", None)
            if content["class"] != cls.__name__:
                raise DataError(f"{source} holds an {content['class']}: call {content['class']}.load")
            loaded = cls(**content["parameters"])
            loaded.n_features_in_ = content["features"]
            loaded._restore(arrays)
        except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise DataError(f"{source} does not hold an estimator written by `save`: {error}") from None
        if "feature_names" in content:
            loaded.feature_names_in_ = np.array(content["feature_names"], dtype=object)
        loaded._centre, loaded._spread = arrays["centre"], arrays["spread"]
        loaded.draws_ = open_pool(source / "draws")
        loaded.posterior_ = loaded.draws_._known()
        return loaded

    @abstractmethod
    def _fitted(self) -> dict[str, np.ndarray]:
        """Further arrays to save."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of `_fitted`."""

    def __getstate__(self) -> Any:
        if hasattr(self, "draws_"):
            raise TypeError(
                f"a fitted {type(self).__name__} cannot be pickled: call save(folder), and load(folder) elsewhere"
            )
        return super().__getstate__()


def _levels(quantiles: Any) -> list[float]:
    """Levels of quantiles; ValueError for what is not a number between 0 and 1 or a list of such numbers."""
    try:
        levels = np.atleast_1d(np.asarray(quantiles, np.float64))
    except (TypeError, ValueError):
        levels = np.zeros(0)
    if levels.ndim != 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"quantiles is {quantiles!r:.80}: pass a level between 0 and 1, or a list of levels")
    return [float(level) for level in levels]


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy as plain values; TypeError for all others."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r:.80} is no number, text, list or mapping")


class AtlasRegressor(RegressorMixin, _Estimator):
    """Regression by a Bayesian neural network, sampled by MILE by default.

    Inputs and targets are standardised internally, inputs by the mean and standard deviation of the rows that train the
    warm start (those that are not held out by `validation_fraction`), and targets by those of all rows. All results are
    in the units of the data passed in.

    Args:
        hidden: widths of the hidden layers.
        activation: activation of the hidden units.
        network: instead of `hidden` and `activation`, a Flax module, as in `bnn_atlas.posterior_of`, with the number of
            outputs that the likelihood needs.
        likelihood: kind of the likelihood of the standardised targets, or its settings; None for `heteroscedastic`,
            whose second output of the network is the noise. A function belongs to `bnn_atlas.posterior_of`.
        prior: kind of the prior, or its settings.
        method: kind of a method, or `kind` and settings; None for MILE with 10,000 tuning steps and 500 draws per
            chain.
        chains: number of chains, each with its own warm start.
        training: settings of the warm start, such as `max_epochs` and `learning_rate`.
        validation_fraction: fraction of the rows that tell the warm start when to stop instead of training it; the
            posterior is that of all rows.
        folder: folder for the draws; None for a temporary folder that is removed with the estimator.
        random_state: as in scikit-learn; the same number yields the same draws.
    """

    _likelihood = "heteroscedastic"

    def fit(self, x: Any, y: Any) -> Self:
        """Sample the posterior given rows x [n, d] and targets y [n]."""
        if callable(self.likelihood):
            raise ValueError(
                "likelihood is a function, of which the noise of predictions is not known: pass a kind or settings, or "
                "use posterior_of and sample"
            )
        x, y = validate_data(self, x, y, dtype=np.float64, y_numeric=True)
        y = y.astype(np.float64)
        self._shift, self._unit = y.mean(), y.std() or 1.0
        return self._fit(x, self._targets(y), 0)

    def predict(
        self,
        x: Any,
        return_std: bool = False,
        quantiles: float | Sequence[float] | None = None,
        return_draws: bool = False,
    ) -> Any:
        """Mean [n] of the predictive distribution at rows x [n, d].

        With `return_std`, also the standard deviation [n], including the noise; with `quantiles`, a level between 0 and
        1 or a list of them, also these quantiles [q, n]; with `return_draws`, also means and noises [draw, n] of all
        draws of the chains that are not left out.
        """
        levels = [] if quantiles is None else _levels(quantiles)
        rows = self._rows(x)
        summary = predict(self.posterior_, self.draws_, rows)
        kept = summary.kept
        assert summary.mean is not None
        assert summary.second_moment is not None
        assert summary.noise_variance is not None
        mean = summary.mean[kept].mean(axis=0)
        found = [self._shift + self._unit * mean]
        if return_std:
            variance = (summary.second_moment + summary.noise_variance)[kept].mean(axis=0) - mean**2
            found.append(self._unit * np.sqrt(variance))
        if levels:
            at_once = max(1, AT_ONCE // (self.draws_.draws * max(1, len(kept))))
            parts = []
            for start in range(0, len(rows), at_once):
                draws = self._draws(rows[start : start + at_once], kept)
                parts.append([mixture_quantile(*draws, level) for level in levels])
            found.append(np.concatenate(parts, axis=1) if parts else np.zeros((0, 0)))
        if return_draws:
            found.extend(self._draws(rows, kept))
        return found[0] if len(found) == 1 else tuple(found)

    def _draws(self, rows: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, scale = (
            cast(np.ndarray, leaf)[kept].reshape(-1, len(rows)).astype(np.float64)
            for leaf in predict_draws(self.posterior_, self.draws_, rows)[:2]
        )
        return self._shift + self._unit * mean, self._unit * scale

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return np.asarray((y - self._shift) / self._unit)

    def _fitted(self) -> dict[str, np.ndarray]:
        return {"shift": np.asarray(self._shift), "unit": np.asarray(self._unit)}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._shift, self._unit = float(arrays["shift"]), float(arrays["unit"])


class AtlasClassifier(ClassifierMixin, _Estimator):
    """Classification by a Bayesian neural network, sampled by MILE by default.

    Inputs are standardised as by `AtlasRegressor`, whose arguments it takes; a `network` has one output per class,
    and the likelihood is `categorical`.
    """

    _likelihood = "categorical"
    classes_: np.ndarray

    def fit(self, x: Any, y: Any) -> Self:
        """Sample the posterior given rows x [n, d] and labels y [n]."""
        if self.likelihood is not None:
            raise ValueError(f"likelihood is {self.likelihood!r:.40}, but that of classes is categorical: leave it out")
        x, y = validate_data(self, x, y, dtype=np.float64)
        check_classification_targets(y)
        encoder = LabelEncoder().fit(y)
        self.classes_ = encoder.classes_
        if len(self.classes_) < 2:
            raise ValueError("y has one class only, but a classifier needs at least two")
        return self._fit(x, self._targets(y), len(self.classes_))

    def predict_proba(self, x: Any) -> np.ndarray:
        """Probabilities [n, k] of the classes, averaged over all draws, at rows x [n, d]."""
        rows = self._rows(x)
        summary = predict(self.posterior_, self.draws_, rows)
        return np.asarray(summary.probabilities[summary.kept].mean(axis=0))

    def predict(self, x: Any) -> np.ndarray:
        """The most probable class [n]."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(x).argmax(axis=1)])

    def _targets(self, y: np.ndarray) -> np.ndarray:
        known = set(self.classes_.tolist())
        if unknown := [label for label in np.asarray(y).ravel().tolist() if label not in known]:
            shown = ", ".join(map(repr, self.classes_[:10].tolist()))
            raise ValueError(
                f"y has the label {unknown[0]!r}, which is none of the {len(known)} labels in fit ({shown}"
                f"{', ...' if len(known) > 10 else ''})"
            )
        return np.searchsorted(self.classes_, y)

    def _fitted(self) -> dict[str, np.ndarray]:
        return {"classes": self.classes_.astype(str) if self.classes_.dtype == object else self.classes_}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.classes_ = arrays["classes"]
