"""Counts without bounds, settings beyond float32 and names that no file system takes are refused when read."""

import json
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import load_atlas, load_study
from tests.config.folders import DATASETS, HMC, REPOSITORY, RUN, Edit, config_folder, run_edit, study_file
from tests.work import counted_calls

RANGE = "must be between 1e-18 and 1e+18 (float32 must hold its square)"
MOST = "must be at most 1e+18 (float32 must hold its square)"
SGLD = {"kind": "sgld", "step_size": 1e-6}


def section(name: str, **changes: Any) -> Edit:
    return run_edit(**{name: {**RUN[name], **changes}})


BEYOND: dict[str, tuple[Edit, str]] = {
    "splits": (section("split", count=10**9), "split.count = 1000000000: must be less than or equal to 1000"),
    "chains": (run_edit(chains=1e30), "chains = 1e+30: must be less than or equal to 100000"),
    "chains of a block": (run_edit(chains_per_block=10**30), "must be less than or equal to 100000"),
    "truth for chains": (run_edit(chains=True), "chains = True: a whole number is wanted, such as 4; yes, on, true"),
    "jobs": (
        run_edit(chains=20_000, chains_per_block=1),
        "the blocks of chains (20,000) gives 20,000 jobs; at most 10,000 are allowed",
    ),
    "draws": (section("method", steps=10**12), "method.steps = 1000000000000: must be less than or equal to 1000000"),
    "warm-up": (section("method", warmup=1e15), "method.warmup = 1000000000000000.0: must be less than or equal to"),
    "epochs": (section("warmstart", max_epochs=10**20), "warmstart.max_epochs = 100000000000000000000: must be less"),
    "epochs of a method": (run_edit(method={**SGLD, "epochs": 1e30}), "method.epochs = 1e+30: must be less than"),
    "truth for a number": (run_edit(temperature=True), "temperature = True: a number is wanted, such as 0.5; yes, on"),
    "truth for a width": (section("model", hidden=[4, True]), "model.hidden.1 = True: a whole number is wanted"),
    "seed": (run_edit(seed=10**30), "seed = 1000000000000000000000000000000: must be less than 2147483648"),
    "truth for a seed": (run_edit(seed=True), "seed = True: a whole number is wanted"),
    "width": (section("model", hidden=[1e12]), "model.hidden.0 = 1000000000000.0: must be less than or equal"),
    "layers": (section("model", hidden=[1] * 1001), "model.hidden = "),
    "weights": (section("model", hidden=[10**5, 10**5]), "10,000,000,000 weights between hidden layers; at most"),
    "runs of a grid": (
        run_edit(grid={"seed": list(range(500)), "split.seed": list(range(500))}),
        "runs.one.grid: its product gives 250,000 runs; at most 10,000 are allowed",
    ),
    "large scale": (run_edit(prior={"kind": "normal", "scale": 1e39}), f"prior.scale = 1e+39: {MOST}"),
    "small scale": (run_edit(prior={"kind": "normal", "scale": 1e-46}), f"prior.scale = 1e-46: {RANGE}"),
    "location": (run_edit(prior={"kind": "normal", "loc": -1e39}), "loc = -1e+39: must be between -1e+18 and 1e+18"),
    "temperature": (run_edit(temperature=1e-40), f"temperature = 1e-40: {RANGE}"),
    "temperature of 0": (run_edit(temperature=0), "temperature = 0: must be greater than 0"),
    "temperature below 0": (run_edit(temperature=-1), "temperature = -1: must be greater than 0"),
    "step size": (run_edit(method={**HMC, "step_size": 1e-300}), f"method.step_size = 1e-300: {RANGE}"),
    "weight decay": (section("warmstart", weight_decay=1e40), f"weight_decay = 1e+40: {MOST}"),
    "long name": (lambda s: s["runs"].update({"a" * 300: RUN}), "the name has 300 characters; at most 200 are allowed"),
    "long name of a grid": (
        run_edit(grid={"split": [{"kind": "random", "seed": 1, "note" + "x" * 250: 1}]}),
        "characters; at most 200 are allowed",
    ),
    "names that differ in case": (
        lambda s: s["runs"].update({"One": RUN}),
        "runs.One: the run names 'one' and 'One' differ in case only",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_is_refused_at_once(tmp_path: Path, name: str) -> None:
    edit, message = BEYOND[name]
    path = study_file(tmp_path, edit)
    with pytest.raises(ConfigError) as caught, counted_calls(most=1_000_000):
        load_study(path, "paper", DATASETS)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize("results", ["", "  ", "{x}", "a{b", "a\nb"])
def test_folder_of_results_is_a_path(tmp_path: Path, results: str) -> None:
    with pytest.raises(ConfigError, match=r"results = .*: the path of a folder is wanted"):
        load_atlas({"studies": "small", "results": results}, config_folder(tmp_path))


def test_one_study_is_a_list_of_one(tmp_path: Path) -> None:
    folder = config_folder(tmp_path)
    assert load_atlas({"studies": "small"}, folder).settings.studies == ("small",)
    with pytest.raises(ConfigError, match=r"studies = 'smal': no such study \(did you mean 'small'\?\)"):
        load_atlas({"studies": "smal"}, folder)


@pytest.mark.parametrize("value", [3, {"a": 1}, [[1]]])
def test_no_word_of_python_reaches_the_user(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load_atlas({"studies": value}, config_folder(tmp_path))
    assert not {"tuple", "str", "dict", "instance", "Input"} & set(str(caught.value).replace(",", " ").split())


def test_schemas_state_the_bounds() -> None:
    schemas = REPOSITORY / "workflow" / "schemas"
    study = json.loads((schemas / "study.schema.json").read_text())["$defs"]
    assert study["SplitConfig"]["properties"]["count"]["maximum"] == 1000
    assert study["RunEntry"]["properties"]["chains"]["maximum"] == 100_000
    assert (
        study["NormalPrior"]["properties"]["scale"] | {"minimum": 1e-18, "maximum": 1e18}
        == (study["NormalPrior"]["properties"]["scale"])
    )
    assert study["MLPConfig"]["properties"]["hidden"]["items"]["maximum"] == 100_000
