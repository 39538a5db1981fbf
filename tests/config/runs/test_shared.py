"""Addresses of splits and warm starts: equal where what they depend on is equal, and only there."""

from typing import Any

import pytest

from bnn_atlas.config.runs.shared import shared_split, shared_start
from bnn_atlas.config.runs.studies import RunConfig
from tests.config.folders import HMC, RUN


def start_key(number: int = 0, block: int = 0, /, **changes: Any) -> str:
    return shared_start(RunConfig.model_validate(RUN | changes), number, block).key


@pytest.mark.parametrize(
    "changes",
    [
        {"method": HMC},
        {"prior": {"kind": "normal", "scale": 0.2}},
        {"temperature": 0.5},
        {"description": "another"},
        {"split": RUN["split"] | {"count": 3}},
        {"evaluate": {}},
    ],
    ids=str,
)
def test_what_plays_no_part_in_training_changes_no_address(changes: dict[str, Any]) -> None:
    assert start_key(**changes) == start_key()


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "other"},
        {"split": RUN["split"] | {"seed": 1}},
        {"split": RUN["split"] | {"validation_in_likelihood": False}},
        {"model": {"kind": "mlp", "hidden": [4, 5]}},
        {"likelihood": {"kind": "gaussian", "sigma": 0.4}},
        {"float64": True},
        {"gradient_memory_mb": 1},
        {"kernel": "xla"},
        {"warmstart": {"max_epochs": 6}},
        {"warmstart": None},
        {"warmstart": None, "initial": {"distribution": "normal", "scale": 0.1}},
        {"seed": 1},
        {"chains": 8},
    ],
    ids=str,
)
def test_what_training_depends_on_changes_the_address(changes: dict[str, Any]) -> None:
    assert start_key(**changes) != start_key()


def test_networks_that_are_drawn_otherwise_have_another_address() -> None:
    drawn = [{"distribution": "normal", "scale": scale} for scale in (0.1, 0.2)]
    keys = {start_key(warmstart=None, initial=initial) for initial in (None, *drawn)}
    assert len(keys) == 3


def test_splits_and_blocks_have_addresses_of_their_own() -> None:
    split = RUN["split"] | {"count": 2}
    keys = {start_key(n, block, split=split, chains_per_block=2) for n in (0, 1) for block in (0, 1)}
    assert len(keys) == 4


def test_the_number_of_splits_is_not_part_of_their_address() -> None:
    one, three = (RunConfig.model_validate(RUN | {"split": RUN["split"] | {"count": n}}) for n in (1, 3))
    assert shared_split(one).key == shared_split(three).key
    other = RunConfig.model_validate(RUN | {"dataset": "other"})
    assert shared_split(one).key != shared_split(other).key


def test_an_address_does_not_change_between_releases() -> None:
    """Results that are copied into a new clone keep their names; a new field with a default would rename them."""
    assert start_key() == "40d2045d21f0"
    assert shared_split(RunConfig.model_validate(RUN)).key == "6ed0b28813a5"


def test_the_job_is_told_what_the_address_is_made_of() -> None:
    start = shared_start(RunConfig.model_validate(RUN | {"prior": {"kind": "normal", "scale": 0.2}}), 0, 0)
    settings = start.settings
    assert settings["members"] == [0, 1, 2, 3]
    assert settings["training"]["max_epochs"] == 5
    assert settings["posterior"]["prior"] == {"kind": "standard_normal"}
