"""The result of an alignment as a file: permutations of every draw, moments in the common frame and of controls."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError

VARIANTS = ("sampled", "aligned", "scrambled", "chain_wise")
"""The draws as they are, in the alignment's frame, with units in a random order of each draw's own, and with one
permutation for each chain, to the barycentre of the chains. Where the alignment balances scales, all four are balanced;
where it matches signs, those of the scrambled draws are random too."""
MOMENTS = ("mean", "sd", "within_sd")
"""Over all draws; `within_sd` is the root of the mean variance of a chain. In float32, but `mean` in float64."""


class Frame(NamedTuple):
    """Draws of a run in a common frame; units of a draw are those that it has after its permutation."""

    chain_ids: np.ndarray
    draw_ids: np.ndarray
    finite: np.ndarray
    """Which draws [c, s] are finite; the others have the identity and are in no moment."""
    units: np.ndarray
    """Permutations of each draw [c, s, units], 16 bits."""
    signs: np.ndarray
    """Signs of each draw's units [c, s, units], 8 bits: all 1 unless signs are matched."""
    chain_units: np.ndarray
    """The control `chain_wise` [c, units]."""
    chain_signs: np.ndarray
    moments: dict[str, np.ndarray]
    """`<variant>_<moment>` [P]."""
    target: np.ndarray
    """Parameters [P] that draws were matched to, the mean of the aligned draws for a barycentre: other alignments can
    take over the frame by it."""
    factor: np.ndarray
    """B [r, P], float32: B'B is the covariance of the aligned draws, or its part of rank r."""
    objective: np.ndarray
    """Mean inner product with the reference, or |m|^2 of a barycentre, at the start and after each pass over draws."""
    fixed: bool
    """Whether the last pass moved no unit, for a barycentre; true for other references."""
    fit_mean: np.ndarray | None = None
    """Mean of the fit of each chain [c, P] in the frame, of an approximation that has one."""
    fit_sd: np.ndarray | None = None

    def moment(self, variant: str, name: str) -> np.ndarray:
        """One moment [P]; KeyError for a name that is not in `VARIANTS` and `MOMENTS`."""
        return self.moments[f"{variant}_{name}"]

    @property
    def mean(self) -> np.ndarray:
        """Mean of the aligned draws [P]."""
        return self.moment("aligned", "mean")


ARRAYS = tuple(name for name in Frame._fields if name not in ("moments", "fixed", "fit_mean", "fit_sd"))


def save_frame(path: str | Path, frame: Frame) -> None:
    """Write a frame (.npz, atomic)."""
    arrays = {name: getattr(frame, name) for name in ARRAYS}
    fits = {"fit_mean": frame.fit_mean, "fit_sd": frame.fit_sd}
    save_arrays(path, {**arrays, **frame.moments, "fixed": np.array(frame.fixed), **fits})


def load_frame(path: str | Path, symmetry: Symmetry | None = None) -> Frame:
    """Read what `save_frame` wrote; with a symmetry, permutations are checked against it.

    Raises SymmetryError for a file that is damaged, truncated, of another network or without permutations.
    """
    names = [f"{variant}_{moment}" for variant in VARIANTS for moment in MOMENTS]
    required = [*ARRAYS, *names, "fixed"]
    arrays = load_arrays(path, required, SymmetryError, "an alignment", optional=("fit_mean", "fit_sd"))
    if symmetry is not None:
        for name in ("units", "chain_units"):
            symmetry.check(arrays[name], str(path))
    return Frame(
        **{name: arrays[name] for name in ARRAYS},
        moments={name: arrays[name] for name in names},
        fixed=bool(arrays["fixed"]),
        fit_mean=arrays.get("fit_mean"),
        fit_sd=arrays.get("fit_sd"),
    )
