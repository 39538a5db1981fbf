"""What a trace says about the settings that its draws were made with."""

from pathlib import Path

import numpy as np

from bnn_atlas.config.methods.gaussian import IVONConfig
from bnn_atlas.files import save_arrays
from bnn_atlas.pipeline.steps.sample import sample
from bnn_atlas.traces.store import open_trace

from .test_e_values import POSTERIOR, write_data


def test_a_trace_records_its_posterior_and_its_method_in_numbers(tmp_path: Path) -> None:
    files, start = write_data(tmp_path), tmp_path / "start.npz"
    save_arrays(start, {"parameters": np.zeros((1, 3), np.float32), "members": np.array([4])})
    method = IVONConfig(epochs=40, batch_size=10, steps=4).model_dump(mode="json")
    sample(*files, start, tmp_path / "trace.zarr", posterior=POSTERIOR, method=method, seed=0)
    recorded = open_trace(tmp_path / "trace.zarr").attributes["provenance"]["settings"]
    assert recorded["posterior"] == POSTERIOR
    assert recorded["method"] == method | {"hessian_momentum": 1 - 1 / 16}
    assert recorded["chains"] == [4]
