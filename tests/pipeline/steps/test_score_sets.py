"""Scores of further sets and against references, from files to tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import save
from bnn_atlas.data.orders import tfds_order
from bnn_atlas.data.published_predictions import Predictions, save_predictions
from bnn_atlas.data.splitting import Split, save_split
from bnn_atlas.metrics.formulas.classification import auroc
from bnn_atlas.metrics.gathering import summary as summaries
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.measurement import PredictionError, Row
from bnn_atlas.metrics.tables.parquet import write_table
from bnn_atlas.pipeline.steps.score import score_against, score_sets

from .making import CLASSES, IDENTITY, TEST, TRAIN, make_images

NOTHING = np.empty(0, dtype=np.int64)
NUMBERS = np.random.default_rng(3)
PUBLISHED = NUMBERS.dirichlet(np.ones(CLASSES), TEST).astype("float32")
"""Row i is for the i-th published test row."""
LOG_DENSITIES = NUMBERS.normal(size=(3, 2 * TEST))
"""[chain, row]; those of no labels, to tell what is made from them."""
FIRST_ROWS = {
    "file": np.arange(TEST),
    "tfds": tfds_order("test", TEST),
    "first of file": np.arange(TEST)[:4],
    "first of tfds": tfds_order("test", TEST)[:4],
}


def write_summary(path: Path, probabilities: np.ndarray, divergent: int = 0) -> Path:
    """Predictions [chain, n, k] as `predict` writes them; the first `divergent` chains are left out."""
    chains = len(probabilities)
    left_out = np.arange(chains) < divergent
    kept = np.where(left_out[:, None, None], np.nan, probabilities)
    summary = PredictiveSummary(
        5, left_out, np.zeros(chains, bool), NOTHING, np.empty((chains, 5, 0)), NOTHING, NOTHING,
        log_density_by_chain=LOG_DENSITIES[:chains, : probabilities.shape[1]], probabilities_by_batch=kept[:, None],
        batch_stops=np.array([5]),
    )  # fmt: skip
    summaries.save(path, summary)
    return path


def random_summary(path: Path, seed: int, rows: int = TEST, classes: int = CLASSES) -> np.ndarray:
    """Write random predictions of two chains and give their average [n, k]."""
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(classes), (2, rows))
    write_summary(path, probabilities)
    return probabilities.mean(axis=0)


def write_data(folder: Path, places: np.ndarray, **changes: Any) -> tuple[Path, Path]:
    """A data set and a split whose test rows are these published test rows, in this order."""
    images = make_images(0, **changes)
    save(folder / "prepared.npz", images)
    rows = np.arange(TRAIN)
    save_split(folder / "split.npz", images, Split(rows, rows[:0], TRAIN + places))
    return folder / "prepared.npz", folder / "split.npz"


def against(folder: Path, reference: Path, published: bool) -> pd.DataFrame:
    files = [folder / name for name in ("prepared.npz", "split.npz", "test.npz")]
    score_against(*files, reference, folder / "out.parquet", name="other", published=published, identity=IDENTITY)
    table = pd.read_parquet(folder / "out.parquet").set_index("metric")
    assert set(table["at"]) == {"other"}
    return table


def expected(p: np.ndarray, q: np.ndarray) -> dict[str, float]:
    agreement = (p.argmax(axis=1) == q.argmax(axis=1)).mean()
    return {"agreement": agreement, "total_variation": 0.5 * np.abs(p - q).sum(axis=1).mean()}


@pytest.mark.parametrize("order", FIRST_ROWS)
def test_published_predictions_are_taken_for_the_rows_in_their_order(tmp_path: Path, order: str) -> None:
    places = FIRST_ROWS[order]
    write_data(tmp_path, places)
    averaged = random_summary(tmp_path / "test.npz", 1, len(places))
    save_predictions(tmp_path / "published.npz", Predictions(PUBLISHED, "small", ("a", "b", "c")))
    table = against(tmp_path, tmp_path / "published.npz", published=True)
    for metric, value in expected(averaged, PUBLISHED[places]).items():
        assert table.value[metric] == pytest.approx(value, abs=1e-6)
    assert table.value.isna().sum() == 0
    assert set(table.dataset) == {"small"}


def test_the_order_matters() -> None:
    """Otherwise the test above could not fail."""
    assert FIRST_ROWS["tfds"].tolist() != list(range(TEST))


def test_predictions_of_another_run(tmp_path: Path) -> None:
    write_data(tmp_path, FIRST_ROWS["file"])
    averaged, reference = (random_summary(tmp_path / f"{n}.npz", s) for n, s in (("test", 1), ("other", 2)))
    table = against(tmp_path, tmp_path / "other.npz", published=False)
    for metric, value in expected(averaged, reference).items():
        assert table.value[metric] == pytest.approx(value, abs=1e-12)
    same = against(tmp_path, tmp_path / "test.npz", published=False)
    assert same.value[["agreement", "total_variation"]].tolist() == [1.0, 0.0]


def test_shifted_rows_are_compared_with_those_of_the_other_run(tmp_path: Path) -> None:
    write_data(tmp_path, FIRST_ROWS["file"])
    names = ("test", "other", "own/blur1", "own/fog3", "theirs/blur1", "theirs/fog3")
    for folder in ("own", "theirs"):
        (tmp_path / folder).mkdir()
    averages = {name: random_summary(tmp_path / f"{name}.npz", seed) for seed, name in enumerate(names)}
    files = [tmp_path / name for name in ("prepared.npz", "split.npz", "test.npz", "other.npz", "out.parquet")]
    shifted = [tmp_path / "own", tmp_path / "theirs"]
    score_against(*files, name="other", published=False, identity=IDENTITY, shifts=["blur1", "fog3"], shifted=shifted)
    table = pd.read_parquet(tmp_path / "out.parquet").set_index(["dataset", "metric"])
    for dataset, own, reference in (
        ("small", "test", "other"), ("small/blur1", "own/blur1", "theirs/blur1"),
        ("small/fog3", "own/fog3", "theirs/fog3"),
    ):  # fmt: skip
        for metric, value in expected(averages[own], averages[reference]).items():
            assert table.value[dataset, metric] == pytest.approx(value, abs=1e-12)
    assert len(table) == 15
    assert set(table["at"]) == {"other"}


@pytest.mark.parametrize("word", ["reference converged: acceptance 0.88", "reference not converged: ESS 4"])
def test_the_convergence_of_a_reference_and_its_posterior_are_in_every_note(tmp_path: Path, word: str) -> None:
    write_data(tmp_path, FIRST_ROWS["file"])
    for seed, name in enumerate(("test", "other")):
        random_summary(tmp_path / f"{name}.npz", seed)
    rows = [Row(*IDENTITY.values(), 2, 4, "accuracy", 0.9), Row(*IDENTITY.values(), 2, 4, "reference_fit", 0.0)]
    write_table(tmp_path / "judged.parquet", [rows[0], rows[1]._replace(note=f"{word}; 1 of 3 chains excluded")])
    files = [tmp_path / name for name in ("prepared.npz", "split.npz", "test.npz", "other.npz", "out.parquet")]
    kinds = {"name": "other", "published": False, "identity": IDENTITY, "remark": "same posterior as other"}
    score_against(*files, **kinds, judged=tmp_path / "judged.parquet")
    notes = pd.read_parquet(tmp_path / "out.parquet")["note"]
    assert all(note.startswith(f"{word}; same posterior as other") for note in notes)
    write_table(tmp_path / "judged.parquet", rows[:1])
    score_against(*files, **kinds, judged=tmp_path / "judged.parquet")
    notes = pd.read_parquet(tmp_path / "out.parquet")["note"]
    assert all(note.startswith("same posterior as other") for note in notes), "nothing is said without chains"


def test_marks_of_a_run_are_in_every_note(tmp_path: Path) -> None:
    write_data(tmp_path, FIRST_ROWS["file"])
    random_summary(tmp_path / "test.npz", 1)
    files = [tmp_path / name for name in ("prepared.npz", "split.npz", "test.npz", "test.npz", "out.parquet")]
    score_against(*files, name="other", published=False, identity=IDENTITY, marks=["one", "two"])
    notes = pd.read_parquet(tmp_path / "out.parquet")["note"]
    plain = against(tmp_path, tmp_path / "test.npz", published=False)["note"]
    assert len(notes) == len(plain)
    assert all(
        marked == (f"{note}; one; two" if note else "one; two") for note, marked in zip(plain, notes, strict=True)
    )


def test_divergent_chains_of_either_run_are_left_out(tmp_path: Path) -> None:
    write_data(tmp_path, FIRST_ROWS["file"])
    ours, theirs = (np.random.default_rng(s).dirichlet(np.ones(CLASSES), (3, TEST)) for s in (1, 2))
    write_summary(tmp_path / "test.npz", ours, divergent=1)
    write_summary(tmp_path / "other.npz", theirs, divergent=2)
    table = against(tmp_path, tmp_path / "other.npz", published=False)
    for metric, value in expected(ours[1:].mean(axis=0), theirs[2]).items():
        assert table.value[metric] == pytest.approx(value, abs=1e-12)
    assert table.note.str.contains("1 of 3 chains excluded").all()


@pytest.mark.parametrize(
    ("count", "places", "changes"),
    [
        (TEST - 1, FIRST_ROWS["file"], {}),
        (TEST, np.array([-1, 0, 1]), {}),
        (TEST, FIRST_ROWS["file"], {"published_train": None}),
    ],
    ids=["too few", "a training row", "no published split"],
)
def test_published_predictions_must_cover_the_test_rows(
    tmp_path: Path, count: int, places: np.ndarray, changes: dict[str, Any]
) -> None:
    write_data(tmp_path, places, **changes)
    random_summary(tmp_path / "test.npz", 1, len(places))
    save_predictions(tmp_path / "published.npz", Predictions(PUBLISHED[:count], "small", ("a", "b", "c")))
    with pytest.raises(DataError, match=rf"published\.npz: {count} published predictions do not cover .* test rows"):
        against(tmp_path, tmp_path / "published.npz", published=True)
    assert not (tmp_path / "out.parquet").exists()


def test_what_holds_no_predictions_is_named(tmp_path: Path) -> None:
    write_data(tmp_path, FIRST_ROWS["file"])
    random_summary(tmp_path / "test.npz", 1)
    with pytest.raises(DataError, match=r"test\.npz: not prepared predictions"):
        against(tmp_path, tmp_path / "test.npz", published=True)
    save_predictions(tmp_path / "published.npz", Predictions(PUBLISHED, "small", ("a", "b", "c")))
    with pytest.raises(PredictionError, match=r"published\.npz: not a predictive summary"):
        against(tmp_path, tmp_path / "published.npz", published=False)


@pytest.mark.parametrize(("rows", "classes"), [(TEST - 1, CLASSES), (TEST, CLASSES + 1)])
def test_predictions_of_other_rows_or_classes_are_refused(tmp_path: Path, rows: int, classes: int) -> None:
    write_data(tmp_path, FIRST_ROWS["file"])
    random_summary(tmp_path / "test.npz", 1)
    random_summary(tmp_path / "other.npz", 2, rows, classes)
    with pytest.raises(PredictionError, match=rf"shape \[{TEST}, {CLASSES}\] and \[{rows}, {classes}\] cannot be comp"):
        against(tmp_path, tmp_path / "other.npz", published=False)


def scored(folder: Path, *sets: str) -> pd.DataFrame:
    files = [folder / file for file in ("prepared.npz", "split.npz", "sets", "test.npz")]
    score_sets(*files, folder / "out.parquet", sets=sets, identity=IDENTITY, published=())
    return pd.read_parquet(folder / "out.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of predictions in which there is room for further sets."""
    (tmp_path / "sets").mkdir()
    return tmp_path


@pytest.mark.parametrize("order", FIRST_ROWS)
def test_a_shifted_set_is_scored_against_the_labels_of_the_test_rows(folder: Path, order: str) -> None:
    places = FIRST_ROWS[order]
    labels = np.array([0, 1, 2, 2, 1, 0])
    write_data(folder, places, y=np.concatenate([np.zeros(TRAIN, int), labels]))
    averaged = random_summary(folder / "sets/rotated30.npz", 7, len(places))
    random_summary(folder / "test.npz", 8, len(places))
    table = scored(folder, "rotated30").set_index("metric")
    assert table.value["accuracy"] == (averaged.argmax(axis=1) == labels[places]).mean()
    densities = np.exp(LOG_DENSITIES[:2, : len(places)]).mean(axis=0)
    assert table.value["nll"] == pytest.approx(-np.log(densities).mean())
    assert set(table.dataset) == {"small/rotated30"}


def test_an_outside_set_is_told_from_the_test_rows(folder: Path) -> None:
    write_data(folder, FIRST_ROWS["file"])
    outside, inside = random_summary(folder / "sets/ood-dark.npz", 7, 9), random_summary(folder / "test.npz", 8)
    table = scored(folder, "ood-dark").set_index("metric")
    assert table.value["auroc_confidence"] == pytest.approx(auroc(inside.max(axis=1), outside.max(axis=1)))
    assert table.value["mean_maximum_confidence_ood"] == pytest.approx(outside.max(axis=1).mean())
    assert set(table.dataset) == {"small/ood-dark"}
    assert "accuracy" not in table.index


def test_all_sets_of_a_run_are_in_one_table(folder: Path) -> None:
    """Each with the scores that it has alone, in the order in which they are asked for."""
    write_data(folder, FIRST_ROWS["file"])
    names = ["fog3", "ood-dark", "blur1"]
    for seed, name in enumerate(("test", *(f"sets/{name}" for name in names))):
        random_summary(folder / f"{name}.npz", seed)
    together = scored(folder, *names)
    assert list(dict.fromkeys(together.dataset)) == [f"small/{name}" for name in names]
    alone = pd.concat([scored(folder, name) for name in names], ignore_index=True)
    pd.testing.assert_frame_equal(together, alone)


def test_a_shifted_set_of_other_rows_is_refused(folder: Path) -> None:
    write_data(folder, FIRST_ROWS["file"])
    random_summary(folder / "sets/rotated30.npz", 7, TEST + 1)
    random_summary(folder / "test.npz", 8)
    with pytest.raises(PredictionError, match=rf"labels have shape \[{TEST}\] for {TEST + 1} rows"):
        scored(folder, "rotated30")
    assert not (folder / "out.parquet").exists()
