"""Film reviews as word numbers: the contents of Keras' imdb.npz, and token rows made from them."""

import hashlib
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from bnn_atlas.config.data.datasets import KerasReader
from bnn_atlas.data import DataError
from bnn_atlas.data.readers.images import Rows
from bnn_atlas.files import ZIP_DAMAGE


class Sequences(NamedTuple):
    """Sequences of different lengths, one after another, and a label for each."""

    tokens: np.ndarray
    """[total] int64."""
    offsets: np.ndarray
    """[n + 1] int64: sequence i is tokens[offsets[i] : offsets[i + 1]]."""
    labels: np.ndarray
    """[n] int64."""


def read(path: Path, layout: Literal["keras_npz", "tokens_npz"]) -> dict[str, Sequences]:
    """Training and test sequences, with the order and the word numbers of the file.

    `keras_npz`: the members x_train and x_test are object arrays of lists, y_train and y_test are labels; `tokens_npz`:
    all members are flat arrays. Raises DataError for a truncated file, contents other than numbers, and inconsistent
    lengths.
    """
    parts = {}
    try:
        with zipfile.ZipFile(path) as archive:
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
    """SHA-256 of the sequences and labels, independent of the file format.

    Hashed are, for the training part and then the test part, the number n of sequences, their n lengths, all tokens and
    the n labels, as little-endian 64-bit integers.
    """
    digest = hashlib.sha256()
    for part in ("train", "test"):
        tokens, offsets, labels = parts[part]
        for values in (np.array([len(labels)]), np.diff(offsets), tokens, labels):
            digest.update(np.ascontiguousarray(values, "<i8").data)
    return digest.hexdigest()


def token_rows(parts: dict[str, Sequences], reader: KerasReader, vocabulary: int, length: int) -> dict[str, Rows]:
    """Rows [n, length] int32, made as by `keras.datasets.imdb.load_data` and `pad_sequences`.

    One RandomState(seed) shuffles the training rows, then the test rows. A row is the start token followed by word
    number + offset for each word; an id >= vocabulary becomes the unknown token. Longer rows lose their beginning,
    shorter ones are padded with 0 at the front ("pre").
    """
    state = np.random.RandomState(reader.seed)
    rows = {}
    for part in ("train", "test"):
        tokens, offsets, labels = parts[part]
        order = np.arange(len(labels))
        state.shuffle(order)
        ends, sizes = offsets[1:][order], np.diff(offsets)[order]
        # Position j of a row holds word sizes - length + j of the review; word -1 is the start token.
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
            f"{place}: {len(labels)} labels, {len(offsets) - 1} sequences and {len(tokens)} tokens do not match; "
            "download the file again"
        )
    if (tokens < 0).any():
        first = int(np.flatnonzero(tokens < 0)[0])
        row = int(np.searchsorted(offsets, first, side="right")) - 1
        raise DataError(f"{place}: row {row}: word number {tokens[first]} is negative; download the file again")


class _Array:
    """Replaces NumPy's array class while unpickling; keeps the array's state as plain values."""

    def __init__(self) -> None:
        self.items: Any = None

    def __setstate__(self, state: Any) -> None:
        _, _, _, _, self.items = state


class _Inert:
    """Replaces NumPy's other types while unpickling; keeps nothing."""

    def __init__(self, *arguments: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


def _reconstruct(*arguments: Any) -> _Array:
    return _Array()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")


STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Inert,
    ("numpy", "dtype"): _Inert,
    ("_codecs", "encode"): _encode,
}
"""The only names that a pickle may use -> inert replacements, so that no NumPy code runs."""


DAMAGE = (
    pickle.UnpicklingError, ValueError, EOFError, TypeError, AttributeError, LookupError, OverflowError, MemoryError,
)  # fmt: skip
"""What the unpickler and numpy's header reader raise for a damaged stream."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The replacement of a name; any other name is rejected and never imported."""
        if (module, name) not in STAND_INS:
            raise DataError(f"the file asks for '{module}.{name}', which a list of numbers does not need")
        return STAND_INS[module, name]


def read_lists(content: bytes, place: str, limit: int = 10**8) -> list[np.ndarray]:
    """One int64 array per list of the one-dimensional object array in `content`, the bytes of a .npy file.

    Only array reconstruction, lists and whole numbers are allowed; any other name in the file is rejected and never
    imported. At most `limit` numbers are read. Raises a DataError whose message starts with `place`.
    """
    source = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(source)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(source)
        if len(shape) != 1 or dtype != np.dtype(object):
            raise ValueError(f"{dtype} {shape} instead of one axis of lists")
        array = _Unpickler(source).load()
        items = array.items if isinstance(array, _Array) else None
        if not isinstance(items, list) or len(items) != shape[0] or source.read(1):
            raise ValueError(f"the file should hold exactly the {shape[0]} lists that its header announces")
        if not all(isinstance(item, list) for item in items) or sum(map(len, items)) > limit:
            raise ValueError(f"an element is not a list, or there are more than {limit} numbers")
        if not all(set(map(type, item)) <= {int} for item in items):
            raise ValueError("a list holds something other than whole numbers")
        return [np.array(item, dtype=np.int64) for item in items]
    except DataError as error:
        raise DataError(f"{place}: refused: {error}; do not use this file, download it again") from error
    except DAMAGE as error:
        raise DataError(f"{place}: not an intact array of lists ({error}); download it again") from error
