"""Draws that are arrays in memory, asked as those of a trace are."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.models.layout import Layout
from bnn_atlas.traces.draws import Draws, Index, positions


class ArrayDraws(Draws):
    """Draws [chain, draw, parameter] with statistics [chain, draw]; `path` is where they come from, for messages."""

    def __init__(
        self,
        path: Path,
        layout: Layout,
        draws: np.ndarray,
        statistics: Mapping[str, np.ndarray],
        chain_ids: np.ndarray,
        draw_ids: np.ndarray,
        attributes: Mapping[str, Any],
    ) -> None:
        """Raise ValueError for arrays whose shapes do not go together."""
        shape = (len(chain_ids), len(draw_ids))
        if draws.shape != (*shape, layout.size):
            raise ValueError(
                f"draws of shape {draws.shape}, but there are {shape[0]} chains, {shape[1]} draws and {layout.size} "
                "parameters"
            )
        for name, values in statistics.items():
            if values.shape != shape:
                raise ValueError(f"statistic '{name}' of shape {values.shape} beside {shape[0]} x {shape[1]} draws")
        self.path, self.layout, self.size = path, layout, layout.size
        self.chain_ids, self.draw_ids, self.dtype = chain_ids, draw_ids, draws.dtype
        self.statistics = {name: values.dtype for name, values in statistics.items()}
        self.attributes = dict(attributes)
        self.chains_per_chunk = self.draws_per_chunk = 1
        self._draws, self._statistics = draws, dict(statistics)

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""
        return tuple(self.layout.names())

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p]; see `Draws.read`."""
        columns = positions(parameters, self.size, "parameter")
        return self._draws[np.ix_(*self._places(chains, draws), columns)]

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        if name not in self._statistics:
            raise KeyError(f"{self.path} has no statistic '{name}'; it has {', '.join(self._statistics) or 'none'}")
        return self._statistics[name][np.ix_(*self._places(chains, draws))]

    def _places(self, chains: Index, draws: Index) -> tuple[np.ndarray, np.ndarray]:
        return positions(chains, self.chains, "chain"), positions(draws, self.draws, "draw")
