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

import bnn_atlas
from bnn_atlas import NetworkPosterior, build_posterior, open_pool, predict, sample, score, starting_points
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.posterior.compiled import kernel_name
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


def test_example_of_the_documentation_runs_without_the_extras(tmp_path: Path) -> None:
    (example,) = examples("docs/library.md")
    assert example in examples("README.md")
    assert len(example.splitlines()) <= 25
    shape, *scores = run(without_extras() + example, tmp_path).strip().splitlines()
    assert shape == "(2, 400, 50)"
    values = {line.split()[0]: float(line.split()[1]) for line in scores[2:]}
    assert set(values) == {"lppd", "rmse"}
    # The noise has a standard deviation of 0.2: its entropy bounds the density from above.
    assert -0.3 < values["lppd"] < 0.4
    assert 0.15 < values["rmse"] < 0.3


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
    documented = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8")
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


def test_trajectories_relative_to_the_prior_become_numbers(tmp_path: Path) -> None:
    relative = {"kind": "hmc", "burn_in": 2, "steps": 4, "quarter_periods": 0.5, "leapfrog_steps": 4}
    settings = LINEAR | {"prior": {"kind": "normal", "variance": 0.25}, "temperature": 4.0}
    posterior = build_posterior(X, LABELS, settings)
    draws = sample(posterior, relative, starting_points(posterior, 1), tmp_path)
    method = draws.attributes["provenance"]["settings"]["method"]
    assert method["trajectory_length"] == pytest.approx(0.5 * np.pi / 2 * 0.5 * 2)
    assert "quarter_periods" not in method
    uneven = build_posterior(X, LABELS, LINEAR | {"prior": {"kind": "glorot"}})
    with pytest.raises(ConfigError, match=r"^method: quarter_periods are of a prior that has one finite standard dev"):
        sample(uneven, relative, starting_points(uneven, 1), tmp_path)


def test_a_prior_made_of_the_rows_is_made_of_those_of_the_posterior() -> None:
    posterior = build_posterior(X, LABELS, LINEAR | {"prior": {"kind": "empirical_covariance", "floor": 0.1}})
    covariance = np.cov(X, rowvar=False)
    first = posterior.data.prior.shape
    np.testing.assert_allclose(
        np.sort(np.asarray(first.roots)[0]), np.sort((np.linalg.eigvalsh(covariance) + 0.1) ** -0.5), rtol=1e-5
    )


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
    with pytest.raises(ValueError, match="needs class numbers"):
        build_posterior(X, TARGETS, LINEAR)
    with pytest.raises(ValueError, match=r"configure\(float64=True\)"):
        build_posterior(X, LABELS, LINEAR | {"float64": True})
