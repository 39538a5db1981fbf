"""Untrained networks, paths, pairs of chains, compact representations: what is read, and what is refused."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.checks.runs import Sources
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.methods.optimisation import MeanSGDConfig, PathConfig
from bnn_atlas.config.parts.evaluation import BarrierConfig, PruningConfig
from bnn_atlas.config.runs.shared import shared_start
from bnn_atlas.config.runs.studies import Run, Study
from bnn_atlas.config.settings import load_studies
from tests.config.folders import DATASETS, HMC, RUN, STUDY

PATH = RUN | {"warmstart": None, "method": {"kind": "path", "epochs": 3, "batch_size": 10}}
COPIES = PATH | {"initial": {"transpositions": [1, 3]}}
SOURCE = RUN | {"method": HMC | {"steps": 10}}
COMPACT = RUN | {"warmstart": None, "start": {"run": "one"}, "method": {"kind": "compact"}, "chains": 8}


def studies(folder: Path, **runs: dict[str, Any]) -> dict[str, Study]:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**deepcopy(STUDY), "runs": deepcopy(runs), "figures": {}}))
    return load_studies([path], DATASETS)["paper"]


def runs_of(folder: Path, **runs: dict[str, Any]) -> dict[str, Run]:
    return studies(folder, **runs)["small"].runs


def refused(folder: Path, match: str, **runs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=match):
        studies(folder, **runs)


def test_a_path_has_the_published_optimiser_by_default(tmp_path: Path) -> None:
    method = runs_of(tmp_path, one=PATH)["one"].config.method
    assert isinstance(method, PathConfig)
    assert method.optimiser == MeanSGDConfig(learning_rate=0.001, momentum=0.9, schedule="constant")
    assert method.draws == 4


def test_untrained_networks_of_other_settings_have_files_of_their_own(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        plain=PATH,
        copies=COPIES,
        uniform=PATH | {"initial": {"distribution": "kaiming_uniform"}},
        hmc=PATH | {"method": HMC | {"steps": 10}},
    )
    keys = {name: shared_start(run.config, 0, 0).key for name, run in runs.items()}
    assert keys["plain"] == keys["hmc"]
    assert len(set(keys.values())) == 3
    assert "initial" not in runs["plain"].config.model_dump(mode="json")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"initial": {"transpositions": [1, 4]}}, "4 units of the narrowest layer has 0 to 3 transpositions"),
        ({"initial": {"transpositions": [1]}}, r"set chains to 2, not 4"),
        ({"initial": {"transpositions": []}}, "transpositions is empty"),
        ({"model": {"kind": "mlp", "hidden": []}}, "model.hidden is empty"),
        ({"warmstart": {"max_epochs": 2}}, "set warmstart: null"),
    ],
)
def test_starts_that_no_network_has_are_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    refused(tmp_path, match, one=COPIES | change)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"chains": 3}, "needs an even number of chains, and chains is 3"),
        ({"model": {"kind": "mlp", "hidden": []}}, "the model has none"),
        ({"evaluate": {"barriers": {"points": 10}}}, r"points \(10\) must be odd"),
    ],
)
def test_pairs_that_there_are_not_are_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    refused(tmp_path, match, one=PATH | {"evaluate": {"barriers": {}}} | change)


def test_pairs_of_chains() -> None:
    assert BarrierConfig().pairs_of(4) == [(0, 1), (2, 3)]
    assert BarrierConfig(pairs="first").pairs_of(3) == [(0, 1), (0, 2)]
    assert BarrierConfig(pairs="all").pairs_of(3) == [(0, 1), (0, 2), (1, 2)]


def test_a_compact_representation_stands_on_its_source_and_has_its_reductions(tmp_path: Path) -> None:
    loaded = studies(tmp_path, one=SOURCE, two=COMPACT)
    assert Sources(loaded).of(loaded["small"].runs["two"]) == loaded["small"].runs["one"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"start": None}, "name it in start.run"),
        ({"start": {"run": "one", "draw": "best"}}, "leave start.draw out"),
        ({"start": {"run": "nowhere"}}, "no such run"),
        ({"temperature": 0.5}, "its temperature differs"),
        ({"prior": {"kind": "normal", "scale": 2}}, "its prior differs"),
        ({"model": {"kind": "mlp", "hidden": [4]}}, "its model differs"),
        ({"method": {"kind": "compact", "form": "mean"}}, "set chains to 1, not 8"),
        ({"method": {"kind": "compact", "source_chains": 99}}, "chains, and method.source_chains is 99"),
    ],
)
def test_sources_of_another_problem_are_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    refused(tmp_path, match, one=SOURCE, two=COMPACT | change)


def test_derived_sources_and_single_draws_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, "it is compact itself", one=SOURCE, two=COMPACT, three=COMPACT | {"start": {"run": "two"}})
    single = RUN | {"method": {"kind": "map"}, "chains": 1}
    refused(tmp_path, "a spread needs at least two", one=single, two=COMPACT)


def test_shares_that_rise_are_refused() -> None:
    with pytest.raises(ValueError, match="must fall"):
        PruningConfig(networks={"a": "b"}, kept=(10, 50))
