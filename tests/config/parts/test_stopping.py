"""Settings of the stopping rule."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS, HMC, run_edit, study_file

HELD_OUT = {"test": 0.2, "validation": 0.1, "validation_in_likelihood": False}


def load(folder: Path, **changes: Any) -> list[RunConfig]:
    study = load_study(study_file(folder, run_edit(**changes)), "paper", DATASETS)
    return [run.config for run in study.runs.values()]


def test_a_run_takes_all_draws_unless_told(tmp_path: Path) -> None:
    (config,) = load(tmp_path)
    assert config.stopping is None
    assert config.e_value_level == 0.01


def test_the_level_is_a_setting_like_any_other(tmp_path: Path) -> None:
    (config,) = load(tmp_path, stopping={}, split=HELD_OUT)
    assert config.stopping is not None
    assert config.stopping.alpha == 0.01
    found = load(tmp_path, stopping={"alpha": 0.5}, split=HELD_OUT, method=HMC, grid={"stopping.alpha": [0.1, 0.05]})
    assert [config.e_value_level for config in found] == [0.1, 0.05]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": HELD_OUT | {"validation_in_likelihood": True}}, "and split.validation_in_likelihood: false"),
        ({"split": {"test": 0.2}}, "rows that the posterior is not conditioned on"),
        ({"split": HELD_OUT | {"validation": 0}, "warmstart": {"patience": None}}, "set split.validation above 0"),
        ({"split": HELD_OUT, "warmstart": None}, "give the section warmstart, or leave stopping out"),
        ({"split": HELD_OUT, "likelihood": {"kind": "learned_noise"}}, "has not learned the noise"),
        ({"split": HELD_OUT, "chains_per_block": 2}, "stopping with 2 blocks"),
        ({"split": HELD_OUT, "stopping": {"alpha": 1.0}}, "runs.one.stopping.alpha = 1.0: must be less than 1"),
        ({"split": HELD_OUT, "stopping": {"alpha": 0}}, "runs.one.stopping.alpha = 0: must be greater than 0"),
        ({"split": HELD_OUT, "stopping": {"check": 3}}, "runs.one.stopping: unknown key 'check'; allowed keys: alpha"),
        *(
            ({"split": HELD_OUT, "method": {"kind": kind}}, f"for Markov chains, and method.kind '{kind}' runs none")
            for kind in ("deep_ensemble", "laplace", "mean_field", "map")
        ),
    ],
)  # fmt: skip
def test_what_has_no_rule_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **{"stopping": {}, **changes})
    assert message in str(caught.value)
