"""Scores of runs, on their test rows and on further sets, and how labels look."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures import style
from bnn_atlas.figures.axes import fenced_limits, off_scale_remark, score_text
from bnn_atlas.figures.method_looks import method_looks
from bnn_atlas.figures.scores import over_repetitions, read_scores
from bnn_atlas.figures.set_scores import averaged, corruption_of, read_sets, set_titles
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import read_table, write_table
from tests.figures.set_files import scored, written
from tests.figures.shown import shown

LEVELS = ("0.5", "0.9")


def test_scores_are_those_of_the_run_and_split(tmp_path: Path) -> None:
    runs = [scored(tmp_path, "a", 0.5, 0.2), scored(tmp_path, "a", 0.7, 0.1, split=1)]
    runs.append(scored(tmp_path, "b", -0.3, 0.9, task="classification"))
    found = read_scores(runs)
    assert list(found["metric"]) == ["lppd", "rmse", "lppd", "rmse", "lppd", "accuracy"]
    assert list(found["value"]) == [0.5, 0.2, 0.7, 0.1, -0.3, 0.9]
    np.testing.assert_array_equal(found["standard_error"], [0.04, np.nan] * 3)
    with pytest.raises(ValueError, match=r"a-0\.parquet: lppd of run other, split 0, is not there; run its"):
        read_scores([runs[0]._replace(run="other")])
    assert list(read_scores(runs[:2], ["rmse"])["value"]) == [0.2, 0.1]
    with pytest.raises(ValueError, match="coverage of run a, split 0, is not there"):
        read_scores(runs, ["rmse", "coverage"])


def test_a_metric_with_a_parameter_is_read_at_one_of_its_values(tmp_path: Path) -> None:
    run = scored(tmp_path, "a", 0.5, 0.2)
    table = read_table(run.files["table"])
    coverage = [Row(**table.iloc[0].to_dict() | {"metric": "coverage", "at": at, "value": float(at)}) for at in LEVELS]
    write_table(run.files["table"], [*(Row(**row) for row in table.to_dict("records")), *coverage])
    with pytest.raises(ValueError, match=r'has a value at each of 0.5, 0.9; choose one: at={"coverage": "0.5"}'):
        read_scores([run], ["coverage"])
    with pytest.raises(ValueError, match=r"has no value at 0.8; choose one of 0.5, 0.9"):
        read_scores([run], ["coverage"], at={"coverage": "0.8"})
    found = read_scores([run], ["lppd", "coverage"], at={"coverage": "0.9"})
    assert list(found["value"]) == [0.5, 0.9]


def test_a_bad_repetition_is_not_averaged_away() -> None:
    good = over_repetitions(pd.Series([1.0, 2.0, 6.0]))
    assert (good["mean"], good["low"], good["high"], good["repetitions"]) == (3, 1, 6, 3)
    assert good["sd"] == pytest.approx(np.sqrt(7))
    assert np.isnan(over_repetitions(pd.Series([1.0]))["sd"])
    assert over_repetitions(pd.Series([1.0, -np.inf]))["mean"] == -np.inf
    assert np.isnan(over_repetitions(pd.Series([1.0, np.nan]))["mean"])
    assert np.isnan(over_repetitions(pd.Series([1.0, -np.inf]))["sd"])


def test_limits_leave_out_what_lies_far_away() -> None:
    values = np.array([*np.linspace(0, 1, 20), -35.0, -np.inf, np.nan])
    low, high = limits = fenced_limits(values)
    assert -0.1 < low < 0
    assert 1 < high < 1.1
    assert off_scale_remark(values, limits) == "2 off scale, to −∞"
    assert off_scale_remark(values[:-2], limits) == "1 off scale, to −35"
    assert off_scale_remark(values[:-3], limits) == ""
    assert fenced_limits(np.array([np.nan])) == (0, 1)
    assert fenced_limits(np.array([0.5]))[0] < 0.5 < fenced_limits(np.array([0.5]))[1]
    barred = fenced_limits(np.array([0.0, 1, 100]), np.array([0.5, np.nan, 90]), fence=0.5)
    assert barred[0] < -0.5 < 1 < barred[1] < 10
    same = fenced_limits(np.array([1.0, 1, 1, 1, 5]))
    assert same[0] < 1 < 5 < same[1]
    assert score_text(-0.12345) == "−0.123"


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


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("test", None), ("ood-notmnist", None), ("rotated30", None), ("dead_pixels3", None), ("fog2", ("fog", 2)),
        ("cifar10c_frost5", ("frost", 5)),
    ],
)  # fmt: skip
def test_corruptions_are_told_from_other_sets(name: str, found: tuple[str, int] | None) -> None:
    assert corruption_of(name) == found


METHODS = ("hmc", "sgld", "sghmc", "sghmc_clr", "sghmc_clr_prec", "map", "mean_field")


def test_every_method_has_one_look_whatever_else_is_in_the_figure() -> None:
    looks = method_looks([shown(method, method=method) for method in METHODS])
    for field in ("colour", "marker", "fill"):
        assert len({getattr(look, field) for look in looks.values()}) == len(METHODS)
    assert method_looks([shown("map", method="map"), shown("sghmc_clr", method="sghmc_clr")]).items() <= looks.items()


def test_splits_of_a_label_share_a_look_and_several_optima_are_a_deep_ensemble() -> None:
    runs = [shown("a", split=i, label="MAP", method="map", chains=1) for i in (0, 1)]
    looks = method_looks([*runs, shown("b", label="five", method="map", chains=5)])
    assert list(looks) == ["MAP", "five"]
    assert looks["five"][:3] == style.METHODS["deep_ensemble"]


def test_too_many_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="13 lines in one figure cannot be told apart"):
        method_looks([shown(f"run{number}") for number in range(13)])


def test_colours_are_mixed_with_white_or_black() -> None:
    assert [style.mixed("#4080C0", white) for white in (0.5, 1.0, -0.5)] == ["#A0C0E0", "#FFFFFF", "#204060"]
