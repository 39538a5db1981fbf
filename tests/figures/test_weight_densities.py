from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.implicit_vi.weight_densities import weight_densities
from bnn_atlas.figures.page import FigureOutputs
from tests.figures.conftest import Drawn
from tests.figures.layered_subsets import write_draws
from tests.figures.shown import shown
from tests.figures.subset_files import run_with_subset

Outputs = Callable[[str], FigureOutputs]
NAMES = tuple(f"layer{layer}.weight[0,{place}]" for layer in range(2) for place in range(10))


def draws(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(place, 0.5, (2, 150)) for place, name in enumerate(NAMES)}


def test_densities_integrate_to_one(drawn: Drawn, tmp_path: Path) -> None:
    still = {**draws(1), NAMES[0]: np.full((2, 150), 0.25)}
    files = [write_draws(tmp_path / f"{n}.parquet", values) for n, values in enumerate((draws(0), still))]
    runs = [run_with_subset(tmp_path, name, file) for name, file in zip("ab", files, strict=True)]
    table = drawn(weight_densities, runs)
    assert table["parameter"].nunique() == 16
    assert {"W1[1,1]", "W2[1,10]"} < set(table["parameter"])
    single = table[(table["label"] == "b") & (table["parameter"] == "W1[1,1]")]
    assert single["x"].tolist() == [0.25]
    one = table[(table["label"] == "a") & (table["parameter"] == "W1[1,1]")]
    assert np.trapezoid(one["density"], one["x"]) == pytest.approx(1, abs=0.03)
    assert (one["x"] * one["density"]).sum() / one["density"].sum() == pytest.approx(0, abs=0.1)


def test_runs_of_other_networks_are_refused(tmp_path: Path) -> None:
    first = write_draws(tmp_path / "a.parquet", draws(0))
    second = write_draws(tmp_path / "b.parquet", {name: draws(0)[name] for name in NAMES[:5]})
    with pytest.raises(ValueError, match="'a' and 'b' have other parameters"):
        weight_densities([shown("a", {"subset": first}), shown("b", {"subset": second})])


def test_runs_on_other_data_do_not_share_a_line(tmp_path: Path) -> None:
    file = write_draws(tmp_path / "a.parquet", draws(0))
    runs = [shown(d, {"subset": file}, entry="toy", label="toy", point={"dataset": d}, dataset=d) for d in ("a", "b")]
    with pytest.raises(ValueError, match="the line 'toy' has the runs 'a' and 'b', which differ in more than"):
        weight_densities(runs)
