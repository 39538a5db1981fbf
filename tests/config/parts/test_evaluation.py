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
from tests.config.folders import REGISTRY, REPOSITORY, Edit, refused, study_file

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


def load(folder: Path, scale: Any = "paper", datasets: Any = DATASETS, **runs: dict[str, Any]) -> Study:
    """A study whose runs differ from RUN in these keys."""
    content = {"title": "t", "paper": "p", "runs": {name: RUN | changes for name, changes in runs.items()}}
    (folder / PATH).write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_study(folder / PATH, scale, datasets)


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


REGRESSION: dict[str, Any] = {"dataset": "diabetes", "split": {}, "likelihood": {"kind": "gaussian"}}


def evaluated(**evaluate: Any) -> dict[str, Any]:
    return {"evaluate": evaluate}


def outside(*names: str) -> dict[str, Any]:
    return evaluated(out_of_distribution=[*names])


def against(*names: str) -> dict[str, Any]:
    return evaluated(references=[*names])


FOG = evaluated(shifts=["rotated30", "cifar10c_fog3"])
TFDS = {"dataset": "photos", "split": {"kind": "published", "order": "tfds", "validation": 0}}
REVIEWS = {"dataset": "reviews", "model": {"kind": "cnn_lstm"}}
# What the run `one` has, and what the message must hold: the key, the value, and what is allowed.
IN_SCALES: list[tuple[Any, ...]] = [
    ({"dataset": "photos"} | FOG, "runs.one.evaluate.shifts: 'cifar10c_fog3' is for 'cifar10', not 'photos'"),
    ({"split": {"kind": "random"}} | FOG, "evaluate.shifts: 'cifar10c_fog3' is made", "'published', not 'random'"),
    (TFDS, "runs.one.split.order = 'tfds'", "set 'photos'", "only that of cifar10, cifar100, mnist; use 'file'"),
    (outside("photos", "grey"), "runs.one.evaluate.out_of_distribution: 'grey' is not a data set", "there are photos"),
    (outside("cifar10_lossy"), "'cifar10_lossy' has the same rows as", "data 'cifar10'; there are photos"),
    (against("hmc"), "runs.one.evaluate.references = 'hmc'", "published ones and runs", "are hmc_cifar10"),
]  # fmt: skip
MISTAKES: list[tuple[Any, ...]] = [
    *IN_SCALES,
    (evaluated(shifts=["rotated30", "turned30"]), "evaluate.shifts.1 = 'turned30'", "rotated<whole degrees"),
    (evaluated(shift=["rotated30"]), "evaluate: unknown key 'shift'", "'shifts'?", "out_of_distribution, ref"),
    ({"dataset": "words", "split": {}} | FOG, "evaluate.shifts: 'words' has rows of the kind 'table', not images"),
    (REGRESSION | outside("other"), "evaluate.out_of_distribution: 'other'", "'categorical' only, not 'gaussian'"),
    (outside("photos", "cifar10"), "out_of_distribution: 'cifar10' has the same rows as", "there are photos"),
    ({"dataset": "cifar10_lossy"} | outside("cifar10"), "'cifar10' has the same", "'cifar10_lossy'; there are photos"),
    (outside("photo"), "evaluate.out_of_distribution: 'photo' is not a data set", "of 'cifar10'", "there are photos"),
    (REVIEWS | outside("posts", "tweets"), "'tweets' is not a data set", "'reviews'; there are posts"),
    (outside("cifar10c"), "runs.one.evaluate.out_of_distribution: 'cifar10c' is not a data set", "there are photos"),
    ({"dataset": "grey"} | outside("photos"), "evaluate.out_of_distribution: 'photos'", "'grey'; there are none"),
    (against("hmc_grey"), "runs.one.evaluate.references = 'hmc_grey'", "are hmc_cifar10"),
    (against("one"), "runs.one.evaluate.references = 'one'", "are hmc_cifar10"),
    ({"split": {"validation": 0}} | against("hmc_cifar10"), "= 'hmc_cifar10'", "need split.kind 'published'"),
    (REGRESSION | against("hmc_cifar10"), "references = 'hmc_cifar10': published predictions are for classification"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "parts"), [(changes, parts) for changes, *parts in MISTAKES], ids=str)
def test_mistakes(tmp_path: Path, changes: dict[str, Any], parts: list[str]) -> None:
    with refused(*parts) as caught:
        load(tmp_path, one=changes)
    assert str(caught.value).startswith(str(tmp_path / PATH))


def scaled(changes: dict[str, Any]) -> dict[str, Any]:
    """The same changes at scale demo only."""
    return {"scales": {"demo": changes}}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("changes", "part"), [(changes, part) for changes, part, *_ in IN_SCALES], ids=str)
def test_mistakes_in_a_scale_are_found_at_every_scale(
    tmp_path: Path, changes: dict[str, Any], part: str, scale: str
) -> None:
    with refused(f"{PATH} at scale demo: runs.one", part):
        load(tmp_path, scale, one=scaled(changes))


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_with_other_data_must_drop_what_does_not_fit(scale: str, tmp_path: Path) -> None:
    evaluate = {"shifts": ["cifar10c_fog3"], "out_of_distribution": ["photos"], "references": ["hmc_cifar10"]}
    dropped = {"shifts": [], "out_of_distribution": [], "references": []}
    changes = {"dataset": "grey", "split": {"kind": "random"}}
    for kept in evaluate:
        rest = dropped | {kept: evaluate[kept]}
        with refused(f"at scale demo: runs.one.evaluate.{kept}"):
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
    one = {"dataset": "cifar100", "split": RUN["split"] | {"order": "tfds"}}
    assert load(tmp_path, datasets=registry, one=one).runs["one"].config.split.order == "tfds"
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
    with refused("'two': no predictions for the same test rows; ", " are hmc_cifar10, three"):
        load(tmp_path, one=against("two"), two=first, three={})
    with refused("'two': no predictions for the same test rows"):
        load(tmp_path, one=against("two"), two={"dataset": "photos"})
    regressions = load(tmp_path, one=REGRESSION | against("two"), two=REGRESSION)
    assert regressions.runs["one"].config.evaluate.references == ("two",)
    study = load(tmp_path, one=against("two", "hmc_cifar10"), two={})
    assert study.runs["one"].config.evaluate.references == ("two", "hmc_cifar10")


@pytest.mark.parametrize("scale", SCALES)
def test_a_reference_must_have_the_same_test_rows_at_every_scale(scale: str, tmp_path: Path) -> None:
    two = scaled({"split": {"first_test": 5}})
    with refused("at scale demo: runs.one.evaluate.references = 'two': no predictions"):
        load(tmp_path, scale, one=against("two"), two=two)
    load(tmp_path, scale, one=against("two") | two, two=two)


def test_a_grid_is_referred_to_by_the_name_of_its_runs(tmp_path: Path) -> None:
    grid = {"grid": {"seed": [1, 2]}}
    with refused("'two': ", " are hmc_cifar10, two-seed1, two-seed2"):
        load(tmp_path, one=against("two"), two=grid)
    load(tmp_path, one=against("two-seed1"), two=grid)
    with refused("references = 'one-seed1': no predictions"):
        load(tmp_path, one=grid | against("one-seed1"))


def published(author: str) -> Edit:
    return lambda study: study.update(published=[author])


def test_published_variants_are_asked_for_by_author(tmp_path: Path) -> None:
    asked = load_study(study_file(tmp_path, published("sommer")), "paper", SMALL)
    assert asked.config.published == ("sommer",)
    assert load_study(study_file(tmp_path), "paper", SMALL).config.published == ()
    with refused("published.0 = 'nobody': ", "'izmailov', 'sommer' or 'uppal'"):
        load_study(study_file(tmp_path, published("nobody")), "paper", SMALL)


SIZED = DATASETS | {
    "hmc_cifar10": DatasetEntry.model_validate(PUBLISHED | {"of": "cifar10", "training_rows": 20}),
    "other_cifar10": DatasetEntry.model_validate(PUBLISHED | {"of": "cifar10"}),
}
"""Published predictions of all 20 training rows, and of some number that was not published."""


def compared(folder: Path, **changes: Any) -> Study:
    return load(folder, datasets=SIZED, one=changes, two={"split": changes["split"], "temperature": 0.5})


def with_rows(**rows: Any) -> dict[str, Any]:
    return {"split": RUN["split"] | rows, "evaluate": {"references": ["hmc_cifar10"]}}


def test_published_predictions_of_another_number_of_training_rows_are_refused(tmp_path: Path) -> None:
    for rows in ({"first": 15}, {"validation": 0.25, "validation_in_likelihood": False}):
        with refused("'hmc_cifar10': it is of 20 training rows", "'one' is conditioned on 15", "set split.first to 20"):
            compared(tmp_path, **with_rows(**rows))
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
    with pytest.raises(ValidationError, match="training_rows: only for predictions; give published_train"):
        DatasetEntry.model_validate(IMAGES | {"training_rows": 20})


def test_registered_predictions_say_their_training_rows_where_they_are_known() -> None:
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    known = {name: entry.training_rows for name, entry in registry.items() if entry.kind == "predictions"}
    assert known == {"hmc_cifar10": registry["cifar10"].published_train, "hmc_imdb": None}
    assert "training_rows" not in registry["hmc_cifar10"].recipe, "no file depends on it"


def test_intervals_are_of_regressions_of_one_input(tmp_path: Path) -> None:
    with refused("evaluate.intervals: ", " 'cifar10' is a classification whose rows have the"):
        load(tmp_path, one=evaluated(intervals={"gap": [0, 1]}))
