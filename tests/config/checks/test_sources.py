"""Runs that stand on other runs."""

from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from bnn_atlas.config.checks.runs import Sources
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Scale, Study
from bnn_atlas.config.settings import Atlas, Settings, load_studies
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.paths import Paths
from tests.config.folders import DATASETS, HMC, RUN, STUDY

FROM_ONE = {key: value for key, value in RUN.items() if key != "warmstart"} | {"method": HMC, "start": {"run": "one"}}


def studies(folder: Path, runs: dict[str, Any], scale: Scale = "paper", **others: dict[str, Any]) -> dict[str, Study]:
    """The study `small` with `one` and further runs, and other studies with theirs."""
    paths = []
    for name, own in {"small": {"one": RUN} | runs, **others}.items():
        paths.append(folder / f"{name}.yaml")
        paths[-1].write_text(yaml.safe_dump({**deepcopy(STUDY), "runs": deepcopy(own), "figures": {}}))
    return load_studies(paths, DATASETS)[scale]


def test_a_run_stands_on_another_of_its_study(tmp_path: Path) -> None:
    loaded = studies(tmp_path, {"two": FROM_ONE})
    source = Sources(loaded).of(loaded["small"].runs["two"])
    assert source is not None
    assert source.name == "one"
    assert Sources(loaded).of(loaded["small"].runs["one"]) is None


def test_a_run_stands_on_one_of_another_study(tmp_path: Path) -> None:
    loaded = studies(tmp_path, {}, large={"two": FROM_ONE | {"start": {"run": "small/one"}}})
    source = Sources(loaded).of(loaded["large"].runs["two"])
    assert source is not None
    assert (source.study, source.name) == ("small", "one")


def test_prior_temperature_and_chains_may_differ(tmp_path: Path) -> None:
    two = FROM_ONE | {"prior": {"kind": "normal", "scale": 0.1}, "temperature": 0.5, "chains": 7}
    loaded = studies(tmp_path, {"two": two})
    assert Sources(loaded).of(loaded["small"].runs["two"]) is not None


def test_an_entry_with_a_grid_stands_for_the_run_at_the_same_point(tmp_path: Path) -> None:
    grid = {"grid": {"seed": [1, 2]}}
    loaded = studies(tmp_path, {"one": RUN | grid, "two": FROM_ONE | grid})
    source = Sources(loaded).of(loaded["small"].runs["two-seed2"])
    assert source is not None
    assert source.name == "one-seed2"


def test_reductions_of_the_source_are_inherited(tmp_path: Path) -> None:
    one = RUN | {"scales": {"laptop": {"method": {"steps": 50}}}}
    two = FROM_ONE | {"scales": {"laptop": {"chains": 2}}}
    three = FROM_ONE | {"start": {"run": "two"}}
    runs = studies(tmp_path, {"one": one, "two": two, "three": three}, "laptop")["small"].runs
    assert runs["two"].reductions == ("chains: 4 -> 2", "one: method.steps: 100 -> 50")
    assert runs["three"].reductions == ("two: chains: 4 -> 2", "one: method.steps: 100 -> 50")


@pytest.mark.parametrize("draw", ["last", "start", "mean"])
def test_a_run_starts_from_an_optimum_a_warm_start_or_a_fitted_mean(tmp_path: Path, draw: str) -> None:
    """Which files that asks for: draws of the source, its starts, or what it has fitted, of all its blocks."""
    one = RUN | {"method": {"kind": "mean_field"}, "chains_per_block": 2}
    loaded = studies(tmp_path, {"one": one, "two": FROM_ONE | {"start": {"run": "one", "draw": draw}}})
    inputs = Inputs(Atlas(Settings(), DATASETS, loaded, {}), Paths("r"))
    w = SimpleNamespace(study="small", run="two", split="0", block="0")
    folder = "r/small/one/split0"
    assert inputs.start(w) == "r/small/two/split0/start/block0.npz"
    if draw == "last":
        assert inputs.source_pool(w) == f"{folder}/pool/pool.json"
        assert (inputs.source_arrays(w), inputs.source_array(w)) == ([], None)
        return
    assert (inputs.source_pool(w), inputs.source_traces(w)) == ([], [])
    if draw == "mean":
        assert inputs.source_arrays(w) == [f"{folder}/block0/fit.npz", f"{folder}/block1/fit.npz"]
        assert inputs.source_array(w) == "mean"
    else:
        assert inputs.source_array(w) == "parameters"
        source = SimpleNamespace(study="small", run="one", split="0")
        assert inputs.source_arrays(w) == inputs.starts(source)
        assert len(set(inputs.starts(source))) == 2


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (
            {"two": FROM_ONE | {"start": {"run": "on"}}},
            r"runs\.two\.start\.run = 'on': no such run \(did you mean 'one'\?\); there are one, two$",
        ),
        (
            {"two": FROM_ONE | {"start": {"run": "zzz"}}},
            r"^config/studies/small\.yaml: runs\.two\.start\.run = 'zzz': no such run; there are one, two$",
        ),
        ({"two": FROM_ONE | {"start": {"run": "b/one"}}}, r"the study 'b' is not among `studies`.*\(small\); add it"),
        ({"two": FROM_ONE | {"start": {"run": "two"}}}, r"in a circle, small/two -> small/two"),
        (
            {"two": FROM_ONE | {"start": {"run": "three"}}, "three": FROM_ONE | {"start": {"run": "two"}}},
            r"in a circle, small/three -> small/two -> small/three",
        ),
        ({"two": FROM_ONE | {"model": {"kind": "mlp", "hidden": [5]}}}, r"= 'one': its model differs from that of"),
        ({"two": FROM_ONE | {"dataset": "other"}}, r"its dataset differs from that of 'two' \(diabetes; other\)"),
        ({"two": FROM_ONE | {"split": {"test": 0.3}}}, r"its split differs from that of 'two'"),
        ({"two": FROM_ONE | {"split": RUN["split"] | {"count": 2}}}, r"it has 1 splits and 'two' has 2"),
        (
            {"one": RUN | {"grid": {"seed": [1, 2]}}, "two": FROM_ONE},
            r"2 runs of this entry .* name one of one-seed1, one-seed2",
        ),
        (
            {"two": FROM_ONE | {"start": {"run": "one", "draw": "mean"}}},
            r"runs\.two\.start\.draw = 'mean': 'one' is of method\.kind 'mclmc', and only 'mean_field'",
        ),
        ({"two": FROM_ONE | {"warmstart": {}}}, r"start and warmstart both say where chains start"),
    ],
    ids=str,
)
def test_sources_that_do_not_fit_are_refused(tmp_path: Path, runs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        studies(tmp_path, runs)


def test_a_source_that_a_scale_leaves_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"at scale demo: runs\.two\.start\.run = 'one': no such run at this scale"):
        studies(tmp_path, {"one": RUN | {"scales": {"demo": None}}, "two": FROM_ONE})
