from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.axes import fenced_limits
from bnn_atlas.figures.scores import off_scale_remark, over_repetitions, read_scores, score_text
from bnn_atlas.metrics.tables.files import read_table, write_table
from bnn_atlas.metrics.tables.measurement import Row
from tests.figures.set_files import scored

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
    with pytest.raises(ValueError, match="no runs to draw"):
        read_scores([])


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
