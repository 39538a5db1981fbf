from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.implicit_vi.parallel_coordinates import parallel_coordinates
from bnn_atlas.figures.page import FigureOutputs
from tests.figures.conftest import Drawn
from tests.figures.layered_subsets import write_draws
from tests.figures.shown import shown
from tests.figures.subset_files import run_with_subset

Outputs = Callable[[str], FigureOutputs]


def test_lines_are_draws_in_the_order_of_the_means(drawn: Drawn, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = {"layer0.weight[0,0]": 3.0, "layer0.weight[0,1]": -2.0, "layer1.weight[0,0]": 0.5}
    values = {name: rng.normal(mean, 0.1, (2, 40)) for name, mean in means.items()}
    file = write_draws(tmp_path / "draws.parquet", values)
    runs = [run_with_subset(tmp_path, name, file) for name in "ab"]
    table = drawn(parallel_coordinates, runs)
    own = table[table["run"] == "a"]
    assert own["line"].nunique() == 50
    assert own[own["line"] == 0]["parameter"].tolist() == ["W1[1,2]", "W2[1,1]", "W1[1,1]"]
    first = own[own["line"] == 0].set_index("parameter")["value"]
    assert first["W1[1,2]"] == pytest.approx(values["layer0.weight[0,1]"][0, 0], rel=1e-5)


def test_panels_with_one_title_are_refused(tmp_path: Path) -> None:
    file = write_draws(tmp_path / "draws.parquet", {"layer0.weight[0,0]": np.zeros((2, 4))})
    runs = [shown(name, {"subset": file}, label="toy") for name in "ab"]
    with pytest.raises(ValueError, match="runs 'a' and 'b' have one title, 'toy, Airfoil'"):
        parallel_coordinates(runs)
