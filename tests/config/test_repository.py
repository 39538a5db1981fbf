"""The repository's own config/ and its JSON schemas."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bnn_atlas.config.base import ConfigError, read_yaml
from bnn_atlas.config.schema import MODELS, schema, write_schemas
from bnn_atlas.config.settings import load_atlas
from tests.config.folders import REPOSITORY

CONFIG = REPOSITORY / "config"
SCHEMAS = REPOSITORY / "workflow" / "schemas"
FILES = {
    "config": [CONFIG / "config.yaml"],
    "datasets": [CONFIG / "datasets.yaml"],
    "study": sorted((CONFIG / "studies").glob("*.yaml")),
    "claims": sorted((CONFIG / "claims").glob("*.yaml")),
}
PAIRS = [(name, path) for name, paths in FILES.items() for path in paths]


@pytest.mark.parametrize("name", MODELS)
def test_schema_in_the_repository_is_that_of_the_models(name: str) -> None:
    written = (SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")
    assert written == schema(name), "run `python -m bnn_atlas.config.schema` after changing a configuration model"


def test_schemas_are_written(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in SCHEMAS.iterdir()}


@pytest.mark.parametrize(("name", "path"), PAIRS, ids=[str(path.relative_to(CONFIG)) for _, path in PAIRS])
def test_files_meet_their_schemas(name: str, path: Path) -> None:
    contract = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(contract)
    jsonschema.Draft202012Validator(contract).validate(read_yaml(path))


def test_schema_refuses_what_the_models_refuse() -> None:
    contract = jsonschema.Draft202012Validator(json.loads(schema("study")))
    study: Any = read_yaml(CONFIG / "studies" / "sampling_perspective.yaml")
    assert contract.is_valid(study)
    study["runs"]["airfoil_hmc"]["method"]["step_size"] = -1
    study["runs"]["airfoil_mile"]["chian"] = 3
    found = {error.message for error in contract.iter_errors(study)}
    assert any("chian" in message for message in found)
    assert any("-1" in message for message in found)


@pytest.mark.parametrize("scale", ["demo", "laptop", "paper"])
def test_config_loads_at_every_scale(scale: str) -> None:
    settings = read_yaml(CONFIG / "config.yaml")
    atlas = load_atlas(settings | {"scale": scale}, CONFIG)
    assert set(atlas.studies) == set(settings["studies"])
    for study in atlas.studies.values():
        for run in study.runs.values():
            assert run.scale == scale
            assert run.config.dataset in atlas.datasets
            assert scale != "paper" or not run.reductions
            assert scale != "demo" or not atlas.datasets[run.config.dataset].files, "demo needs no network"


@pytest.mark.parametrize("scale", ["demo", "laptop"])
@pytest.mark.parametrize("path", FILES["study"], ids=lambda path: path.stem)
def test_scales_only_reduce_the_number_of_chains(path: Path, scale: str) -> None:
    runs = load_atlas({"studies": [path.stem], "scale": scale}, CONFIG).studies[path.stem].runs
    changes = [(name, text.split()) for name, run in runs.items() for text in run.reductions]
    found = {name: (int(words[1]), int(words[3])) for name, words in changes if words[0] == "chains:"}
    assert found
    assert not {name: counts for name, counts in found.items() if counts[1] > counts[0]}


def test_default_settings_are_the_demo() -> None:
    assert load_atlas(read_yaml(CONFIG / "config.yaml"), CONFIG).settings.scale == "demo"


def test_every_study_file_is_reachable() -> None:
    for path in FILES["study"]:
        load_atlas({"studies": [path.stem]}, CONFIG)
    with pytest.raises(ConfigError, match=r"no such study; there are .*sampling_perspective"):
        load_atlas({"studies": ["sampling"]}, CONFIG)


def test_claims_hold_published_numbers_and_no_limits_of_our_own() -> None:
    claims = load_atlas({"scale": "laptop"}, CONFIG).claims["sampling_perspective"].claims
    published = {(c.runs, c.metric, c.chains, c.paper_value) for c in claims.values() if c.relation == "equals"}
    assert {
        (("airfoil_mile",), "rmse", None, 0.1215),
        (("airfoil_mile",), "nll_moment_matched", None, -0.9126),
        (("bikesharing_package",), "rmse", None, 0.2261),
        (("bikesharing_package_ensemble",), "nll_moment_matched", None, -0.4550),
        (("airfoil_scale",), "lppd_cumulative_chains", 100, 0.8044),
        (("bikesharing_scale",), "lppd_cumulative_chains", 1000, 0.75081),
        (("ionosphere_scale",), "lppd_cumulative_chains", 8000, -0.15252),
        (("fmnist_scale",), "lppd_cumulative_chains", 10, -0.3671),
    } <= published
    assert all(c.paper_value is not None for c in claims.values())
    assert not [name for name, c in claims.items() if c.relation == "at_most"]
