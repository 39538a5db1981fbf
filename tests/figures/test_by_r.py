"""Kinds that R draws: what they hold, limits, refusals."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.drawing import write
from bnn_atlas.figures.ggplot import RDrawing
from bnn_atlas.figures.kinds.by_r import (
    bias_ridges,
    marginal_densities,
    one_m_one,
    other_zero,
    prior_change,
    rescaling_curve,
)
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.provenance import Provenance
from tests.figures.needs_r import needs_r
from tests.figures.shown import shown
from tests.figures.subset_files import write_draws

Outputs = Callable[[str], FigureOutputs]
Csv = Callable[[Callable[..., RDrawing], Sequence[Shown]], pd.DataFrame]


@pytest.fixture
def csv(outputs: Outputs, provenance: Provenance) -> Csv:
    """Lets R draw, and gives the numbers that it wrote."""

    def draw(kind: Callable[..., RDrawing], given: Sequence[Shown]) -> pd.DataFrame:
        write(kind, given, outputs("a"), provenance)
        return pd.read_csv(outputs("a").csv)

    return draw


BIASES = [
    *(f"layer0.weight[0,{j}]" for j in range(4)), *(f"layer0.bias[{j}]" for j in range(3)),
    *(f"layer1.weight[0,{j}]" for j in range(2)), "layer1.bias[0]", "log_sigma",
]  # fmt: skip


def biases(bias_sd: float, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: (bias_sd if "bias" in name else 1.0) * rng.normal(size=(4, 200)) for name in BIASES}


def runs(folder: Path, flat: dict[str, np.ndarray], penalised: dict[str, np.ndarray]) -> list[Shown]:
    first = write_draws(folder / "penalised.parquet", penalised)
    second = write_draws(folder / "flat.parquet", flat)
    return [
        shown("p", {"subset": first}, label="N(0, 1) on biases"),
        shown("f", {"subset": second}, label="flat", prior_sd=None),
    ]


@needs_r
def test_ridges_are_the_densities_of_both_runs(csv: Csv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnn_atlas.figures.kinds.by_r.RIDGES", {"bias": 2, "weight": 1})
    pair = runs(tmp_path, biases(3.0), biases(1.0, 1))
    table = csv(bias_ridges, pair)
    order = table.drop_duplicates(["layer", "label", "role"]).groupby("layer")["label"].agg(list).to_dict()
    assert order == {
        "layer 1": ["b1[1]", "b1[2]", "prior", "W1[1,1]", "prior"],
        "layer 2": ["b2[1]", "prior", "W2[1,1]", "prior"],
    }
    for (_, label, _, run), ridge in table.groupby(["layer", "label", "role", "run"]):
        inside = 1 - ridge["below"].iloc[0] - ridge["above"].iloc[0]
        step = np.diff(ridge["x"])[0]
        assert ridge["density"].sum() * step == pytest.approx(inside, abs=0.02), (label, run)
        mean = np.average(ridge["x"], weights=ridge["density"])
        spread = np.sqrt(np.average((ridge["x"] - mean) ** 2, weights=ridge["density"]))
        expected = 3.0 if run == "flat" and label.startswith("b") else 1.0
        assert spread == pytest.approx(expected, rel=0.2), (label, run)
    prior = table[table["label"] == "prior"]
    assert prior["run"].unique().tolist() == ["density of N(0, 1)"]
    np.testing.assert_allclose(prior["density"], np.exp(-(prior["x"] ** 2) / 2) / np.sqrt(2 * np.pi), rtol=1e-3)


@needs_r
def test_wide_biases_lie_within_their_panel_and_do_not_set_that_of_the_weights(csv: Csv, tmp_path: Path) -> None:
    wide = biases(8.0)
    wide["layer0.bias[2]"] -= 20
    table = csv(bias_ridges, runs(tmp_path, wide, biases(1.0, 1)))
    ridges = table[table["label"] != "prior"]
    assert ridges[["below", "above"]].to_numpy().max() < 0.015
    ends = ridges[ridges["layer"] == "layer 1"].groupby("role")["x"].agg(["min", "max"])
    assert ends.loc["bias", "min"] < -30
    assert -4 < ends.loc["weight", "min"] < ends.loc["weight", "max"] < 4


@needs_r
def test_biases_that_all_drift_away_leave_those_of_the_other_run_in_view(csv: Csv, tmp_path: Path) -> None:
    far = {name: some - 30 * ("bias" in name) for name, some in biases(1.0).items()}
    assert (
        csv(bias_ridges, runs(tmp_path, far, biases(1.0, 1)))
        .query("label != 'prior'")[["below", "above"]]
        .to_numpy()
        .max()
        < 0.015
    )


@needs_r
def test_a_bias_that_runs_away_is_counted_and_does_not_set_the_axis(csv: Csv, tmp_path: Path) -> None:
    far = biases(1.0)
    far["layer0.bias[1]"][0] -= 1e4
    layer = csv(bias_ridges, runs(tmp_path, far, biases(1.0, 1))).query("layer == 'layer 1' and role == 'bias'")
    assert -8 < layer["x"].min() < -1.5
    below = layer.drop_duplicates(["label", "run"]).set_index(["label", "run"])["below"]
    assert below["b1[2]", "flat"] == pytest.approx(0.25, abs=0.01)
    assert below.drop([("b1[2]", "flat")]).max() < 0.02


def test_priors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    weights = {name: some for name, some in biases(1.0).items() if "weight" in name}
    endless = {name: np.where(np.arange(200) == 3, np.inf, some) for name, some in biases(1.0).items()}
    for given, says in (
        (runs(tmp_path / "b", weights, biases(1.0)), "flat hold no bias"),
        (runs(tmp_path / "c", endless, biases(1.0)), "every chain holds values that are not finite"),
        (runs(tmp_path / "d", {n: v[:, :1] for n, v in biases(1.0).items()}, biases(1.0)), "chains of one draw"),
    ):
        with pytest.raises(ValueError, match=says):
            bias_ridges(given)


NAMES = ("layer1.bias[0]", "layer0.weight[0,0]", "layer0.weight[0,1]", "log_sigma")


def values(names: tuple[str, ...] = NAMES, chains: int = 3, draws: int = 50) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(np.arange(chains)[:, None] - 1, 0.5, (chains, draws)) for name in names}


@needs_r
def test_densities_of_chains_and_of_all_draws_beside_the_prior(
    csv: Csv, outputs: Outputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnn_atlas.figures.kinds.by_r.CHAINS_SHOWN", 2)
    run = shown(files={"subset": write_draws(tmp_path / "draws.parquet", values())})
    table = csv(marginal_densities, [run])
    assert b"(D:19700101000000)" in outputs("a").pdf.read_bytes()
    assert list(dict.fromkeys(zip(table["layer"], table["label"], strict=True))) == [
        ("layer 1", "W1[1,1]"), ("layer 1", "W1[1,2]"), ("layer 2", "b2[1]"), ("other", "log sigma")
    ]  # fmt: skip
    curves = table.groupby(["label", "curve"])["chain"].agg(lambda chains: list(chains.dropna().unique()))
    assert curves["W1[1,1]"].to_dict() == {"chain": [0, 1], "pooled": [], "prior": []}
    prior = table[table["curve"] == "prior"]
    np.testing.assert_allclose(prior["density"], np.exp(-(prior["x"] ** 2) / 2) / np.sqrt(2 * np.pi), rtol=1e-5)
    assert not list(Path.cwd().glob("Rplots.pdf"))


@needs_r
def test_the_pooled_density_is_the_mean_of_all_chains(csv: Csv, tmp_path: Path) -> None:
    draws = values(("log_sigma",))
    draws["log_sigma"][2] = 1 + 20 * (draws["log_sigma"][2] - 1)  # a chain that must not set the bandwidth
    file = write_draws(tmp_path / "draws.parquet", draws)
    table = csv(marginal_densities, [shown(files={"subset": file}, prior_sd=None)])
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
def test_runs_stand_beside_each_other_with_their_own_axes(csv: Csv, tmp_path: Path) -> None:
    wide = {name: 10 * some for name, some in values(("layer0.weight[0,0]", "layer1.weight[0,0]")).items()}
    files = [write_draws(tmp_path / "small.parquet", values()), write_draws(tmp_path / "large.parquet", wide)]
    runs = [
        shown("small", {"subset": files[0]}, label="small network"),
        shown("large", {"subset": files[1]}, label="large network", prior_sd=None),
    ]
    table = csv(marginal_densities, runs)
    assert list(table["run"].unique()) == ["small network", "large network"]
    ends = table.groupby("run", sort=False)["x"].max()
    assert ends["large network"] / ends["small network"] == pytest.approx(10, rel=0.2)
    assert table.groupby("run", sort=False)["curve"].agg(lambda curves: "prior" in set(curves)).tolist() == [
        True,
        False,
    ]
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
    change: Callable[[pd.DataFrame], pd.DataFrame], says: str, tmp_path: Path
) -> None:
    file = write_draws(tmp_path / "draws.parquet", values())
    change(pd.read_parquet(file)).to_parquet(file)
    with pytest.raises(ValueError, match=says):
        marginal_densities([shown(files={"subset": file})])


W1, W2 = "layer0.weight[0,0]", "layer1.weight[0,0]"


def run(folder: Path, width: int, sd: float, values: dict[str, np.ndarray] | None = None, **changes: object) -> Shown:
    """A run whose w1 and w2 have correlation 0.6 and standard deviations sd and sd / 2."""
    rng = np.random.default_rng(width)
    w1, other = rng.normal(size=(2, 4, 250))
    values = values or {W1: sd * w1, W2: sd / 2 * (0.6 * w1 + 0.8 * other)}
    name = f"m{width}-sd{sd:g}"
    file = write_draws(folder / f"{name}.parquet", values)
    return shown(name, {"subset": file}, **{"hidden": (width,), "prior_sd": sd, **changes})


@needs_r
def test_panels_hold_the_density_of_their_run(csv: Csv, tmp_path: Path) -> None:
    runs = [run(tmp_path, width, sd) for width in (5, 1) for sd in (0.1, 1.0)]
    table = csv(one_m_one, runs)
    panels = table.groupby(["hidden", "prior_sd"], sort=False)
    assert list(panels.groups) == [(1, 1.0), (1, 0.1), (5, 1.0), (5, 0.1)]
    for (_, sd), panel in panels:
        weight = panel["density"] / panel["density"].sum()
        moments = np.cov(panel["w1"] / sd, panel["w2"] / (sd / 2), aweights=weight)
        np.testing.assert_allclose(moments, [[1, 0.6], [0.6, 1]], atol=0.3)
        # Cells have equal areas, so the densest tenth of the draws is denser than all the rest.
        assert panel["region"].between(0, 0.99).all()
        inner, outer = panel[panel["region"] <= 0.1], panel[panel["region"] > 0.1]
        assert inner["density"].min() >= outer["density"].max()
        assert inner["density"].sum() / panel["density"].sum() == pytest.approx(0.1, abs=0.02)
    # A column has one window: it is the union of what its panels need.
    ends = table.groupby("prior_sd")["w1"].max()
    assert ends[1.0] / ends[0.1] == pytest.approx(10, rel=0.15)


@needs_r
def test_the_density_does_not_fill_the_gap_between_modes(csv: Csv, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sign = rng.choice([-1, 1], (4, 500))
    mode = {name: sign * (1 + 0.05 * rng.normal(size=sign.shape)) for name in (W1, W2)}
    table = csv(one_m_one, [run(tmp_path, 1, 0.1, mode)])
    assert (np.sign(table["w1"]) == np.sign(table["w2"])).all()
    assert table["w1"].abs().between(0.7, 1.3).all()


@needs_r
def test_a_chain_that_is_not_finite_is_left_out(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    good = np.random.default_rng(1).normal(size=(2, 3, 200))
    bad = good.copy()
    bad[:, 1] += 100
    bad[0, 1, 7] = np.nan
    write(one_m_one, [run(tmp_path / "x", 1, 1.0, dict(zip((W1, W2), bad, strict=True)))], outputs("a"), provenance)
    write(
        one_m_one,
        [run(tmp_path / "y", 1, 1.0, dict(zip((W1, W2), good[:, [0, 2]], strict=True)))],
        outputs("b"),
        provenance,
    )
    assert outputs("a").csv.read_bytes() == outputs("b").csv.read_bytes()
    assert outputs("a").png.read_bytes() != outputs("b").png.read_bytes()  # the remark


def same(folder: Path) -> Shown:
    return run(folder, 5, 1.0, {W1: np.ones((2, 9)), W2: np.ones((2, 9))})


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (lambda folder: [run(folder, 5, 1.0, {W1: np.ones((2, 9))})], r"no parameter layer1\.weight\[0,0\]"),
        (lambda folder: [same(folder)], "its chains never moved"),
    ],
)
def test_runs_that_do_not_fit_are_refused(runs: Callable[[Path], list[Shown]], says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        one_m_one(runs(tmp_path))


LIMITS = (0.6, 1.05)


def test_h_is_the_difference_of_two_normal_densities() -> None:
    b, w1, w2, c = 0.9, 0.5, 0.8, 0.7
    log_before = -(b**2 + w1**2 + w2**2) / 2
    log_after = -((b * c) ** 2 + (w1 * c) ** 2 + (w2 / c) ** 2) / 2
    expected = (np.exp(log_before) - np.exp(log_after)) / (2 * np.pi) ** 1.5
    np.testing.assert_allclose(prior_change(c, b, w1, w2), expected, rtol=1e-12)


@pytest.mark.parametrize(("unit", "limits"), [((0.9, 0.5, 0.8), LIMITS), ((-0.3, 0.2, 0.5), (0.5, 3.0))])
def test_the_other_zero_has_a_closed_form(unit: tuple[float, float, float], limits: tuple[float, float]) -> None:
    zero = other_zero(*unit, limits)
    assert zero == pytest.approx(abs(unit[2]) / np.hypot(unit[0], unit[1]), abs=1e-10)
    assert prior_change(zero, *unit) == pytest.approx(0, abs=1e-12)


def test_a_zero_outside_the_limits_is_named() -> None:
    with pytest.raises(ValueError, match=r"no zero but c = 1 .* other zero is 0\.5$"):
        other_zero(0.0, 1.0, -0.5, LIMITS)


def test_the_two_zeros_can_fall_together() -> None:
    with pytest.raises(ValueError, match="no zero but c = 1"):
        other_zero(0.6, 0.8, 1.0, LIMITS)


@needs_r
def test_both_zeros_are_marked(csv: Csv) -> None:
    table = csv(rescaling_curve, [])
    curve, zeros = table[table["kind"] == "curve"], table[table["kind"] != "curve"]
    assert (curve["c"].min(), curve["c"].max()) == LIMITS
    np.testing.assert_allclose(curve["h"], prior_change(curve["c"].to_numpy(), 0.9, 0.5, 0.8), rtol=1e-9, atol=1e-15)
    assert zeros["kind"].tolist() == ["other zero", "trivial zero", "published zero"]
    # sqrt(0.64 / 1.06); the published script marks 0.77754.
    np.testing.assert_allclose(zeros["c"], [0.77703, 1, 0.77754], atol=1e-5)
