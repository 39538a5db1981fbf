"""Files of arrays: what is written comes back, and any damage is one readable error, for every reader."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bnn_atlas.data import DataError, dataset, published_predictions, splitting
from bnn_atlas.data.dataset import Dataset
from bnn_atlas.data.published_predictions import Predictions
from bnn_atlas.data.split_data import Split
from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.metrics.gathering import summary as summaries
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.metrics.tables.arrays import (
    FunctionDraws,
    FunctionsError,
    SurfaceError,
    Surfaces,
    load_functions,
    load_surfaces,
    save_functions,
    save_surfaces,
)
from bnn_atlas.metrics.tables.measurement import PredictionError
from bnn_atlas.traces.grids import BivariateGrids
from bnn_atlas.traces.shard import TraceError

ROWS = Dataset(np.arange(12.0).reshape(6, 2), np.arange(6.0), ("a", "b"), "y", "regression", (), "table")
NOTHING = np.empty(0, dtype=np.int64)


class Kind(NamedTuple):
    """A kind of file: how it is written and read, and what a damaged one raises."""

    save: Callable[[Path], None]
    load: Callable[[Path], Any]
    error: type[Exception]


def _split(path: Path) -> None:
    splitting.save_split(path, ROWS, Split(np.arange(4), np.array([4]), np.array([5])))


def _load_split(path: Path) -> Any:
    dataset.save(path.with_name("rows.npz"), ROWS)
    found = splitting.load_split(path.with_name("rows.npz"), path)
    return found.split, found.x_mean, found.x_scale, found.y_mean, found.y_scale


def _grids(path: Path) -> None:
    zero = np.zeros(1, dtype=np.int64)
    BivariateGrids(("a",), ("b",), np.zeros((1, 2, 2)), np.ones((1, 3, 3), np.int64), zero, zero, 9).save(path)


def _summary(path: Path) -> None:
    no, counts = np.zeros(2, bool), np.array([1, 3])
    summaries.save(path, PredictiveSummary(3, no, no, counts, np.zeros((2, 3, 0)), NOTHING, NOTHING))


def _functions(path: Path) -> None:
    values = np.ones((1, 2, 3), np.float32)
    save_functions(
        path, FunctionDraws(np.zeros((3, 1)), np.array([0]), np.arange(2), np.zeros((1, 2), bool), values, values)
    )


def _surfaces(path: Path) -> None:
    lines, grid, points = np.ones((1, 4)), np.ones((1, 4, 4)), np.ones((1, 3))
    texts = np.array(["a"]), np.array([["x", "y", "z"]])
    save_surfaces(
        path, Surfaces(texts[0], lines, lines, grid, grid, texts[1], np.ones((1, 3, 2)), points, points, np.array(1.0))
    )


KINDS = {
    "arrays": Kind(
        lambda path: save_arrays(path, {"members": np.arange(2), "parameters": np.ones((2, 3))}),
        lambda path: load_arrays(path, ("members", "parameters"), DataError, "a warm start"),
        DataError,
    ),
    "dataset": Kind(lambda path: dataset.save(path, ROWS), dataset.load, DataError),
    "split": Kind(_split, _load_split, DataError),
    "predictions": Kind(
        lambda path: published_predictions.save_predictions(
            path, Predictions(np.full((2, 2), 0.5, np.float32), "x", ("a", "b"))
        ),
        published_predictions.load_predictions,
        DataError,
    ),
    "summary": Kind(_summary, summaries.load, PredictionError),
    "functions": Kind(_functions, load_functions, FunctionsError),
    "surfaces": Kind(_surfaces, load_surfaces, SurfaceError),
    "grids": Kind(_grids, BivariateGrids.load, TraceError),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def same(one: Any, other: Any) -> bool:
    """Whether two records hold the same arrays."""
    fields = [list(vars(value).values()) if hasattr(value, "__dict__") else list(value) for value in (one, other)]
    if isinstance(one, dict):
        fields = [list(one.values()), list(other.values())]
    pairs = zip(*fields, strict=True)
    return all(same(a, b) if isinstance(a, tuple) and a else np.array_equal(a, b) for a, b in pairs)


@every_kind
def test_what_is_written_comes_back_and_has_the_same_bytes(kind: Kind, tmp_path: Path) -> None:
    for name in "ab":
        kind.save(tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert same(kind.load(tmp_path / "a.npz"), kind.load(tmp_path / "b.npz"))
    with pytest.raises(FileNotFoundError):
        kind.load(tmp_path / "missing.npz")


@every_kind
@pytest.mark.parametrize("damage", ["empty", "text", "first half", "no end", "pickle", "other arrays", "none"])
def test_a_damaged_file_is_named(kind: Kind, damage: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.npz"
    kind.save(path)
    content = path.read_bytes()
    changed = {
        "empty": b"",
        "text": b"not an archive",
        "first half": content[: len(content) // 2],
        "no end": content[:-10],
    }
    if damage in changed:
        path.write_bytes(changed[damage])
    elif damage == "pickle":
        with path.open("wb") as file:
            np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif damage == "other arrays":
        np.savez(path, theta=np.zeros(3))
    else:
        np.savez(path)
    with pytest.raises(kind.error, match=r"odd\.npz: not .*delete it and make it again"):
        kind.load(path)


@every_kind
def test_a_flipped_bit_is_an_error_or_changes_nothing(kind: Kind, tmp_path: Path) -> None:
    """Every 11th byte of the file, and another of its bits each time."""
    path = tmp_path / "odd.npz"
    kind.save(path)
    content, expected, messages = path.read_bytes(), kind.load(path), []
    for place in range(0, len(content), 11):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            found = kind.load(path)
        except kind.error as error:
            messages.append(str(error))
        else:
            assert same(found, expected), f"byte {place}"
    assert len(messages) > len(content) // 11 / 4
    assert all("odd.npz" in message for message in messages)


def test_objects_are_neither_written_nor_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        save_arrays(tmp_path / "a.npz", {"a": np.array([{}], dtype=object)})
    assert not list(tmp_path.iterdir())
    np.savez(tmp_path / "b.npz", a=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"b\.npz: not a thing"):
        load_arrays(tmp_path / "b.npz", ["a"], DataError, "a thing")


def test_further_arrays_are_refused_unless_allowed(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", {"a": 1.0, "b": [1, 2], "c": None})
    assert load_arrays(tmp_path / "a.npz", ["a"], DataError, "a thing", ["b", "c"]).keys() == {"a", "b"}
    assert load_arrays(tmp_path / "a.npz", ["a"], DataError, "a thing", None).keys() == {"a", "b"}
    with pytest.raises(DataError, match=r"not a thing \(missing: x; unknown: b\)"):
        load_arrays(tmp_path / "a.npz", ["a", "x"], DataError, "a thing")
