"""Names, shapes and positions of a model's parameters in one flat vector."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True)
class Parameter:
    """One array of a model.

    `role` is `weight`, `bias`, `gain` or `threshold` (of a filter response norm), or `scale` (a learned noise level);
    `layer` counts from 0 at the input and is None for parameters outside the layers. `fan_in` and `fan_out` are the
    widths that scale Glorot and He priors.
    """

    name: str
    shape: tuple[int, ...]
    role: str
    layer: int | None
    fan_in: int
    fan_out: int

    @property
    def size(self) -> int:
        """Number of scalars."""
        return prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The order of the parameters in the flat vector; each array is stored in row-major order."""

    parameters: tuple[Parameter, ...]

    @cached_property
    def size(self) -> int:
        """Number of scalars in the flat vector."""
        return sum(p.size for p in self.parameters)

    @cached_property
    def _offsets(self) -> dict[str, int]:
        starts = [0, *accumulate(p.size for p in self.parameters)]
        return {p.name: start for p, start in zip(self.parameters, starts, strict=False)}

    def offset(self, name: str) -> int:
        """Position of the first scalar of parameter `name`; KeyError lists the names of this model."""
        if name not in self._offsets:
            raise KeyError(f"no parameter '{name}' in this model; it has {', '.join(self._offsets)}")
        return self._offsets[name]

    def unflatten(self, vector: "Array") -> "dict[str, Array]":
        """Named arrays of a flat vector [..., size]; leading axes are kept."""
        return {
            p.name: vector[..., self.offset(p.name) : self.offset(p.name) + p.size].reshape(
                (*vector.shape[:-1], *p.shape)
            )
            for p in self.parameters
        }

    def flatten(self, arrays: "Mapping[str, Array]") -> "Array":
        """Flat vector [size] of named arrays; the inverse of `unflatten`."""
        # Importing JAX takes time, and reading a trace uses only the names.
        from jax import numpy as jnp

        return jnp.concatenate([jnp.ravel(arrays[p.name]) for p in self.parameters])

    def name(self, index: int) -> str:
        """Readable name of a scalar by its position in the vector, such as `layer0.weight[3,2]`."""
        for p in self.parameters:
            if index < p.size:
                place = ",".join(map(str, np.unravel_index(index, p.shape)))
                return f"{p.name}[{place}]" if p.shape else p.name
            index -= p.size
        raise IndexError(f"no scalar {index + self.size}: this model has {self.size}")

    def names(self) -> list[str]:
        """One readable name per scalar, in the order of the vector."""
        names = []
        for p in self.parameters:
            if p.shape:
                names += [f"{p.name}[{','.join(map(str, index))}]" for index in np.ndindex(*p.shape)]
            else:
                names.append(p.name)
        return names

    def select(
        self,
        names: Collection[str] | None = None,
        roles: Collection[str] | None = None,
        layers: Collection[int] | None = None,
    ) -> np.ndarray:
        """Sorted indices of the scalars that meet every given condition.

        `names` takes whole parameters (`layer0.weight`) and single scalars (`layer0.weight[3,2]`).
        Raises KeyError for a name that the model does not have.
        """
        chosen = np.zeros(self.size, dtype=bool)
        arrays = {p.name for p in self.parameters}
        scalars = {name: i for i, name in enumerate(self.names())} if names is not None else {}
        for name in names or ():
            if name in scalars:
                chosen[scalars[name]] = True
            elif name not in arrays:
                raise KeyError(f"no parameter '{name}' in this model; it has {', '.join(sorted(arrays))}")
        for p in self.parameters:
            start = self.offset(p.name)
            part = slice(start, start + p.size)
            if names is None or p.name in names:
                chosen[part] = True
            if (roles is not None and p.role not in roles) or (layers is not None and p.layer not in layers):
                chosen[part] = False
        return np.flatnonzero(chosen)

    def per_scalar(self, value: Mapping[str, float]) -> np.ndarray:
        """Vector [size] with each scalar's value, from values by parameter name."""
        return np.concatenate([np.full(p.size, value[p.name]) for p in self.parameters])

    def to_dict(self) -> list[dict[str, Any]]:
        """JSON-ready form, as in the attributes of every trace."""
        return [{**vars(p), "shape": list(p.shape)} for p in self.parameters]

    @classmethod
    def from_dict(cls, entries: list[dict[str, Any]]) -> Self:
        """The inverse of `to_dict`."""
        return cls(tuple(Parameter(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries))
