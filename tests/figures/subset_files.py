"""Subset tables as the subset rule writes them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd


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
