"""Trajectories whose length and step size are given by the prior and the temperature."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.config.methods.registry import MethodConfig, RefereeMethod, method
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS, run_edit, study_file

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
        ({"prior": {"kind": "glorot"}}, "runs.one: quarter_periods are of a prior that has one finite standard devia"),
        ({"referee": RELATIVE, "prior": {"kind": "he"}, "method": {"kind": "sgld", "step_size": 1}}, "quarter_periods"),
        ({"method": {**RELATIVE, "leapfrog_steps": 9000}}, r"max_leapfrog_steps (10000) would cut trajectories of up"),
        (
            {"method": {"kind": "hmc", "quarter_periods": 1, "step_size": 2.0}},
            "step_size (2.0) must not exceed trajectory_length (1.57",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **{"method": RELATIVE, **changes})
    assert message in str(caught.value)


def test_hmc_without_its_test_has_another_name_and_is_no_referee() -> None:
    record = method("unadjusted_hmc")
    assert record.title == "unadjusted HMC"
    assert record.kind_of_draws is KindOfDraws.BIASED_CHAIN
    settings = {"kind": "unadjusted_hmc", "step_size": 0.1, "trajectory_length": 1}
    assert TypeAdapter(MethodConfig).validate_python(settings).mean_leapfrog_steps >= 10
    with pytest.raises(ValidationError, match="'adjusted_mclmc', 'hmc', 'nuts'"):
        TypeAdapter(RefereeMethod).validate_python(settings)
