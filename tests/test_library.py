"""The public functions of the package, and the package without its extras."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement
from scipy.stats import norm

import bnn_atlas
from bnn_atlas import NetworkPosterior, build_posterior, open_pool, predict, sample, score, starting_points, to_arviz
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.data import DataError
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.compiled import kernel_name
from bnn_atlas.traces.draws import ArrayDraws
from tests.test_envs import REPOSITORY, project

MODULES = {"pillow": "PIL", "scikit-learn": "sklearn"}
"""Packages whose modules have other names."""

WITHOUT = """
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed", name=name)
sys.meta_path.insert(0, Refuse())
"""

NUMBERS = np.random.default_rng(5)
X = NUMBERS.standard_normal((40, 2))
LABELS = (X[:, 0] + 0.3 * NUMBERS.standard_normal(40) > 0).astype(np.int64)
TARGETS = X[:, 0] + 0.3 * NUMBERS.standard_normal(40)
LINEAR: dict[str, Any] = {"model": {"kind": "mlp", "hidden": []}, "likelihood": {"kind": "categorical"}}
HMC = {"kind": "hmc", "burn_in": 30, "steps": 60, "step_size": 0.15, "trajectory_length": 0.6}


def examples(file: str) -> list[str]:
    """Blocks of Python in a file of the documentation."""
    return re.findall(r"```python\n(.*?)```", (REPOSITORY / file).read_text(encoding="utf-8"), re.DOTALL)


def without_extras() -> str:
    """Python that refuses to import what only extras need."""
    extras = [
        Requirement(text).name for name in ("arviz", "workflow") for text in project()["optional-dependencies"][name]
    ]
    return WITHOUT.format(names={MODULES.get(name, name.replace("-", "_")) for name in extras})


def run(code: str, folder: Path) -> str:
    """What a new process prints that runs some Python."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "NPROC"))}
    environment |= {"PYTHONPATH": str(Path(bnn_atlas.__file__).parents[1]), "PYTHONWARNINGS": "error"}
    (folder / "code.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "code.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def classifier() -> NetworkPosterior:
    return build_posterior(X, LABELS, LINEAR)


@pytest.mark.slow
def test_example_of_the_documentation_runs_without_the_extras(tmp_path: Path) -> None:
    example, *_ = examples("docs/library.md")
    shape, *scores = run(without_extras() + example, tmp_path).strip().splitlines()
    assert shape == "(2, 400, 50)"
    values = {line.split()[0]: float(line.split()[1]) for line in scores[2:]}
    assert set(values) == {"lppd", "rmse"}
    # The noise has a standard deviation of 0.2: its entropy bounds the density from above.
    assert -0.3 < values["lppd"] < 0.4
    assert 0.15 < values["rmse"] < 0.3


@pytest.mark.slow
def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = examples("README.md")
    assert len(example.splitlines()) <= 15
    lines = run(example, tmp_path).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["lppd", "rmse", "rhat_function_max"]


@pytest.mark.slow
def test_the_examples_of_a_users_network_and_of_an_estimator_run(tmp_path: Path) -> None:
    data, network, estimator, *_ = examples("docs/library.md")
    lines = run(data + network + estimator, tmp_path).strip().splitlines()
    assert lines[-2] == "(2, 100, 1, 16)"
    score, shape = lines[-1].split(" ", 1)
    assert float(score) > 0.8
    assert shape == "(2, 150)"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_the_example_for_arviz_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, example = examples("docs/library.md")
    posterior = build_posterior(X, TARGETS, LINEAR | {"likelihood": {"kind": "learned_noise"}})
    pool = sample(posterior, HMC | {"step_size": 0.05}, starting_points(posterior, 2), tmp_path / "trace")
    monkeypatch.chdir(tmp_path)
    pool.to_arviz()  # the first import of ArviZ warns
    exec(example, {"atlas": bnn_atlas, "posterior": posterior, "pool": pool})
    assert (tmp_path / "draws.nc").stat().st_size > 10_000


@pytest.mark.slow
def test_the_example_of_implicit_fits_runs(tmp_path: Path) -> None:
    (example,) = examples("docs/implicit.md")
    said = example.splitlines()[-1].partition("#")[2].strip()
    assert run(example.replace('"epochs": 300', '"epochs": 3'), tmp_path) == f"{said}\n"


@pytest.mark.slow
def test_the_kernels_import_without_the_extras(tmp_path: Path) -> None:
    rooms = ("config", "models", "posterior", "warmstart", "methods", "runner", "metrics", "traces")
    code = f"""
import importlib, pkgutil, bnn_atlas
for room in {rooms!r}:
    package = importlib.import_module(f"bnn_atlas.{{room}}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name != "bnn_atlas.traces.convert":
            importlib.import_module(module.name)
print(len([name for name in __import__("sys").modules if name.startswith("bnn_atlas.")]) > 50)
"""
    assert run(without_extras() + code, tmp_path) == "True\n"


def test_importing_the_package_does_not_import_jax(tmp_path: Path) -> None:
    code = "import sys, bnn_atlas; bnn_atlas.configure(threads=2); print('jax' in sys.modules, 'numpy' in sys.modules)"
    assert run(code, tmp_path) == "False False\n"


def test_every_public_name_exists_and_has_a_docstring() -> None:
    assert set(bnn_atlas.__all__) <= set(dir(bnn_atlas))
    assert all(getattr(bnn_atlas, name).__doc__ for name in bnn_atlas.__all__)
    documented = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8").partition("## The names")[2]
    assert sorted(re.findall(r"^\| `(\w+)` \|", documented, re.MULTILINE)) == sorted(bnn_atlas.__all__)
    with pytest.raises(AttributeError, match="no attribute 'simulate'"):
        bnn_atlas.simulate  # noqa: B018


def test_classifier_from_rows_to_scores(tmp_path: Path) -> None:
    posterior = classifier()
    assert posterior.classes == 2
    draws = sample(posterior, HMC, starting_points(posterior, 2), tmp_path / "trace", seed=3)
    assert draws.shape == (2, 60, posterior.density.layout.size)
    scores = score(posterior, draws, X, LABELS).set_index("metric").value
    assert scores["accuracy"] > 0.8
    probabilities = predict(posterior, draws, X[:7]).probabilities
    assert probabilities.shape == (2, 7, 2)
    np.testing.assert_allclose(probabilities.sum(axis=2), 1, rtol=1e-5)


NOISE = 0.4
GAUSSIAN = LINEAR | {"likelihood": {"kind": "gaussian", "sigma": NOISE}}


def fitted(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the posterior of a linear network, bias and two weights, with a standard normal prior."""
    rows = np.column_stack([np.ones(len(x)), x])
    covariance = np.linalg.inv(rows.T @ rows / NOISE**2 + np.eye(3))
    return covariance @ rows.T @ y / NOISE**2, covariance


def exact_draws(layout: Layout, *, method: str = "hmc") -> ArrayDraws:
    """Independent draws of that posterior, with their log-likelihoods."""
    theta = np.random.default_rng(0).multivariate_normal(*fitted(X, TARGETS), (2, 1000))
    gap = TARGETS - theta @ np.column_stack([np.ones(len(X)), X]).T
    total = np.sum(-0.5 * (gap / NOISE) ** 2 - np.log(NOISE * np.sqrt(2 * np.pi)), axis=2)
    attributes = {"provenance": {"settings": {"method": {"kind": method}}}}
    statistics = {"log_likelihood": total}
    return ArrayDraws(Path("exact"), layout, theta, statistics, np.arange(2), np.arange(1000), attributes)


def test_arviz_compares_models_by_the_likelihood_of_each_row() -> None:
    posterior = build_posterior(X, TARGETS, GAUSSIAN)
    draws = exact_draws(posterior.density.layout)
    data = to_arviz(posterior, draws)
    import arviz

    total = data["log_likelihood"]["y"].sum("row")
    np.testing.assert_allclose(total, data["sample_stats"]["total_log_likelihood"], rtol=1e-4)
    exact = 0.0
    for row in range(len(X)):
        others = np.arange(len(X)) != row
        mean, covariance = fitted(X[others], TARGETS[others])
        inputs = np.append(1, X[row])
        exact += norm.logpdf(TARGETS[row], inputs @ mean, np.sqrt(NOISE**2 + inputs @ covariance @ inputs))
    found = arviz.loo(data)
    assert float(found.elpd if hasattr(found, "elpd") else found.elpd_loo) == pytest.approx(exact, abs=0.1)
    with pytest.raises(TypeError, match="log likelihood not found"):
        arviz.loo(draws.to_arviz())


def test_arviz_gets_the_rows_and_targets_that_each_draw_predicts() -> None:
    posterior = build_posterior(X, TARGETS, GAUSSIAN)
    draws = exact_draws(posterior.density.layout)
    data = to_arviz(posterior, draws, seed=2)
    np.testing.assert_allclose(data["observed_data"]["y"], TARGETS, rtol=1e-6)
    np.testing.assert_allclose(data["constant_data"]["x"], X, rtol=1e-6)
    noise = data["posterior_predictive"]["y"] - draws.read() @ np.column_stack([np.ones(len(X)), X]).T
    assert abs(float(noise.mean())) < 0.01
    assert float(noise.std()) == pytest.approx(NOISE, rel=0.01)
    again = to_arviz(posterior, draws, seed=2)
    assert data["posterior_predictive"].identical(again["posterior_predictive"])


def test_arviz_gets_labels_of_classes(tmp_path: Path) -> None:
    posterior = classifier()
    draws = sample(posterior, HMC, starting_points(posterior, 2), tmp_path / "trace", seed=3)
    data = to_arviz(posterior, draws)
    labels = data["posterior_predictive"]["y"]
    assert (labels.shape, labels.dtype.kind) == ((2, 60, 40), "i")
    probabilities = predict(posterior, draws, X).probabilities.mean(axis=0)
    np.testing.assert_allclose((labels == 1).mean(("chain", "draw")), probabilities[:, 1], atol=0.2)
    np.testing.assert_allclose(data["log_likelihood"]["y"].sum("row"), draws.statistic("log_likelihood"), rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "method"), [(GAUSSIAN | {"temperature": 0.5}, "hmc"), (GAUSSIAN, "laplace")], ids=["cold", "laplace"]
)
def test_there_is_no_likelihood_by_row_where_it_would_mislead(settings: dict[str, Any], method: str) -> None:
    posterior = build_posterior(X, TARGETS, settings)
    data = to_arviz(posterior, exact_draws(posterior.density.layout, method=method))
    assert "posterior_predictive" in data
    assert "log_likelihood" not in data


def test_draws_of_other_rows_are_no_draws_of_this_posterior() -> None:
    posterior = build_posterior(X[::-1], TARGETS, GAUSSIAN)
    with pytest.raises(DataError, match=r"of other rows: at draw 0 of chain 0.*40 rows"):
        to_arviz(posterior, exact_draws(posterior.density.layout))


@pytest.mark.slow
def test_trajectories_relative_to_the_prior_become_numbers(tmp_path: Path) -> None:
    relative = {"kind": "hmc", "burn_in": 2, "steps": 4, "quarter_periods": 0.5, "leapfrog_steps": 4}
    settings = LINEAR | {"prior": {"kind": "normal", "variance": 0.25}, "temperature": 4.0}
    posterior = build_posterior(X, LABELS, settings)
    draws = sample(posterior, relative, starting_points(posterior, 1), tmp_path)
    method = draws.attributes["provenance"]["settings"]["method"]
    assert method["trajectory_length"] == pytest.approx(0.5 * np.pi / 2 * 0.5 * 2)
    assert "quarter_periods" not in method
    uneven = build_posterior(X, LABELS, LINEAR | {"prior": {"kind": "glorot"}})
    with pytest.raises(ConfigError, match=r"^method: quarter_periods needs a prior with one finite standard dev"):
        sample(uneven, relative, starting_points(uneven, 1), tmp_path)


def test_a_prior_made_of_the_rows_is_made_of_those_of_the_posterior() -> None:
    posterior = build_posterior(X, LABELS, LINEAR | {"prior": {"kind": "empirical_covariance", "floor": 0.1}})
    covariance = np.cov(X, rowvar=False)
    first = posterior.data.prior.shape
    np.testing.assert_allclose(
        np.sort(np.asarray(first.roots)[0]), np.sort((np.linalg.eigvalsh(covariance) + 0.1) ** -0.5), rtol=1e-5
    )


@pytest.mark.slow
def test_a_trace_of_one_kernel_is_not_continued_with_the_other(tmp_path: Path) -> None:
    kernels = []
    for kernel in ("auto", "xla"):
        posterior = build_posterior(X, LABELS, LINEAR | {"kernel": kernel})
        draws = sample(posterior, HMC, starting_points(posterior, 2), tmp_path)
        recorded = draws.attributes["provenance"]["settings"]["kernel"]
        assert recorded == kernel_name(posterior.density.kernel)
        kernels.append((recorded, draws.attributes["fingerprint"]))
    assert kernels[1][0] == "xla"
    assert kernels[0][1] != kernels[1][1]


@pytest.mark.slow
def test_sampling_again_returns_the_same_draws_and_other_settings_new_ones(tmp_path: Path) -> None:
    posterior, folder = classifier(), tmp_path / "trace"
    starts = starting_points(posterior, 2, seed=1)
    first = sample(posterior, HMC, starts, folder).read()
    written = (folder / "chains" / "zarr.json").stat().st_mtime_ns
    np.testing.assert_array_equal(sample(posterior, HMC, starts, folder).read(), first)
    assert (folder / "chains" / "zarr.json").stat().st_mtime_ns == written
    np.testing.assert_array_equal(open_pool(folder / "pool.json").read(), first)
    assert not np.array_equal(sample(posterior, HMC, starts, folder, seed=1).read(), first)
    cold = build_posterior(X, LABELS, LINEAR | {"temperature": 0.5})
    assert not np.array_equal(sample(cold, HMC, starts, folder).read(), first)


def test_training_lowers_the_loss_of_the_starting_points() -> None:
    settings = {"model": {"kind": "mlp", "hidden": [4]}, "likelihood": {"kind": "gaussian", "sigma": 0.5}}
    posterior = build_posterior(X[:30], TARGETS[:30], settings)
    plain = starting_points(posterior, 3)
    trained = starting_points(posterior, 3, training={"batch_size": 10}, validation=(X[30:], TARGETS[30:]))
    assert plain.shape == trained.shape == (3, posterior.density.layout.size)

    def density(theta: np.ndarray) -> float:
        return float(posterior.density.log_likelihood_of(theta, posterior.data.x, posterior.data.y))

    assert all(density(after) > density(before) for before, after in zip(plain, trained, strict=True))


def test_rows_that_fill_up_the_last_shard_are_not_trained_on() -> None:
    settings = LINEAR | {"data_shards": 3}
    sharded, whole = build_posterior(X, LABELS, settings), classifier()
    assert len(sharded.data.y) == 42
    training = {"batch_size": None, "max_epochs": 5}
    np.testing.assert_array_equal(
        starting_points(sharded, 1, training=training), starting_points(whole, 1, training=training)
    )


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match=r"posterior: likelihood\.kind = 'normal': allowed are"):
        build_posterior(X, TARGETS, LINEAR | {"likelihood": {"kind": "normal"}})
    with pytest.raises(ConfigError, match=r"method: kind = 'gibbs': allowed are"):
        sample(classifier(), {"kind": "gibbs"}, np.zeros((1, 6)), "nowhere")
    with pytest.raises(ConfigError, match=r"training: top level: unknown key 'epochs'"):
        starting_points(classifier(), 1, training={"epochs": 3})
    with pytest.raises(ConfigError, match="training: permuted: only runs of the pipeline"):
        starting_points(classifier(), 1, training={"permuted": 0})
    with pytest.raises(ValueError, match="class numbers 0, 1, 2"):
        build_posterior(X, TARGETS, LINEAR)
    with pytest.raises(ValueError, match=r"configure\(float64=True\)"):
        build_posterior(X, LABELS, LINEAR | {"float64": True})
