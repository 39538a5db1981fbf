"""Settings of the Markov-chain methods."""

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from bnn_atlas.config.methods import SHORTEST_WARM_UP, BlackJAXMCLMCConfig, HMCConfig, MCLMCConfig, MethodConfig

METHOD = TypeAdapter(MethodConfig)


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


@pytest.mark.parametrize("kind", ["hmc", "nuts", "adjusted_mclmc"])
def test_the_first_step_size_must_be_given(kind):
    with pytest.raises(ValidationError, match=r"step_size\n  Field required"):
        METHOD.validate_python({"kind": kind, "trajectory_length": 1} if kind == "hmc" else {"kind": kind})


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
    assert config.leapfrog_steps == pytest.approx(np.ceil(grid).mean(), rel=1e-3)


def test_leapfrog_steps_are_bounded():
    config = HMCConfig(step_size=0.001, trajectory_length=1, max_leapfrog_steps=300, adapt_step_size=True)
    assert config.leapfrog_steps == 300
