"""Lists of whole numbers from an object array in .npy, without the power of the format it is stored in."""

import io
import pickle
from typing import Any

import numpy as np

from bnn_atlas.data.errors import DataError


class _Array:
    """Stands for the array that the file describes; keeps its state as plain values."""

    def __init__(self) -> None:
        self.items: Any = None

    def __setstate__(self, state: Any) -> None:
        _, _, _, _, self.items = state


class _Inert:
    """Stands for numpy's array and element types; keeps nothing."""

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
"""The only names that a file may use, and the inert ones that they become here: nothing of numpy's is called."""


DAMAGE = (
    pickle.UnpicklingError, ValueError, EOFError, TypeError, AttributeError, LookupError, OverflowError, MemoryError,
)  # fmt: skip
"""What the unpickler and numpy's header reader raise for a damaged stream."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A stand-in; anything else is refused before it is imported."""
        if (module, name) not in STAND_INS:
            raise DataError(f"the file asks for '{module}.{name}', which a list of numbers does not need")
        return STAND_INS[module, name]


def read_lists(content: bytes, place: str, limit: int = 10**8) -> list[np.ndarray]:
    """One int64 array per list of the one-dimensional object array in `content`, the bytes of a .npy file.

    Only array reconstruction, lists and whole numbers are allowed; every other name that the file asks for is
    refused by that name and never imported. At most `limit` numbers are taken. Raises DataError that starts with
    `place`.
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
            raise ValueError(f"it does not hold the {shape[0]} lists that its header promises, and nothing else")
        if not all(isinstance(item, list) for item in items) or sum(map(len, items)) > limit:
            raise ValueError(f"something in it is not a list, or there are more than {limit} numbers")
        if not all(set(map(type, item)) <= {int} for item in items):
            raise ValueError("a list holds something other than whole numbers")
        return [np.array(item, dtype=np.int64) for item in items]
    except DataError as error:
        raise DataError(f"{place}: refused: {error}; do not use this file, download it again") from error
    except DAMAGE as error:
        raise DataError(f"{place}: not an intact array of lists ({error}); download it again") from error
