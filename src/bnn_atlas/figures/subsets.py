"""Draws of chosen parameters as arrays, with the names, layers and roles under which figures show them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from bnn_atlas.files import parquet_file, read_parquet

ROWS = 1 << 20
"""Rows of the table in memory at a time."""
FIELDS = ("chain", "draw", "value")
COLUMNS = [*FIELDS, "parameter"]


class States(NamedTuple):
    """Consecutive states of a subset: chain [n], draw [n], values [n, p] of the parameters `names`."""

    names: tuple[str, ...]
    chain: np.ndarray
    draw: np.ndarray
    values: np.ndarray


class Subset(NamedTuple):
    """Draws `values` [c, s, p] of the parameters `names`, chains `chains` [c] and their draws in order."""

    names: tuple[str, ...]
    chains: np.ndarray
    values: np.ndarray
    left_out: tuple[int, ...]
    """Chains that hold a value that is not finite."""

    @property
    def remark(self) -> str:
        """What is left out, in words; empty if nothing is."""
        return left_out_remark(len(self.left_out), len(self.left_out) + len(self.chains))


def left_out_remark(count: int, total: int) -> str:
    """How many of all chains are not shown, and why; empty if all are shown."""
    return f"{count} of {total} chains left out: not finite" if count else ""


def states(path: str | Path, rows: int = ROWS) -> Iterator[States]:
    """States of a subset table in the order of the file, a bounded number at a time.

    Raises ValueError for a file that does not hold the same parameters in the same order for every draw.
    """
    names: tuple[str, ...] = ()
    rest: list[np.ndarray] = [np.empty(0)] * len(COLUMNS)
    with parquet_file(path) as source:
        if missing := [name for name in COLUMNS if name not in source.schema_arrow.names]:
            raise ValueError(f"{path}: no column {', '.join(missing)}; a subset has {', '.join(COLUMNS)}")
        for batch in source.iter_batches(batch_size=rows, columns=COLUMNS):
            chain, draw, value = (batch.column(name).to_numpy(zero_copy_only=False) for name in FIELDS)
            text = batch.column("parameter")
            coded = text if pa.types.is_dictionary(text.type) else text.dictionary_encode()
            labels = coded.dictionary.to_pylist()
            if not names:
                one = int(np.argmax((chain != chain[0]) | (draw != draw[0]))) or len(chain)
                names = tuple(labels[i] for i in coded.indices[:one].to_pylist())
            place = {name: i for i, name in enumerate(names)}
            code = np.array([place.get(name, -1) for name in labels])[coded.indices.to_numpy()]
            columns = [np.concatenate(parts) for parts in zip(rest, (chain, draw, value, code), strict=True)]
            whole = len(columns[0]) // len(names) * len(names)
            rest = [column[whole:] for column in columns]
            chain, draw, value, code = (column[:whole].reshape(-1, len(names)) for column in columns)
            if (code != np.arange(len(names))).any() or (chain != chain[:, :1]).any() or (draw != draw[:, :1]).any():
                raise ValueError(f"{path}: not every draw has {', '.join(names[:3])}, ... in this order; make it again")
            yield States(names, chain[:, 0].astype(np.int64), draw[:, 0].astype(np.int64), value)
    if len(rest[0]):
        raise ValueError(f"{path}: the last draw has {len(rest[0])} of {len(names)} parameters; make it again")


def read_subset(path: str | Path) -> Subset:
    """All draws of a subset, in order of chains and draws; chains with a value that is not finite are left out.

    Raises ValueError for a table without draws, with chains of different lengths, or with no finite chain.
    """
    parts = list(states(path))
    if not parts:
        raise ValueError(f"{path}: there are no draws; choose other parameters or a run that has finished")
    chain, draw, values = (np.concatenate([getattr(part, name) for part in parts]) for name in States._fields[1:])
    chains, lengths = np.unique(chain, return_counts=True)
    if lengths.min() != lengths.max():
        raise ValueError(f"{path}: chains have {lengths.min()} to {lengths.max()} draws, but all need the same number")
    cube = values[np.lexsort((draw, chain))].reshape(len(chains), lengths[0], -1).astype(np.float64)
    finite = np.isfinite(cube).all(axis=(1, 2))
    if not finite.any():
        raise ValueError(f"{path}: every chain holds values that are not finite; look at the run's diagnostics")
    return Subset(parts[0].names, chains[finite], cube[finite], tuple(chains[~finite].tolist()))


def locate(subset: Subset, names: tuple[str, ...], path: str | Path) -> np.ndarray:
    """Draws [c, s, k] of the parameters `names`; ValueError names those that the subset lacks."""
    if missing := [name for name in names if name not in subset.names]:
        raise ValueError(
            f"{path}: no parameter {', '.join(missing)}; it has {', '.join(subset.names[:8])}. "
            "Widen the figure's subset"
        )
    return subset.values[:, :, [subset.names.index(name) for name in names]]


_LAYER = re.compile(r"layer(\d+)\.(weight|bias)\[(\d+(?:,\d+)*)\]")


def parameter_label(name: str) -> str:
    """A scalar's name as papers write it, counting from 1: `layer0.weight[3,2]` is `W1[4,3]`, `layer0.bias[1]` `b1[2]`.

    The first index of a weight is the unit it leads to, the second the unit it comes from. Any other name is kept, with
    spaces instead of dots and underscores.
    """
    match = _LAYER.fullmatch(name)
    if match is None:
        return name.replace(".", " ").replace("_", " ")
    layer, role, indices = match.groups()
    places = ",".join(str(int(index) + 1) for index in indices.split(","))
    return f"{'W' if role == 'weight' else 'b'}{int(layer) + 1}[{places}]"


def layer_of(name: str) -> int:
    """Number of a parameter's layer, counted from 1; 0 outside the layers."""
    match = re.match(r"layer(\d+)\.", name)
    return int(match[1]) + 1 if match else 0


class NamedDraws(NamedTuple):
    """Draws `values` [c, s, p] of a subset; the rows of `parameters` describe the last axis."""

    parameters: pd.DataFrame
    """Columns parameter (as in `Layout.names`), role, label (readable) and layer (text, from 1), layer by layer.

    Weights come before biases within a layer, and parameters outside the layers last.
    """
    values: np.ndarray
    subset: Subset

    def tidy(self, places: np.ndarray) -> pd.DataFrame:
        """A row per value of the parameters at `places`, with the columns of `parameters`, chain and value."""
        c, s, _ = self.values.shape
        rows = self.parameters.iloc[np.repeat(places, c * s)].reset_index(drop=True)
        chain = np.tile(np.repeat(self.subset.chains, s), len(places))
        return rows.assign(chain=chain, value=np.moveaxis(self.values[:, :, places], 2, 0).reshape(-1))


def read_named(path: str | Path) -> NamedDraws:
    """Draws of a `subset` file without chains that are not finite, as in `read_subset`.

    Raises ValueError, naming the file, for missing columns, no draws, no finite chain, and chains of one draw.
    """
    subset = read_subset(path)
    if subset.values.shape[1] < 2:
        raise ValueError(f"{path}: chains of one draw have no density; show a run with at least 2")
    first = read_parquet(path, ["parameter", "layer", "role"]).drop_duplicates("parameter")
    order = first.astype({"parameter": "str", "role": "str"}).sort_values(
        ["layer", "role"], ascending=[True, False], na_position="last", kind="stable"
    )
    layers = ["other" if pd.isna(layer) else f"layer {int(layer) + 1}" for layer in order["layer"]]
    labels = [parameter_label(name) for name in order["parameter"]]
    parameters = order[["parameter", "role"]].assign(label=labels, layer=layers).reset_index(drop=True)
    return NamedDraws(parameters, locate(subset, tuple(parameters["parameter"]), path), subset)


def remarks(subsets: Mapping[str, Subset]) -> str:
    """What is left out of the runs, by label, in words; empty if nothing is."""
    texts = {label: subset.remark for label, subset in subsets.items() if subset.remark}
    return "; ".join(f"{label}: {remark}" if len(subsets) > 1 else remark for label, remark in texts.items())
