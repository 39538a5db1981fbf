"""Limits of histograms."""

from collections.abc import Mapping, Sequence

import numpy as np

from bnn_atlas.traces.draws import Draws

SCAN_BYTES = 32 << 20
QUANTILE, QUANTILE_DRAWS = 0.001, 100_000

Limits = tuple[float, float] | Mapping[str, tuple[float, float]] | None


def automatic_limits(
    source: Draws,
    parameters: Sequence[str],
    *,
    chains: slice | None = None,
    draws: slice | None = None,
    max_bytes: int = SCAN_BYTES,
) -> dict[str, tuple[float, float]]:
    """Limits per scalar from one pass over the finite draws.

    They are the quantiles `QUANTILE` and 1 - `QUANTILE`, which a single stray chain does not drive far out; of more
    than `QUANTILE_DRAWS` draws, of that many evenly spaced ones at most (of each chain at least one). Limits that are
    equal up to rounding are moved apart by 0.5 each way. Raises ValueError for a scalar without finite draws.
    """
    columns = source.locate(parameters)
    chain_idx, draw_idx = range(source.chains)[chains or slice(None)], range(source.draws)[draws or slice(None)]
    if draw_idx:
        per_chain = max(1, QUANTILE_DRAWS // max(1, len(chain_idx)))
        draw_idx = draw_idx[:: -(-len(draw_idx) // per_chain)]
    part = slice(draw_idx.start, draw_idx.stop, draw_idx.step)
    kept = np.empty((len(columns), len(chain_idx) * len(draw_idx)), dtype=source.dtype)
    seen = 0
    for _, _, values in source.batches(max_bytes, chains=chains, draws=part, parameters=columns):
        flat = values.reshape(-1, len(columns))
        kept[:, seen : seen + len(flat)] = flat.T
        seen += len(flat)
    limits = {}
    for i, name in enumerate(parameters):
        finite_draws = kept[i, np.isfinite(kept[i])].astype(np.float64)
        if not finite_draws.size:
            raise ValueError(f"{source.path} has no finite draw of {name}, so it has no limits; give them")
        bounds = np.quantile(finite_draws, [QUANTILE, 1 - QUANTILE])
        spread = 0.5 * (bounds[1] - bounds[0] <= 1e-12 * np.abs(bounds).max())
        limits[name] = (float(bounds[0] - spread), float(bounds[1] + spread))
    return limits


def resolve_limits(
    source: Draws,
    names: tuple[str, ...],
    limits: Limits,
    bins: int,
    chains: slice | None,
    draws: slice | None,
    max_bytes: int,
) -> np.ndarray:
    """Limits [name, 2] from one (low, high) for all, one per name, or None for automatic ones; checked."""
    if limits is None:
        limits = automatic_limits(source, names, chains=chains, draws=draws, max_bytes=max_bytes)
    if isinstance(limits, Mapping):
        absent = [name for name in names if name not in limits]
        if absent:
            raise ValueError(f"no limits are given for {absent[0]}; they are given for {', '.join(limits)}")
        chosen = np.array([limits[name] for name in names], dtype=np.float64)
    else:
        chosen = np.array([limits] * len(names), dtype=np.float64)
    for name, (low, high) in zip(names, chosen.tolist(), strict=True):
        if not (np.isfinite([low, high, high - low]).all() and (np.diff(np.linspace(low, high, bins + 1)) > 0).all()):
            raise ValueError(
                f"the limits of {name} must be finite, ascend and have room for {bins} bins; got {low}, {high}"
            )
    return chosen
