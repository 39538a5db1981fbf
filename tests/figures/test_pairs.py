"""Kinds that show pairs of networks: what is read of them, what is drawn, refusals."""

from pathlib import Path

import pandas as pd
import pytest

from bnn_atlas.figures.permutation_symmetry.pairs import (
    MOST_ARRAYS,
    barrier_against_transpositions,
    barrier_along_training,
    correlation_text,
    distance_against_transpositions,
    norms_along_training,
    transpositions_stability,
    transpositions_surface,
)
from bnn_atlas.metrics.tables.parquet import MATCH_SCHEMA, NORM_SCHEMA, read_frame, write_frame

from .pair_files import pair_run


def test_barriers_are_of_pairs_and_the_correlation_of_trained_ones(tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 5, 9, 14])]
    numbers = barrier_against_transpositions(shown).numbers
    trained = numbers[numbers["state"] == "as_trained"]
    assert trained["midpoint"].tolist() == pytest.approx([0.2, 0.5, 0.9, 1.4])
    assert trained["transpositions"].tolist() == [3, 6, 10, 15]
    assert correlation_text(trained) == "correlation 1.000, 4 pairs"
    assert correlation_text(trained[:3]) == ""


def test_published_marks_are_beside_networks_of_512_units(tmp_path: Path) -> None:
    run = pair_run(tmp_path, "pairs", [2, 5])
    matches = read_frame(run.files["matches"], MATCH_SCHEMA)
    wide = run._replace(files={**run.files, "matches": tmp_path / "wide.parquet"}, hidden=(512,))
    write_frame(wide.files["matches"], matches.assign(units=512), MATCH_SCHEMA)
    for kind in (barrier_against_transpositions, distance_against_transpositions):
        few, many = (len(kind([one]).figure.axes[0].lines) for one in (run, wide))
        assert many > few


def test_distances_by_state(tmp_path: Path) -> None:
    numbers = distance_against_transpositions([pair_run(tmp_path / "a", "pairs", [2, 5])]).numbers
    of = {state: part["squared_distance"].tolist() for state, part in numbers.groupby("state")}
    assert of == {"start": [20, 50], "as_trained": [22, 52], "planted": pytest.approx([4, 7])}


def test_changes_of_transpositions_are_those_of_each_pair(tmp_path: Path) -> None:
    numbers = transpositions_stability([pair_run(tmp_path / "a", "pairs", [3, 9, 15])]).numbers
    trained = numbers[numbers["state"] == "as_trained"]
    assert trained["planted"].tolist() == [3, 9, 15]
    assert trained["change"].tolist() == [1, 1, 1]
    assert numbers.loc[numbers["state"] == "start", "change"].tolist() == [0, 0, 0]
    assert numbers.loc[numbers["state"] == "planted", "change"].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="no pair of these runs started as permuted copies"):
        transpositions_stability([pair_run(tmp_path, "paths", [None])])


def test_courses_and_lines_are_means_over_pairs(tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "two_paths", [10, 5])]
    numbers = barrier_along_training(shown).numbers
    of = numbers.set_index(["panel", "state", "rows", "x"])["mean"]
    assert of["loss", "as_trained", "train", 0] == pytest.approx(0)
    assert of["loss", "as_trained", "test", 2] == pytest.approx((1.0 + 0.5) / 2)
    assert of["error", "as_trained", "train", 1] == pytest.approx(0.075)
    assert of["loss", "aligned", "train", 2] == pytest.approx(0)
    assert of["line", "as_trained", "train", 0.5] == pytest.approx(0.3 + 0.75)
    assert set(numbers["pairs"]) == {2}
    assert "planted" not in set(numbers["state"])
    figure = barrier_along_training(shown).figure
    assert [len(ax.lines) for ax in figure.axes] == [5, 5, 4], "two states on two kinds of rows, and zero"


def test_norms_are_means_over_networks(tmp_path: Path) -> None:
    run = pair_run(tmp_path / "a", "pairs", [2, 5])
    numbers = norms_along_training([run]).numbers
    assert set(numbers["array"]) == {"layer0.bias", "layer0.weight"}
    assert set(numbers["networks"]) == {4}
    weight = numbers[numbers["array"] == "layer0.weight"].set_index("draw")["mean"]
    assert weight.to_dict() == {0: 2.5, 1: 3.5, 2: 4.5}
    frame = read_frame(run.files["norms"], NORM_SCHEMA)
    many = pd.concat([frame.assign(array=f"layer{i}") for i in range(MOST_ARRAYS + 1)])
    write_frame(run.files["norms"], many, NORM_SCHEMA)
    with pytest.raises(ValueError, match=f"at most {MOST_ARRAYS} fit"):
        norms_along_training([run])


def test_points_of_lines_over_epochs_are_means_over_pairs(tmp_path: Path) -> None:
    run = pair_run(tmp_path / "a", "pairs", [2, 6])
    of = transpositions_surface([run]).numbers.set_index(["state", "draw", "point"])["mean"]
    assert of["as_trained", 1, 0.5] == 4
    assert of["as_trained", 2, 1.0] == 5
    assert of["aligned", 2, 0.5] == 0
    assert of["as_trained", 0, 0.0] == 0
    frame = read_frame(run.files["matches"], MATCH_SCHEMA)
    write_frame(run.files["matches"], frame[frame["point"] == 1.0].astype({"planted": "Int64"}), MATCH_SCHEMA)
    with pytest.raises(ValueError, match="surface: true"):
        transpositions_surface([run])
