"""The repository's own config/ and its JSON schemas."""

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bnn_atlas.config.base import ConfigError, read_yaml
from bnn_atlas.config.datasets import DatasetEntry, load_registry
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
PACKAGE = {
    ("airfoil_mile", "rmse", None): 0.1215,
    ("airfoil_mile", "nll_moment_matched", None): -0.9126,
    ("airfoil_ensemble", "rmse", None): 0.3650,
    ("airfoil_ensemble", "nll_moment_matched", None): 0.1760,
    ("bikesharing_package", "rmse", None): 0.2261,
    ("bikesharing_package", "nll_moment_matched", None): -0.7315,
    ("bikesharing_package_ensemble", "rmse", None): 0.2880,
    ("bikesharing_package_ensemble", "nll_moment_matched", None): -0.4550,
}
"""Means of the package's tables."""
PACKAGE_SD = dict(zip(PACKAGE, (0.0042, 0.0131, 0.0038, 0.0043, 0.0016, 0.0098, 0.0052, 0.0173), strict=True))
CURVES = {
    "airfoil_scale": {1: (0.6139, 0.0392), 10: (0.7824, 0.0122), 100: (0.8044, 0.0075), 10000: (0.80504, 0.0)},
    "bikesharing_scale": {10: (0.7290, 0.0058), 100: (0.7453, 0.0026), 1000: (0.75081, 0.0)},
    "ionosphere_scale": {1: (-0.1516, 0.0113), 10: (-0.1519, 0.0026), 100: (-0.1532, 0.0015), 8000: (-0.15252, 0.0)},
    "fmnist_scale": {1: (-0.4186, 0.0164), 10: (-0.3671, 0.0126), 100: (-0.3568, 0.0018), 1000: (-0.35697, 0.0)},
}
"""Published LPPD by number of chains, with its standard deviation over orders of the chains."""
ROW_ERRORS = {
    "airfoil_scale": math.sqrt(0.5 / 301),
    "bikesharing_scale": math.sqrt(0.5 / 3476),
    "ionosphere_scale": 2 * 0.1525 / math.sqrt(71),
    "fmnist_scale": 2 * 0.357 / math.sqrt(10000),
}
SPLITS = {"airfoil_splits": "airfoil_scale", "ionosphere_splits": "ionosphere_scale"}
"""Runs on five divisions of the rows -> the run that has their setting."""
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


def test_claims_hold_the_published_numbers() -> None:
    """Each number that a claim says it equals, beside the published files and tables as they were read for the spec."""
    claims = load_atlas({"scale": "laptop"}, CONFIG).claims["sampling_perspective"].claims
    stated = {
        (*(SPLITS.get(run, run) for run in c.runs), c.metric, c.chains): c.paper_value
        for c in claims.values()
        if c.relation == "equals" and not c.than
    }
    curves = {
        (run, "lppd_cumulative_chains", n): lppd for run, points in CURVES.items() for n, (lppd, _) in points.items()
    }
    assert stated == PACKAGE | {("airfoil_scale", "rmse", None): 0.14223} | curves
    assert {(c.runs[0], c.metric): c.tolerance for c in claims.values() if "bde" in c.section and c.tolerance} == {
        (run, metric): sd for (run, metric, _), sd in PACKAGE_SD.items()
    }


def test_limits_of_the_claims_follow_from_published_numbers() -> None:
    """The formulas in the head of the claims' file."""
    claims = load_atlas({"scale": "laptop"}, CONFIG).claims["sampling_perspective"].claims
    checked = 0
    for name, c in claims.items():
        if c.metric != "lppd_cumulative_chains" or c.tolerance is None or c.chains is None:
            continue
        run = SPLITS.get(c.runs[0], c.runs[0])
        lppd, d = CURVES[run][c.chains]
        if c.than is None:
            s, divided = ROW_ERRORS[run], c.runs[0] in SPLITS
            limit = 2 * math.sqrt(1.2 * s**2 + 0.4 * d**2 if divided else 2 * s**2 + 1.2 * d**2)
        else:
            before, d_before = CURVES[run][c.than.chains or 0]
            assert c.paper_value == pytest.approx(lppd - before), name
            limit = 2 * math.sqrt((0.4 if c.runs[0] in SPLITS else 1.2) * (d**2 + d_before**2))
        assert c.tolerance == pytest.approx(limit, abs=0.0006), name
        checked += 1
    assert checked == 23


def test_claims_say_where_their_limits_come_from_and_name_a_figure() -> None:
    for claims in load_atlas({"scale": "laptop"}, CONFIG).claims.values():
        for name, c in claims.claims.items():
            assert c.basis, name
            assert c.figure or c.metric == "nll_moment_matched", f"{name}: no figure shows it"
            assert c.paper_value is not None, name
            assert c.relation != "at_most", f"{name}: a limit of our own"
            wide = c.relation == "equals" and c.than is None and "bde" not in c.section
            assert ("different test rows" in c.basis) == wide, name
            assert c.relation != "greater_than" or c.metric != "lppd_cumulative_chains", f"{name}: it cannot fail"


def test_what_is_only_said_of_a_data_set_is_no_matter_of_its_jobs() -> None:
    """So that a better note makes nothing again."""
    entry = load_registry(CONFIG / "datasets.yaml")["airfoil"]
    said = entry.model_copy(update={"title": "Airfoil", "note": "Noise of airfoils.", "licence": "none"})
    assert said.recipe == entry.recipe
    assert DatasetEntry.model_validate(entry.recipe).files == entry.files
    assert entry.model_copy(update={"rows": 7}).recipe != entry.recipe
