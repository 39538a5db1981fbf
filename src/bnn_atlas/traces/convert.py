"""Traces as xarray and ArviZ objects that read from disk only what a computation needs."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from bnn_atlas.models.layout import Parameter

if TYPE_CHECKING:
    import arviz

    from bnn_atlas.traces.draws import Draws

Reader = Callable[..., np.ndarray]


class LazyArray(BackendArray):
    """An array for xarray; `read` takes one array of positions per axis."""

    def __init__(self, read: Reader, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.read = read
        self.shape = shape
        self.dtype = dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._outer)

    def _outer(self, key: tuple[Any, ...]) -> np.ndarray:
        axes = [np.arange(count)[part] for count, part in zip(self.shape, key, strict=True)]
        values = self.read(*(np.atleast_1d(axis) for axis in axes))
        return values.reshape([axis.size for axis in axes if np.ndim(axis)])


def to_xarray(source: "Draws") -> xarray.Dataset:
    """Dataset with `draws` (chain, draw, parameter) and one variable (chain, draw) per statistic.

    The coordinates are chain numbers, draw numbers and readable parameter names. Values are loaded when they are used,
    and then only from the chunks that hold them, also for a pool of many blocks.
    """
    draws = _variable(("chain", "draw", "parameter"), source.read, source.shape, source.dtype)
    coordinates = {**_coordinates(source), "parameter": list(source.parameter_names)}
    return xarray.Dataset({"draws": draws, **_statistics(source)}, coordinates, dict(source.attributes))


def to_arviz(source: "Draws") -> "arviz.InferenceData":
    """InferenceData with a variable per model array in `posterior` and the statistics in `sample_stats`.

    `layer0.weight` has the dimensions chain, draw, layer0.weight.fan_out, layer0.weight.fan_in: a dataset allows one
    length per dimension name, so each array has its own names. An array that a selection keeps only in part appears as
    one variable (chain, draw) per scalar. Loaded as lazily as in `to_xarray`.
    """
    with warnings.catch_warnings():
        # arviz 0.23 announces its next major version whenever it is first imported.
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
        import arviz

    variables: dict[str, xarray.Variable] = {}
    places: dict[str, list[int]] = {}
    for place, parameter in enumerate(source.arrays):
        places.setdefault(parameter.name, []).append(place)
    for parameter in source.layout.parameters:
        stored = np.array(places.get(parameter.name, []), dtype=np.intp)
        if stored.size == parameter.size:
            variables[parameter.name] = _array(source, parameter, stored)
        else:
            for place in stored:
                variables[source.parameter_names[place]] = _array(source, None, stored[stored == place])
    coordinates, attributes = _coordinates(source), dict(source.attributes)
    return arviz.InferenceData(
        posterior=xarray.Dataset(variables, coordinates, attributes),
        sample_stats=xarray.Dataset(_statistics(source), coordinates, attributes),
    )


def _array(source: "Draws", parameter: Parameter | None, places: np.ndarray) -> xarray.Variable:
    """The model array, or for `parameter` None the single scalar, stored at `places`."""
    shape = parameter.shape if parameter else ()
    names = tuple(f"{parameter.name}.{axis}" for axis in _axes(parameter)) if parameter else ()

    def read(chains: np.ndarray, draws: np.ndarray, *axes: np.ndarray) -> np.ndarray:
        wanted = places.reshape(shape)[np.ix_(*axes)] if axes else places
        values = source.read(chains, draws, wanted.reshape(-1))
        return values.reshape(chains.size, draws.size, *(axis.size for axis in axes))

    return _variable(("chain", "draw", *names), read, (source.chains, source.draws, *shape), source.dtype)


def _axes(parameter: Parameter) -> tuple[str, ...]:
    if parameter.shape == (parameter.fan_out, parameter.fan_in):
        return "fan_out", "fan_in"
    if parameter.shape == (parameter.fan_out,):
        return ("fan_out",)
    return tuple(f"axis{i}" for i in range(len(parameter.shape)))


def _statistics(source: "Draws") -> dict[str, xarray.Variable]:
    def variable(name: str, dtype: np.dtype) -> xarray.Variable:
        def read(chains: np.ndarray, draws: np.ndarray) -> np.ndarray:
            return source.statistic(name, chains, draws)

        return _variable(("chain", "draw"), read, (source.chains, source.draws), dtype)

    return {name: variable(name, dtype) for name, dtype in source.statistics.items()}


def _coordinates(source: "Draws") -> dict[str, np.ndarray]:
    return {"chain": source.chain_ids, "draw": source.draw_ids}


def _variable(names: tuple[str, ...], read: Reader, shape: tuple[int, ...], dtype: np.dtype) -> xarray.Variable:
    return xarray.Variable(names, indexing.LazilyIndexedArray(LazyArray(read, shape, np.dtype(dtype))))
