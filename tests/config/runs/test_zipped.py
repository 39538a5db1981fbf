"""Settings that vary together."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Run, Scale
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS, HMC, run_edit, study_file

FIRST, SECOND = (
    {"temperature": 1, "method.step_size": 0.1, "method.trajectory_length": 2.0},
    {"temperature": 0.25, "method.step_size": 0.05, "method.trajectory_length": 2.0},
)
ZIPPED = [FIRST, SECOND]


def load(folder: Path, scale: Scale = "paper", **changes: Any) -> dict[str, Run]:
    return load_study(study_file(folder, run_edit(method=HMC, **changes)), scale, DATASETS).runs


def of(runs: dict[str, Run]) -> list[tuple[float, float, int]]:
    return [(run.config.temperature, run.config.method.step_size, run.config.seed) for run in runs.values()]


def test_a_run_has_the_values_of_a_row(tmp_path: Path) -> None:
    runs = load(tmp_path, zipped=ZIPPED)
    assert list(runs) == ["one-temperature1", "one-temperature0.25"]
    assert of(runs) == [(1, 0.1, 0), (0.25, 0.05, 0)]
    assert [run.config.method.trajectory_length for run in runs.values()] == [2.0, 2.0]
    assert runs["one-temperature0.25"].point == {
        "temperature": 0.25,
        "method.step_size": 0.05,
        "method.trajectory_length": 2.0,
    }


def test_every_row_is_combined_with_the_grid(tmp_path: Path) -> None:
    runs = load(tmp_path, zipped=ZIPPED, grid={"seed": [3, 4]})
    assert of(runs) == [(1, 0.1, 3), (1, 0.1, 4), (0.25, 0.05, 3), (0.25, 0.05, 4)]
    assert list(runs)[1] == "one-temperature1-seed4"


def test_a_scale_may_have_other_rows(tmp_path: Path) -> None:
    runs = load(tmp_path, "laptop", zipped=ZIPPED, scales={"laptop": {"zipped": [SECOND]}})
    assert of(runs) == [(0.25, 0.05, 0)]
    assert next(iter(runs.values())).reductions == (
        "zipped.temperature: [1, 0.25] -> [0.25]",
        "zipped.method.step_size: [0.1, 0.05] -> [0.05]",
        "zipped.method.trajectory_length: [2.0, 2.0] -> [2.0]",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zipped": {"temperature": [1]}}, r"zipped: a list of rows is wanted, such as .* \(line \d+\)"),
        ({"zipped": 1}, r"zipped = 1: a list of rows is wanted"),
        (
            {"zipped": [FIRST, {"temperature": 1}]},
            r"row 1 gives temperature, method\.step_size, .*, and row 2 gives temperature \(line",
        ),
        (
            {"zipped": ZIPPED, "scales": {"demo": {"zipped": [FIRST, {}]}}},
            r"at scale demo: runs\.one: zipped .*and row 2 gives none",
        ),
        ({"zipped": [FIRST, SECOND | {"temperature": 1.0}]}, r"zipped: 'temperature': 1\.0 is given twice"),
        (
            {"zipped": ZIPPED, "grid": {"temperature": [1]}},
            r"'temperature' is in grid \(line \d+\) and in zipped \(line \d+\); give its values in one",
        ),
        (
            {"zipped": ZIPPED, "scales": {"laptop": {"temperature": 2}}},
            r"'temperature' has no effect, since the grid gives its values; set scales\.laptop\.zipped\.temperature",
        ),
        ({"zipped": [{"temperature": -1}]}, r"\(grid temperature: -1\): temperature = -1: must be greater than 0"),
    ],
    ids=str,
)
def test_other_rows_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, **changes)
