"""The public functions of the package, and the package without its extras."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement
from scipy.stats import norm

import bnn_atlas
from bnn_atlas import (
    NetworkPosterior,
    PosteriorDraws,
    build_posterior,
    open_pool,
    posterior_of,
    predict,
    sample,
    score,
    starting_points,
    to_arviz,
)
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.data import DataError
from bnn_atlas.data.splitting import load_split
from bnn_atlas.metrics.formulas.reliability import calibration_bins
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.compiled import kernel_name
from bnn_atlas.runner import timing
from bnn_atlas.traces.draws import ArrayDraws
from tests.pipeline.steps.making import POSTERIOR, make_run
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
    network, *_ = examples("docs/library.md")
    lines = run(without_extras() + network, tmp_path).strip().splitlines()
    assert lines[0] == "(2, 400, 1, 16)"
    assert lines[1].startswith("2 chains of 400 draws, 50 parameters: ")
    values = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(("lppd ", "rmse "))}
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
def test_the_examples_of_heavy_tails_and_of_methods_compared_run(tmp_path: Path) -> None:
    network, likelihood, _, methods, *_ = examples("docs/library.md")
    scale, *table = run(network + likelihood + methods, tmp_path).strip().splitlines()[-7:]
    assert -2.5 < float(scale) < -1
    found = {line.split()[0]: line.split() for line in table[2:]}
    assert list(found) == ["mclmc", "mean_field", "laplace", "deep_ensemble"]
    assert float(found["mclmc"][-2]) == float(found["mclmc"][-1]) == 0
    assert all(float(of[-2]) < 0.1 for of in found.values())


@pytest.mark.slow
def test_the_example_of_an_estimator_runs(tmp_path: Path) -> None:
    _, _, estimator, *_ = examples("docs/library.md")
    score, shape = run(estimator, tmp_path).splitlines()[0].split(" ", 1)
    assert float(score) > 0.8
    assert shape == "(2, 150)"


def test_the_example_of_a_run_of_the_pipeline_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, example, _ = examples("docs/library.md")
    made = make_run(tmp_path)
    for path, file in (
        ("results/demo/data/NAME/prepared.npz", made.dataset),
        ("results/demo/splits/NAME-HASH/split0.npz", made.split),
    ):
        assert path in example
        example = example.replace(path, str(file))
    example = example.replace("results/demo/sampling_perspective/NAME/split0", str(tmp_path))
    split = load_split(made.dataset, made.split)
    posterior = build_posterior(split.x_fit, split.y_fit, POSTERIOR, classes=3)
    sample(posterior, HMC, chains=3, folder=tmp_path / "pool")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["draws"].posterior.classes == 3
    assert (tmp_path / "trace.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_the_example_for_arviz_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, example = examples("docs/library.md")
    posterior = build_posterior(X, TARGETS, LINEAR | {"likelihood": {"kind": "learned_noise"}})
    draws = sample(posterior, HMC | {"step_size": 0.05}, starting_points(posterior, 2), tmp_path / "trace")
    monkeypatch.chdir(tmp_path)
    draws.to_arviz()  # the first import of ArviZ warns
    exec(example, {"atlas": bnn_atlas, "posterior": posterior, "draws": draws})
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


def of_posterior(posterior: NetworkPosterior, shift: float = 0.0) -> PosteriorDraws:
    """Exact draws, with one chain shifted."""
    found = exact_draws(posterior.density.layout)
    found._draws[1] += shift
    return PosteriorDraws(found, posterior)


def ess(chains: np.ndarray) -> float:
    """Bulk ESS of ArviZ."""
    import arviz

    return float(arviz.ess({"x": chains})["x"])


def test_a_summary_trusts_exact_draws_and_distrusts_chains_at_two_places() -> None:
    posterior = build_posterior(X, TARGETS, GAUSSIAN)
    draws = of_posterior(posterior)
    good, bad = draws.summary(), of_posterior(posterior, 1.0).summary(X[:9])
    assert (good.verdict, bad.verdict) == ("fine", "do not trust")
    assert list(good.table.index) == ["functions at 40 rows", "log posterior", "layer0.bias", "layer0.weight"]
    assert list(bad.table["numbers"]) == [9, 1, 1, 2]
    functions = draws.score(X, TARGETS).query("at == ''").set_index("metric")["value"]
    assert good.table.loc["functions at 40 rows", "rhat"] == pytest.approx(functions["rhat_function_max"], rel=1e-6)
    assert good.table.loc["layer0.bias", "ess_bulk"] == pytest.approx(ess(draws["layer0.bias"][..., 0]), rel=0.01)
    assert bad.table.loc["layer0.weight", "rhat"] > 1.5
    text = repr(bad)
    assert text.startswith("2 chains of 1000 draws, 3 parameters: do not trust")
    assert "R-hat of function values up to" in text


def test_the_parameters_of_a_density_alone_are_judged() -> None:
    posterior = posterior_of(lambda p: -0.5 * ((p["a"] ** 2).sum()), start={"a": np.zeros(3)})
    for shift, verdict in ((0.0, "fine"), (3.0, "do not trust")):
        summary = of_posterior_of(posterior, shift).summary()
        assert summary.verdict == verdict
        assert summary.table.index[0] == "3 parameters, evenly chosen"
        told = "".join(summary.reasons)
        assert "R-hat of parameters up to" in told
        assert "function values" not in told
    draws, x, y = of_posterior_of(posterior, 0.0), np.ones((4, 1)), np.ones(4)
    for ask in (draws.predict, draws.predict_draws):
        with pytest.raises(DataError, match="density alone"):
            ask(x)
    for ask_both in (draws.score, draws.plot_reliability):
        with pytest.raises(DataError, match="density alone"):
            ask_both(x, y)
    for ask_none in (draws.plot_bands, lambda: to_arviz(posterior, draws)):
        with pytest.raises(DataError, match="density alone"):
            ask_none()


def of_posterior_of(posterior: NetworkPosterior, shift: float) -> PosteriorDraws:
    values = np.random.default_rng(1).standard_normal((2, 1000, 3)) + np.array([0, shift])[:, None, None]
    attributes = {"provenance": {"settings": {"method": {"kind": "hmc"}}}}
    layout = posterior.density.layout
    return PosteriorDraws(
        ArrayDraws(Path("normal"), layout, values, {}, np.arange(2), np.arange(1000), attributes), posterior
    )


def test_draws_know_their_posterior(tmp_path: Path) -> None:
    posterior = build_posterior(X, TARGETS, GAUSSIAN)
    sample(posterior, HMC | {"step_size": 0.05}, chains=2, folder=tmp_path)
    draws = open_pool(tmp_path, posterior)
    np.testing.assert_array_equal(draws.predict(X).mean, predict(posterior, draws, X).mean)
    assert draws.score(X, TARGETS).equals(score(posterior, draws, X, TARGETS))
    assert draws.thin(20).predict_draws(X[:5]).mean.shape == (2, 3, 5)
    assert "3 parameters" in repr(open_pool(tmp_path / "pool.json").summary())
    with pytest.raises(DataError, match="posterior=posterior"):
        open_pool(tmp_path / "pool.json").summary(X)
    with pytest.raises(DataError, match="temperature"):
        open_pool(tmp_path, build_posterior(X, TARGETS, GAUSSIAN | {"temperature": 2.0}))


def test_saved_draws_know_their_posterior_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder alone: rows by name, classes that no row has, and nothing of a folder that cannot be written."""
    frame = pd.DataFrame(X, columns=list("abc")[: X.shape[1]])
    posterior = build_posterior(frame, LABELS, LINEAR, classes=4)
    draws = sample(posterior, HMC | {"step_size": 0.05}, chains=2)
    draws.save(tmp_path / "new" / "draws")
    found = open_pool(tmp_path / "new" / "draws")
    assert (found.posterior.classes, found.posterior.columns) == (4, tuple(frame.columns))
    assert found.score(frame, LABELS).equals(draws.score(frame, LABELS))
    assert repr(found.summary()) == repr(draws.summary())
    found.thin(3).save(tmp_path / "again")
    np.testing.assert_array_equal(open_pool(tmp_path / "again").read(), draws.read()[:, ::3])
    (tmp_path / "again" / "rows.npz").unlink()
    with pytest.raises(DataError, match=r"rows.npz is missing: .* pass the posterior"):
        open_pool(tmp_path / "again")
    open_pool(tmp_path / "again", posterior).predict(frame)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bnn_atlas.traces.store.TraceWriter.write_rows", full)
    with pytest.raises(OSError, match="space"):
        draws.save(tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "new"]


def by_count(outputs: Any, targets: Any) -> Any:
    """A likelihood of the user's own."""
    return -((targets - outputs[:, 0]) ** 2)


def test_plots_of_draws() -> None:
    x = X[:, :1]
    posterior = build_posterior(x, TARGETS, GAUSSIAN)
    theta = np.random.default_rng(0).normal([0.1, 0.9], 0.05, (3, 200, 2))
    statistics = {name: -(theta**2).sum(axis=2) for name in ("log_likelihood", "log_prior")}
    statistics["divergent"] = (np.arange(600).reshape(3, 200) % 150 == 7).astype(np.int32)
    attributes = {"provenance": {"settings": {"method": {"kind": "hmc"}}}}
    layout = posterior.density.layout
    names = layout.names()
    draws = PosteriorDraws(
        ArrayDraws(Path("x"), layout, theta, statistics, np.arange(3), np.arange(200), attributes), posterior
    )
    trace = draws.plot_trace()
    assert [ax.get_ylabel() for ax in trace.axes[::2]] == ["log posterior", *names]
    np.testing.assert_array_equal(trace.axes[3].lines[1].get_ydata(), theta[1, :, 0])
    pair = draws.plot_pair(names)
    (marks,) = pair.axes[2].lines
    assert len(marks.get_xdata()) == 4
    at = np.linspace(-1, 1, 7)[:, None]
    bands = draws.plot_bands(at).axes[0]
    mean = next(line for line in bands.lines if line.get_linewidth() == 1.6)
    np.testing.assert_allclose(mean.get_ydata(), theta[..., 0].mean() + theta[..., 1].mean() * at[:, 0], rtol=1e-4)
    coverage = draws.plot_reliability(x, TARGETS).axes[0]
    drawn = next(line for line in coverage.lines if line.get_marker() == "o")
    table = draws.score(x, TARGETS).query("metric == 'coverage'")
    np.testing.assert_allclose(drawn.get_ydata(), table["value"] - table["at"].astype(float), atol=1e-12)
    for given, words in ((["layer0.weights"], "layer0.weight"), ([names[0]], "2 to 6")):
        with pytest.raises(ValueError, match=words):
            draws.plot_pair(given)
    with pytest.raises(DataError, match="ascending"):
        draws.plot_bands(at[::-1])
    given = posterior_of(
        lambda p, x: x * p["w"], x, TARGETS, start={"w": np.ones(1)}, likelihood=by_count, mean=lambda o: o[:, 0]
    )
    theta = np.random.default_rng(0).normal(1, 0.1, (2, 50, 1))
    of_own = ArrayDraws(Path("o"), given.density.layout, theta, {}, np.arange(2), np.arange(50), attributes)
    own = PosteriorDraws(of_own, given)
    assert [text.get_text() for text in own.plot_bands().legends[0].texts] == [
        "mean", "90% of functions", "single draws", "training rows"
    ]  # fmt: skip
    with pytest.raises(DataError, match="named likelihood"):
        own.plot_reliability(x, TARGETS)
    with pytest.raises(DataError, match="one input"):
        of_posterior(build_posterior(X, TARGETS, GAUSSIAN)).plot_bands()


def test_the_reliability_of_classes_is_a_curve_of_accuracy_against_confidence() -> None:
    posterior = classifier()
    layout = posterior.density.layout
    theta = np.random.default_rng(0).normal(0, 0.3, (2, 20, layout.size)) + np.eye(layout.size)[2] * 2
    attributes = {"provenance": {"settings": {"method": {"kind": "hmc"}}}}
    draws = PosteriorDraws(ArrayDraws(Path("c"), layout, theta, {}, np.arange(2), np.arange(20), attributes), posterior)
    figure = draws.plot_reliability(X, LABELS)
    found = calibration_bins(draws.predict(X).probabilities.mean(axis=0), LABELS, 4)
    drawn = next(line for line in figure.axes[0].lines if line.get_marker() == "o")
    np.testing.assert_allclose(drawn.get_xdata(), found.confidence)
    np.testing.assert_allclose(drawn.get_ydata(), found.accuracy)


def test_bars_are_quiet_unless_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = build_posterior(X, TARGETS, GAUSSIAN)
    method = HMC | {"step_size": 0.05}
    sample(posterior, method, chains=1)
    assert capsys.readouterr().err == ""
    starts = starting_points(posterior, 1, training={"max_epochs": 3, "batch_size": None}, progress=True)
    assert "training 1 network, at most 3 epochs" in capsys.readouterr().err
    sample(posterior, method, starts, progress=True)
    assert "step/s" in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    sample(posterior, method, starts, progress=False)
    assert capsys.readouterr().err == ""


def test_bars_are_shown_in_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timing.bar(total=1).disable
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr(timing, "find_spec", lambda name: None)
    for wanted in (None, True, False):
        with timing.shown(wanted), timing.bar(total=1) as bar:
            assert bar.disable == (wanted is False)


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
