from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from bnn_atlas.figures.drawing import write
from bnn_atlas.figures.kinds.marginal_densities import marginal_densities
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.provenance import Provenance
from tests.figures.conftest import Drawn
from tests.figures.layered_subsets import write_draws
from tests.figures.needs_r import needs_r
from tests.figures.shown import shown

Outputs = Callable[[str], FigureOutputs]
NAMES = ("layer1.bias[0]", "layer0.weight[0,0]", "layer0.weight[0,1]", "log_sigma")


def values(names: tuple[str, ...] = NAMES, chains: int = 3, draws: int = 50) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(np.arange(chains)[:, None] - 1, 0.5, (chains, draws)) for name in names}


@needs_r
def test_densities_are_drawn_the_same_twice(
    drawn: Drawn, outputs: Outputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnn_atlas.figures.kinds.marginal_densities.CHAINS_SHOWN", 2)
    run = shown(files={"subset": write_draws(tmp_path / "draws.parquet", values())})
    drawn(marginal_densities, [run])
    assert b"(D:19700101000000)" in outputs("a").pdf.read_bytes()
    table = pd.read_csv(outputs("a").csv)
    assert list(dict.fromkeys(zip(table["layer"], table["label"], strict=True))) == [
        ("layer 1", "W1[1,1]"), ("layer 1", "W1[1,2]"), ("layer 2", "b2[1]"), ("other", "log sigma")
    ]  # fmt: skip
    curves = table.groupby(["label", "curve"])["chain"].agg(lambda chains: list(chains.dropna().unique()))
    assert curves["W1[1,1]"].to_dict() == {"chain": [0, 1], "pooled": [], "prior": []}
    distances = table.groupby("label")["prior_distance"].unique()
    for name, label in (("layer0.weight[0,1]", "W1[1,2]"), ("log_sigma", "log sigma")):
        assert distances[label] == pytest.approx(kstest(values()[name].ravel(), "norm").statistic, rel=1e-4)
    prior = table[table["curve"] == "prior"]
    np.testing.assert_allclose(prior["density"], np.exp(-(prior["x"] ** 2) / 2) / np.sqrt(2 * np.pi), rtol=1e-5)
    assert not list(Path.cwd().glob("Rplots.pdf"))


@needs_r
def test_the_pooled_density_is_the_mean_of_all_chains(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    draws = values(("log_sigma",))
    draws["log_sigma"][2] = 1 + 20 * (draws["log_sigma"][2] - 1)  # a chain that must not set the bandwidth
    file = write_draws(tmp_path / "draws.parquet", draws)
    write(marginal_densities, [shown(files={"subset": file}, prior_sd=None)], outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    assert set(table["curve"]) == {"chain", "pooled"}
    chains = table[table["curve"] == "chain"].pivot(index="x", columns="chain", values="density")
    pooled = table[table["curve"] == "pooled"].set_index("x")["density"]
    np.testing.assert_allclose(pooled, chains.mean(axis=1), atol=2e-4)
    for chain in (0, 1):
        x, density = chains.index.to_numpy(), chains[chain].to_numpy()
        assert np.trapezoid(density, x) == pytest.approx(1, abs=2e-3)
        mean = np.average(x, weights=density)
        assert mean == pytest.approx(draws["log_sigma"][chain].mean(), abs=0.01)
        assert np.sqrt(np.average((x - mean) ** 2, weights=density)) == pytest.approx(0.55, abs=0.1)
    assert (
        table["x"].max()
        == -table["x"].min()
        == pytest.approx(np.abs(np.quantile(draws["log_sigma"], [0.001, 0.999])).max(), rel=0.01)
    )


@needs_r
def test_runs_stand_beside_each_other_with_their_own_axes(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    wide = {name: 10 * some for name, some in values(("layer0.weight[0,0]", "layer1.weight[0,0]")).items()}
    files = [write_draws(tmp_path / "small.parquet", values()), write_draws(tmp_path / "large.parquet", wide)]
    runs = [
        shown("small", {"subset": files[0]}, label="small network"),
        shown("large", {"subset": files[1]}, label="large network", prior_sd=None),
    ]
    write(marginal_densities, runs, outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    assert list(table["run"].unique()) == ["small network", "large network"]
    ends = table.groupby("run", sort=False)["x"].max()
    assert ends["large network"] / ends["small network"] == pytest.approx(10, rel=0.2)
    assert table.groupby("run", sort=False)["curve"].agg(lambda curves: "prior" in set(curves)).tolist() == [
        True,
        False,
    ]
    assert table.groupby("run")["prior_distance"].agg(lambda d: d.notna().all()).to_dict() == {
        "small network": True,
        "large network": False,
    }
    assert table[table["run"] == "large network"]["label"].unique().tolist() == ["W1[1,1]", "W2[1,1]"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda frame: frame.drop(columns="value"), "no column value"),
        (lambda frame: frame.iloc[:0], "there are no draws"),
        (lambda frame: frame.assign(value=frame["value"].where(frame["draw"] != 3)), "every chain holds values"),
        (lambda frame: frame[frame["draw"] == 0], "chains of one draw have no density"),
    ],
)
def test_bad_draws_are_refused_before_r(
    change: Callable[[pd.DataFrame], pd.DataFrame], says: str, outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    file = write_draws(tmp_path / "draws.parquet", values())
    change(pd.read_parquet(file)).to_parquet(file)
    with pytest.raises(ValueError, match=says):
        write(marginal_densities, [shown(files={"subset": file})], outputs("a"), provenance)


def test_runs_that_cannot_be_told_apart_are_refused(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    run = shown(files={"subset": write_draws(tmp_path / "draws.parquet", values())})
    for runs, says in (([], "no runs to draw"), ([run, run], "two runs have the label 'mile'")):
        with pytest.raises(ValueError, match=says):
            write(marginal_densities, runs, outputs("a"), provenance)
