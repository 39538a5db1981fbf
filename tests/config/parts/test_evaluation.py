"""What a run may be scored on and compared with, and what a person reads when it cannot."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from bnn_atlas.config.checks.runs import origin_of, remark
from bnn_atlas.config.data.datasets import DatasetEntry, load_registry
from bnn_atlas.config.data.shift import PUBLISHED_CORRUPTIONS, Shift
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.parts.evaluation import EvaluationConfig
from bnn_atlas.config.runs.studies import Study
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS as SMALL
from tests.config.folders import REGISTRY, REPOSITORY, Edit, study_file

PATH = "small.yaml"
FILE = [{"name": "f", "url": "https://example.org/f", "sha256": "0" * 64}]
IMAGES: dict[str, Any] = {
    "task": "classification", "kind": "image", "target": "label", "classes": ["a", "b", "c"], "bundled": "digits",
    "rows": 30, "inputs": [4, 4, 3], "published_train": 20, "licence": "public",
}  # fmt: skip
PUBLISHED: dict[str, Any] = {
    "task": "classification", "kind": "predictions", "target": "label", "classes": ["a", "b", "c"], "rows": 10,
    "inputs": 3, "order": "file", "licence": "public", "files": [FILE[0] | {"read": {"format": "probabilities"}}],
}  # fmt: skip
TOKENS = IMAGES | {"kind": "tokens", "inputs": [12], "vocabulary": 20}
ENTRIES: dict[str, dict[str, Any]] = REGISTRY | {
    "cifar10": IMAGES,
    "cifar10_lossy": IMAGES,
    "photos": IMAGES,
    "mnist": IMAGES,
    "grey": IMAGES | {"inputs": [4, 4, 1]},
    "reviews": TOKENS,
    "posts": TOKENS,
    "tweets": TOKENS | {"vocabulary": 30},
    "cifar10c": {k: v for k, v in IMAGES.items() if k not in ("bundled", "published_train")}
    | {"kind": "corruptions", "of": "cifar10", "files": [FILE[0] | {"read": {"format": "cifar10c"}}]},
    "hmc_cifar10": PUBLISHED | {"of": "cifar10"},
    "hmc_grey": PUBLISHED | {"of": "grey"},
}
DATASETS = {name: DatasetEntry.model_validate(entry) for name, entry in ENTRIES.items()}
RUN: dict[str, Any] = {
    "description": "a small run",
    "dataset": "cifar10",
    "split": {"kind": "published", "validation": 0},
    "model": {"kind": "mlp", "hidden": [4]},
    "likelihood": {"kind": "categorical"},
    "method": {"kind": "hmc", "step_size": 0.1, "trajectory_length": 1.0},
    "chains": 2,
}
SCALES = ("paper", "laptop", "demo")


def load(folder: Path, scale: Any = "paper", **runs: dict[str, Any]) -> Study:
    """A study whose runs differ from RUN in these keys."""
    content = {"title": "t", "paper": "p", "runs": {name: RUN | changes for name, changes in runs.items()}}
    (folder / PATH).write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_study(folder / PATH, scale, DATASETS)


def test_the_sets_of_a_run_in_order() -> None:
    config = EvaluationConfig.model_validate({"shifts": ["blur2", "rotated0"], "out_of_distribution": ["photos"]})
    assert config.sets == ("blur2", "rotated0", "ood-photos")
    assert config.shifts == (Shift("blur", 2), Shift("rotated", 0))
    assert config.model_dump(mode="json")["shifts"] == ["blur2", "rotated0"]
    assert EvaluationConfig().sets == ()
    intervals = EvaluationConfig.model_validate({"intervals": {"gap": [-0.4, 0.4]}})
    assert (intervals.sets, intervals.intervals) == (("interval-gap",), {"gap": (-0.4, 0.4)})
    assert "intervals" not in EvaluationConfig().model_dump(), "runs without intervals keep their settings"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"intervals": {"gap": [0.4, -0.4]}}, "intervals.gap: 0.4 must be below -0.4"),
        ({"intervals": {"The gap": [0, 1]}}, "intervals.The gap"),
        ({"shifts": ["turned30"]}, "no shift 'turned30'; allowed are rotated"),
        ({"shifts": ["rotated360"]}, "no shift 'rotated360'"),
        ({"shifts": ["blur0"]}, "severity from 1 to 5"),
        ({"shifts": ["blur6"]}, "severity from 1 to 5"),
        ({"shifts": ["cifar10c_rain1"]}, "for CIFAR-10 also cifar10c_ before one of brightness"),
        ({"shifts": [3]}, "no shift 3;"),
        ({"out_of_distribution": ["../data"]}, "out_of_distribution.0"),
        ({"shift": ["blur3"]}, "unknown key 'shift' (did you mean 'shifts'?)"),
    ],
)
def test_names_that_there_are_not(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValidationError, ConfigError)) as caught:
        EvaluationConfig.model_validate(settings)
    assert message in str(caught.value)


# What the run `one` has -> what the message must hold: the key, the value, and what is allowed.
MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown shift": (
        {"evaluate": {"shifts": ["rotated30", "turned30"]}},
        ("runs.one: evaluate.shifts.1 = 'turned30'", "no shift 'turned30'", "rotated<whole degrees from 0 to 359>"),
    ),
    "unknown key": (
        {"evaluate": {"shift": ["rotated30"]}},
        ("runs.one: evaluate: unknown key 'shift'", "did you mean 'shifts'?", "out_of_distribution, references"),
    ),
    "shift of a table": (
        {"dataset": "words", "split": {}, "evaluate": {"shifts": ["rotated30"]}},
        ("runs.one.evaluate.shifts: 'words' has rows of the kind 'table', not images",),
    ),
    "published shift of another data set": (
        {"dataset": "photos", "evaluate": {"shifts": ["rotated30", "cifar10c_fog3"]}},
        ("runs.one.evaluate.shifts: 'cifar10c_fog3' is for 'cifar10', not 'photos'",),
    ),
    "published shift of a random split": (
        {"split": {"kind": "random"}, "evaluate": {"shifts": ["rotated30", "cifar10c_fog3"]}},
        ("runs.one.evaluate.shifts: 'cifar10c_fog3' is made", "needs split.kind 'published', not 'random'"),
    ),
    "order that is not known": (
        {"dataset": "photos", "split": {"kind": "published", "order": "tfds", "validation": 0}},
        (
            "runs.one.split.order = 'tfds'",
            "of the data set 'photos'",
            "only that of cifar10, cifar100, mnist; use 'file'",
        ),
    ),
    "outside set of a regression": (
        {
            "dataset": "diabetes",
            "split": {},
            "likelihood": {"kind": "gaussian"},
            "evaluate": {"out_of_distribution": ["other"]},
        },
        ("runs.one.evaluate.out_of_distribution: 'other'", "likelihood.kind 'categorical' only, not 'gaussian'"),
    ),
    "outside set that is the run's own": (
        {"evaluate": {"out_of_distribution": ["photos", "cifar10"]}},
        ("runs.one.evaluate.out_of_distribution: 'cifar10' has the same rows as", "there are photos"),
    ),
    "outside set of the same images": (
        {"evaluate": {"out_of_distribution": ["cifar10_lossy"]}},
        ("evaluate.out_of_distribution: 'cifar10_lossy' has the same rows as", "data 'cifar10'; there are photos"),
    ),
    "outside set that the images are copied from": (
        {"dataset": "cifar10_lossy", "evaluate": {"out_of_distribution": ["cifar10"]}},
        ("evaluate.out_of_distribution: 'cifar10' has the same rows as", "data 'cifar10_lossy'; there are photos"),
    ),
    "unknown outside set": (
        {"evaluate": {"out_of_distribution": ["photo"]}},
        ("runs.one.evaluate.out_of_distribution: 'photo' is not a data set", "those of 'cifar10'", "there are photos"),
    ),
    "outside set of another shape": (
        {"evaluate": {"out_of_distribution": ["photos", "grey"]}},
        ("runs.one.evaluate.out_of_distribution: 'grey' is not a data set", "there are photos"),
    ),
    "outside set of another vocabulary": (
        {"dataset": "reviews", "model": {"kind": "cnn_lstm"}, "evaluate": {"out_of_distribution": ["posts", "tweets"]}},
        ("runs.one.evaluate.out_of_distribution: 'tweets' is not a data set", "'reviews'; there are posts"),
    ),
    "outside set that is none": (
        {"evaluate": {"out_of_distribution": ["cifar10c"]}},
        ("runs.one.evaluate.out_of_distribution: 'cifar10c' is not a data set", "there are photos"),
    ),
    "no outside set at all": (
        {"dataset": "grey", "evaluate": {"out_of_distribution": ["photos"]}},
        ("runs.one.evaluate.out_of_distribution: 'photos'", "'grey'; there are none"),
    ),
    "reference that there is not": (
        {"evaluate": {"references": ["hmc"]}},
        ("runs.one.evaluate.references = 'hmc'", "published ones and runs", "are hmc_cifar10"),
    ),
    "published predictions for other rows": (
        {"evaluate": {"references": ["hmc_grey"]}},
        ("runs.one.evaluate.references = 'hmc_grey'", "are hmc_cifar10"),
    ),
    "the run itself": (
        {"evaluate": {"references": ["one"]}},
        ("runs.one.evaluate.references = 'one'", "are hmc_cifar10"),
    ),
    "published predictions for a random split": (
        {"split": {"validation": 0}, "evaluate": {"references": ["hmc_cifar10"]}},
        ("runs.one.evaluate.references = 'hmc_cifar10'", "published predictions need split.kind 'published'"),
    ),
    "reference of a regression": (
        {
            "dataset": "diabetes",
            "split": {},
            "likelihood": {"kind": "gaussian"},
            "evaluate": {"references": ["hmc_cifar10"]},
        },
        ("runs.one.evaluate.references = 'hmc_cifar10': published predictions are for classification",),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path) -> None:
    changes, expected = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, one=changes)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / PATH))
    # A nested key is named with or without the colon after the run.
    flat = message.replace("runs.one.evaluate", "runs.one: evaluate")
    missing = [part for part in expected if part not in message and part not in flat]
    assert not missing, message


def scaled(changes: dict[str, Any]) -> dict[str, Any]:
    """The same changes at scale demo only."""
    return {"scales": {"demo": changes}}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "name",
    [
        "published shift of another data set",
        "published shift of a random split",
        "order that is not known",
        "outside set of another shape",
        "outside set of the same images",
        "reference that there is not",
    ],
)
def test_mistakes_in_a_scale_are_found_at_every_scale(name: str, scale: str, tmp_path: Path) -> None:
    changes, expected = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, scale, one=scaled(changes))
    message = str(caught.value)
    assert f"{PATH} at scale demo: runs.one" in message
    assert expected[0] in message


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_with_other_data_must_drop_what_does_not_fit(scale: str, tmp_path: Path) -> None:
    evaluate = {"shifts": ["cifar10c_fog3"], "out_of_distribution": ["photos"], "references": ["hmc_cifar10"]}
    dropped = {"shifts": [], "out_of_distribution": [], "references": []}
    changes = {"dataset": "grey", "split": {"kind": "random"}}
    for kept in evaluate:
        rest = dropped | {kept: evaluate[kept]}
        with pytest.raises(ConfigError, match=rf"at scale demo: runs\.one\.evaluate\.{kept}"):
            load(tmp_path, scale, one={"evaluate": evaluate} | scaled(changes | {"evaluate": rest}))
    study = load(tmp_path, scale, one={"evaluate": evaluate} | scaled(changes | {"evaluate": dropped}))
    assert bool(study.runs["one"].config.evaluate.sets) == (scale != "demo")


@pytest.mark.parametrize("corruption", PUBLISHED_CORRUPTIONS)
def test_published_corruptions_are_for_cifar10(corruption: str, tmp_path: Path) -> None:
    study = load(tmp_path, one={"evaluate": {"shifts": [f"cifar10c_{corruption}5"]}})
    assert study.runs["one"].config.evaluate.sets == (f"cifar10c_{corruption}5",)


@pytest.mark.parametrize("dataset", ["cifar10", "mnist"])
def test_known_orders(dataset: str, tmp_path: Path) -> None:
    study = load(tmp_path, one={"dataset": dataset, "split": RUN["split"] | {"order": "tfds"}})
    assert study.runs["one"].config.split.order == "tfds"


def test_the_order_of_cifar100_is_that_of_the_generator_of_both_cifar_sets(tmp_path: Path) -> None:
    """Rows are numbered in the order of the files of the binary version, which is the one that is registered."""
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    (tmp_path / PATH).write_text(
        yaml.safe_dump(
            {
                "title": "t",
                "paper": "p",
                "runs": {"one": RUN | {"dataset": "cifar100", "split": RUN["split"] | {"order": "tfds"}}},
            }
        ),
        encoding="utf-8",
    )
    assert load_study(tmp_path / PATH, "paper", registry).runs["one"].config.split.order == "tfds"
    (file,) = registry["cifar100"].files
    assert file.read.model_dump(include={"train", "test"}) == {
        "train": ("cifar-100-binary/train.bin",),
        "test": ("cifar-100-binary/test.bin",),
    }


def test_registered_sets_of_the_same_rows_share_the_beginning_of_their_names() -> None:
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    names = [name for name, entry in registry.items() if entry.task == "classification" and entry.of is None]
    groups = {tuple(other for other in names if origin_of(other) == origin_of(name)) for name in names}
    assert {group for group in groups if len(group) > 1} == {
        ("ionosphere", "ionosphere_mile"),
        ("digits", "digits_images"),
        ("cifar10", "cifar10_first4000", "cifar10_jpeg"),
        ("notmnist", "notmnist_dark"),
    }


def test_references_to_runs_with_the_same_test_rows(tmp_path: Path) -> None:
    first = {"split": RUN["split"] | {"first_test": 5}}
    with pytest.raises(ConfigError, match=r"'two': no predictions for the same test rows; .* are hmc_cifar10, three"):
        load(tmp_path, one={"evaluate": {"references": ["two"]}}, two=first, three={})
    with pytest.raises(ConfigError, match="'two': no predictions for the same test rows"):
        load(tmp_path, one={"evaluate": {"references": ["two"]}}, two={"dataset": "photos"})
    number = {"dataset": "diabetes", "split": {}, "likelihood": {"kind": "gaussian"}}
    regressions = load(tmp_path, one=number | {"evaluate": {"references": ["two"]}}, two=number)
    assert regressions.runs["one"].config.evaluate.references == ("two",)
    study = load(tmp_path, one={"evaluate": {"references": ["two", "hmc_cifar10"]}}, two={})
    assert study.runs["one"].config.evaluate.references == ("two", "hmc_cifar10")


@pytest.mark.parametrize("scale", SCALES)
def test_a_reference_must_have_the_same_test_rows_at_every_scale(scale: str, tmp_path: Path) -> None:
    two = scaled({"split": {"first_test": 5}})
    with pytest.raises(ConfigError, match=r"at scale demo: runs\.one\.evaluate\.references = 'two': no predictions"):
        load(tmp_path, scale, one={"evaluate": {"references": ["two"]}}, two=two)
    load(tmp_path, scale, one={"evaluate": {"references": ["two"]}} | two, two=two)


def test_a_grid_is_referred_to_by_the_name_of_its_runs(tmp_path: Path) -> None:
    grid = {"grid": {"seed": [1, 2]}}
    with pytest.raises(ConfigError, match=r"'two': .* are hmc_cifar10, two-seed1, two-seed2"):
        load(tmp_path, one={"evaluate": {"references": ["two"]}}, two=grid)
    load(tmp_path, one={"evaluate": {"references": ["two-seed1"]}}, two=grid)
    with pytest.raises(ConfigError, match="references = 'one-seed1': no predictions"):
        load(tmp_path, one=grid | {"evaluate": {"references": ["one-seed1"]}})


def published(author: str) -> Edit:
    return lambda study: study.update(published=[author])


def test_published_variants_are_asked_for_by_author(tmp_path: Path) -> None:
    asked = load_study(study_file(tmp_path, published("sommer")), "paper", SMALL)
    assert asked.config.published == ("sommer",)
    assert load_study(study_file(tmp_path), "paper", SMALL).config.published == ()
    with pytest.raises(ConfigError, match=r"published\.0 = 'nobody': .*'izmailov', 'sommer' or 'uppal'"):
        load_study(study_file(tmp_path, published("nobody")), "paper", SMALL)


SIZED = DATASETS | {
    "hmc_cifar10": DatasetEntry.model_validate(PUBLISHED | {"of": "cifar10", "training_rows": 20}),
    "other_cifar10": DatasetEntry.model_validate(PUBLISHED | {"of": "cifar10"}),
}
"""Published predictions of all 20 training rows, and of some number that was not published."""


def compared(folder: Path, **changes: Any) -> Study:
    two = RUN | {"split": changes["split"], "temperature": 0.5}
    content = {"title": "t", "paper": "p", "runs": {"one": RUN | changes, "two": two}}
    (folder / PATH).write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_study(folder / PATH, "paper", SIZED)


def with_rows(**rows: Any) -> dict[str, Any]:
    return {"split": RUN["split"] | rows, "evaluate": {"references": ["hmc_cifar10"]}}


def test_published_predictions_of_another_number_of_training_rows_are_refused(tmp_path: Path) -> None:
    for rows in ({"first": 15}, {"validation": 0.25, "validation_in_likelihood": False}):
        with pytest.raises(ConfigError) as caught:
            compared(tmp_path, **with_rows(**rows))
        for part in ("'hmc_cifar10': it is of 20 training rows", "'one' is conditioned on 15", "set split.first to 20"):
            assert part in str(caught.value)
    for rows in ({}, {"first": 20}, {"validation": 0.25}):
        assert compared(tmp_path, **with_rows(**rows)).runs["one"].config.evaluate.references == ("hmc_cifar10",)
    unknown = with_rows(first=15) | {"evaluate": {"references": ["other_cifar10"]}}
    assert compared(tmp_path, **unknown).runs["one"].config.evaluate.references == ("other_cifar10",)


def test_beside_a_comparison_stand_rows_and_prior_or_what_the_posteriors_differ_in(tmp_path: Path) -> None:
    changes = with_rows(first=15) | {
        "prior": {"kind": "normal", "weight_decay": 5},
        "evaluate": {"references": ["two"]},
    }
    study = compared(tmp_path, **changes)
    assert remark(study.runs["one"], "other_cifar10", study, SIZED) == (
        "other_cifar10: training rows not published, prior not published with it, here 15 rows, normal prior of "
        "variance 0.2, T = 1"
    )
    assert remark(study.runs["one"], "hmc_cifar10", study, SIZED).startswith("hmc_cifar10: 20 training rows, ")
    assert remark(study.runs["one"], "two", study, SIZED) == "another posterior than two: prior, temperature"
    assert remark(study.runs["two"], "two", study, SIZED) == "same posterior as two"


def test_only_predictions_have_training_rows() -> None:
    with pytest.raises(ValidationError, match="training_rows: only predictions have it; give published_train"):
        DatasetEntry.model_validate(IMAGES | {"training_rows": 20})


def test_registered_predictions_say_their_training_rows_where_they_are_known() -> None:
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    known = {name: entry.training_rows for name, entry in registry.items() if entry.kind == "predictions"}
    assert known == {"hmc_cifar10": registry["cifar10"].published_train, "hmc_imdb": None}
    assert "training_rows" not in registry["hmc_cifar10"].recipe, "no file depends on it"


def test_intervals_are_of_regressions_of_one_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"evaluate\.intervals: .* 'cifar10' is a classification whose rows have the"):
        load(tmp_path, one={"evaluate": {"intervals": {"gap": [0, 1]}}})
