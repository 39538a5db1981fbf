"""Settings that vary together."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Run, Scale
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS, HMC, run_edit, study_file

ZIPPED = {"temperature": [1, 0.25], "method.step_size": [0.1, 0.05], "method.trajectory_length": [2.0, 2.0]}


def load(folder: Path, scale: Scale = "paper", **changes: Any) -> dict[str, Run]:
    return load_study(study_file(folder, run_edit(method=HMC, **changes)), scale, DATASETS).runs


def of(runs: dict[str, Run]) -> list[tuple[float, float, int]]:
    return [(run.config.temperature, run.config.method.step_size, run.config.seed) for run in runs.values()]


def test_a_run_has_the_values_at_one_place_of_all_lists(tmp_path: Path) -> None:
    runs = load(tmp_path, zipped=ZIPPED)
    assert list(runs) == ["one-temperature1", "one-temperature0.25"]
    assert of(runs) == [(1, 0.1, 0), (0.25, 0.05, 0)]
    assert [run.config.method.trajectory_length for run in runs.values()] == [2.0, 2.0]
    assert runs["one-temperature0.25"].point == {
        "temperature": 0.25,
        "method.step_size": 0.05,
        "method.trajectory_length": 2.0,
    }


def test_every_place_is_combined_with_the_grid(tmp_path: Path) -> None:
    runs = load(tmp_path, zipped=ZIPPED, grid={"seed": [3, 4]})
    assert of(runs) == [(1, 0.1, 3), (1, 0.1, 4), (0.25, 0.05, 3), (0.25, 0.05, 4)]
    assert list(runs)[1] == "one-temperature1-seed4"


def test_a_scale_may_shorten_all_lists(tmp_path: Path) -> None:
    shorter = {field: values[1:] for field, values in ZIPPED.items()}
    assert of(load(tmp_path, "laptop", zipped=ZIPPED, scales={"laptop": {"zipped": shorter}})) == [(0.25, 0.05, 0)]


def line(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if line.strip() == text)


def test_lists_of_unequal_lengths_are_named_with_lengths_and_lines(tmp_path: Path) -> None:
    path = study_file(tmp_path, run_edit(method=HMC, zipped={**ZIPPED, "method.step_size": [0.1, 0.2, 0.3]}))
    with pytest.raises(ConfigError) as caught:
        load_study(path, "paper", DATASETS)
    first, other = (line(path, f"{field}:") for field in ("temperature", "method.step_size"))
    assert str(caught.value) == (
        f"{path}: runs.one.zipped: lists that vary together have one length, but 'temperature' has 2 values "
        f"(line {first}), and 'method.step_size' has 3 values (line {other})"
    )


def test_a_list_that_a_scale_makes_longer_is_named_where_it_is(tmp_path: Path) -> None:
    scales = {"demo": {"zipped": {"temperature": [1, 2, 3]}}}
    path = study_file(tmp_path, run_edit(method=HMC, zipped=ZIPPED, scales=scales))
    with pytest.raises(ConfigError, match=r"at scale demo: runs\.one\.zipped: .*'temperature' has 3 values") as caught:
        load_study(path, "paper", DATASETS)
    places = [n for n, text in enumerate(path.read_text().splitlines(), 1) if text.strip() == "temperature:"]
    assert f"3 values (line {places[1]})" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zipped": {"temperature": []}}, r"zipped\.temperature: an empty list gives no run"),
        ({"zipped": {**ZIPPED, "temperature": [1, 1.0]}}, r"zipped\.temperature: 1\.0 is given twice"),
        (
            {"zipped": ZIPPED, "grid": {"temperature": [1]}},
            r"'temperature' is in grid \(line \d+\) and in zipped \(line \d+\); give its values in one",
        ),
        ({"zipped": {"temperature": 1}}, r"zipped\.temperature = 1: a list is wanted"),
        (
            {"zipped": ZIPPED, "scales": {"laptop": {"temperature": 2}}},
            r"'temperature' has no effect, since the grid gives its values; set scales\.laptop\.zipped\.temperature",
        ),
        ({"zipped": {"temperature": [1, -1]}}, r"\(grid temperature: -1\): temperature = -1: must be greater than 0"),
        ({"zipped": {"temperature": [0]}}, r"\(grid temperature: 0\): temperature = 0: must be greater than 0"),
    ],
    ids=str,
)
def test_other_lists_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, **changes)
