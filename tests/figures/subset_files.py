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
    """Values [c, s, p] of the named parameters as a tidy table; layers and roles follow from the names."""
    c, s, p = values.shape
    ids = np.arange(c) if chains is None else np.array(chains)
    parameters = np.tile(np.arange(p), c * s)
    layers = [int(found[1]) if (found := re.match(r"layer(\d+)\.", name)) else None for name in names]
    roles = [name.split(".")[1].split("[")[0] if "." in name else "scale" for name in names]
    frame = pd.DataFrame(
        {
            "chain": np.repeat(ids, s * p),
            "draw": np.tile(np.repeat(np.arange(s), p), c),
            "parameter": pd.Categorical.from_codes(parameters, pd.Index(list(names))),
            "layer": pd.array(layers, "Int32")[parameters],
            "role": pd.Categorical(roles)[parameters],
            "value": values.ravel(),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path, index=False)
    return path


def run_with_subset(folder: Path, name: str, subset: Path, own: Values = CONVERGED, **changes: Any) -> Shown:
    """A run with a subset and, in its metric table, the diagnostics `own`."""
    one = written(folder, name, own, **{"method": "hmc", "dataset": "airfoil", "task": "regression", **changes})
    return one._replace(files={**one.files, "subset": subset})


def write_draws(path: Path, values: Mapping[str, np.ndarray]) -> Path:
    """Draws [c, s] of each named parameter as a tidy table."""
    return write_subset(path, list(values), np.stack(list(values.values()), axis=2).astype("float32"))
