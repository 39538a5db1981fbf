"""Scores on test rows and further sets, and their means over repetitions."""

from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.set_scores import averaged, corruption_of, read_sets, set_titles
from tests.figures.set_files import written


def test_sets_are_read_beside_the_test_rows_with_their_errors(tmp_path: Path) -> None:
    one = written(
        tmp_path, "a", {"accuracy": (0.9, 0.01), "lppd": -0.3}, {"rotated30": {"accuracy": (0.5, 0.02)}},
        set_titles={"ood-notmnist": "notMNIST"},
    )  # fmt: skip
    rows = read_sets([one], ["accuracy"])
    assert rows[["set", "value", "standard_error", "over"]].to_numpy().tolist() == [
        ["test", 0.9, 0.01, "rows"],
        ["rotated30", 0.5, 0.02, "rows"],
    ]
    means = averaged([one], rows)
    assert means[["value", "error", "over", "repetitions"]].to_numpy().tolist() == [
        [0.9, 0.01, "rows", 1],
        [0.5, 0.02, "rows", 1],
    ]
    assert set_titles([one]) == {"test": "test rows", "ood-notmnist": "notMNIST"}


def test_errors_over_splits_allow_for_the_rows_that_they_share(tmp_path: Path) -> None:
    sizes = {"rows_test": 100, "rows_train": 400}
    runs = [
        written(tmp_path, "a", {"rmse": value, **sizes}, split=split, label="A")
        for split, value in enumerate((1, 2, 6))
    ]
    (row,) = averaged(runs, read_sets(runs, ["rmse"])).to_dict("records")
    variance = np.var([1, 2, 6], ddof=1)
    assert row["value"] == 3
    assert row["error"] == pytest.approx(np.sqrt(variance * (1 / 3 + 100 / 400)))
    assert (row["over"], row["repetitions"], row["low"], row["high"]) == ("splits", 3, 1, 6)


def test_a_run_without_the_metrics_and_unlike_runs_of_one_label_are_refused(tmp_path: Path) -> None:
    one = written(tmp_path, "a", {"accuracy": 0.9})
    with pytest.raises(
        ValueError, match=r"a-0.parquet: no rmse and no lppd of run a, split 0; this figure cannot show"
    ):
        read_sets([one], ["rmse", "lppd"])
    with pytest.raises(ValueError, match="no runs to draw"):
        read_sets([], ["rmse"])
    pair = [
        written(tmp_path, name, {"accuracy": 0.9}, label="A", entry="a", point={"prior.scale": scale})
        for name, scale in (("b", 1), ("c", 2))
    ]
    with pytest.raises(ValueError, match="'A' on 'mnist' has the runs 'b' and 'c', which differ in more than"):
        averaged(pair, read_sets(pair, ["accuracy"]))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("test", None), ("ood-notmnist", None), ("rotated30", None), ("dead_pixels3", None), ("fog2", ("fog", 2)),
        ("cifar10c_frost5", ("frost", 5)),
    ],
)  # fmt: skip
def test_corruptions_are_told_from_other_sets(name: str, found: tuple[str, int] | None) -> None:
    assert corruption_of(name) == found
