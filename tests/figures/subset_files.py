"""Subset tables as the subset rule writes them, and runs with one."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bnn_atlas.figures.shown import Shown
from tests.figures.set_files import CONVERGED, Values, written


def write_subset(path: Path, names: Sequence[str], values: np.ndarray, chains: Sequence[int] | None = None) -> Path:
    """Values [c, s, p] of the named parameters as a tidy table."""
    c, s, p = values.shape
    ids = np.arange(c) if chains is None else np.array(chains)
    frame = pd.DataFrame(
        {
            "chain": np.repeat(ids, s * p),
            "draw": np.tile(np.repeat(np.arange(s), p), c),
            "parameter": pd.Categorical.from_codes(np.tile(np.arange(p), c * s), pd.Index(list(names))),
            "value": values.ravel(),
        }
    )
    frame.to_parquet(path, index=False)
    return path


def run_with_subset(folder: Path, name: str, subset: Path, own: Values = CONVERGED, **changes: Any) -> Shown:
    """A run with a subset and, in its metric table, the diagnostics `own`."""
    one = written(folder, name, own, **{"method": "hmc", "dataset": "airfoil", "task": "regression", **changes})
    return one._replace(files={**one.files, "subset": subset})


def write_draws(path: Path, values: Mapping[str, np.ndarray]) -> Path:
    """Write draws [c, s] of each named parameter; layers and roles follow from the names."""
    names = list(values)
    cube = np.stack([values[name] for name in names], axis=2).astype("float32")
    c, s, p = cube.shape
    layers = [int(found[1]) if (found := re.match(r"layer(\d+)\.", name)) else None for name in names]
    roles = [name.split(".")[1].split("[")[0] if "." in name else "scale" for name in names]
    frame = pd.DataFrame(
        {
            "chain": np.repeat(np.arange(c), s * p),
            "draw": np.tile(np.repeat(np.arange(s), p), c),
            "parameter": pd.Categorical.from_codes(np.tile(np.arange(p), c * s), pd.Index(names)),
            "layer": pd.array(layers * (c * s), "Int32"),
            "role": pd.Categorical(roles * (c * s)),
            "value": cube.reshape(-1),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path)
    return path
