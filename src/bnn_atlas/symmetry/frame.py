"""The result of an alignment as a file: permutations of every draw, and moments of aligned draws and of controls."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError

VARIANTS = ("sampled", "aligned", "scrambled", "chain_wise")
"""The draws as sampled; in the alignment's frame; with a random order of units for each draw; and with one permutation
per chain, to the same reference, which is the barycentre of the chains where the reference is that of the draws. If the
alignment balances scales, all four variants are balanced; if the alignment matches signs, the scrambled draws also have
random signs."""
MOMENTS = ("mean", "sd", "within_sd")
"""Moments over all draws; `within_sd` is the root of the mean variance within chains. All moments except `mean` are
float32."""


class Frame(NamedTuple):
    """Draws of a run in a common frame: signs and moments refer to units after a draw's permutation."""

    chain_ids: np.ndarray
    draw_ids: np.ndarray
    finite: np.ndarray
    """Which draws [c, s] are finite; the other draws have the identity permutation and are left out of moments."""
    units: np.ndarray
    """Permutations of each draw [c, s, units], 16 bits."""
    signs: np.ndarray
    """Signs of each draw's units [c, s, units], 8 bits; all 1 unless signs are matched."""
    chain_units: np.ndarray
    """Permutations of the control `chain_wise` [c, units]."""
    chain_signs: np.ndarray
    moments: dict[str, np.ndarray]
    """`<variant>_<moment>` [P]."""
    target: np.ndarray
    """Parameters [P] that draws were matched to (for a barycentre, the mean of the aligned draws); other alignments can
    be moved into the frame by matching to this target."""
    factor: np.ndarray
    """B [r, P], float32: B'B is the covariance of the aligned draws, or an approximation of rank r."""
    objective: np.ndarray
    """Mean inner product with the reference, or |m|^2 of a barycentre, at the start and after each pass over draws."""
    fixed: bool
    """For a barycentre, whether the last pass moved no unit; true for other references."""
    fit_mean: np.ndarray | None = None
    """Mean of each chain's fit [c, P] in the frame, for approximations that have a fitted mean."""
    fit_sd: np.ndarray | None = None
    tried: np.ndarray | None = None
    """Mean objective [orders] of the draws matched to the reference (for a barycentre, to the first draw) by each order
    of the groups; None if the groups do not depend on each other."""

    def moment(self, variant: str, name: str) -> np.ndarray:
        """One moment [P]; KeyError for a name that is not in `VARIANTS` and `MOMENTS`."""
        return self.moments[f"{variant}_{name}"]

    @property
    def gain(self) -> float:
        """Share that the last pass for a barycentre added to its squared norm; 0 for other references."""
        return 0.0 if self.fixed or len(self.objective) < 2 else float(1 - self.objective[-2] / self.objective[-1])

    @property
    def mean(self) -> np.ndarray:
        """Mean of the aligned draws [P]."""
        return self.moment("aligned", "mean")


OPTIONAL = ("fit_mean", "fit_sd", "tried")
ARRAYS = tuple(name for name in Frame._fields if name not in ("moments", "fixed", *OPTIONAL))


def save_frame(path: str | Path, frame: Frame) -> None:
    """Write a frame (.npz, atomic)."""
    arrays = {name: getattr(frame, name) for name in ARRAYS}
    more = {name: getattr(frame, name) for name in OPTIONAL}
    save_arrays(path, {**arrays, **frame.moments, "fixed": np.array(frame.fixed), **more})


def load_frame(path: str | Path, symmetry: Symmetry | None = None) -> Frame:
    """Read what `save_frame` wrote; with a symmetry, permutations are checked against it.

    Raises SymmetryError for a file that is damaged, truncated, without permutations or from a different network.
    """
    names = [f"{variant}_{moment}" for variant in VARIANTS for moment in MOMENTS]
    required = [*ARRAYS, *names, "fixed"]
    arrays = load_arrays(path, required, SymmetryError, "an alignment", optional=OPTIONAL)
    if symmetry is not None:
        for name in ("units", "chain_units"):
            symmetry.check(arrays[name], str(path))
    return Frame(
        **{name: arrays[name] for name in ARRAYS},
        moments={name: arrays[name] for name in names},
        fixed=bool(arrays["fixed"]),
        fit_mean=arrays.get("fit_mean"),
        fit_sd=arrays.get("fit_sd"),
        tried=arrays.get("tried"),
    )
