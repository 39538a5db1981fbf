"""Settings of the Markov-chain methods."""

import subprocess
import sys
from importlib import import_module
from inspect import signature

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.hmc import SHORTEST_WARM_UP, HMCConfig
from bnn_atlas.config.methods.mclmc import BlackJAXMCLMCConfig, MCLMCConfig
from bnn_atlas.config.methods.registry import METHODS, MethodConfig, method

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
