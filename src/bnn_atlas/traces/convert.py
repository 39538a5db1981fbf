"""Traces as xarray and ArviZ objects that read from disk only what a computation needs.

Statistics that are part of ArviZ's InferenceData schema have the names of that schema. The log-likelihood of all rows
together is called `total_log_likelihood`, because ArviZ expects one value per row in `log_likelihood`.
"""

import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
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
NAMES = {
    "log_likelihood": "total_log_likelihood",
    "divergent": "diverging",
    "acceptance": "acceptance_rate",
}
"""Statistic -> its name in ArviZ; other statistics keep their name, except `gradients` of NUTS."""
Group = Mapping[str, tuple[tuple[str, ...], np.ndarray]]
"""Variable -> its dimensions and values."""


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
    """Dataset with `draws` (chain, draw, parameter) and one variable (chain, draw) per statistic, named as in ArviZ.

    The coordinates are chain numbers, draw numbers and readable parameter names. Values are loaded when used, and only
    from the chunks that hold them, even for a pool of many blocks. Attributes that are neither text nor numbers are
    stored as JSON, so that the dataset can be written as NetCDF.
    """
    draws = _variable(("chain", "draw", "parameter"), source.read, source.shape, source.dtype)
    coordinates = {**_coordinates(source), "parameter": np.array(source.parameter_names, dtype=object)}
    return xarray.Dataset({"draws": draws, **_statistics(source)}, coordinates, _attributes(source))


def to_arviz(source: "Draws", groups: Mapping[str, Group] | None = None) -> "arviz.InferenceData | xarray.DataTree":
    """InferenceData (DataTree from ArviZ 1 on) with a variable per model array in `posterior`, and `sample_stats`.

    `layer0.weight` has the dimensions chain, draw, layer0.weight.fan_out, layer0.weight.fan_in: a dataset allows one
    length per dimension name, so each array has its own names. `dense/kernel` is called `dense.kernel`, because neither
    NetCDF nor a DataTree allows slashes in names. An array that a selection keeps only in part appears as
    one variable (chain, draw) per scalar. Values are loaded lazily, as in `to_xarray`.

    In `sample_stats`, `lp` is the log-likelihood plus the log-prior, and `diverging` tells whether any step since the
    previous draw diverged. The acceptance rate and the tree depth are means over the steps since the previous draw, and
    `n_steps` is the number of leapfrog steps in them (NUTS only). `groups` are added: name -> variable -> dimensions
    and values.
    """
    with warnings.catch_warnings():
        # arviz 0.23 announces its next major version whenever it is first imported.
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
        import arviz

    variables: dict[str, xarray.Variable] = {}
    places: dict[str, list[int]] = {}
    for place, parameter in enumerate(source.arrays):
        places.setdefault(parameter.name, []).append(place)
    names = {parameter.name: _without_slashes(parameter.name) for parameter in source.layout.parameters}
    if clash := [name for name, new in names.items() if name != new and list(names.values()).count(new) > 1]:
        raise ValueError(f"{clash[0]!r} and another array are both called {names[clash[0]]!r} in ArviZ: rename one")
    for parameter in source.layout.parameters:
        stored = np.array(places.get(parameter.name, []), dtype=np.intp)
        if stored.size == parameter.size:
            variables[names[parameter.name]] = _array(source, parameter, stored)
        else:
            for place in stored:
                name = _without_slashes(source.parameter_names[place])
                variables[name] = _array(source, None, stored[stored == place])
    if groups is not None and not (
        isinstance(groups, Mapping) and all(isinstance(g, Mapping) for g in groups.values())
    ):
        raise ValueError(
            "groups must map the name of each group to variables, and each variable to (dimensions, values), such as "
            "{'observed_data': {'y': (('row',), y)}}"
        )
    coordinates, attributes = _coordinates(source), _attributes(source)
    datasets: dict[str, Any] = {
        "posterior": _dataset(variables, coordinates, attributes),
        "sample_stats": _dataset(_statistics(source), coordinates, attributes),
        **{name: _dataset(group, coordinates) for name, group in (groups or {}).items()},
    }
    if arviz.__version__.startswith("0."):
        return arviz.InferenceData(**datasets)
    return xarray.DataTree.from_dict(datasets)


def _dataset(
    group: Mapping[str, Any], coordinates: Mapping[str, np.ndarray], attributes: Mapping[str, Any] | None = None
) -> xarray.Dataset:
    """The variables, with a coordinate for every dimension: 0, 1, ... if no coordinate is given."""
    variables = {name: xarray.as_variable(values) for name, values in group.items()}
    sizes = {str(axis): size for variable in variables.values() for axis, size in variable.sizes.items()}
    along = {axis: coordinates.get(axis, np.arange(size)) for axis, size in sizes.items()}
    return xarray.Dataset(variables, along, attributes)


def _without_slashes(name: str) -> str:
    return name.replace("/", ".")


def _array(source: "Draws", parameter: Parameter | None, places: np.ndarray) -> xarray.Variable:
    """The model array (if `parameter` is None: the single scalar) stored at the positions `places`."""
    shape = parameter.shape if parameter else ()
    names = tuple(f"{_without_slashes(parameter.name)}.{axis}" for axis in _axes(parameter)) if parameter else ()
    read = partial(_read_array, source, places.reshape(shape))
    return _variable(("chain", "draw", *names), read, (source.chains, source.draws, *shape), source.dtype)


def _read_array(
    source: "Draws", places: np.ndarray, chains: np.ndarray, draws: np.ndarray, *axes: np.ndarray
) -> np.ndarray:
    wanted = places[np.ix_(*axes)] if axes else places
    return source.read(chains, draws, wanted.reshape(-1)).reshape(chains.size, draws.size, *wanted.shape)


def _read_statistic(
    source: "Draws", names: tuple[str, ...], dtype: np.dtype, chains: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    return np.sum([source.statistic(name, chains, draws) for name in names], axis=0).astype(dtype)


def _axes(parameter: Parameter) -> tuple[str, ...]:
    if parameter.shape == (parameter.fan_out, parameter.fan_in):
        return "fan_out", "fan_in"
    if parameter.shape == (parameter.fan_out,):
        return ("fan_out",)
    return tuple(f"axis{i}" for i in range(len(parameter.shape)))


def _statistics(source: "Draws") -> dict[str, xarray.Variable]:
    """The statistics under ArviZ's names, and `lp`."""

    def variable(dtype: np.dtype, *names: str) -> xarray.Variable:
        read = partial(_read_statistic, source, names, dtype)
        return _variable(("chain", "draw"), read, (source.chains, source.draws), dtype)

    kinds = dict(source.statistics)
    names = NAMES | ({"gradients": "n_steps"} if "tree_depth" in kinds else {})
    found = {
        names.get(name, name): variable(np.dtype(bool) if name == "divergent" else dtype, name)
        for name, dtype in kinds.items()
    }
    if "log_likelihood" in kinds and "log_prior" in kinds:
        found["lp"] = variable(kinds["log_likelihood"], "log_likelihood", "log_prior")
    return found


def _attributes(source: "Draws") -> dict[str, str | int | float]:
    return {
        name: value if isinstance(value, str | int | float) and not isinstance(value, bool) else json.dumps(value)
        for name, value in source.attributes.items()
    }


def _coordinates(source: "Draws") -> dict[str, np.ndarray]:
    return {"chain": source.chain_ids, "draw": source.draw_ids}


def _variable(names: tuple[str, ...], read: Reader, shape: tuple[int, ...], dtype: np.dtype) -> xarray.Variable:
    return xarray.Variable(names, indexing.LazilyIndexedArray(LazyArray(read, shape, np.dtype(dtype))))
