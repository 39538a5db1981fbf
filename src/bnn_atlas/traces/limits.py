"""Between which values a histogram counts."""

from collections.abc import Mapping, Sequence

import numpy as np

from bnn_atlas.traces.draws import Draws

SCAN_BYTES = 32 << 20
QUANTILE_DRAWS = 100_000

Limits = tuple[float, float] | Mapping[str, tuple[float, float]] | None


def automatic_limits(
    source: Draws,
    parameters: Sequence[str],
    *,
    quantile: float = 0.001,
    chains: slice | None = None,
    draws: slice | None = None,
    max_bytes: int = SCAN_BYTES,
) -> dict[str, tuple[float, float]]:
    """Limits per scalar from one pass over the finite draws.

    With `quantile` q > 0 they are the quantiles q and 1 - q; of more than 100,000 draws, of that many evenly spaced
    ones at most (of each chain at least one). With q = 0 they are the smallest and the largest of all draws, which a
    single stray chain can drive far out. Limits that are equal up to rounding are moved apart by 0.5 each way.
    Raises ValueError for a scalar without finite draws.
    """
    if not 0 <= quantile < 0.5:
        raise ValueError(f"the limits are the quantiles q and 1 - q with q in [0, 0.5); got {quantile}")
    columns = source.locate(parameters)
    which, when = range(source.chains)[chains or slice(None)], range(source.draws)[draws or slice(None)]
    if quantile and when:
        per_chain = max(1, QUANTILE_DRAWS // max(1, len(which)))
        when = when[:: -(-len(when) // per_chain)]
    part = slice(when.start, when.stop, when.step)
    kept = np.empty((len(columns), len(which) * len(when) if quantile else 0), dtype=source.dtype)
    seen = 0
    low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    for _, _, values in source.batches(max_bytes, chains=chains, draws=part, parameters=columns):
        flat = values.reshape(-1, len(columns))
        if quantile:
            kept[:, seen : seen + len(flat)] = flat.T
            seen += len(flat)
        else:
            finite = np.isfinite(flat)
            low = np.minimum(low, np.min(flat, axis=0, where=finite, initial=np.inf))
            high = np.maximum(high, np.max(flat, axis=0, where=finite, initial=-np.inf))
    limits = {}
    for i, name in enumerate(parameters):
        bounds = np.array([low[i], high[i]])
        finite_draws = kept[i, np.isfinite(kept[i])].astype(np.float64)
        if finite_draws.size:
            bounds = np.quantile(finite_draws, [quantile, 1 - quantile])
        if not np.isfinite(bounds).all():
            raise ValueError(f"{source.path} has no finite draw of {name}, so it has no limits; give them")
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
