"""Film reviews as word numbers: the content of Keras' imdb.npz, and token rows made from it."""

import hashlib
import zipfile
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bnn_atlas.config.datasets import KerasReader
from bnn_atlas.data.archives import refuse_odd
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.readers.object_arrays import read_lists
from bnn_atlas.data.readers.rows import Rows
from bnn_atlas.files import ZIP_DAMAGE


class Sequences(NamedTuple):
    """Sequences of several lengths, one after another, and a label for each."""

    tokens: np.ndarray
    """[total] int64."""
    offsets: np.ndarray
    """[n + 1] int64: sequence i is tokens[offsets[i] : offsets[i + 1]]."""
    labels: np.ndarray
    """[n] int64."""


def read(path: Path, layout: Literal["keras_npz", "tokens_npz"]) -> dict[str, Sequences]:
    """Training and test sequences in the file's order, word numbers as in the file.

    `keras_npz`: members x_train and x_test are object arrays of lists, y_train and y_test labels; `tokens_npz`: flat
    arrays. Raises DataError for a truncated file, for one that holds anything but numbers, and for wrong lengths.
    """
    parts = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                refuse_odd(member, str(path))
            for part in ("train", "test"):
                if layout == "keras_npz":
                    lists = read_lists(archive.read(f"x_{part}.npy"), f"{path}: x_{part}.npy")
                    labels = _numbers(path, archive, f"y_{part}")
                    offsets = np.cumsum([0, *map(len, lists)])
                    tokens = np.concatenate([*lists, np.empty(0, np.int64)])
                else:
                    tokens, offsets, labels = (
                        _numbers(path, archive, f"{part}_{name}") for name in ("tokens", "offsets", "labels")
                    )
                parts[part] = Sequences(tokens, offsets.astype(np.int64), labels)
    except DataError:
        raise
    except ZIP_DAMAGE as error:
        raise DataError(
            f"{path}: not an intact .npz of reviews ({error}): it is truncated or altered; download it again"
        ) from error
    for part, sequences in parts.items():
        _check(sequences, f"{path}: {part}")
    return parts


def content_hash(parts: dict[str, Sequences]) -> str:
    """SHA-256 of the sequences and labels, whatever file they come from.

    For the training, then the test part: the number n of sequences, their n lengths, all tokens, the n labels, as
    little-endian 64-bit integers.
    """
    digest = hashlib.sha256()
    for part in ("train", "test"):
        tokens, offsets, labels = parts[part]
        for values in (np.array([len(labels)]), np.diff(offsets), tokens, labels):
            digest.update(np.ascontiguousarray(values, "<i8").data)
    return digest.hexdigest()


def token_rows(parts: dict[str, Sequences], reader: KerasReader, vocabulary: int, length: int) -> dict[str, Rows]:
    """Rows [n, length] int32 as `keras.datasets.imdb.load_data` and `pad_sequences` make them.

    One RandomState(seed) shuffles the training rows, then the test rows. A row is the start token and the word
    numbers + offset, where an id >= vocabulary becomes the unknown token; longer rows lose their beginning, shorter
    ones are padded with 0 in front ("pre").
    """
    state = np.random.RandomState(reader.seed)
    rows = {}
    for part in ("train", "test"):
        tokens, offsets, labels = parts[part]
        order = np.arange(len(labels))
        state.shuffle(order)
        ends, sizes = offsets[1:][order], np.diff(offsets)[order]
        # Place j of a row holds word number sizes - length + j of the review; number -1 is the start token.
        words = sizes[:, None] - length + np.arange(length)
        places = np.maximum(ends[:, None] - length + np.arange(length), 0)
        ids = (tokens[places] if len(tokens) else np.zeros_like(words)) + reader.offset
        ids[ids >= vocabulary] = reader.unknown
        ids[words == -1] = reader.start
        ids[words < -1] = 0
        rows[part] = Rows(x=ids.astype(np.int32), y=labels[order])
    return rows


def _numbers(path: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array of whole numbers with one axis, as int64."""
    with archive.open(f"{name}.npy") as handle:
        try:
            values = np.lib.format.read_array(handle, allow_pickle=False)
        except ValueError as error:
            raise DataError(f"{path}: {name}.npy: {error}; download it again") from error
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(f"{path}: {name}.npy is {values.dtype} {values.shape}; one axis of whole numbers is expected")
    return values.astype(np.int64)


def _check(sequences: Sequences, place: str) -> None:
    tokens, offsets, labels = sequences
    if len(offsets) != len(labels) + 1 or offsets[0] != 0 or offsets[-1] != len(tokens) or (np.diff(offsets) < 0).any():
        raise DataError(
            f"{place}: {len(labels)} labels, {len(offsets) - 1} sequences and {len(tokens)} tokens do not fit together"
        )
    if (tokens < 0).any():
        first = int(np.flatnonzero(tokens < 0)[0])
        row = int(np.searchsorted(offsets, first, side="right")) - 1
        raise DataError(f"{place}: row {row}: word number {tokens[first]} is negative")
