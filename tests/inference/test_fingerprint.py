"""Which code the fingerprint of a trace depends on."""

import shutil
from pathlib import Path

import pytest

from bnn_atlas import sources
from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.config.methods.laplace import LaplaceConfig
from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.inference.code import code_of_draws, code_of_predictions

HMC = HMCConfig(step_size=0.1, trajectory_length=1.0)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library, which the fingerprint is taken of."""
    copy = tmp_path / "bnn_atlas"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    sources._imported.cache_clear()
    yield copy
    sources._imported.cache_clear()


def edit(file: Path) -> None:
    with file.open("a") as handle:
        handle.write("# edited\n")


@pytest.mark.parametrize(
    "name",
    [
        "methods/hmc.py",
        "methods/warmup.py",
        "methods/noise.py",
        "config/methods/hmc.py",
        "posterior/density.py",
        "posterior/micro_batches.py",
        "posterior/compiled.py",
        "native/call.py",
        "models/mlp.py",
        "keys.py",
        "threefry.py",
        "placement.py",
        "runtime.py",
        "runner/program.py",
        "inference/problem.py",
    ],
)
def test_code_that_makes_the_draws_counts(package, name):
    before = code_of_draws(HMC, stopped=False)
    edit(package / name)
    assert code_of_draws(HMC, stopped=False) != before


@pytest.mark.parametrize(
    "name",
    [
        "methods/laplace/build.py",
        "methods/laplace/lbfgs.py",
        "methods/mclmc/tuning.py",
        "methods/nuts.py",
        "config/methods/laplace.py",
        "config/methods/registry.py",
        "warmstart/ensemble.py",
        "runner/progress.py",
        "runner/checkpoint.py",
        "runner/folder.py",
        "runner/stopping.py",
        "steps/sample.py",
        "logs.py",
        "files.py",
        "provenance.py",
        "traces/store.py",
        "data/split_data.py",
        "metrics/gathering/predictive.py",
    ],
)
def test_code_that_changes_no_draw_does_not(package, name):
    before = code_of_draws(HMC, stopped=False)
    edit(package / name)
    assert code_of_draws(HMC, stopped=False) == before


def test_a_method_depends_on_what_it_uses(package):
    methods = (LaplaceConfig(), MCLMCConfig())
    laplace, mile = (code_of_draws(method, stopped=False) for method in methods)
    edit(package / "methods/laplace/lbfgs.py")
    assert code_of_draws(methods[0], stopped=False) != laplace
    assert code_of_draws(methods[1], stopped=False) == mile
    edit(package / "metrics/formulas/rhat_ess.py")
    assert code_of_draws(methods[1], stopped=False) == mile
    edit(package / "metrics/formulas/autocorrelation.py")
    assert code_of_draws(methods[1], stopped=False) != mile


@pytest.mark.parametrize("name", ["runner/stopping.py", "inference/validation.py", "metrics/formulas/e_values.py"])
def test_where_a_rule_ends_the_chains_its_code_counts(package, name):
    before = code_of_draws(HMC, stopped=True)
    edit(package / name)
    assert code_of_draws(HMC, stopped=True) != before


def test_predictions_depend_on_no_formula_of_a_metric(package):
    before = code_of_predictions()
    for name in ("metrics/formulas/scores.py", "metrics/gathering/chain_statistics.py", "metrics/judgement/measure.py"):
        edit(package / name)
        assert code_of_predictions() == before
    edit(package / "metrics/gathering/predictive.py")
    assert code_of_predictions() != before
