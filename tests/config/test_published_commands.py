"""docs/published_commands.md: the runs of the HMC study have what the published commands say."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from bnn_atlas.config.runs.studies import Run, RunConfig
from bnn_atlas.config.settings import load_atlas
from tests.config.folders import REPOSITORY
from tests.config.test_repository import CONFIG

PAGE = (REPOSITORY / "docs" / "published_commands.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| `(run_\w+\.py)` \| `([^`]+)` \| `([\w.-]+)` \|$", PAGE, re.MULTILINE)
MODELS = {
    "cnn_lstm": {"kind": "cnn_lstm", "embedding": 128, "filters": 64, "kernel": 5, "pool": 4, "cells": 128},
    "mlp_classification": {"kind": "mlp", "hidden": [256, 256], "activation": "relu", "bias": True},
    "resnet20_frn_swish": {"kind": "resnet_frn", "depth": 20, "activation": "silu"},
}
PRECONDITIONERS = {"sgld": "None", "sghmc": "None", "sghmc_clr": "None", "sghmc_clr_prec": "RMSprop"}
DEFAULTS = {"momentum_decay": "0.9", "ensemble_freq": "10", "step_size_schedule": "constant"}
"""Of the published scripts, for what a command leaves out."""


def rate(config: Any) -> float:
    return config.method.step_size if hasattr(config.method, "step_size") else config.method.optimiser.learning_rate


def momentum(config: Any) -> float:
    method = config.method
    return 0.0 if method.kind == "sgld" else getattr(method, "momentum_decay", None) or method.optimiser.momentum


FLAGS: dict[str, Callable[[Any], Any]] = {
    "seed": lambda c: c.seed,
    "weight_decay": lambda c: c.prior.weight_decay or c.prior.scale**-2,
    "temperature": lambda c: c.temperature,
    "dataset_name": lambda c: c.dataset,
    "model_name": lambda c: next(name for name, model in MODELS.items() if model == c.model.model_dump(mode="json")),
    "subset_train_to": lambda c: c.split.first,
    "use_float64": lambda c: c.float64,
    "step_size": lambda c: c.method.step_size,
    "trajectory_len": lambda c: c.method.trajectory_length,
    "max_num_leapfrog_steps": lambda c: c.method.max_leapfrog_steps,
    "num_iterations": lambda c: c.method.burn_in + c.method.steps,
    "num_burn_in_iterations": lambda c: c.method.burn_in,
    "init_step_size": rate,
    "num_epochs": lambda c: c.method.epochs,
    "batch_size": lambda c: c.method.batch_size,
    "momentum": momentum,
    "momentum_decay": momentum,
    "num_burnin_epochs": lambda c: c.method.burn_in_epochs,
    "final_step_size": lambda c: c.method.schedule.final_step_size,
    "step_size_schedule": lambda c: c.method.schedule.kind,
    "step_size_cycle_length_epochs": lambda c: c.method.schedule.cycle_epochs,
    "ensemble_freq": lambda c: c.method.ensemble_every,
    "preconditioner": lambda c: PRECONDITIONERS[c.method.kind],
    "optimizer": lambda c: c.method.optimiser.kind.capitalize(),
    "vi_sigma_init": lambda c: c.method.sigma_init,
    "vi_ensemble_size": lambda c: c.method.steps,
    "mean_init_checkpoint": lambda c: c.start.run,
}


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return load_atlas({"scale": "paper", "studies": ["hmc_posteriors"]}, CONFIG).studies["hmc_posteriors"].runs


def flags_of(text: str) -> dict[str, str]:
    found = dict(re.findall(r"--(\w+)(?:=(\S+))?", text))
    assert len(found) == text.count("--")
    return found


def assert_equal(config: RunConfig, flag: str, value: str) -> None:
    found = FLAGS[flag](config)
    if isinstance(found, bool):
        assert found == (value in ("", "True")), flag
    elif isinstance(found, int | float):
        assert found == pytest.approx(float(value), rel=1e-6), flag
    else:
        assert found == value, flag


@pytest.mark.parametrize(("script", "text", "name"), COMMANDS, ids=[name for *_, name in COMMANDS])
def test_a_run_is_its_command(runs: dict[str, Run], script: str, text: str, name: str) -> None:
    config, flags = runs[name].config, flags_of(text)
    for flag, value in flags.items():
        assert_equal(config, flag, value)
    assert config.warmstart is None
    assert config.split.validation == 0
    kinds = {"run_hmc.py": ["hmc"], "run_sgd.py": ["map"], "run_vi.py": ["mean_field"]}
    assert config.method.kind in kinds.get(script, PRECONDITIONERS)
    if script == "run_hmc.py":
        assert (config.method.jitter, config.method.burn_in_metropolis) == (0, False)
    elif script == "run_sgd.py":
        assert_equal(config, "momentum_decay", DEFAULTS["momentum_decay"])
        assert config.method.optimiser.schedule == "cosine"
    elif script == "run_sgmcmc.py":
        for flag in {"ensemble_freq", "step_size_schedule"} - set(flags):
            assert_equal(config, flag, DEFAULTS[flag])
    if "use_float64" not in flags:
        assert not config.float64


def test_all_commands_of_the_readme_are_there() -> None:
    scripts = [script for script, *_ in COMMANDS]
    assert [scripts.count(f"run_{name}.py") for name in ("hmc", "sgd", "sgmcmc", "vi")] == [5, 3, 4, 3]


def test_every_flag_of_a_command_is_in_the_table_of_flags() -> None:
    table = PAGE.split("## Flags")[1].split("## Commands")[0]
    documented = set(re.findall(r"`--(\w+)`", table))
    assert {flag for _, text, _ in COMMANDS for flag in flags_of(text)} <= documented
    assert set(FLAGS) <= documented


def test_settings_of_table_3_on_imdb(runs: dict[str, Run]) -> None:
    for temperature in ("1", "0.3", "0.1", "0.03"):
        config = runs[f"imdb_hmc-temperature{temperature}"].config
        assert (config.method.burn_in, config.method.steps, config.chains) == (50, 400, 3)
        assert config.method.trajectory_length == pytest.approx(
            3.14159 / 2 * (config.temperature / 40) ** 0.5, rel=0.035
        ), "a quarter period of the prior"
