from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.sampling_perspective.product_weights import product_weights
from bnn_atlas.figures.shown import Shown
from tests.figures.shown import shown
from tests.figures.subset_files import write_subset


def network(
    folder: Path, units: int = 5, chains: int = 4, draws: int = 200, hidden: tuple[int, ...] | None = None
) -> Shown:
    """Weights whose products are normal with mean 1 for even units of even chains and -1 elsewhere."""
    rng = np.random.default_rng(0)
    into = np.exp(rng.normal(0, 0.5, (chains, draws, units)))
    sign = np.where((np.arange(units) + np.arange(chains)[:, None]) % 2 == 0, 1.0, -1.0)
    product = rng.normal(sign[:, None], 0.1, into.shape)
    values = np.concatenate([into, product / into, rng.normal(size=(chains, draws, 1))], axis=2)
    names = [f"layer0.weight[{i},0]" for i in range(units)] + [f"layer1.weight[0,{i}]" for i in range(units)]
    file = write_subset(folder / "draws.parquet", [*names, "log_sigma"], values)
    return shown(files={"subset": file}, hidden=(units,) if hidden is None else hidden)


def test_products_by_chain_and_unit(tmp_path: Path) -> None:
    run = network(tmp_path, 3)
    table = product_weights([run]).numbers
    assert set(table["x_unit"]) == {1, 2, 3}
    assert set(table["chain"]) == {"0", "1", "2", "3", "all"}
    one = table[(table["x_unit"] == 1) & (table["y_unit"] == 1)]
    step = one["x"].iloc[1] - one["x"].iloc[0]
    density = one.groupby("chain")["y"].sum() * step
    np.testing.assert_allclose(density, 1, atol=0.02)
    mean = (one["x"] * one["y"]).groupby(one["chain"]).sum() * step
    np.testing.assert_allclose(mean[["0", "1", "all"]], [1, -1, 0], atol=0.05)
    pair = table[(table["x_unit"] == 1) & (table["y_unit"] == 2)].groupby("chain")[["x", "y"]].mean()
    np.testing.assert_allclose(pair.loc["0"], [1, -1], atol=0.05)
    pooled = table[(table["x_unit"] == 1) & (table["y_unit"] == 2) & (table["chain"] == "all")]
    # Two chains are at (1, -1) and two at (-1, 1): the region of all draws has both.
    assert {0.5, 0.8, 0.95} == set(pooled["share"])
    assert set(np.sign(pooled["x"])) == {-1, 1}


@pytest.mark.parametrize(("units", "chains", "draws"), [(1, 2, 20), (5, 1, 20), (2, 30, 100)])
def test_few_and_many_are_enough(tmp_path: Path, units: int, chains: int, draws: int) -> None:
    table = product_weights([network(tmp_path, units, chains, draws)]).numbers
    assert table["x_unit"].nunique() == units
    assert table["chain"].nunique() == min(chains, 20) + 1


def test_other_networks_are_refused_in_words(tmp_path: Path) -> None:
    file = write_subset(tmp_path / "other.parquet", ["layer0.weight[0,0]", "layer1.weight[0,1]"], np.ones((2, 5, 2)))
    with pytest.raises(ValueError, match=r"other\.parquet: no unit has both weights"):
        product_weights([shown(files={"subset": file}, hidden=(5,))])
