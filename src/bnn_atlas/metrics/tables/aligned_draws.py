"""Some parameters of the draws of an alignment, with its permutations and pairs of draws, as one file."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.symmetry.frame import VARIANTS
from bnn_atlas.symmetry.groups import SymmetryError


class AlignedDraws(NamedTuple):
    """What diagnostics and figures of an alignment read."""

    names: np.ndarray
    """Names of parameters [q] that permutations move, evenly spread."""
    columns: np.ndarray
    """Their positions among all parameters [q]."""
    finite: np.ndarray
    """Which draws are finite [c, s]."""
    values: dict[str, np.ndarray]
    """Variant (`symmetry.frame.VARIANTS`) -> values of these parameters [c, s, q]; NaN where a draw is not finite."""
    groups: np.ndarray
    """Names of the groups of units [g]."""
    sizes: np.ndarray
    """Their numbers of units [g]."""
    units: np.ndarray
    """Permutations of each draw to the frame [c, s, units]."""
    fixed: bool
    """Whether the last pass of a barycentre moved no unit."""
    variances: np.ndarray
    """Mean over all permuted parameters of the variance over all draws and within chains, of each variant [4, 2]."""
    pair_chains: np.ndarray
    """Chains of pairs of draws [k, 2]."""
    pair_draws: np.ndarray
    """Their draws [k, 2]."""
    transpositions: np.ndarray
    """NoT of the permutation that brings the second near the first [k, g]."""
    consistency: np.ndarray
    """Share of units with P_ab P_bc = P_ac, of triples of draws [t, g]."""


ARRAYS = tuple(name for name in AlignedDraws._fields if name != "values")


def save_aligned_draws(path: str | Path, draws: AlignedDraws) -> None:
    """Write them (.npz, atomic)."""
    values = {f"{variant}_values": draws.values[variant] for variant in VARIANTS}
    save_arrays(path, {**{name: getattr(draws, name) for name in ARRAYS}, **values})


def load_aligned_draws(path: str | Path) -> AlignedDraws:
    """Read what `save_aligned_draws` wrote; SymmetryError for any other file."""
    names = [f"{variant}_values" for variant in VARIANTS]
    arrays = load_arrays(path, (*ARRAYS, *names), SymmetryError, "aligned draws")
    own: dict[str, Any] = {name: arrays[name] for name in ARRAYS} | {"fixed": bool(arrays["fixed"])}
    return AlignedDraws(values={variant: arrays[f"{variant}_values"] for variant in VARIANTS}, **own)
