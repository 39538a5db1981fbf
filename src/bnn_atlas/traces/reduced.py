"""A block of chains of which only reductions are kept: a folder in the place of its trace.

`reduced.json` describes the block; `draws.npz` has every statistic [c, S], and the draws [c, S, q] of q of the scalar
parameters. Further files in the folder are written and read by whoever reduces.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.files import load_chosen, save_arrays
from bnn_atlas.models.layout import Layout
from bnn_atlas.traces.draws import Draws, Index, positions
from bnn_atlas.traces.shard import TraceError

FORMAT = "bnn-atlas reduced trace 1"
ABOUT, DRAWS, SCALARS = "reduced.json", "draws.npz", "scalars"


class ReducedBlock(Draws):
    """The chains of one block with all statistics, and with the draws of some scalar parameters."""

    def __init__(self, path: str | Path) -> None:
        """Raise TraceError if the folder is missing or damaged."""
        self.path = Path(path)
        try:
            content = json.loads((self.path / ABOUT).read_bytes())
            stated = content["format"]
            self.layout = Layout.from_dict(content["layout"])
            self._columns = np.array(content["parameters"], dtype=np.int64)
            self.chain_ids = np.array(content["chain_ids"], dtype=np.int64)
            self.draw_ids = np.arange(content["draws"])
            self.dtype = np.dtype(content["dtype"])
            self.statistics = {name: np.dtype(kind) for name, kind in content["statistics"].items()}
            self.attributes = content["attributes"]
        except OSError as error:
            raise TraceError(f"cannot read {self.path / ABOUT}: {error.strerror or error}. {_again(path)}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{self.path / ABOUT} is damaged: {error!r}. {_again(path)}") from error
        if stated != FORMAT:
            raise TraceError(f"{path} has the format {stated!r}; this version reads {FORMAT!r}.")
        self.size = len(self._columns)
        self.chains_per_chunk = self.draws_per_chunk = 1

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""
        return tuple(self.layout.name(int(place)) for place in self._columns)

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p] of stored scalars; see `Draws.read`."""
        columns = positions(parameters, self.size, "parameter")
        return self._array(SCALARS)[np.ix_(*self._places(chains, draws), columns)]

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        if name not in self.statistics:
            raise KeyError(f"{self.path} has no statistic '{name}'; it has {', '.join(self.statistics) or 'none'}")
        return self._array(name)[np.ix_(*self._places(chains, draws))]

    def _array(self, name: str) -> np.ndarray:
        return load_chosen(self.path / DRAWS, [name], TraceError, "the draws of a reduced trace")[name]


def is_reduced(path: str | Path) -> bool:
    """Whether there is a reduced block at a path."""
    return (Path(path) / ABOUT).is_file()


def write_reduced(folder: Path, trace: Draws, columns: np.ndarray, attributes: dict[str, Any]) -> None:
    """Write the statistics of a trace, and the draws of the scalars at positions `columns`, into a folder.

    The folder gets the attributes of the trace and the further `attributes` (JSON values).
    """
    arrays = {name: trace.statistic(name) for name in trace.statistics}
    save_arrays(folder / DRAWS, {**arrays, SCALARS: trace.read(parameters=columns)}, compressed=True)
    content = {
        "format": FORMAT,
        "layout": trace.layout.to_dict(),
        "parameters": columns.tolist(),
        "chain_ids": trace.chain_ids.tolist(),
        "draws": trace.draws,
        "dtype": trace.dtype.name,
        "statistics": {name: kind.name for name, kind in trace.statistics.items()},
        "attributes": {**trace.attributes, **attributes},
    }
    (folder / ABOUT).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _again(path: str | Path) -> str:
    return f"Delete {path}, and run the job that samples this block again."
