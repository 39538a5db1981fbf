"""Draws of a subset with the names, layers and roles under which a figure shows them."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.figures.labels import parameter_label
from bnn_atlas.figures.subsets import Subset, locate, read_subset


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
    """Draws of a `subset` file without the chains that are not finite, as `read_subset` reads them.

    Raises ValueError, naming the file, for missing columns, no draws, no finite chain, and chains of one draw.
    """
    subset = read_subset(path)
    if subset.values.shape[1] < 2:
        raise ValueError(f"{path}: chains of one draw have no density; show a run with at least 2")
    first = pd.read_parquet(path, columns=["parameter", "layer", "role"]).drop_duplicates("parameter")
    order = first.astype({"parameter": "str", "role": "str"}).sort_values(
        ["layer", "role"], ascending=[True, False], na_position="last", kind="stable"
    )
    layers = ["other" if pd.isna(layer) else f"layer {int(layer) + 1}" for layer in order["layer"]]
    labels = [parameter_label(name) for name in order["parameter"]]
    parameters = order[["parameter", "role"]].assign(label=labels, layer=layers).reset_index(drop=True)
    return NamedDraws(parameters, locate(subset, tuple(parameters["parameter"]), path), subset)


def remarks(subsets: Mapping[str, Subset]) -> str:
    """What is left out of the runs, by label, in words; empty where nothing is."""
    texts = {label: subset.remark for label, subset in subsets.items() if subset.remark}
    return "; ".join(f"{label}: {remark}" if len(subsets) > 1 else remark for label, remark in texts.items())
