"""The steps of the rules `subset`, with the settings of a figure, and `layer_traces`."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.config.parts.figures import SubsetConfig
from bnn_atlas.pipeline.steps.traces import layer_traces, subset
from bnn_atlas.traces.pool import open_pool, pool_traces
from tests.traces.making import make_draws, make_statistics, write_trace

CHAINS, DRAWS = 4, 6
NAME = "layer0.weight[1,2]"


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Two blocks, of which the second holds the chains of lower number."""
    values = make_draws(CHAINS, DRAWS)
    for name, first in (("a", 2), ("b", 0)):
        part = {key: array[first : first + 2] for key, array in make_statistics(CHAINS, DRAWS).items()}
        write_trace(tmp_path / name, values[first : first + 2], part, chain_ids=range(first, first + 2))
    pool_traces([tmp_path / "a", tmp_path / "b"], tmp_path / "pool.json")
    return tmp_path / "pool.json"


@pytest.mark.parametrize(
    ("settings", "chains", "draws"),
    [
        ({}, [0, 1, 2, 3], slice(None)),
        ({"chains": 3}, [0, 1, 2], slice(None)),
        ({"chains": 1, "draws": (1, 6), "thinning": 2}, [0], slice(1, 6, 2)),
        ({"chains": 9}, [0, 1, 2, 3], slice(None)),
    ],
    ids=str,
)
def test_the_first_chains_are_taken(
    pool: Path, tmp_path: Path, settings: dict[str, Any], chains: list[int], draws: slice
) -> None:
    chosen = SubsetConfig(parameters=(NAME,), **settings).model_dump(mode="json")
    subset(pool, tmp_path / "t.parquet", subset=chosen)
    frame = pd.read_parquet(tmp_path / "t.parquet")
    assert list(dict.fromkeys(frame["chain"])) == chains
    expected = make_draws(CHAINS, DRAWS)[chains][:, draws, 1 * 3 + 2]
    np.testing.assert_array_equal(frame["value"], expected.ravel())
    assert frame["draw"].tolist() == list(range(DRAWS))[draws] * len(chains)


def test_two_traces_of_each_layer_and_role(pool: Path, tmp_path: Path) -> None:
    layer_traces(pool, tmp_path / "traces.npz")
    values, source = make_draws(CHAINS, DRAWS), open_pool(pool)
    with np.load(tmp_path / "traces.npz") as found:
        assert (found["chain"].tolist(), found["draw"].tolist()) == ([0, 1, 2, 3], list(range(DRAWS)))
        names = [name for name in found.files if name not in ("chain", "draw")]
        for name in names:
            np.testing.assert_array_equal(found[name], values[:, :, source.parameter_names.index(name)])
    layers = [[f"layer{i}.{name}" for name in ("weight[0,0]", "weight[0,1]", "bias[0]", "bias[1]")] for i in range(2)]
    assert names == [*layers[0], *layers[1], "log_sigma"]
