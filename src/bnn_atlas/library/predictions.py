"""Predictions and scores of draws at rows, and draws as objects of ArviZ."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bnn_atlas.library.posteriors import NetworkPosterior, check_posterior, rows_like, targets_like

if TYPE_CHECKING:
    import arviz
    import pandas
    import xarray
    from numpy.typing import ArrayLike

    from bnn_atlas.inference.problem import Predictor
    from bnn_atlas.library.likelihoods import OwnPredictor
    from bnn_atlas.metrics.gathering.summary import PredictiveSummary
    from bnn_atlas.metrics.judgement.evaluate import RunFacts
    from bnn_atlas.posterior.density import Predictive
    from bnn_atlas.traces.convert import Group
    from bnn_atlas.traces.draws import Draws


def predict(
    posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike", y: "ArrayLike | None" = None
) -> "PredictiveSummary":
    """Predictive distributions at the rows x [n, ...], averaged over the draws of each chain.

    With targets y [n], the densities of the targets are also returned. The draws can come from elsewhere, such as a run
    of the pipeline, if network, likelihood, prior and temperature are the same. With a likelihood of your own, there is
    a `mean` [chain, n] if `posterior_of` was given one, and no noise.

    Raises:
        DataError: an array is not valid for its argument, or the draws belong to another posterior; the message says
            which.
    """
    from bnn_atlas import arrays
    from bnn_atlas.metrics.gathering import streaming

    _check_whole(posterior, draws)
    arrays.check_order(x, y)
    rows = rows_like(posterior, x)
    targets = None if y is None else targets_like(posterior, y, len(rows))
    if own := _own_predictor(posterior):
        from bnn_atlas.library.likelihoods import summarise

        return summarise(draws, own, rows, targets)
    return streaming.summarise(draws, _predictor(posterior), rows, targets, classes=posterior.classes)


def predict_draws(posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike") -> "Predictive":
    """Predictive distributions of every draw at the rows x [n, ...], in memory.

    Regression: `mean` and `scale` [chain, draw, n]; classification: `log_probs` [chain, draw, n, k]. With a likelihood
    of your own, only the `mean`.

    Raises:
        DataError: an array is not valid for its argument, the draws belong to another posterior, or the mean of a
            likelihood of your own is not known; the message says which.
    """
    import jax

    _check_whole(posterior, draws)
    rows = rows_like(posterior, x)
    if own := _own_predictor(posterior):
        return _own_means(own, draws, rows)
    predictor = _predictor(posterior)
    by_chain = [predictor(draws.read([chain])[0], rows) for chain in range(draws.chains)]
    found: Predictive = jax.tree.map(lambda *leaves: np.stack(leaves), *by_chain)
    return found


def score(posterior: NetworkPosterior, draws: "Draws", x: "ArrayLike", y: "ArrayLike") -> "pandas.DataFrame":
    """Scores of the average over all draws at the rows x [n, ...] with targets y [n], and diagnostics of the chains.

    The columns are `metric`, `value`, `standard_error`, `note` and `at` (the parameter of a metric, such as a level).
    Chains that never move or whose predictions are not finite are left out and counted. With a likelihood of your own,
    the density is scored, and the RMSE if `posterior_of` was given a `mean`; calibration is not known. Raises the same
    errors as `predict`.
    """
    import pandas as pd

    from bnn_atlas import arrays
    from bnn_atlas.metrics.judgement import evaluate

    _check_whole(posterior, draws)
    facts = facts_of(posterior, draws)
    arrays.check_order(x, y)
    rows = rows_like(posterior, x)
    targets = targets_like(posterior, y, len(rows))
    summary = predict(posterior, draws, rows, targets)
    scored = evaluate.score(draws, summary, _HeldOut(rows, targets, 1.0), facts)
    return pd.DataFrame(scored.rows)[["metric", "value", "standard_error", "note", "at"]]


def to_arviz(posterior: NetworkPosterior, draws: "Draws", *, seed: int = 0) -> "arviz.InferenceData | xarray.DataTree":
    """The draws with the groups that ArviZ needs to check and compare models, over the rows of the posterior.

    To the groups of `draws.to_arviz()`, this adds `log_likelihood` and `posterior_predictive` (`y` by chain, draw and
    row; the predictive targets are drawn at random), `observed_data` (the targets `y`) and `constant_data` (the inputs
    `x`), as arrays in memory. `log_likelihood` is used by `az.loo` and `az.compare`, which assume draws from the
    posterior at temperature 1: it is left out for other temperatures, and for draws that are not a Markov chain. A
    likelihood of your own cannot be drawn from, and so there is no `posterior_predictive`.

    Raises:
        DataError: the draws belong to another posterior or to other rows, or lack parameters.
    """
    from bnn_atlas import arrays
    from bnn_atlas.config.methods.registry import method
    from bnn_atlas.inference.pointwise import pointwise

    _check_whole(posterior, draws)
    seed = arrays.seed(seed)
    x, y = (np.asarray(array) for array in posterior.rows)
    by_draw = ("chain", "draw", "row")
    inputs = ("row", *(f"x_dim_{axis}" for axis in range(x.ndim - 1)))
    groups: dict[str, Group] = {}
    if own := _own_predictor(posterior):
        density = _own_densities(own, draws, x, y)
    else:
        found = pointwise(draws, _predictor(posterior), x, y, classes=posterior.classes, seed=seed)
        density, groups["posterior_predictive"] = found.log_likelihood, {"y": (by_draw, found.replicated)}
    groups |= {"observed_data": {"y": (("row",), y)}, "constant_data": {"x": (inputs, x)}}
    made_by = recorded_settings(draws).get("method")
    if made_by and method(made_by["kind"]).kind_of_draws.are_chain and posterior.config.temperature == 1:
        groups["log_likelihood"] = {"y": (by_draw, density)}
    return draws.to_arviz(groups)


def _predictor(posterior: NetworkPosterior) -> "Predictor":
    from bnn_atlas.inference.problem import Predictor

    return Predictor(posterior.density, posterior.data, 1e6 * posterior.config.gradient_memory_mb)


def _own_predictor(posterior: NetworkPosterior) -> "OwnPredictor | None":
    """The predictor of a posterior with a user's likelihood; None for all others."""
    from bnn_atlas.config.parts.user import UserLikelihoodConfig

    if posterior.user is None or not isinstance(posterior.config.likelihood, UserLikelihoodConfig):
        return None
    from bnn_atlas.library.likelihoods import OwnPredictor

    return OwnPredictor(posterior.density, _predictor(posterior), posterior.user.outputs)


def _own_means(own: "OwnPredictor", draws: "Draws", rows: np.ndarray) -> "Predictive":
    from bnn_atlas.data import DataError
    from bnn_atlas.library.likelihoods import GIVE_MEAN
    from bnn_atlas.posterior.density import Predictive

    if own.config.mean is None:
        raise DataError(f"the predictive mean of the likelihood {own.config.name} is not known: {GIVE_MEAN}")
    return Predictive(mean=_stacked(own(draws.read([chain])[0], rows).mean for chain in range(draws.chains)))


def _own_densities(own: "OwnPredictor", draws: "Draws", x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _stacked(own(draws.read([chain])[0], x, y).log_density for chain in range(draws.chains))


def _stacked(by_chain: Iterable[np.ndarray | None]) -> np.ndarray:
    """The arrays of all chains; their likelihood has a mean, or their rows have targets, so none is missing."""
    found = []
    for each in by_chain:
        assert each is not None
        found.append(each)
    return np.stack(found)


def facts_of(posterior: NetworkPosterior | None, draws: "Draws") -> "RunFacts":
    """What scores and diagnostics use besides draws and predictions; without a posterior, what the draws record.

    Raises:
        DataError: the draws do not record their method.
    """
    from bnn_atlas.data import DataError
    from bnn_atlas.metrics.judgement.evaluate import RunFacts
    from bnn_atlas.metrics.tables.measurement import RunIdentity

    method = recorded_settings(draws).get("method")
    if method is None:
        raise DataError(
            f"draws ({draws.path}) do not record the method that made them, which the scores depend on: pass a pool "
            "from `sample`, the pipeline or `open_reference`"
        )
    if posterior is None:
        temperature = recorded_settings(draws).get("posterior", {}).get("temperature", 1.0)
    else:
        temperature = posterior.config.temperature
    identity = RunIdentity("", "", "", 0, "", "", method["kind"])
    return RunFacts(identity, batch_rows=method.get("batch_size"), temperature=temperature)


class _HeldOut(NamedTuple):
    """Rows and targets to score, in the units in which they were passed."""

    x_test: np.ndarray
    y_test: np.ndarray
    y_scale: float


def recorded_settings(draws: "Draws") -> Mapping[str, Any]:
    """The settings that the draws record."""
    found: Mapping[str, Any] = draws.attributes.get("provenance", {}).get("settings", {})
    return found


def check_draws(posterior: NetworkPosterior, draws: Any) -> None:
    """Reject draws of another network or, if the draws record them, of another likelihood, prior or temperature."""
    from bnn_atlas.config.language.base import validated
    from bnn_atlas.config.parts.posterior import PosteriorConfig
    from bnn_atlas.data import DataError

    check_posterior(posterior)
    check_type(draws)
    differences = []
    if (recorded := recorded_settings(draws).get("posterior")) is not None:
        theirs = recorded
        if posterior.user is None:
            theirs = validated(PosteriorConfig, recorded, f"{draws.path}: posterior").model_dump(mode="json")
        ours = posterior.config.model_dump(mode="json")
        differences = [
            f"{part} ({_named(theirs.get(part))}, here {_named(ours[part], theirs.get(part))})"
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


def _named(part: Any, other: Any = None) -> Any:
    """A part of recorded settings in words: code of the user's has a name in them, and a digest that says nothing."""
    if not isinstance(part, Mapping) or "digest" not in part:
        return part
    same = isinstance(other, Mapping) and part["name"] == other.get("name")
    return f"another {part['name']}" if same else part["name"]


def check_type(draws: Any) -> None:
    """Raise DataError if the argument is not draws."""
    from bnn_atlas.data import DataError
    from bnn_atlas.traces.draws import Draws

    if not isinstance(draws, Draws):
        raise DataError(
            f"draws is a {type(draws).__name__}: pass a pool, from `sample` or `open_pool`, or the `draws` "
            "of a reference"
        )


def check_rows(posterior: NetworkPosterior) -> None:
    """Raise DataError for the posterior of a density alone."""
    from bnn_atlas.data import DataError

    if not len(posterior.rows[1]):
        raise DataError(
            "the posterior is of a density alone, which predicts nothing: read its draws, or use `summary`, "
            "`plot_trace` and `to_arviz()` of the draws"
        )


def _check_whole(posterior: NetworkPosterior, draws: Any) -> None:
    """`check_draws`, and reject a selection of parameters, and draws of a density alone."""
    from bnn_atlas.data import DataError

    check_draws(posterior, draws)
    check_rows(posterior)
    if draws.size != draws.layout.size:
        raise DataError(
            f"draws ({draws.path}) have {draws.size} of {draws.layout.size} parameters, and predictions need all: pass "
            "all parameters"
        )
