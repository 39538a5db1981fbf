"""Settings of the Markov-chain methods, and trajectories that are given by the prior and the temperature."""

import math
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.hmc import SHORTEST_WARM_UP, HMCConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig
from bnn_atlas.config.methods.registry import METHODS, MethodConfig, RefereeMethod, method
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS, refused, run_edit, study_file

METHOD = TypeAdapter(MethodConfig)


@pytest.mark.parametrize("kind", METHODS)
def test_the_record_of_a_method_is_whole(kind):
    """Its builder is a function of settings, posterior and data, and nothing else."""
    record = method(kind)
    module, function = record.builder.split(":")
    assert list(signature(getattr(import_module(module), function)).parameters) == ["config", "posterior", "data"]
    assert isinstance(record.kind_of_draws, KindOfDraws)
    looks = [(other.family, other.variant) for other in METHODS.values()]
    assert looks.count((record.family, record.variant)) == 1
    assert [other.title for other in METHODS.values()].count(record.title) == 1


def test_an_unknown_method_is_named_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"there is no method 'mala'; methods are mclmc, .*deep_ensemble"):
        method("mala")


def test_settings_of_methods_need_no_jax():
    code = "import sys, bnn_atlas.config.methods.registry; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "hmc", "mass": "diagonal", "burn_in": SHORTEST_WARM_UP - 1, "step_size": 0.1, "trajectory_length": 1},
        {"kind": "nuts", "warmup": SHORTEST_WARM_UP - 1, "step_size": 0.1},
        {"kind": "adjusted_mclmc", "warmup": SHORTEST_WARM_UP - 1, "step_size": 0.1, "mass": "unit"},
    ],
)
def test_a_warm_up_too_short_for_variances_is_refused(settings):
    with pytest.raises(ValidationError, match=r"19\) is too short to estimate variances: at least 20"):
        METHOD.validate_python(settings)


def test_a_unit_mass_needs_no_variances():
    METHOD.validate_python({"kind": "nuts", "warmup": 1, "step_size": 0.1, "mass": "unit"})
    METHOD.validate_python({"kind": "hmc", "burn_in": 0, "step_size": 0.1, "trajectory_length": 1})


@pytest.mark.parametrize("kind", ["nuts", "adjusted_mclmc"])
def test_the_first_step_size_must_be_given(kind):
    with pytest.raises(ValidationError, match=r"step_size\n  Field required"):
        METHOD.validate_python({"kind": kind})


def test_phases_use_up_the_tuning_steps():
    assert MCLMCConfig(warmup=1001).phase_steps == (801, 100, 100)
    assert BlackJAXMCLMCConfig(warmup=100).phase_steps == (33, 33, 34)
    with pytest.raises(ValidationError, match="phases must add up to 1"):
        MCLMCConfig(phases=(0.5, 0.4, 0.2))
    with pytest.raises(ValidationError, match="fewer than 10 steps"):
        BlackJAXMCLMCConfig(warmup=20)


@pytest.mark.parametrize("jitter", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("length", [1.0, 2.5, 10.0])
def test_leapfrog_steps_are_the_mean_over_jittered_trajectories(length, jitter):
    config = HMCConfig(step_size=1.0, trajectory_length=length, jitter=jitter)
    grid = length * (1 + jitter * np.linspace(-1, 1, 200_001)[1:-1])
    assert config.mean_leapfrog_steps == pytest.approx(np.ceil(grid).mean(), rel=1e-3)


def test_leapfrog_steps_are_bounded():
    config = HMCConfig(step_size=0.001, trajectory_length=1, max_leapfrog_steps=300, adapt_step_size=True)
    assert config.mean_leapfrog_steps == 300


RELATIVE = {"kind": "hmc", "quarter_periods": 1, "leapfrog_steps": 100}
PUBLISHED = [(40, 1.0, 0.248), (40, 0.3, 0.136), (40, 0.1, 0.0785), (40, 0.03, 0.0430), (5, 1.0, 0.70248)]
"""Weight decay, temperature and trajectory length of Izmailov et al. 2021 (their README and section 3)."""


def load(folder: Path, **changes: Any) -> dict[str, Any]:
    return load_study(study_file(folder, run_edit(warmstart=None, **changes)), "paper", DATASETS).runs


@pytest.mark.parametrize(("weight_decay", "temperature", "length"), PUBLISHED)
def test_a_quarter_period_is_the_published_length(
    tmp_path: Path, weight_decay: float, temperature: float, length: float
) -> None:
    prior = {"kind": "normal", "weight_decay": weight_decay}
    (run,) = load(tmp_path, prior=prior, temperature=temperature, method=RELATIVE).values()
    found = run.config.method
    assert found.trajectory_length == pytest.approx(length, rel=4e-3)
    assert found.trajectory_length == pytest.approx(math.pi / 2 * math.sqrt(temperature / weight_decay), rel=1e-12)
    assert (found.quarter_periods, found.leapfrog_steps) == (None, None)


def test_temperature_and_prior_are_one_grid(tmp_path: Path) -> None:
    grid = {"temperature": [0.25, 1.0], "prior.variance": [0.01, 0.04], "method.quarter_periods": [0.5, 1]}
    runs = load(tmp_path, prior={"kind": "normal"}, method=RELATIVE, grid=grid)
    assert len(runs) == 8
    for run in runs.values():
        temperature, variance, periods = run.point.values()
        length = periods * math.pi / 2 * math.sqrt(temperature * variance)
        assert run.config.method.trajectory_length == pytest.approx(length, rel=1e-12)
        assert run.config.method.step_size == pytest.approx(length / 100, rel=2e-6)


@pytest.mark.parametrize("steps", [1, 2, 100, 15_000, 70_248])
def test_a_number_of_leapfrog_steps_is_that_number_in_single_precision(steps: int) -> None:
    settings = HMCConfig(leapfrog_steps=steps, trajectory_length=0.70248, jitter=0, max_leapfrog_steps=10**6)
    step_size, length = settings.resolved(None, 1.0).lengths
    assert math.ceil(length / step_size) == steps
    assert np.ceil(np.float32(length) / np.float32(step_size)) == steps


def test_the_prior_of_another_shape_counts_by_its_standard_deviation(tmp_path: Path) -> None:
    (run,) = load(tmp_path, prior={"kind": "logistic", "variance": 1 / 40}, method=RELATIVE).values()
    assert run.config.method.trajectory_length == pytest.approx(math.pi / 2 / math.sqrt(40), rel=1e-12)


def test_a_referee_may_be_relative_too(tmp_path: Path) -> None:
    runs = load(tmp_path, prior={"kind": "normal", "variance": 0.04}, referee=RELATIVE)
    assert runs["one-referee"].config.method.trajectory_length == pytest.approx(math.pi / 10, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": {**RELATIVE, "trajectory_length": 1.0}}, "give trajectory_length or quarter_periods, not both"),
        ({"method": {**RELATIVE, "step_size": 1.0}}, "give step_size or leapfrog_steps, not both"),
        ({"method": {"kind": "hmc", "step_size": 0.1}}, "give trajectory_length or quarter_periods"),
        ({"method": {"kind": "hmc", "quarter_periods": 1}}, "give step_size or leapfrog_steps"),
        ({"prior": {"kind": "glorot"}}, "runs.one: quarter_periods needs a prior with one finite"),
        ({"referee": RELATIVE, "prior": {"kind": "he"}, "method": {"kind": "sgld", "step_size": 1}}, "quarter_periods"),
        ({"method": {**RELATIVE, "leapfrog_steps": 9000}}, r"max_leapfrog_steps (10000) would cut trajectories of up"),
        (
            {"method": {"kind": "hmc", "quarter_periods": 1, "step_size": 2.0}},
            "(2.0) must not exceed trajectory_length",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with refused(message):
        load(tmp_path, **{"method": RELATIVE, **changes})


def test_hmc_without_its_test_has_another_name_and_is_no_referee() -> None:
    record = method("unadjusted_hmc")
    assert record.title == "unadjusted HMC"
    assert record.kind_of_draws is KindOfDraws.BIASED_CHAIN
    settings = {"kind": "unadjusted_hmc", "step_size": 0.1, "trajectory_length": 1}
    assert METHOD.validate_python(settings).mean_leapfrog_steps >= 10
    with pytest.raises(ValidationError, match="'adjusted_mclmc', 'hmc', 'nuts'"):
        TypeAdapter(RefereeMethod).validate_python(settings)
