"""Keras' film reviews: the published file without its pickle's power, and Keras' conventions."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.data.datasets import KerasReader
from bnn_atlas.data import DataError
from bnn_atlas.data.readers import keras_imdb
from bnn_atlas.data.readers.keras_imdb import read_lists
from tests.data import raw_files

READER = KerasReader(format="keras_npz")
TRAIN = [[5, 6, 7], [1], [], [2, 3, 4, 5, 6, 7, 8, 9], [96, 17, 16], [4, 4, 4, 4]]
TEST = [[9, 9], [1, 2, 3, 4, 5]]


def _keras(**changes: bytes) -> bytes:
    members = {
        "x_train": raw_files.object_npy(TRAIN), "y_train": raw_files.npy(np.array([1, 0, 1, 0, 1, 0])),
        "x_test": raw_files.object_npy(TEST), "y_test": raw_files.npy(np.array([0, 1])),
    }  # fmt: skip
    return raw_files.npz(members | changes)


def _flat(**changes: np.ndarray) -> bytes:
    arrays = {}
    for part, lists, labels in (("train", TRAIN, [1, 0, 1, 0, 1, 0]), ("test", TEST, [0, 1])):
        arrays[f"{part}_tokens"] = np.concatenate([*map(np.array, lists), []]).astype(np.int32)
        arrays[f"{part}_offsets"] = np.cumsum([0, *map(len, lists)])
        arrays[f"{part}_labels"] = np.array(labels, np.int8)
    return raw_files.npz({name: raw_files.npy(values) for name, values in (arrays | changes).items()})


def _damaged(place: int, value: int) -> bytes:
    """A file whose directory of members has another byte; 10 is the method, 42 the place of the first member."""
    content = bytearray(_keras())
    content[content.index(b"PK\x01\x02") + place] = value
    return bytes(content)


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "imdb.npz"
    path.write_bytes(content)
    return path


def test_both_layouts_hold_the_same_content(tmp_path: Path) -> None:
    one = keras_imdb.read(_file(tmp_path, _keras()), "keras_npz")
    two = keras_imdb.read(_file(tmp_path, _flat()), "tokens_npz")
    for part in ("train", "test"):
        for mine, theirs in zip(one[part], two[part], strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype == np.int64
    assert keras_imdb.content_hash(one) == keras_imdb.content_hash(two)
    other = _keras(y_test=raw_files.npy(np.array([1, 1])))
    assert keras_imdb.content_hash(keras_imdb.read(_file(tmp_path, other), "keras_npz")) != keras_imdb.content_hash(one)
    # The same numbers in lists of other lengths are other reviews.
    moved = _keras(x_test=raw_files.object_npy([[9, 9, 1], [2, 3, 4, 5]]))
    assert keras_imdb.content_hash(keras_imdb.read(_file(tmp_path, moved), "keras_npz")) != keras_imdb.content_hash(one)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_lists_of_every_protocol(protocol: int) -> None:
    lists = read_lists(raw_files.object_npy(TRAIN, protocol), "x")
    assert [item.tolist() for item in lists] == TRAIN
    assert all(item.dtype == np.int64 for item in lists)


class _Call:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("wrap", ["whole", "item", "number"])
def test_foreign_names_are_refused_and_never_run(tmp_path: Path, wrap: str, protocol: int) -> None:
    mark = tmp_path / "ran"
    call = _Call(Path.touch, mark)
    body: Any = {"whole": call, "item": [[1], call], "number": [[1], [2, call]]}[wrap]
    stream = pickle.dumps(body, protocol) if wrap == "whole" else None
    content = raw_files.object_npy([[1], [2]] if wrap == "whole" else body, protocol, stream=stream)
    path = _file(tmp_path, _keras(x_train=content))
    name = r"'pathlib\.(_local\.)?\w*Path'|'pathlib\.(_local\.)?Path.touch'|'(builtins|__builtin__)\.getattr'"
    with pytest.raises(DataError, match=rf"imdb\.npz: x_train\.npy: refused: the file asks for ({name})"):
        keras_imdb.read(path, "keras_npz")
    assert not mark.exists()
    assert pickle.loads(pickle.dumps([call], protocol)) == [None]
    assert mark.exists(), "the call would have worked"


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "numpy.load", "numpy.ndarray.tofile", "numpy.core.multiarray.scalar"]
)
def test_other_names_are_refused_by_name(name: str) -> None:
    module, _, function = name.rpartition(".")
    stream = f"c{module}\n{function}\n(S'x'\ntR.".encode()
    with pytest.raises(DataError, match=rf"place: refused: the file asks for '{name}'"):
        read_lists(raw_files.object_npy([[1]], stream=stream), "place")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (raw_files.object_npy([[1, 2], [3]])[:-4], "not an intact array of lists"),
        (raw_files.object_npy([[1, 2], [3]])[:50], "not an intact array of lists"),
        (b"", "not an intact array of lists"),
        (raw_files.object_npy([[1], [2]], shape=(3,)), "exactly the 3 lists"),
        (raw_files.object_npy([[1], [2]], shape=(2, 1)), "instead of one axis of lists"),
        (raw_files.object_npy([[1], [2]]) + b"x", "exactly the 2 lists"),
        (raw_files.object_npy([[1], [2]], stream=pickle.dumps([[1], [2]])), "exactly the 2 lists"),
        (raw_files.object_npy([[1], [2.5]]), "other than whole numbers"),
        (raw_files.object_npy([[1], [True]]), "other than whole numbers"),
        (raw_files.object_npy([[1], ["a"]]), "other than whole numbers"),
        (raw_files.object_npy([[1], None]), "is not a list"),
        (raw_files.object_npy([[1], [2**70]]), "not an intact array of lists"),
        (raw_files.npy(np.arange(3)), "instead of one axis of lists"),
    ],
    ids=raw_files.brief,
)
def test_damaged_lists(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"place: .*{message}"):
        read_lists(content, "place")


def test_few_bytes_cannot_ask_for_much_memory() -> None:
    # One list of a thousand numbers, a thousand times: 2 kB in the file, a million numbers.
    shared = [1] * 1000
    with pytest.raises(DataError, match="more than 1000 numbers"):
        read_lists(raw_files.object_npy([shared] * 1000), "place", limit=1000)


def test_rows_follow_keras(tmp_path: Path) -> None:
    length, words = 5, 20
    rows = keras_imdb.token_rows(keras_imdb.read(_file(tmp_path, _keras()), "keras_npz"), READER, words, length)
    # keras.datasets.imdb.load_data and keras.utils.pad_sequences, step by step.
    state = np.random.RandomState(113)
    for part, lists, labels in (("train", TRAIN, [1, 0, 1, 0, 1, 0]), ("test", TEST, [0, 1])):
        order = np.arange(len(lists))
        state.shuffle(order)
        expected = []
        for i in order:
            ids = [1] + [word + 3 for word in lists[i]]
            ids = [token if token < words else 2 for token in ids][-length:]
            expected.append([0] * (length - len(ids)) + ids)
        x, y = rows[part].x, rows[part].y
        assert x is not None
        assert y is not None
        assert x.dtype == np.int32
        assert x.tolist() == expected
        assert y.tolist() == [labels[i] for i in order]
    assert 2 in rows["train"].x  # type: ignore[operator]


@pytest.mark.parametrize(
    ("content", "layout", "message"),
    [
        (_keras()[:-30], "keras_npz", r"not an intact \.npz of reviews"),
        (_keras()[:200], "keras_npz", r"not an intact \.npz of reviews"),
        (_damaged(10, 1), "keras_npz", r"compression"),
        (_keras(), "tokens_npz", r"no item named 'train_tokens.npy'"),
        (_keras(y_test=raw_files.npy(np.array([0]))), "keras_npz", r"imdb\.npz: test: 1 labels, 2 sequences"),
        (_keras(y_test=raw_files.npy(np.array([0.0, 1.0]))), "keras_npz", r"y_test\.npy is float64"),
        (_keras(y_test=raw_files.object_npy([0, 1])), "keras_npz", r"y_test\.npy: Object arrays"),
        (_flat(train_tokens=np.full(19, -4)), "tokens_npz", r"imdb\.npz: train: row 0: word number -4 is negative"),
        (_flat(test_offsets=np.array([0, 9, 7])), "tokens_npz", r"imdb\.npz: test: 2 labels, 2 sequences and 7"),
        (_flat(test_offsets=np.array([0, 2, 8])), "tokens_npz", r"do not match"),
    ],
    ids=raw_files.brief,
)
def test_damaged_reviews(tmp_path: Path, content: bytes, layout: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        keras_imdb.read(_file(tmp_path, content), layout)
