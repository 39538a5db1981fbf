"""Check and convert arrays that users pass: a valid array is returned, or an error names the argument."""

import operator
import warnings
from collections.abc import Hashable
from datetime import date, timedelta
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from bnn_atlas.config.language.base import MOST, plural
from bnn_atlas.config.parts.posterior import CategoricalLikelihood, LikelihoodConfig
from bnn_atlas.data import DataError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from bnn_atlas.models.layout import Layout

SEEDS = 2**32
"""Seeds are whole numbers from 0 to this number - 1."""
LEVELS = 100
"""Smallest number of different values that must fit in the range of a column."""
WANTED = {
    "c": "complex numbers: pass real and imaginary parts as columns of their own",
    "V": "records: pass their fields as columns of numbers",
}
"""Kind of NumPy type -> a description of such values and what to do."""
FILL = "leave these rows out, or fill the numbers in"
"""What to do about missing numbers."""
NUMBERING = "numpy.unique(..., return_inverse=True), and further rows with the numbering used for training"
"""How to number labels."""


def rows(
    values: Any, dtype: "DTypeLike", name: str = "x", *, shape: tuple[int, ...] | None = None, vocabulary: int = 0
) -> np.ndarray:
    """Rows [n, ...] as finite floats that `dtype` can hold, or as token numbers below `vocabulary` if that is not 0.

    `shape` is the shape of one row, if known. Raises DataError.
    """
    array = _numbers(values, name)
    if shape is not None and array.shape == shape and shape != (1,):
        _refuse(name, f"is one row, but rows are [n, ...]: write numpy.reshape({name}, {(1, *shape)})")
    if array.ndim < 2:
        advice = f"write numpy.reshape({name}, (-1, 1)) for n rows of one input"
        if shape not in (None, (1,)):
            advice = f"the posterior takes rows of the shape {list(shape)}"
        _refuse(name, f"has the shape {list(array.shape)}, but rows are [n, ...]: {advice}")
    if not len(array):
        _refuse(name, "has no rows: pass at least one")
    if shape is not None and array.shape[1:] != shape:
        _refuse(
            name,
            f"has rows of the shape {list(array.shape[1:])}, but the posterior takes rows of the shape {list(shape)}",
        )
    if not array.size:
        _refuse(name, f"has the shape {list(array.shape)}, so its rows are empty: pass at least one input")
    if vocabulary:
        return _whole(array, vocabulary, name, "token numbers")
    return _floats(array, dtype, name)


def targets(
    values: Any, likelihood: LikelihoodConfig, classes: int, dtype: "DTypeLike", name: str = "y", *, count: int
) -> np.ndarray:
    """Targets [n] of n = `count` rows: finite floats that `dtype` can hold, or class numbers below `classes`.

    A column [n, 1] is accepted as [n]. If `classes` is 0, every class number is allowed. Raises DataError.
    """
    array = _numbers(values, name)
    labels = isinstance(likelihood, CategoricalLikelihood)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        advice = "one target for each row is needed, [n]"
        if labels and array.ndim == 2 and array.size and ((array == 0) | (array == 1)).all():
            advice = f"class numbers are needed, [n]: write numpy.argmax({name}, axis=1) for one column per class"
        _refuse(name, f"has the shape {list(array.shape)}: {advice}")
    if len(array) != count:
        _refuse(name, f"has {plural(len(array), 'target')} for {plural(count, 'row')}: pass one target for each row")
    if labels:
        return _whole(array, classes or MOST, name, "class numbers")
    return _floats(array, dtype, name)


def check_spread(array: np.ndarray, dtype: "DTypeLike", name: str) -> None:
    """Reject floats [n, ...] with a column whose values differ, but become nearly the same number in `dtype`.

    A column whose range is within the rounding errors of its own type counts as constant. Raises DataError; warns if
    all targets [n] are the same.
    """
    if array.ndim == 1 and len(array) > 1 and np.all(array == array[0]):
        warnings.warn(f"{name}: every row has the same target, {array[0]:g}", stacklevel=3)
    coarse, fine = np.finfo(np.dtype(dtype)), np.finfo(array.dtype)
    if fine.eps >= coarse.eps:
        return
    low, high = array.min(axis=0), array.max(axis=0)
    size, width = np.maximum(np.abs(low), np.abs(high)), high - low
    lost = (width > LEVELS * fine.eps * size) & (width < LEVELS * (float(coarse.eps) * size + float(coarse.tiny)))
    if lost.any():
        place = tuple(np.argwhere(lost)[0])
        column = f" in column {place[0]}" if place else ""
        _refuse(
            name,
            f"goes from {low[place]:.10g} to {high[place]:.10g}{column}, and {np.dtype(dtype)} holds fewer than "
            f"{LEVELS} numbers in between: subtract the mean and divide by the standard deviation first",
        )


def check_order(x: Any, y: Any, rows: str = "x", name: str = "y") -> None:
    """Warn about two pandas objects whose indexes share labels but are not the same."""
    if not all(callable(getattr(getattr(one, "index", None), "equals", None)) for one in (x, y)):
        return
    if len(x) != len(y) or x.index.equals(y.index):
        return
    try:
        ours, theirs = set(x.index), set(y.index)
    except TypeError:  # labels that have no hash
        return
    if ours == theirs and len(ours) == len(x):
        told = f"has another order than that of {rows}, and rows go by place: pass {name}.loc[{rows}.index]"
    elif ours & theirs:
        told = f"has other labels than that of {rows}, and rows go by place: pass {name}.to_numpy() if that is meant"
    else:
        return
    warnings.warn(f"{name}: its index {told}", stacklevel=3)


def column_names(values: Any) -> tuple[Hashable, ...]:
    """Column names of a pandas data frame; empty for any other object."""
    columns: Any = getattr(values, "columns", None)
    return tuple(columns) if hasattr(columns, "equals") else ()


def check_columns(values: Any, wanted: tuple[Hashable, ...], name: str) -> None:
    """Raise DataError for a frame that has some of the columns `wanted`, but not all of them in the same order."""
    found = column_names(values)
    if found != wanted and not set(wanted).isdisjoint(found):
        _refuse(
            name,
            f"has the columns {_short([*found])}, and the rows of the posterior have {_short([*wanted])}: pass these "
            f"columns in this order, or {name}.to_numpy() to go by place",
        )


def classes_in(labels: np.ndarray, given: int = 0, name: str = "y") -> int:
    """Number of classes: `given`, or the largest label + 1 if `given` is 0; warns about suspicious labels.

    Raises DataError if there are more classes than rows, unless the number of classes is given.
    """
    present = np.unique(labels)
    found = given or int(present[-1]) + 1
    if found == 1:
        _refuse(name, "has one class, 0, which leaves nothing to learn: pass `classes` (2 or more) if there are others")
    if not given and found > len(labels):
        _refuse(
            name,
            f"has labels up to {present[-1]} in {plural(len(labels), 'row')}: number its classes 0, 1, 2, ... with "
            "numpy.unique(..., return_inverse=True), or pass `classes`",
        )
    told = ""
    if present[0] == 1 and len(present) == found - 1:
        told = f"no row has the class 0; labels count from 0, so subtract 1 if these go from 1 to {found - 1}"
    elif len(present) == len(labels) > 2:
        told = "every row has a class of its own; if these are numbers, not classes, take a likelihood for regression"
    elif len(present) == 1 and not given:
        told = f"every row has the class {present[0]}; pass `classes` if there are others"
    elif not given and (absent := found - len(present)):
        told = f"{absent} of {found} classes never occur; labels count from 0 without gaps"
    if told:
        warnings.warn(f"{name}: {told}", stacklevel=3)
    return found


def seed(value: Any, name: str = "seed") -> int:
    """A seed: a whole number from 0 to 2^32 - 1. Raises DataError."""
    return count(value, name, 0, SEEDS - 1)


def count(value: Any, name: str, least: int, most: int) -> int:
    """A whole number from `least` to `most`. Raises DataError."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        _refuse(name, f"is {_short(value)}, but a whole number from {least} to {most} is needed")
    return found


def vectors(values: Any, size: int, name: str = "theta") -> Any:
    """Parameter vectors [..., P] of any real numbers, P = `size`; arrays of JAX stay what they are.

    Raises DataError.
    """
    import jax

    array = values if isinstance(values, jax.Array) else _numbers(values, name)
    if not array.ndim or array.shape[-1] != size:
        _refuse(
            name,
            f"has the shape {list(array.shape)}, but the last axis has to hold all of the {plural(size, 'parameter')}",
        )
    return array


def switch(value: Any, name: str) -> bool | None:
    """True, False or None. Raises DataError."""
    if not (value is None or isinstance(value, bool)):
        _refuse(name, f"is {_short(value)}, but True, False or None is needed")
    return value


def starts(values: Any, layout: "Layout", dtype: "DTypeLike", name: str = "starts") -> np.ndarray:
    """Starting points [chain, P] for a network with this layout, as finite floats in `dtype`; else DataError."""
    array = _numbers(values, name)
    if array.ndim != 2 or array.shape[1] != layout.size or not len(array):
        one = array.ndim == 1 and array.shape == (layout.size,)
        advice = f"write numpy.reshape({name}, (1, -1)) for one chain" if one else "`starting_points` makes such arrays"
        _refuse(
            name,
            f"has the shape {list(array.shape)}, but one row of {layout.size} parameters for each chain is "
            f"needed, [chain, {layout.size}]: {advice}",
        )
    return _floats(array, dtype, name, "pass finite numbers, such as those of `starting_points`")


def _numbers(values: Any, name: str) -> np.ndarray:
    """Any array, list or data frame of real numbers as an array."""
    if _masked(values):
        where = "is" if isinstance(values, np.ma.MaskedArray) else "holds"
        _refuse(name, f"{where} a masked array: leave the masked rows out, or fill them, and pass a plain array")
    try:
        array = np.asarray(values)
    except Exception as error:  # whatever the type of `values` raises
        why = str(error).partition("\n")[0]
        raise DataError(f"{name} cannot be made an array ({why}): pass rows of equal length") from None
    if array.dtype.kind == "O" and hasattr(values, "to_numpy"):
        array = _of_frame(values, name).reshape(array.shape)
    if array.dtype.str[1:] == "f2" or (array.dtype.kind == "V" and np.can_cast(array.dtype, np.float32)):
        array = array.astype(np.float32)  # short floats, also those of JAX, such as bfloat16
    if array.dtype.kind == "O" and array.ndim == 0:
        _refuse(name, f"is a {type(values).__name__}: pass an array, a list or a data frame of numbers")
    if array.dtype.kind not in "biuf":
        _refuse(name, f"holds {WANTED.get(array.dtype.kind) or _unfit(array, name)}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _masked(values: Any) -> bool:
    """Whether values are masked, or contain masked values in a list or an array of objects."""
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.is_masked(values))
    within = getattr(getattr(values, "dtype", None), "kind", "") == "O" and isinstance(values, np.ndarray)
    return (within or isinstance(values, list | tuple)) and any(map(_masked, values))


def _unfit(array: np.ndarray, name: str) -> str:
    """Description of dates, times, text or objects, and advice on how to turn them into numbers."""
    kinds = {type(one) for one in array.flat} or {array.dtype.type}
    times = array.dtype.kind in "mM"
    missing = np.isnat(array) if times else np.reshape([one is None for one in array.flat], array.shape)
    if missing.any():
        return f"{'NaT' if times else 'None'} (the first at {_first(missing)}): {FILL}"
    first = "turn them into numbers first, such as days:"
    if all(issubclass(one, date | np.datetime64) for one in kinds):
        since = f"numpy.asarray({name}, 'M8[s]') - numpy.datetime64('2000-01-01')"
        return f"dates: {first} ({since}) / numpy.timedelta64(1, 'D')"
    if all(issubclass(one, timedelta | np.timedelta64) for one in kinds):
        return f"time differences: {first} numpy.asarray({name}, 'm8[s]') / numpy.timedelta64(1, 'D')"
    what = "text" if all(issubclass(one, str | bytes) for one in kinds) else "objects"
    try:
        array.astype(float)
    except (TypeError, ValueError):
        return f"{what} instead of numbers: number words with {NUMBERING}"
    return f"{what}: pass numpy.asarray({name}).astype(float)"


def _of_frame(values: Any, name: str) -> np.ndarray:
    """The numbers of a pandas frame or series whose columns have different types; missing numbers are NaN."""
    import pandas as pd

    frame = pd.DataFrame(values)
    for place, (column, kind) in enumerate(frame.dtypes.items()):
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
            cells = frame.iloc[:, place]
            objects = cells.astype(object).where(cells.notna(), None).to_numpy()
            where, code = "", name
            if isinstance(values, pd.DataFrame):
                where, code = f" in column {column!r}", f"{name}[{column!r}]"
            what = WANTED["c"] if pd.api.types.is_complex_dtype(kind) else _unfit(objects, code)
            _refuse(name, f"has the type '{kind}'{where}, which holds {what}")
    return frame.to_numpy(np.float64, na_value=np.nan)


def _floats(array: np.ndarray, dtype: "DTypeLike", name: str, advice: str = FILL) -> np.ndarray:
    """Floats that are finite in `dtype`, unchanged; float64 for whole numbers and for longer floats."""
    if (bad := ~np.isfinite(array)).any():
        _refuse(name, f"has numbers that are not finite ({int(bad.sum())}, the first at {_first(bad)}): {advice}")
    limit = np.finfo(np.dtype(dtype)).max
    if (bad := np.abs(array) > limit).any():
        _refuse(
            name, f"has {array[bad][0]:.3g} at {_first(bad)}, and {np.dtype(dtype)} ends at {limit:.3g}: scale it first"
        )
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _whole(array: np.ndarray, below: int, name: str, what: str) -> np.ndarray:
    """Whole numbers from 0 to `below` - 1, as int64."""
    bad = (array < 0) | (array >= below)
    if array.dtype.kind == "f":
        bad |= ~np.isfinite(array) | (array != np.floor(array))
    if bad.any():
        allowed = "0, 1, 2, ..." if below == MOST else f"from 0 to {below - 1}"
        advice = f"number them with {NUMBERING}"
        if not np.isfinite(array[bad][0]):
            advice = FILL
        elif what == "class numbers" and 2 * len(np.unique(array)) > len(array) > 2:
            advice = "take a likelihood for regression if these are not classes; otherwise " + advice
        elif array[bad][0] >= below < MOST:
            advice = "use the numbering used for training; if there are more, say how many when building the posterior"
        _refuse(name, f"has {array[bad][0]} at {_first(bad)}, but {what} {allowed} are needed: {advice}")
    return array.astype(np.int64)


def _refuse(name: str, problem: str) -> NoReturn:
    raise DataError(f"{name} {problem}")


def _first(where: np.ndarray) -> list[int]:
    return [int(place) for place in np.argwhere(where)[0]]


def _short(value: Any) -> str:
    shape = getattr(value, "shape", ())
    return f"an array of {prod(shape)} numbers" if shape else f"{value!r:.80}".partition("\n")[0]
