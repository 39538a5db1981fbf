"""Runs that stand on other runs, networks that are not trained, pairs of chains, and marks of a run's rows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bnn_atlas.config.checks.runs import DEPENDENT, Sources, marks
from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.data.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.config.methods.optimisation import MeanSGDConfig, PathConfig
from bnn_atlas.config.parts.evaluation import BarrierConfig, PruningConfig
from bnn_atlas.config.runs.shared import shared_start
from bnn_atlas.config.settings import Atlas, Settings, load_study
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.paths import Paths
from tests.config.folders import DATASETS, HMC, REPOSITORY, RUN, refused, studies

FROM_ONE = {key: value for key, value in RUN.items() if key != "warmstart"} | {"method": HMC, "start": {"run": "one"}}
PATH = RUN | {"warmstart": None, "method": {"kind": "path", "epochs": 3, "batch_size": 10}}
COPIES = PATH | {"initial": {"transpositions": [1, 3]}}
SOURCE = RUN | {"method": HMC | {"steps": 10}}
COMPACT = RUN | {"warmstart": None, "start": {"run": "one"}, "method": {"kind": "compact"}, "chains": 8}
SEEDS = {"grid": {"seed": [1, 2]}}


def other(**start: Any) -> dict[str, Any]:
    """A run that starts from another one."""
    return FROM_ONE | {"start": start}


@pytest.mark.parametrize(
    ("one", "two", "others", "name", "source"),
    [
        (RUN, FROM_ONE, {}, "two", "one"),
        (RUN, RUN, {"large": {"two": other(run="small/one")}}, "two", "one"),
        (RUN, FROM_ONE | {"prior": {"kind": "normal"}, "temperature": 0.5, "chains": 7}, {}, "two", "one"),
        (RUN | SEEDS, FROM_ONE | SEEDS, {}, "two-seed2", "one-seed2"),
        (SOURCE, COMPACT, {}, "two", "one"),
    ],
    ids=["its study", "another study", "another posterior", "the same point of a grid", "compact"],
)
def test_a_run_stands_on_another(
    tmp_path: Path, one: dict[str, Any], two: dict[str, Any], others: dict[str, Any], name: str, source: str
) -> None:
    loaded = studies(tmp_path, {"one": one, "two": two}, **others)
    own = loaded["large" if others else "small"].runs[name]
    assert Sources(loaded).of(own) == loaded["small"].runs[source]
    assert Sources(loaded).of(loaded["small"].runs[source]) is None


def test_reductions_of_the_source_are_inherited(tmp_path: Path) -> None:
    one = RUN | {"scales": {"laptop": {"method": {"steps": 50}}}}
    two = FROM_ONE | {"scales": {"laptop": {"chains": 2}}}
    three = FROM_ONE | {"start": {"run": "two"}}
    runs = studies(tmp_path, {"one": one, "two": two, "three": three}, "laptop")["small"].runs
    assert runs["two"].reductions == ("chains: 4 -> 2", "one: method.steps: 100 -> 50")
    assert runs["three"].reductions == ("two: chains: 4 -> 2", "one: method.steps: 100 -> 50")


def test_a_run_knows_the_one_that_differs_only_in_rounding(tmp_path: Path) -> None:
    """The description is no setting; another seed, or a second kind of setting, makes another run."""
    twin = RUN | SEEDS | {"kernel": "xla", "description": "rounded otherwise"}
    loaded = studies(tmp_path, {"one": RUN | SEEDS, "two": twin, "other": RUN | {"seed": 1, "chains": 5}})
    points = Inputs(Atlas(Settings(), DATASETS, loaded, {}), Paths("r")).grid_points("small")
    assert {name: of["rounded"] for name, of in points.items() if "rounded" in of} == {
        "one-seed1": "two-seed1", "one-seed2": "two-seed2",
    }  # fmt: skip


@pytest.mark.parametrize("draw", ["last", "start", "mean"])
def test_a_run_starts_from_an_optimum_a_warm_start_or_a_fitted_mean(tmp_path: Path, draw: str) -> None:
    """Which files that asks for: draws of the source, its starts, or what it has fitted, of all its blocks."""
    one = RUN | {"method": {"kind": "mean_field"}, "chains_per_block": 2}
    loaded = studies(tmp_path, {"one": one, "two": other(run="one", draw=draw)})
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
    ("runs", "parts"),
    [
        (
            {"two": other(run="on")},
            ["runs.two.start.run = 'on': no such run (did you mean 'one'?); there are one, two"],
        ),
        (
            {"two": other(run="zzz")},
            ["config/studies/small.yaml: runs.two.start.run = 'zzz': no such run; there are one, two"],
        ),
        ({"two": other(run="b/one")}, ["the study 'b' is not among `studies`", "(small); add it"]),
        ({"two": other(run="two")}, ["in a circle, small/two -> small/two"]),
        (
            {"two": other(run="three"), "three": other(run="two")},
            ["in a circle, small/two -> small/three -> small/two"],
        ),
        ({"two": FROM_ONE | {"model": {"kind": "mlp", "hidden": [5]}}}, ["= 'one': its model differs from that of"]),
        ({"two": FROM_ONE | {"dataset": "other"}}, ["its dataset differs from that of 'two' (diabetes; other)"]),
        ({"two": FROM_ONE | {"split": {"test": 0.3}}}, ["its split differs from that of 'two'"]),
        ({"two": FROM_ONE | {"split": RUN["split"] | {"count": 2}}}, ["it has 1 splits and 'two' has 2"]),
        ({"one": RUN | SEEDS, "two": FROM_ONE}, ["2 runs of this entry", "name one of one-seed1, one-seed2"]),
        ({"two": other(run="one", draw="mean")}, ["runs.two.start.draw = 'mean': 'one' is of", "only 'mean_field'"]),
        ({"two": FROM_ONE | {"warmstart": {}}}, ["start and warmstart both set where chains start"]),
        ({"two": COMPACT | {"start": None}}, ["name that run in start.run"]),
        ({"two": COMPACT | {"start": {"run": "one", "draw": "best"}}}, ["leave start.draw out"]),
        ({"two": COMPACT | {"start": {"run": "nowhere"}}}, ["no such run"]),
        ({"two": COMPACT | {"temperature": 0.5}}, ["its temperature differs"]),
        ({"two": COMPACT | {"prior": {"kind": "normal", "scale": 2}}}, ["its prior differs"]),
        ({"two": COMPACT | {"model": {"kind": "mlp", "hidden": [4]}}}, ["its model differs"]),
        ({"two": COMPACT | {"method": {"kind": "compact", "form": "mean"}}}, ["set chains to 1, not 8"]),
        ({"two": COMPACT | {"method": {"kind": "compact", "source_chains": 99}}}, ["and method.source_chains is 99"]),
        ({"two": COMPACT, "three": COMPACT | {"start": {"run": "two"}}}, ["it is compact itself"]),
        ({"one": RUN | {"method": {"kind": "map"}, "chains": 1}, "two": COMPACT}, ["a spread needs at least two"]),
    ],
    ids=str,
)
def test_sources_that_do_not_fit_are_refused(tmp_path: Path, runs: dict[str, Any], parts: list[str]) -> None:
    with refused(*parts):
        studies(tmp_path, {"one": RUN} | runs)


def test_a_source_that_a_scale_leaves_out_is_refused(tmp_path: Path) -> None:
    with refused("at scale demo: runs.two.start.run = 'one': no such run at this scale"):
        studies(tmp_path, {"one": RUN | {"scales": {"demo": None}}, "two": FROM_ONE})


def test_a_path_has_the_published_optimiser_by_default(tmp_path: Path) -> None:
    method = studies(tmp_path, {"one": PATH})["small"].runs["one"].config.method
    assert isinstance(method, PathConfig)
    assert method.optimiser == MeanSGDConfig(learning_rate=0.001, momentum=0.9, schedule="constant")
    assert method.draws == 4


def test_untrained_networks_of_other_settings_have_files_of_their_own(tmp_path: Path) -> None:
    uniform = PATH | {"initial": {"distribution": "kaiming_uniform"}}
    entries = {"plain": PATH, "copies": COPIES, "uniform": uniform, "hmc": PATH | {"method": HMC | {"steps": 10}}}
    runs = studies(tmp_path, entries)["small"].runs
    keys = {name: shared_start(run.config, 0, 0).key for name, run in runs.items()}
    assert keys["plain"] == keys["hmc"]
    assert len(set(keys.values())) == 3
    assert "initial" not in runs["plain"].config.model_dump(mode="json")


LINEAR = {"model": {"kind": "mlp", "hidden": []}}
PAIRS = PATH | {"evaluate": {"barriers": {}}}


@pytest.mark.parametrize(
    ("run", "part"),
    [
        (COPIES | {"initial": {"transpositions": [1, 4]}}, "4 units of the narrowest layer has 0 to 3 transpositions"),
        (COPIES | {"initial": {"transpositions": [1]}}, "set chains to 2, not 4"),
        (COPIES | {"initial": {"transpositions": []}}, "transpositions is empty"),
        (COPIES | LINEAR, "model.hidden is empty"),
        (COPIES | {"warmstart": {"max_epochs": 2}}, "set warmstart: null"),
        (PAIRS | {"chains": 3}, "needs an even number of chains, and chains is 3"),
        (PAIRS | LINEAR, "the model has none"),
        (PAIRS | {"evaluate": {"barriers": {"points": 10}}}, "points (10) must be odd"),
    ],
)
def test_starts_and_pairs_that_there_are_not_are_refused(tmp_path: Path, run: dict[str, Any], part: str) -> None:
    with refused(part):
        studies(tmp_path, {"one": run})


def test_pairs_of_chains() -> None:
    assert BarrierConfig().pairs_of(4) == [(0, 1), (2, 3)]
    assert BarrierConfig(pairs="first").pairs_of(3) == [(0, 1), (0, 2)]
    assert BarrierConfig(pairs="all").pairs_of(3) == [(0, 1), (0, 2), (1, 2)]


def test_shares_that_rise_are_refused() -> None:
    with pytest.raises(ValueError, match="descending order"):
        PruningConfig(networks={"a": "b"}, kept=(10, 50))


def test_dependent_rows_and_scaling_are_named_where_they_are_so() -> None:
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    study = load_study(REPOSITORY / "config" / "studies" / "sampling_perspective.yaml", "paper", registry)

    def said(run: str) -> list[str]:
        return marks(study.runs[run], registry)

    assert said("airfoil_mile-seed1") == [
        f"{DEPENDENT} (spectra of the same blade sections): errors over rows are too small"
    ]
    assert said("bikesharing_scale")[0] == SCALED_WITH_TEST_ROWS
    assert "hours of the same days" in said("bikesharing_scale")[1]
    assert said("fmnist_scale") == []


def test_a_description_of_rows_makes_no_data_again() -> None:
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    assert "dependent_rows" not in registry["airfoil"].recipe
