"""Results of an alignment that diagnostics and figures use: some parameters, permutations and pairs of draws."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.config.metrics import METRICS
from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.metrics.formulas.averages import error_of_mean
from bnn_atlas.metrics.formulas.rhat_ess import rhat
from bnn_atlas.metrics.tables.measurement import Measurement, Row, RunIdentity
from bnn_atlas.symmetry.frame import VARIANTS
from bnn_atlas.symmetry.groups import SymmetryError
from bnn_atlas.symmetry.permutation import ceiling, transpositions


class AlignedDraws(NamedTuple):
    """Arrays for diagnostics and figures of an alignment."""

    names: np.ndarray
    """[q] names of evenly spread parameters among the parameters that permutations move."""
    columns: np.ndarray
    """[q] positions of these parameters among all parameters."""
    finite: np.ndarray
    """[c, s] bool: whether each draw is finite."""
    values: dict[str, np.ndarray]
    """Variant (`symmetry.frame.VARIANTS`) -> values of these parameters [c, s, q]; NaN for draws that are not
    finite."""
    groups: np.ndarray
    """Names of the groups of units [g]."""
    sizes: np.ndarray
    """Numbers of units in the groups [g]."""
    units: np.ndarray
    """Permutations of each draw to the frame [c, s, units]."""
    fixed: bool
    """Whether the last pass of a barycentre moved no unit."""
    variances: np.ndarray
    """[4, 2] for each variant, variance of all draws and within chains; both are means over permuted parameters."""
    pair_chains: np.ndarray
    """Chains of pairs of draws [k, 2]."""
    pair_draws: np.ndarray
    """Draws of these pairs [k, 2]."""
    transpositions: np.ndarray
    """[k, g] number of transpositions (NoT) of the permutation that brings the second draw near the first."""
    consistency: np.ndarray
    """[t, g] fraction of units with P_ab P_bc = P_ac, for triples of draws."""
    gain: float | None = None
    """Share that the last pass for a barycentre added to its squared norm; None in files that do not have it."""


ARRAYS = tuple(name for name in AlignedDraws._fields if name not in ("values", "gain"))


def save_aligned_draws(path: str | Path, draws: AlignedDraws) -> None:
    """Write an .npz file (atomic)."""
    values = {f"{variant}_values": draws.values[variant] for variant in VARIANTS}
    gain = None if draws.gain is None else np.array(draws.gain)
    save_arrays(path, {**{name: getattr(draws, name) for name in ARRAYS}, "gain": gain, **values})


def load_aligned_draws(path: str | Path) -> AlignedDraws:
    """Read what `save_aligned_draws` wrote; SymmetryError for a file of a different kind."""
    names = [f"{variant}_values" for variant in VARIANTS]
    arrays = load_arrays(path, (*ARRAYS, *names), SymmetryError, "aligned draws", optional=("gain",))
    own: dict[str, Any] = {name: arrays[name] for name in ARRAYS} | {"fixed": bool(arrays["fixed"])}
    own["gain"] = float(arrays["gain"]) if "gain" in arrays else None
    return AlignedDraws(values={variant: arrays[f"{variant}_values"] for variant in VARIANTS}, **own)


FEWEST_DRAWS = 4
"""Number of draws per chain that R-hat needs."""


def alignment_rows(identity: RunIdentity, name: str, found: AlignedDraws) -> list[Row]:
    """Rows of the metric table of the alignment `name`; the column `at` has `name` or `name/variant`."""
    whole = np.asarray(found.finite.all(axis=1))
    lost = int(found.finite.size - found.finite.sum())
    missing = f"{lost:,} of {found.finite.size:,} draws are not finite and left out" if lost else ""
    measured = [
        *_convergence(name, found, whole),
        *_variances(name, found),
        *_transpositions(name, found),
        Measurement("draws_not_finite", float(lost), at=name),
        Measurement("alignment_fixed", float(found.fixed), at=name),
        *([] if found.gain is None else [Measurement("alignment_gain", found.gain, at=name)]),
    ]
    rows = []
    for m in measured:
        assert m.metric in METRICS, m.metric
        note = "; ".join(text for text in (m.note, missing) if text)
        chains = int(found.finite.any(axis=1).sum()) if m.chains is None else m.chains
        of_value = (m.metric, m.value, m.standard_error, note, m.at, m.over, m.monte_carlo_error)
        rows.append(Row(*identity, chains, found.finite.shape[1], *of_value))
    return rows


def rhats(found: AlignedDraws, variant: str) -> np.ndarray:
    """R-hat [q] of the kept parameters of a variant, over chains whose draws are all finite; NaN for constants.

    Empty if there are fewer than two such chains, or too few draws.
    """
    whole = found.finite.all(axis=1)
    if whole.sum() < 2 or found.finite.shape[1] < FEWEST_DRAWS:
        return np.zeros(0)
    return np.asarray(rhat(found.values[variant][whole].astype(np.float64)))


def _convergence(name: str, found: AlignedDraws, whole: np.ndarray) -> list[Measurement]:
    rows = []
    for variant in VARIANTS:
        values = rhats(found, variant)
        defined = values[~np.isnan(values)]
        note = f"{len(defined):,} permuted parameters, evenly spread"
        for metric, level in (("aligned_rhat_median", 0.5), ("aligned_rhat_q95", 0.95)):
            if len(defined):
                value = float(np.quantile(defined, level))
                rows.append(Measurement(metric, value, note=note, at=f"{name}/{variant}", chains=int(whole.sum())))
    return rows


def _variances(name: str, found: AlignedDraws) -> list[Measurement]:
    rows = []
    for variant, (pooled, within) in zip(VARIANTS, found.variances.tolist(), strict=True):
        for metric, value in (("aligned_variance", pooled), ("aligned_variance_within", within)):
            if np.isfinite(value):
                rows.append(Measurement(metric, value, note="mean over permuted parameters", at=f"{name}/{variant}"))
    return rows


def _transpositions(name: str, found: AlignedDraws) -> list[Measurement]:
    """NoT within and across chains and to the frame, with the ceiling; summed over groups of units."""
    rows = [Measurement("transpositions_ceiling", sum(ceiling(int(size)) for size in found.sizes), at=name)]
    within = found.pair_chains[:, 0] == found.pair_chains[:, 1]
    total = found.transpositions.sum(axis=1).astype(np.float64)
    for metric, values in (("transpositions_within", total[within]), ("transpositions_across", total[~within])):
        if len(values):
            note = f"{len(values)} random pairs of draws"
            error = error_of_mean(values)
            rows.append(Measurement(metric, float(values.mean()), error, note, at=name, over="pairs"))
    parts = np.split(found.units[found.finite], np.cumsum(found.sizes)[:-1], axis=1)
    to_frame = sum(transpositions(part) for part in parts)
    rows.append(Measurement("transpositions_to_frame", float(np.mean(to_frame)), at=name))
    if len(found.consistency):
        shares = found.consistency @ (found.sizes / found.sizes.sum())
        error = error_of_mean(shares)
        note = f"{len(shares)} random triples; permutations to the frame have 1"
        rows.append(Measurement("cycle_consistency", float(shares.mean()), error, note, at=name, over="triples"))
    return rows
