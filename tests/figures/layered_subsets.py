"""Subsets with layers and roles, as the subset rule writes them."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd


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
