"""Kinds that show pairs of networks: what is read of them, what is drawn, refusals."""

from pathlib import Path

import pytest

from bnn_atlas.figures.permutation_symmetry.pairs import (
    barrier_against_transpositions,
    barrier_along_training,
    correlation_text,
    distance_against_transpositions,
    loss_surface,
    transpositions_along_line,
    transpositions_stability,
)
from bnn_atlas.metrics.tables.parquet import MATCH_SCHEMA, read_frame, write_frame

from .pair_files import pair_run


def test_barriers_are_of_pairs_and_the_correlation_of_trained_ones(tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 5, 9, 14])]
    numbers = barrier_against_transpositions(shown).numbers
    trained = numbers[numbers["state"] == "as_trained"]
    assert trained["midpoint"].tolist() == pytest.approx([0.2, 0.5, 0.9, 1.4])
    assert trained["transpositions"].tolist() == [3, 6, 10, 15]
    assert correlation_text(trained) == "correlation 1.000, 4 pairs"
    assert correlation_text(trained[:3]) == ""


def test_published_curves_are_beside_networks_of_512_units(tmp_path: Path) -> None:
    run = pair_run(tmp_path, "pairs", [2, 5])
    matches = read_frame(run.files["matches"], MATCH_SCHEMA)
    wide = run._replace(files={**run.files, "matches": tmp_path / "wide.parquet"}, hidden=(512,))
    write_frame(wide.files["matches"], matches.assign(units=512), MATCH_SCHEMA)
    for kind, curves in (
        (barrier_against_transpositions, 1), (distance_against_transpositions, 2), (barrier_along_training, 2),
        (transpositions_along_line, 11),
    ):  # fmt: skip
        few, many = (kind([one]).figure.axes[0].lines for one in (run, wide))
        assert len(many) - len(few) == curves
    barrier = barrier_against_transpositions([wide]).figure.axes[0]
    assert max(len(line.get_xdata()) for line in barrier.lines) == 50, "all of the published values"


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


def test_points_of_lines_over_epochs_are_means_over_pairs(tmp_path: Path) -> None:
    run = pair_run(tmp_path / "a", "pairs", [2, 6])
    of = transpositions_along_line([run]).numbers.set_index(["state", "draw", "point"])["mean"]
    assert of["as_trained", 1, 0.5] == 4
    assert of["as_trained", 2, 1.0] == 5
    assert of["aligned", 2, 0.5] == 0
    assert of["as_trained", 0, 0.0] == 0
    frame = read_frame(run.files["matches"], MATCH_SCHEMA)
    write_frame(run.files["matches"], frame[frame["point"] == 1.0].astype({"planted": "Int64"}), MATCH_SCHEMA)


def test_the_loss_surface_has_all_epochs_after_the_start(tmp_path: Path) -> None:
    drawing = loss_surface([pair_run(tmp_path / "a", "two_paths", [10, 5])])
    of = drawing.numbers.set_index(["state", "draw", "point"])["mean"]
    assert of["as_trained", 2, 0.5] == pytest.approx(0.3 + 0.75)
    assert of["aligned", 1, 0.5] == pytest.approx(0.3)
    assert set(of.index.get_level_values("draw")) == {1, 2}
    left, right = (ax.collections[0] for ax in drawing.figure.axes[:2])
    assert left.get_clim() == right.get_clim()
