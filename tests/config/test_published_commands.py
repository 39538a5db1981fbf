"""docs/published_commands.md: all that it names is there, and runs have what the published commands say."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

import pytest
import yaml

from bnn_atlas.config.metrics import METRICS
from bnn_atlas.config.runs.studies import Run, RunConfig, Scale, by_name
from bnn_atlas.config.settings import Atlas, load_atlas
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


STUDIES = {
    "Sampling perspective": "sampling_perspective",
    "HMC": "hmc_posteriors",
    "Implicit posteriors": "implicit_vi",
    "Permutation symmetry": "permutation_symmetry",
}
"""Section of the page -> its study."""
SECTIONS = dict(zip(STUDIES, re.split(r"^## .+$", PAGE, flags=re.MULTILINE)[1:], strict=True))
SCHEMA = json.loads((REPOSITORY / "workflow/schemas/study.schema.json").read_text(encoding="utf-8"))
Node = dict[str, Any]


@cache
def atlas(scale: Scale) -> Atlas:
    return load_atlas({"scale": scale, "studies": [*STUDIES.values()]}, CONFIG)


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return atlas("paper").studies["hmc_posteriors"].runs


def rows_of(section: str) -> list[list[str]]:
    """Cells of the rows of all tables."""
    lines = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in section.splitlines() if line.startswith("|")]
    return [cells for cells in lines if set(cells[0]) != {"-"}]


def named_here(section: str) -> list[str]:
    """What stands in backticks in the columns that are headed `here`."""
    found, place = [], None
    for cells in rows_of(section):
        if "here" in cells:
            place = cells.index("here")
        elif place is not None:
            found += re.findall(r"`([^`]+)`", cells[place])
    return found


def alternatives(node: Node) -> Iterator[Node]:
    """The objects and values that a node of the schema allows."""
    if "$ref" in node:
        yield from alternatives(SCHEMA["$defs"][node["$ref"].rpartition("/")[2]])
        return
    yield node
    for other in (*node.get("anyOf", ()), *node.get("oneOf", ()), *filter(None, [node.get("items")])):
        yield from alternatives(other)


def under(nodes: list[Node], key: str) -> list[Node]:
    """What the key of a section allows; empty if no kind of the section has the key."""
    return [one for node in nodes if key in node.get("properties", {}) for one in alternatives(node["properties"][key])]


def allowed_values(nodes: list[Node]) -> set[Any]:
    return {value for node in nodes for value in (*node.get("enum", ()), *([node["const"]] if "const" in node else ()))}


def is_allowed(nodes: list[Node], value: Any) -> bool:
    if isinstance(value, dict):
        return all(bool(found := under(nodes, key)) and is_allowed(found, one) for key, one in value.items())
    values = allowed_values(nodes)
    return not isinstance(value, str) or value == "NAME" or not values or value in values


def is_setting(text: str) -> bool:
    """Whether `a.b` or `a.b: value` can stand in a study, one of its runs or figures, or a section of a run."""
    written = yaml.safe_load(text)
    if isinstance(written, list):
        return True
    path, value = next(iter(written.items())) if isinstance(written, dict) else (str(written), "NAME")
    run = list(alternatives({"$ref": "#/$defs/RunEntry"}))
    roots = [[SCHEMA], run, list(alternatives({"$ref": "#/$defs/FigureEntry"}))]
    roots += [under(run, section) for section in ("model", "likelihood", "prior", "method", "split")]
    for nodes in roots:
        for key in path.split("."):
            nodes = under(nodes, key)
        if nodes and is_allowed(nodes, value):
            return True
    return False


def words_of_schema(node: Any) -> Iterator[Any]:
    """Every value that the schema names."""
    if isinstance(node, dict):
        yield from allowed_values([node])
        for one in node.values():
            yield from words_of_schema(one)
    elif isinstance(node, list):
        for one in node:
            yield from words_of_schema(one)


@pytest.mark.parametrize("section", STUDIES)
def test_all_that_stands_under_here_exists(section: str) -> None:
    names = {*re.findall(r"^\| `([\w-]+)` \|", (REPOSITORY / "docs/targets.md").read_text("utf-8"), re.MULTILINE)}
    names |= {*METRICS, *words_of_schema(SCHEMA), *atlas("paper").datasets}
    for study in STUDIES.values():
        names -= {*by_name(atlas("paper").studies[study].runs), *atlas("paper").studies[study].figures}
    for scale in get_args(Scale):
        study = atlas(scale).studies[STUDIES[section]]
        names |= {*by_name(study.runs), *study.figures, *study.config.alignments}
    found = named_here(SECTIONS[section])
    assert len(found) > 25
    assert [text for text in found if text not in names and not is_setting(text)] == []


@pytest.mark.parametrize(
    "text",
    ["method.step_sise", "method.kind: hcm", "start: { runs: NAME }", "modle.hidden", "airfoil_mil"],
)
def test_what_does_not_exist_is_noticed(text: str) -> None:
    assert not is_setting(text)


def test_options_of_the_published_scripts_are_on_the_page() -> None:
    """As far as they are flags; keys of files of settings stand in the tables, too."""
    flags = {
        "Sampling perspective": "--config --search-tree --devices --phase --folder --outer-parallel --device-limit",
        "Implicit posteriors": "--dataset --model --noisy_lb --randseed --accurate --train_samples --train_batch_size "
        "--epochs --ind --lr --config --use_trained --train_from --small_noise --old_model --model_name",
        "Permutation symmetry": "--seed --dataset --config_name --run_name --run_batch_name --optimizer --num_epochs "
        "--batch_size --learning_rate --by_activation --num_perm_exps",
    }
    for section, text in flags.items():
        cells = "\n".join(first for first, *_ in rows_of(SECTIONS[section]))
        assert {*text.split()} <= {*re.findall(r"`(--[\w-]+)", cells)}, section


@pytest.mark.parametrize(
    ("script", "text", "name"),
    re.findall(r"^\| `(MNIST_\w+\.py)` \| `(--[^`]+)` \| `(\w+)` \|$", PAGE, re.MULTILINE),
)
def test_a_run_of_the_symmetry_study_is_its_command(script: str, text: str, name: str) -> None:
    config, flags = by_name(atlas("paper").studies["permutation_symmetry"].runs)[name][0].config, flags_of(text)
    assert config.dataset == flags["dataset"].lower()
    if script == "MNIST_HMC.py":  # the only configuration of HP_hmc.json
        method = config.method
        assert (method.step_size, method.trajectory_length / method.step_size) == (0.001, 500)
        return
    assert config.method.epochs == int(flags["num_epochs"])
    assert config.method.optimiser.kind == flags["optimizer"].lower()
    assert config.evaluate.barriers.criterion == "activations"
    if "num_perm_exps" in flags:
        assert len(config.initial.transpositions) == int(flags["num_perm_exps"])


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
    table = PAGE.split("### Flags of the scripts")[1].split("### Commands")[0]
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
