"""Estimators of scikit-learn."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flax import linen as nn
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import estimator_checks_generator

from bnn_atlas import AtlasClassifier, AtlasRegressor
from bnn_atlas.data import DataError

NUMBERS = np.random.default_rng(2)
X = NUMBERS.uniform(-2, 2, (200, 2))
NOISE = 3.0
Y = 40 + 30 * np.sin(2 * X[:, 0]) + NOISE * NUMBERS.standard_normal(200)
SHORT: dict[str, Any] = {"kind": "mclmc", "warmup": 400, "steps": 400, "thinning": 10}
REASONS = {
    "check_estimators_pickle": "fitted estimators are saved, not pickled: their draws are on disk",
}
"""Checks of scikit-learn that do not hold, with the reason."""


@pytest.fixture(scope="module")
def fitted() -> AtlasRegressor:
    return AtlasRegressor(hidden=(16,), activation="tanh", method=SHORT, chains=2, random_state=0).fit(X, Y)


def test_predictions_are_in_the_units_of_the_targets(fitted: AtlasRegressor) -> None:
    mean, sd, quantiles, means, noises = fitted.predict(
        X, return_std=True, quantiles=[0.05, 0.5, 0.95], return_draws=True
    )
    assert fitted.score(X, Y) > 0.9
    np.testing.assert_allclose(np.median(sd), NOISE, rtol=0.4)
    inside = np.mean((quantiles[0] < Y) & (quantiles[2] > Y))
    assert 0.8 < inside <= 1
    np.testing.assert_allclose(means.mean(axis=0), mean, rtol=1e-4)
    np.testing.assert_allclose(np.sqrt((noises**2 + means**2).mean(axis=0) - mean**2), sd, rtol=1e-2)
    below = norm.cdf(quantiles[2], means, noises).mean(axis=0)
    np.testing.assert_allclose(below, 0.95, atol=1e-6)


def test_the_same_random_state_gives_the_same_draws(fitted: AtlasRegressor) -> None:
    again = AtlasRegressor(**fitted.get_params()).fit(X, Y)
    np.testing.assert_array_equal(again.draws_.read(), fitted.draws_.read())
    other = AtlasRegressor(**fitted.get_params()).set_params(random_state=1).fit(X, Y)
    assert not np.array_equal(other.draws_.read(), fitted.draws_.read())


def test_a_fitted_estimator_is_saved_and_loaded(fitted: AtlasRegressor, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="save"):
        pickle.dumps(fitted)
    fitted.save(tmp_path / "mine")
    loaded = AtlasRegressor.load(tmp_path / "mine")
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.random_state == 0
    for quantiles in ([[0.1, 0.9]], [], 1.0, "median"):
        with pytest.raises(ValueError, match=r"^quantiles is "):
            fitted.predict(X, quantiles=quantiles)
    with pytest.raises(FileExistsError, match="exists already: name a new folder"):
        fitted.save(tmp_path / "mine")
    with pytest.raises(DataError, match="AtlasRegressor"):
        AtlasClassifier.load(tmp_path / "mine")
    settings = tmp_path / "mine" / "estimator.json"
    whole = settings.read_text(encoding="utf-8")
    settings.write_text(whole.replace('"features"', '"feature"'), encoding="utf-8")
    with pytest.raises(DataError, match="mine does not hold an estimator"):
        AtlasRegressor.load(tmp_path / "mine")
    settings.write_text(whole, encoding="utf-8")
    (tmp_path / "mine" / "arrays.npz").unlink()
    with pytest.raises(DataError, match="mine"):
        AtlasRegressor.load(tmp_path / "mine")


def test_a_loaded_estimator_knows_the_names_of_columns(tmp_path: Path) -> None:
    rows = pd.DataFrame(X, columns=["a", "b"])
    numbers = {"hidden": np.array([4]), "chains": np.int64(2), "training": {"max_epochs": np.int64(2)}}
    model = AtlasRegressor(method="deep_ensemble", **numbers, random_state=np.random.RandomState(0)).fit(rows, Y)
    model.save(tmp_path / "mine")
    loaded = AtlasRegressor.load(tmp_path / "mine")
    assert (loaded.hidden, loaded.chains, loaded.training, loaded.random_state) == ([4], 2, {"max_epochs": 2}, None)
    with pytest.raises(ValueError, match=r"^the parameter training of this estimator cannot be"):
        model.set_params(training={"max_epochs": Path("two")}).save(tmp_path / "other")
    np.testing.assert_array_equal(loaded.predict(rows, quantiles=0.5)[1], model.predict(rows, quantiles=[0.5])[1])
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(rows[["b", "a"]])


def test_a_classifier_keeps_labels_and_is_saved(tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    classifier = AtlasClassifier(hidden=(8,), method=SHORT, chains=2, random_state=0).fit(x, names)
    probabilities = classifier.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert classifier.score(x, names) > 0.93
    table = classifier.diagnostics(x, names).set_index("metric")["value"]
    np.testing.assert_allclose(table["accuracy"], classifier.score(x, names), atol=1e-6)
    with pytest.raises(ValueError, match=r"^y has the label 'rose', which is none of the 3 labels in fit"):
        classifier.diagnostics(x[:2], ["setosa", "rose"])
    classifier.save(tmp_path / "iris")
    np.testing.assert_array_equal(AtlasClassifier.load(tmp_path / "iris").predict(x), classifier.predict(x))


def test_pipelines_and_grid_search() -> None:
    steps = make_pipeline(PolynomialFeatures(2), AtlasRegressor(hidden=(4,), method=SHORT, chains=1, random_state=0))
    search = GridSearchCV(steps, {"atlasregressor__prior": ["standard_normal", "laplace"]}, cv=2).fit(X[:60], Y[:60])
    assert search.best_params_["atlasregressor__prior"] in ("standard_normal", "laplace")


def test_a_users_network_and_another_method() -> None:
    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(2)(nn.tanh(nn.Dense(8)(x)))

    ensemble = AtlasRegressor(
        network=Network(), method="deep_ensemble", chains=3, training={"patience": 100}, random_state=0
    ).fit(X, Y)
    assert ensemble.score(X, Y) > 0.8
    with pytest.raises(ValueError, match="network"):
        ensemble.save("never")


@pytest.mark.parametrize("likelihood", ["learned_noise", {"kind": "heteroscedastic", "head": "softplus"}])
def test_another_likelihood_has_its_noise_in_the_units_of_the_targets(likelihood: Any, tmp_path: Path) -> None:
    model = AtlasRegressor(hidden=(8,), likelihood=likelihood, method=SHORT, chains=2, random_state=0).fit(X, Y)
    mean, sd, quantiles, means, noises = model.predict(X, return_std=True, quantiles=[0.5], return_draws=True)
    np.testing.assert_allclose(sd, np.sqrt(means.var(axis=0) + (noises**2).mean(axis=0)), rtol=1e-3)
    np.testing.assert_allclose(quantiles[0], mean, atol=sd.max())
    assert (np.ptp(noises, axis=1).max() == 0) == (likelihood == "learned_noise")
    model.save(tmp_path / "mine")
    np.testing.assert_array_equal(AtlasRegressor.load(tmp_path / "mine").predict(X), mean)
    with pytest.raises(ValueError, match="that of classes is categorical"):
        AtlasClassifier(likelihood="gaussian").fit(X, Y > 0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"prior": "normale"}, "normale"),
        ({"chains": 0}, "chains"),
        ({"hidden": (0,)}, "hidden"),
        ({"method": "mclmcc"}, "mclmcc"),
        ({"training": {"epochs": 3}}, "epochs"),
        ({"likelihood": "categorical"}, "y "),
        ({"likelihood": "gausian"}, "gausian"),
        ({"likelihood": lambda outputs, targets: -((outputs - targets) ** 2)}, "likelihood is a function"),
    ],
)
def test_wrong_arguments_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AtlasRegressor(**changed).fit(X, Y)


def checks() -> list[Any]:
    estimators = [
        kind(hidden=(8,), method={"kind": "mclmc", "warmup": 100, "steps": 100}, chains=1, random_state=0)
        for kind in (AtlasRegressor, AtlasClassifier)
    ]
    return [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
        for one in estimators
        for estimator, check in estimator_checks_generator(one)
        if check.func.__name__ not in REASONS
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
