"""Grids expand into named runs, and scales change what they say and nothing else."""

import itertools
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.runs.expansion import leaves, merge, run_rows
from bnn_atlas.config.runs.studies import Run, Study, legend_texts, shown_runs
from bnn_atlas.config.settings import load_atlas, load_study
from bnn_atlas.metrics.judgement.pooled import write_runs
from tests.config.folders import (
    DATASETS,
    HMC,
    RUN,
    config_folder,
    figure,
    nested,
    refused,
    run_edit,
    studies,
    study_file,
)


def load(folder: Path, scale: str = "paper", **changes: Any) -> Study:
    return load_study(study_file(folder, run_edit(**changes)), scale, DATASETS)


def only(study: Study) -> Run:
    (run,) = study.runs.values()
    return run


def test_run_without_grid_keeps_its_name(tmp_path: Path) -> None:
    run = only(load(tmp_path))
    assert (run.study, run.name, run.entry, run.scale, run.reductions) == ("small", "one", "one", "paper", ())
    assert run.config.model.hidden == (4, 4)
    assert (run.config.block_size, run.config.blocks, list(run.config.chain_ids(0))) == (4, 1, [0, 1, 2, 3])


def test_blocks_number_chains_through_the_run(tmp_path: Path) -> None:
    config = only(load(tmp_path, chains=12, chains_per_block=4)).config
    assert config.blocks == 3
    assert [chain for block in range(3) for chain in config.chain_ids(block)] == list(range(12))


def test_grid_runs_in_product_order_with_readable_names(tmp_path: Path) -> None:
    grid = {
        "dataset": ["diabetes", "other"],
        "model.hidden": [[16], [16, 16]],
        "warmstart.learning_rate": [1.0e-2, 0.5],
        "model.bias": [True, False],
        "seed": [1],
    }
    study = load(tmp_path, grid=grid)
    names = list(study.runs)
    assert len(names) == 16
    assert names[:5] == [
        "one-diabetes-hidden16-learning_rate0.01-biasTrue-seed1",
        "one-diabetes-hidden16-learning_rate0.01-biasFalse-seed1",
        "one-diabetes-hidden16-learning_rate0.5-biasTrue-seed1",
        "one-diabetes-hidden16-learning_rate0.5-biasFalse-seed1",
        "one-diabetes-hidden16x16-learning_rate0.01-biasTrue-seed1",
    ]
    for run, point in zip(study.runs.values(), itertools.product(*grid.values()), strict=True):
        config = run.config
        assert point == (
            config.dataset, list(config.model.hidden), config.warmstart.learning_rate, config.model.bias, config.seed,
        )  # fmt: skip
        assert run.entry == "one"
    assert study.runs == load(tmp_path, grid=grid).runs


def test_fields_that_end_alike_keep_their_whole_names(tmp_path: Path) -> None:
    study = load(tmp_path, grid={"seed": [0, 1], "split.seed": [2], "likelihood.sigma": [0.5]})
    assert list(study.runs) == ["one-seed0-split.seed2-sigma0.5", "one-seed1-split.seed2-sigma0.5"]


def test_a_scale_may_set_what_some_choice_of_the_grid_leaves_open(tmp_path: Path) -> None:
    prior = {"kind": "normal", "scale": 1.0}
    grid = {"prior": [{"kind": "normal"}, {"kind": "laplace", "scale": 2.0}]}
    scales = {"laptop": {"prior": {"scale": 0.5}}}
    study = load(tmp_path, scale="laptop", prior=prior, grid=grid, scales=scales)
    assert [getattr(run.config.prior, "scale", None) for run in study.runs.values()] == [0.5, 2.0]


def test_grid_over_sections_and_over_nothing_else(tmp_path: Path) -> None:
    priors = [
        {"kind": "standard_normal"},
        {"kind": "normal", "scale": 0.1},
        {"kind": "laplace", "loc": -1, "scale": 2.0},
    ]
    study = load(tmp_path, prior={"kind": "normal", "loc": 3.0, "scale": 4.0}, grid={"prior": priors})
    assert list(study.runs) == ["one-standard_normal", "one-normal-scale0.1", "one-laplace-loc-1-scale2.0"]
    found = [run.config.prior.model_dump() for run in study.runs.values()]
    assert found[0] == {"kind": "standard_normal"}
    assert found[1] == {"kind": "normal", "loc": 3.0, "scale": 0.1}, "the same kind keeps what the list does not name"
    assert found[2] == {"kind": "laplace", "loc": -1.0, "scale": 2.0}, "another kind replaces the section"


def test_small_numbers_of_a_grid_are_numbers(tmp_path: Path) -> None:
    path = study_file(tmp_path, run_edit(grid={"warmstart.learning_rate": ["RATE"]}))
    path.write_text(path.read_text().replace("RATE", "1e-3"))
    run = only(load_study(path, "paper", DATASETS))
    assert run.name == "one-learning_rate0.001"
    assert run.config.warmstart.learning_rate == 1e-3


@given(
    st.dictionaries(
        st.sampled_from(["seed", "split.seed", "chains", "temperature", "warmstart.max_epochs"]),
        st.lists(st.integers(1, 99), min_size=1, max_size=3, unique=True),
        max_size=3,
    )
)
def test_grid_gives_every_combination_once(
    tmp_path_factory: pytest.TempPathFactory, grid: dict[str, list[int]]
) -> None:
    study = load(tmp_path_factory.getbasetemp(), grid=grid)
    assert len(study.runs) == math.prod(map(len, grid.values()))
    for run, point in zip(study.runs.values(), itertools.product(*grid.values()), strict=True):
        plain = dict(leaves(run.config.model_dump(mode="json")))
        assert tuple(plain[field] for field in grid) == point


def test_scale_changes_what_it_says(tmp_path: Path) -> None:
    scales = {
        "laptop": {"method": {"steps": 50}},
        "demo": {
            "dataset": "other",
            "model": {"hidden": [2]},
            "temperature": 0.5,
            "split": {"limit": 300},
            "chains": 2,
        },
    }
    paper, laptop, demo = (only(load(tmp_path, scale, scales=scales)) for scale in ("paper", "laptop", "demo"))
    assert paper.config == only(load(tmp_path)).config
    assert laptop.reductions == ("method.steps: 100 -> 50",)
    assert laptop.config.method.thinning == 10
    assert demo.reductions == (
        "dataset: diabetes -> other",
        "split.limit: None -> 300",
        "model.hidden: [4, 4] -> [2]",
        "chains: 4 -> 2",
        "temperature: 1.0 -> 0.5",
    )
    assert demo.config.model_dump() == paper.config.model_dump() | {
        "dataset": "other",
        "split": paper.config.split.model_dump() | {"limit": 300},
        "model": paper.config.model.model_dump() | {"hidden": (2,)},
        "chains": 2,
        "temperature": 0.5,
    }


def test_scale_that_repeats_the_papers_value_reduces_nothing(tmp_path: Path) -> None:
    scales = {"demo": {"temperature": 1, "chains": 4, "warmstart": {"learning_rate": 0.01}, "float64": False}}
    assert only(load(tmp_path, "demo", scales=scales)).reductions == ()


def test_scale_with_another_kind_replaces_the_section(tmp_path: Path) -> None:
    run = only(load(tmp_path, "demo", scales={"demo": {"method": {**HMC, "steps": 20}}}))
    assert run.config.method.kind == "hmc"
    assert run.config.method.thinning == 1, "thinning 10 belonged to the other method"
    assert "method.kind: mclmc -> hmc" in run.reductions
    assert "method.steps: 100 -> 20" in run.reductions


def test_scale_that_names_the_default_kind_keeps_the_section(tmp_path: Path) -> None:
    model = {"hidden": [4], "activation": "tanh"}
    run = only(load(tmp_path, "demo", model=model, scales={"demo": {"model": {"kind": "mlp", "hidden": [2]}}}))
    assert (run.config.model.activation, run.config.model.hidden) == ("tanh", (2,))


def test_scale_shortens_a_grid(tmp_path: Path) -> None:
    changes = {"grid": {"seed": [1, 2, 3], "model.bias": [True, False]}, "scales": {"demo": {"grid": {"seed": [1]}}}}
    assert list(load(tmp_path, "demo", **changes).runs) == ["one-seed1-biasTrue", "one-seed1-biasFalse"]
    assert len(load(tmp_path, "paper", **changes).runs) == 6
    run = next(iter(load(tmp_path, "demo", **changes).runs.values()))
    assert run.reductions == ("grid.seed: [1, 2, 3] -> [1]",)


def two_runs(folder: Path, figure: dict[str, Any]) -> Path:
    """A study with a run that the demo leaves out, and one figure."""

    def edit(study: dict[str, Any]) -> None:
        study["runs"]["large"] = RUN | {"scales": {"demo": None}}
        study["figures"]["curve"] = figure

    return study_file(folder, edit)


def test_a_run_may_be_left_out_of_a_scale_and_a_figure_show_others_there(tmp_path: Path) -> None:
    figure = {"runs": ["large"], "labels": {"large": "Large"}, "scales": {"demo": {"runs": ["one"], "labels": {}}}}
    path = two_runs(tmp_path, figure)
    paper, demo = (load_study(path, scale, DATASETS) for scale in ("paper", "demo"))
    assert (list(paper.runs), list(demo.runs)) == (["one", "large"], ["one"])
    assert (paper.figures["curve"].runs, demo.figures["curve"].runs) == (("large",), ("one",))
    assert (paper.figures["curve"].labels, demo.figures["curve"].labels) == ({"large": "Large"}, {})


def test_a_figure_may_be_left_out_of_a_scale(tmp_path: Path) -> None:
    path = two_runs(tmp_path, {"runs": ["large"], "scales": {"demo": None}})
    assert list(load_study(path, "laptop", DATASETS).figures) == ["curve"]
    assert load_study(path, "demo", DATASETS).figures == {}


def test_a_study_says_at_which_scales_its_entries_take_part_unless_they_say_so(tmp_path: Path) -> None:
    def edit(study: dict[str, Any]) -> None:
        study["scales"] = ["laptop", "paper"]
        study["runs"] |= {"small": RUN | {"scales": {"demo": {}}}, "large": RUN | {"scales": {"laptop": None}}}
        study["figures"]["small"] = {"draw": "curve", "runs": ["small"], "scales": {"demo": {}}}

    path = study_file(tmp_path, edit)
    names = {scale: list(load_study(path, scale, DATASETS).runs) for scale in ("demo", "laptop", "paper")}
    assert names == {"demo": ["small"], "laptop": ["one", "small"], "paper": ["one", "small", "large"]}
    assert list(load_study(path, "demo", DATASETS).figures) == ["small"]


def test_a_study_takes_part_at_scale_paper(tmp_path: Path) -> None:
    path = study_file(tmp_path, lambda study: study.update(scales=["demo"]))
    with refused("scales = ['demo']: add paper: ", "scales are demo, laptop, paper (line"):
        load_study(path, "demo", DATASETS)


def test_a_figure_cannot_show_a_run_that_a_scale_leaves_out(tmp_path: Path) -> None:
    path = two_runs(tmp_path, {"runs": ["large"]})
    with refused("small.yaml at scale demo: figures.curve.runs: no run 'large'; there are one"):
        load_study(path, "paper", DATASETS)


def test_splits_are_repetitions_with_seeds_of_their_own(tmp_path: Path) -> None:
    config = only(load(tmp_path, seed=7)).config
    seeds = [config.seed_of(split) for split in range(50)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 50
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == [only(load(tmp_path, seed=7)).config.seed_of(split) for split in range(50)]


def test_a_run_knows_its_point_of_the_grid(tmp_path: Path) -> None:
    study = load(tmp_path, grid={"model.hidden": [[8], [8, 8]], "seed": [1]})
    assert [run.point for run in study.runs.values()] == [
        {"model.hidden": [8], "seed": 1},
        {"model.hidden": [8, 8], "seed": 1},
    ]


SEEDS = RUN | {"grid": {"seed": [1, 2]}}


def test_runs_of_takes_runs_and_grids_in_the_order_named(tmp_path: Path) -> None:
    study = studies(tmp_path, {"one": SEEDS, "first": RUN})["small"]
    for wanted, names in (
        (("first", "one"), ["first", "one-seed1", "one-seed2"]),
        (("one-seed2", "first"), ["one-seed2", "first"]),
        (("three",), []),
    ):
        assert [run.name for run in study.runs_of(wanted)] == names


def test_labels_are_given_by_run_or_grid_and_by_exact_name(tmp_path: Path) -> None:
    curve = {"runs": ["one", "one-wide"], "labels": {"one": "A", "one-seed2": "B"}}
    loaded = studies(tmp_path, {"one": SEEDS, "one-wide": RUN}, figures={"curve": curve})
    config = loaded["small"].figures["curve"]
    assert legend_texts(config, shown_runs(loaded, "small", config.runs)) == {
        "one-seed1": "A",
        "one-seed2": "B",
        "one-wide": "one-wide",
    }


KEYS = st.sampled_from(["a", "b", "c"])
TREES = st.recursive(st.integers(), lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3), max_leaves=8)
SECTIONS = st.dictionaries(KEYS, TREES, max_size=3)


@given(SECTIONS, SECTIONS)
def test_merge_keeps_the_overlay_and_every_untouched_value(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    copy = merge(base, {})
    merged = merge(base, overlay)
    assert base == copy, "the base is not changed"
    new = dict(leaves(merged))
    assert dict(leaves(overlay)).items() <= new.items()
    touched = dict(leaves(overlay))
    for name, value in leaves(base):
        inside = any(name == t or name.startswith(f"{t}.") or t.startswith(f"{name}.") for t in touched)
        assert inside or new[name] == value
    assert merge(merged, overlay) == merged


def test_posterior_settings_are_those_of_the_run(tmp_path: Path) -> None:
    config = only(load(tmp_path, temperature=2.0, float64=True)).config
    names = ("model", "likelihood", "prior", "temperature", "float64", "gradient_memory_mb", "data_shards", "kernel")
    assert config.posterior.model_dump() == {name: config.model_dump()[name] for name in names}


def test_settings_are_immutable(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        only(load(tmp_path)).config.chains = 3  # type: ignore[misc]
    assert SplitConfig() == SplitConfig(kind="random", test=0.2, validation=0.1)


def test_whole_folder_loads(tmp_path: Path) -> None:
    atlas = load_atlas({"studies": ["small"], "scale": "paper"}, config_folder(tmp_path))
    assert set(atlas.datasets) == set(DATASETS)
    assert list(atlas.studies["small"].runs) == ["one"]
    assert atlas.claims["small"].claims["small_error"].bound == 0.5


def test_claims_are_optional(tmp_path: Path) -> None:
    folder = config_folder(tmp_path)
    (folder / "claims" / "small.yaml").unlink()
    assert load_atlas({"studies": ["small"]}, folder).claims == {}


FIRST, SECOND = (
    {"temperature": 1, "method.step_size": 0.1, "method.trajectory_length": 2.0},
    {"temperature": 0.25, "method.step_size": 0.05, "method.trajectory_length": 2.0},
)
ZIPPED = [FIRST, SECOND]


def zipped(folder: Path, scale: str = "paper", rows: Any = ZIPPED, **changes: Any) -> dict[str, Run]:
    return load(folder, scale, method=HMC, zipped=rows, **changes).runs


def of(runs: dict[str, Run]) -> list[tuple[float, float, int]]:
    return [(run.config.temperature, run.config.method.step_size, run.config.seed) for run in runs.values()]


def test_a_run_has_the_values_of_a_row(tmp_path: Path) -> None:
    runs = zipped(tmp_path)
    assert list(runs) == ["one-temperature1", "one-temperature0.25"]
    assert of(runs) == [(1, 0.1, 0), (0.25, 0.05, 0)]
    assert [run.config.method.trajectory_length for run in runs.values()] == [2.0, 2.0]
    assert runs["one-temperature0.25"].point == SECOND


def test_every_row_is_combined_with_the_grid(tmp_path: Path) -> None:
    runs = zipped(tmp_path, grid={"seed": [3, 4]})
    assert of(runs) == [(1, 0.1, 3), (1, 0.1, 4), (0.25, 0.05, 3), (0.25, 0.05, 4)]
    assert list(runs)[1] == "one-temperature1-seed4"


def test_a_scale_may_have_other_rows(tmp_path: Path) -> None:
    runs = zipped(tmp_path, "laptop", scales={"laptop": {"zipped": [SECOND]}})
    assert of(runs) == [(0.25, 0.05, 0)]
    assert next(iter(runs.values())).reductions == (
        "zipped.temperature: [1, 0.25] -> [0.25]",
        "zipped.method.step_size: [0.1, 0.05] -> [0.05]",
        "zipped.method.trajectory_length: [2.0, 2.0] -> [2.0]",
    )


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"rows": {"temperature": [1]}}, ["zipped: must be a list of rows, such as ", "(line "]),
        ({"rows": 1}, ["zipped = 1: must be a list of rows"]),
        ({"rows": [FIRST, {"temperature": 1}]}, ["row 1 has temperature, method.step_size, ", "2 has temp"]),
        ({"scales": {"demo": {"zipped": [FIRST, {}]}}}, ["at scale demo: runs.one: zipped ", "and row 2 has none"]),
        ({"rows": [FIRST, SECOND | {"temperature": 1.0}]}, ["zipped: 'temperature': 1.0 is given twice"]),
        ({"grid": {"temperature": [1]}}, ["'temperature' is in grid (line ", ") and in zipped (line "]),
        ({"scales": {"laptop": {"temperature": 2}}}, ["'temperature' has no effect", "laptop.zipped.temperature"]),
        ({"rows": [{"temperature": -1}]}, ["(grid temperature: -1): temperature = -1: must be greater than 0"]),
    ],
    ids=str,
)  # fmt: skip
def test_other_rows_are_refused(tmp_path: Path, changes: dict[str, Any], parts: list[str]) -> None:
    with refused(*parts):
        zipped(tmp_path, **changes)


def test_runs_are_listed_with_grid_and_settings(tmp_path: Path) -> None:
    grid = {"warmstart.max_epochs": [5, 7], "likelihood.sigma": [0.5]}
    one = RUN | {"grid": grid, "scales": {"demo": {"chains": 2}}}
    two = RUN | {"warmstart": None, "chains": 3, "method": HMC}
    write_runs(run_rows(studies(tmp_path, {"one": one, "two": two}, "demo")["small"]), tmp_path / "runs.csv")
    found = pd.read_csv(tmp_path / "runs.csv").set_index("run")
    assert list(found.index) == ["one-max_epochs5-sigma0.5", "one-max_epochs7-sigma0.5", "two"]
    assert found["warmstart.max_epochs"].tolist()[:2] == [5, 7]
    assert math.isnan(found["warmstart.max_epochs"]["two"])
    assert found["chains"].tolist() == [2, 2, 3]
    assert found["method.kind"].tolist() == ["mclmc", "mclmc", "hmc"]
    assert found["method.step_size"].isna().tolist() == [True, True, False]
    assert found["split.test"].tolist() == [0.2] * 3
    assert found["split.validation_in_likelihood"].tolist() == [True] * 3
    assert found["reductions"].tolist()[:2] == ["chains: 4 -> 2"] * 2
    assert found["model"].tolist() == ["mlp 4x4 relu"] * 3


def test_the_level_of_stopping_is_a_setting_like_any_other(tmp_path: Path) -> None:
    plain = only(load(tmp_path)).config
    assert (plain.stopping, plain.e_value_level) == (None, 0.01)
    split = RUN["split"] | {"validation_in_likelihood": False}
    config = only(load(tmp_path, stopping={}, split=split)).config
    assert config.stopping is not None
    assert config.stopping.alpha == 0.01
    study = load(tmp_path, stopping={"alpha": 0.5}, split=split, method=HMC, grid={"stopping.alpha": [0.1, 0.05]})
    assert [run.config.e_value_level for run in study.runs.values()] == [0.1, 0.05]


def test_permuted_starts_and_functions_are_read(tmp_path: Path) -> None:
    run = only(load_study(study_file(tmp_path, nested("warmstart", permuted=9)), "paper", DATASETS))
    assert run.config.warmstart.permuted == 9
    assert only(load(tmp_path)).config.warmstart.permuted is None
    datasets = {name: entry.model_copy(update={"inputs": 1}) for name, entry in DATASETS.items()}
    for functions, read in (
        ({"inputs": "line", "chains": None}, ("line", 300, None, 50, 200)),
        ({"inputs": "test"}, ("test", 300, 4, 50, 200)),
    ):
        path = study_file(tmp_path, figure(draw="values", functions=functions))
        section = load_study(path, "paper", datasets).figures["curve"].functions
        assert (section.inputs, section.rows, section.chains, section.draws, section.points) == read
