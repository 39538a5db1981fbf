"""Grids expand into named runs, and scales change what they say and nothing else."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bnn_atlas.config.claims.load import load_claims
from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.expansion import leaves, merge
from bnn_atlas.config.runs.studies import Run, Study, legend_texts, shown_runs
from bnn_atlas.config.settings import load_atlas, load_study
from tests.config.folders import CLAIM, DATASETS, HMC, RUN, config_folder, run_edit, study_file


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
        "demo": {"dataset": "other", "model": {"hidden": [2]}, "temperature": 0.5, "split": {"limit": 30}, "chains": 2},
    }
    paper, laptop, demo = (only(load(tmp_path, scale, scales=scales)) for scale in ("paper", "laptop", "demo"))
    assert paper.config == only(load(tmp_path)).config
    assert laptop.reductions == ("method.steps: 100 -> 50",)
    assert laptop.config.method.thinning == 10
    assert demo.reductions == (
        "dataset: diabetes -> other",
        "split.limit: None -> 30",
        "model.hidden: [4, 4] -> [2]",
        "chains: 4 -> 2",
        "temperature: 1.0 -> 0.5",
    )
    assert demo.config.model_dump() == paper.config.model_dump() | {
        "dataset": "other",
        "split": paper.config.split.model_dump() | {"limit": 30},
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
    with pytest.raises(ConfigError, match=r"scales = \['demo'\]: add paper: .* all are demo, laptop, paper \(line"):
        load_study(path, "demo", DATASETS)


def test_a_figure_cannot_show_a_run_that_a_scale_leaves_out(tmp_path: Path) -> None:
    path = two_runs(tmp_path, {"runs": ["large"]})
    with pytest.raises(
        ConfigError, match=r"small\.yaml at scale demo: figures\.curve\.runs: no run 'large'; there are one"
    ):
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


def test_runs_of_takes_runs_and_grids_in_the_order_named(tmp_path: Path) -> None:
    path = study_file(tmp_path, run_edit(grid={"seed": [1, 2]}))
    data = yaml.safe_load(path.read_text())
    data["runs"]["first"] = RUN
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    study = load_study(path, "paper", DATASETS)

    def names(*wanted: str) -> list[str]:
        return [run.name for run in study.runs_of(wanted)]

    assert names("first", "one") == ["first", "one-seed1", "one-seed2"]
    assert names("one-seed2", "first") == ["one-seed2", "first"]
    assert names("three") == []


def test_labels_are_given_by_run_or_grid_and_by_exact_name(tmp_path: Path) -> None:
    path = study_file(tmp_path, run_edit(grid={"seed": [1, 2]}))
    data = yaml.safe_load(path.read_text())
    data["runs"]["one-wide"] = RUN
    data["figures"]["curve"] = {"runs": ["one", "one-wide", "one-seed2"], "labels": {"one": "A", "one-seed2": "B"}}
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    study = load_study(path, "paper", DATASETS)
    assert legend_texts(study.figures["curve"], shown_runs({"small": study}, "small", study.figures["curve"].runs)) == {
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


def test_claim_may_name_a_run_or_a_grid(tmp_path: Path) -> None:
    study = load(tmp_path, grid={"seed": [1, 2]})
    for runs in (["one"], ["one-seed2"]):
        path = tmp_path / "claims.yaml"
        path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM | {"runs": runs}}}))
        assert load_claims(path, study).claims["error"].runs == tuple(runs)
