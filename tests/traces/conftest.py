from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.traces import Trace, open_trace

from .making import make_draws, make_statistics, write_trace


@pytest.fixture
def make_trace(tmp_path: Path) -> Callable[..., tuple[Trace, np.ndarray, dict[str, np.ndarray]]]:
    """A finished trace of 5 chains x 10 draws in segments of 4 (so the last has 2), its draws and statistics."""

    def make(name: str = "trace.zarr", chains: int = 5, draws: int = 10, **options: Any) -> Any:
        seed = options.pop("seed", 0)
        values = make_draws(chains, draws, seed=seed, dtype=options.pop("dtype", "float32"))
        statistics = make_statistics(chains, draws, seed)
        write_trace(tmp_path / name, values, statistics, **options)
        return open_trace(tmp_path / name), values, statistics

    return make
