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


def test_default_settings_are_the_demo() -> None:
    assert load_atlas(read_yaml(CONFIG / "config.yaml"), CONFIG).settings.scale == "demo"


def test_every_study_file_is_reachable() -> None:
    for path in FILES["study"]:
        load_atlas({"studies": [path.stem]}, CONFIG)
    with pytest.raises(ConfigError, match=r"no such study; there are .*sampling_perspective"):
        load_atlas({"studies": ["sampling"]}, CONFIG)


def test_airfoil_claims_hold_the_published_numbers_and_the_bounds() -> None:
    claims = load_atlas({"scale": "laptop"}, CONFIG).claims["sampling_perspective"].claims
    published = {(c.metric, c.paper_value) for c in claims.values() if c.relation == "equals"}
    bounds = {(c.metric, c.bound) for c in claims.values() if c.relation == "at_most"}
    assert {("rmse", 0.1215), ("nll_moment_matched", -0.9126)} <= published
    assert {("rmse", 0.125), ("nll_moment_matched", -0.9)} <= bounds
    assert all(c.runs == ("airfoil_mile",) for c in claims.values() if c.relation == "at_most")
