"""What the rules are told of figures: targets, inputs, code and settings."""

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import Atlas, load_atlas
from bnn_atlas.figures.shown import shown_runs
from bnn_atlas.pipeline.figures import COMPUTING, JUDGING, Figure, Figures, digest, rule_names
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.sources import _exists
from tests.config.folders import RUN, STUDY, config_folder

REPOSITORY = Path(__file__).parents[2]
GRID = {"bins": 50, "limit": 4}
IMAGES = {
    **RUN,
    "dataset": "words",
    "likelihood": {"kind": "categorical"},
    "evaluate": {"out_of_distribution": [], "references": ["same"]},
}

Edit = Callable[[dict[str, Any]], None]


def atlas(folder: Path, edit: Edit = lambda study: None, other: Edit = lambda study: None) -> Atlas:
    """The studies `small` and `other`, both with a run `one` and each with the figures that an edit gives it."""
    config_folder(folder)
    for name, change in (("small", edit), ("other", other)):
        study = deepcopy(STUDY) | {"figures": {}}
        change(study)
        (folder / "studies" / f"{name}.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    return load_atlas({"studies": ["small", "other"], "scale": "paper"}, folder)


def figures(loaded: Atlas, missing_r: bool = False, taken: tuple[str, ...] = ()) -> Figures:
    return Figures(loaded, Paths("results/paper"), missing_r, taken)


def drawn(**entries: Any) -> Edit:
    return lambda study: study["figures"].update(entries)


def figure(loaded: Atlas, target: str) -> Figure:
    return next(each for each in figures(loaded).all if each.target == target)


def test_a_study_draws_a_kind_of_another_paper_as_often_as_it_likes(tmp_path: Path) -> None:
    made = figures(
        atlas(
            tmp_path,
            drawn(cumulative_lppd={"runs": ["one"]}, few={"draw": "cumulative_lppd", "runs": ["one"]}),
            drawn(cumulative_lppd={"runs": ["one"]}, table={"draw": "uci_table", "runs": ["one"]}),
        )
    )
    assert [(each.target, each.kind.name) for each in made.all] == [
        ("small_cumulative_lppd", "cumulative_lppd"), ("small_few", "cumulative_lppd"),
        ("other_cumulative_lppd", "cumulative_lppd"), ("other_table", "uci_table"),
    ]  # fmt: skip
    assert list(made.targets) == ["few", "table"], "bare names only where one study has them"
    assert made.files("other")[-2:] == [f"results/paper/figures/other/table.{ending}" for ending in ("tex", "csv")]


def test_runs_of_another_study(tmp_path: Path) -> None:
    names = {"runs": ["one", "other/one"], "labels": {"other/one": "Theirs"}}
    made = figure(atlas(tmp_path, drawn(few={"draw": "cumulative_lppd", **names})), "small_few")
    assert made.inputs["table"] == [
        f"results/paper/{study}/one/split0/metrics/metrics.parquet" for study in ("small", "other")
    ]
    own, theirs = shown_runs(made.described())
    assert (own.study, own.run, own.label) == ("small", "one", "one")
    assert (theirs.study, theirs.run, theirs.label) == ("other", "other/one", "Theirs")
    assert own.settings["temperature"] == 1.0
    assert own.settings["method"]["kind"] == own.method
    assert made.described()["reductions"] == {"one": [], "other/one": []}


def test_another_title_is_a_heading_of_the_page_and_draws_nothing_again(tmp_path: Path) -> None:
    few = {"draw": "cumulative_lppd", "runs": ["one"]}
    plain, titled = (
        atlas(tmp_path / name, drawn(few_chains=few | more)) for name, more in (("a", {}), ("b", {"title": "Few"}))
    )
    one, other = (figure(loaded, "small_few_chains") for loaded in (plain, titled))
    assert [figures(loaded).captions("small")["few_chains"]["title"] for loaded in (plain, titled)] == [
        "Few chains", "Few",
    ]  # fmt: skip
    assert one.settings == other.settings
    assert one.described() == other.described()


def test_a_caption_says_what_the_scale_changes(tmp_path: Path) -> None:
    def smaller(study: dict[str, Any]) -> None:
        study["runs"]["one"] = {**study["runs"]["one"], "scales": {"demo": {"chains": 2}}}
        few = {"draw": "cumulative_lppd", "runs": ["one"], "caption": "Own.", "scales": {"demo": {}}}
        study["figures"]["few"] = few

    paper = atlas(tmp_path, smaller)
    demo = load_atlas({"studies": ["small"], "scale": "demo"}, tmp_path)
    assert figure(paper, "small_few").described()["caption"] == "Own."
    caption = figure(demo, "small_few").described()["caption"]
    assert re.fullmatch(r"Own\. Scale ``demo`` changes ``one`` \(``chains: \d+ -> 2``\)\.", caption)
    assert caption.endswith(figures(demo).captions("small")["few"]["reduced"])


def test_a_run_that_another_study_lacks_at_a_scale_is_named(tmp_path: Path) -> None:
    def left_out(study: dict[str, Any]) -> None:
        study["runs"]["two"] = {**RUN, "scales": {"demo": None}}

    with pytest.raises(ConfigError) as caught:
        atlas(tmp_path, drawn(cumulative_lppd={"runs": ["other/two"]}), left_out)
    assert "small.yaml at scale demo: figures.cumulative_lppd.runs: no run 'two' in study 'other'" in str(caught.value)
    with pytest.raises(ConfigError, match=r"no run 'ones' in study 'other' \(did you mean 'one'\?\)"):
        atlas(tmp_path, drawn(cumulative_lppd={"runs": ["other/ones"]}))
    with pytest.raises(ConfigError, match=r"the study 'xyz' is not loaded; add it to studies in config\.yaml"):
        atlas(tmp_path, drawn(cumulative_lppd={"runs": ["xyz/one"]}))


def test_files_follow_from_sections_and_equal_sections_share_one(tmp_path: Path) -> None:
    one = {"runs": ["one"], "grid": GRID}
    twice = drawn(fireball=one, again={"draw": "fireball", **one})
    loaded = atlas(tmp_path, twice, drawn(fireball={**one, "grid": {}}))
    first, again, other = (each.inputs["grid"] for each in figures(loaded).all)
    assert first == again
    assert Path(first[0]).name != Path(other[0]).name
    name = Path(first[0]).stem
    assert figures(loaded).section("grid", name)["bins"] == 50
    assert first[0] == f"results/paper/small/one/split0/grid/{name}.npz"
    assert name == digest(loaded.studies["small"].figures["fireball"].grid)


def test_files_whose_number_depends_on_the_run(tmp_path: Path) -> None:
    def edit(study: dict[str, Any]) -> None:
        study["runs"] |= {"same": IMAGES | {"evaluate": {}}, "images": IMAGES}
        study["figures"]["few"] = {"draw": "cumulative_lppd", "runs": ["images"], "files": ["against"]}

    made = figure(atlas(tmp_path, edit), "small_few")
    path = "results/paper/small/images/split0/metrics/against/same.parquet"
    assert made.inputs["against"] == [path]
    (shown,) = shown_runs(made.described())
    assert shown.parts == {"against": {"same": Path(path)}}
    assert list(shown.files) == ["table"]


def test_files_that_a_run_need_not_have(tmp_path: Path) -> None:
    def edit(study: dict[str, Any]) -> None:
        study["runs"] |= {"same": IMAGES | {"evaluate": {}}, "images": IMAGES}
        study["figures"]["few"] = {"draw": "agreement_tv", "runs": ["same", "images"]}

    made = figure(atlas(tmp_path, edit), "small_few")
    same, images = shown_runs(made.described())
    assert same.parts == {"against": {}}
    assert "sets" not in same.files
    assert list(images.parts["against"]) == ["same"]
    assert len(made.inputs["table"]) == 2
    assert made.inputs["against"] == ["results/paper/small/images/split0/metrics/against/same.parquet"]


def test_further_sets_have_one_table_and_the_names_of_their_data_sets() -> None:
    loaded = load_atlas({"studies": ["hmc_posteriors"], "scale": "laptop"}, REPOSITORY / "config")
    (first, *_) = shown_runs(figure(loaded, "hmc_posteriors_ood_auroc").described())
    assert first.set_titles == {"ood-fashion_mnist": "Fashion-MNIST", "ood-notmnist": "notMNIST"}
    assert first.files["sets"] == Path("results/paper/hmc_posteriors/mnist1000_hmc/split0/metrics/sets.parquet")
    drawn = shown_runs(figure(loaded, "hmc_posteriors_agreement_tv").described())
    assert {one.run for one in drawn if "sets" not in one.files} == {
        "mnist1000_mile",
        "mnist1000_adjusted",
        "mnist1000_hmc_other",
    }


def test_r_figures_name_their_code_and_are_left_out_without_r(tmp_path: Path) -> None:
    loaded = atlas(tmp_path, drawn(rescaling_curve={}, cumulative_lppd={"runs": ["one"]}))
    made = figure(loaded, "small_rescaling_curve")
    assert [*map(list, made.code[-3:])] == [["Rcode/theme.R"], ["Rcode/draw.R"], ["Rcode/rescaling_curve.R"]]
    assert made.inputs == {}
    without = figures(loaded, missing_r=True)
    assert without.not_made == ["rescaling_curve"]
    assert [each.name for each in without.of("small")] == ["cumulative_lppd"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "sample",
            r"small\.yaml: figures\.sample: 'sample' is the name of a rule or a study; give the figure another name",
        ),
        ("other", r"figures\.other: 'other' is the name of a rule or a study"),
        ("a-b", r"figures\.a-b: a figure's name is a target: a letter, then letters, digits and '_'"),
    ],
)
def test_targets_do_not_clash_with_rules_and_studies(tmp_path: Path, name: str, message: str) -> None:
    loaded = atlas(tmp_path, drawn(**{name: {"draw": "cumulative_lppd", "runs": ["one"]}}))
    with pytest.raises(ConfigError, match=message):
        figures(loaded, taken=("sample",))


def test_a_full_target_may_not_be_the_bare_name_of_another_figure(tmp_path: Path) -> None:
    entry = {"draw": "cumulative_lppd", "runs": ["one"]}
    loaded = atlas(tmp_path, drawn(other_few=entry), drawn(few=entry))
    with pytest.raises(ConfigError, match=r"'other_few' is also a target of figures\.other_few of 'small'; rename one"):
        figures(loaded)


def test_rule_names_are_read_from_the_snakefile_and_its_rules() -> None:
    assert {"all", "sample", "tables", "diagnostics_page"} <= rule_names(REPOSITORY)


def test_a_setting_that_all_runs_of_an_entry_share_is_told_once(tmp_path: Path) -> None:
    def edit(study: dict[str, Any]) -> None:
        study["runs"]["two"] = {**RUN, "grid": {"likelihood.sigma": [1, 2]}}
        few = {"draw": "cross_layer_correlation", "runs": ["two"], "labels": {"two": "Both"}, "subset": {}}
        study["figures"]["few"] = few

    told = figure(atlas(tmp_path, edit), "small_few").settings
    assert told.count({"two: method.warmup": "1000"}) == told.count({"two: label": "Both"}) == 1
    assert {"two-sigma1: likelihood.sigma": "1.0"} in told
    assert {"two-sigma2: likelihood.sigma": "2.0"} in told
    assert {"few: draw": "cross_layer_correlation"} in told
    assert all(len(setting) == 1 for setting in told)


def test_code_of_a_figure_is_one_digest_and_the_published_numbers_that_it_shows(tmp_path: Path) -> None:
    one = {"runs": ["one"]}
    loaded = atlas(tmp_path, drawn(cumulative_lppd=one, fireball=one | {"grid": {}}, rescaling_curve={}))
    few, other, curve = (each.code for each in figures(loaded).all)
    assert [*few[0]] == [*other[0]] == ["code"]
    assert few[0] != other[0]
    assert len(few) == len(other) == 1
    assert {"config/published/sampling_perspective.csv"} <= {file for setting in curve for file in setting}


@pytest.mark.parametrize("name", sorted({*COMPUTING, *JUDGING}))
def test_code_that_is_left_out_exists(name: str) -> None:
    assert _exists(name), f"{name} has moved: put its new name into pipeline/figures.py"


def test_a_figure_cannot_have_the_name_of_a_page_of_claims(tmp_path: Path) -> None:
    loaded = atlas(tmp_path, drawn(claims={"draw": "cumulative_lppd", "runs": ["one"]}))
    with pytest.raises(ConfigError, match="'claims' is the name of a rule or a study"):
        figures(loaded)


def test_a_kind_without_a_caption_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = atlas(tmp_path / "config", drawn(cumulative_lppd={"runs": ["one"]}))
    monkeypatch.setattr("bnn_atlas.pipeline.figures.REPOSITORY", tmp_path)
    with pytest.raises(ConfigError, match=r"workflow/report/cumulative_lppd\.rst: missing; write the caption"):
        figures(loaded)
