"""Norms along training: means over networks, refusals."""

from pathlib import Path

import pandas as pd
import pytest

from bnn_atlas.figures.permutation_symmetry.norms_along_training import MOST, norms, norms_along_training
from bnn_atlas.metrics.tables.files import NORM_SCHEMA, read_frame, write_frame
from tests.figures.conftest import Drawn

from .pair_files import pair_run


def test_norms_are_means_over_networks(drawn: Drawn, tmp_path: Path) -> None:
    shown = [pair_run(tmp_path / "a", "pairs", [2, 5])]
    numbers = drawn(norms_along_training, shown)
    assert set(numbers["array"]) == {"layer0.bias", "layer0.weight"}
    assert set(numbers["networks"]) == {4}
    weight = numbers[numbers["array"] == "layer0.weight"].set_index("draw")["mean"]
    assert weight.to_dict() == {0: 2.5, 1: 3.5, 2: 4.5}


def test_too_many_arrays_are_refused(tmp_path: Path) -> None:
    run = pair_run(tmp_path, "pairs", [2])
    frame = read_frame(run.files["norms"], NORM_SCHEMA)
    many = pd.concat([frame.assign(array=f"layer{i}") for i in range(MOST + 1)])
    write_frame(run.files["norms"], many, NORM_SCHEMA)
    with pytest.raises(ValueError, match=f"at most {MOST} fit"):
        norms([run])
