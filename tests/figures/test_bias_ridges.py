from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.drawing import write
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.sampling_perspective.bias_ridges import bias_ridges
from bnn_atlas.figures.shown import Shown
from bnn_atlas.provenance import Provenance
from tests.figures.conftest import Drawn
from tests.figures.layered_subsets import write_draws
from tests.figures.needs_r import needs_r
from tests.figures.shown import shown

Outputs = Callable[[str], FigureOutputs]
NAMES = [
    *(f"layer0.weight[0,{j}]" for j in range(4)), *(f"layer0.bias[{j}]" for j in range(3)),
    *(f"layer1.weight[0,{j}]" for j in range(2)), "layer1.bias[0]", "log_sigma",
]  # fmt: skip


def values(bias_sd: float, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: (bias_sd if "bias" in name else 1.0) * rng.normal(size=(4, 200)) for name in NAMES}


def runs(folder: Path, flat: dict[str, np.ndarray], penalised: dict[str, np.ndarray]) -> list[Shown]:
    first = write_draws(folder / "penalised.parquet", penalised)
    second = write_draws(folder / "flat.parquet", flat)
    return [
        shown("p", {"subset": first}, label="N(0, 1) on biases"),
        shown("f", {"subset": second}, label="flat", prior_sd=None),
    ]


@needs_r
def test_ridges_are_the_densities_of_both_runs(drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnn_atlas.figures.sampling_perspective.bias_ridges.RIDGES", {"bias": 2, "weight": 1})
    pair = runs(tmp_path, values(3.0), values(1.0, 1))
    table = drawn(bias_ridges, pair)
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
def test_wide_biases_lie_within_their_panel_and_do_not_set_that_of_the_weights(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    wide = values(8.0)
    wide["layer0.bias[2]"] -= 20
    write(bias_ridges, runs(tmp_path, wide, values(1.0, 1)), outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    ridges = table[table["label"] != "prior"]
    assert ridges[["below", "above"]].to_numpy().max() < 0.015
    ends = ridges[ridges["layer"] == "layer 1"].groupby("role")["x"].agg(["min", "max"])
    assert ends.loc["bias", "min"] < -30
    assert -4 < ends.loc["weight", "min"] < ends.loc["weight", "max"] < 4


@needs_r
def test_biases_that_all_drift_away_leave_those_of_the_other_run_in_view(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    far = {name: some - 30 * ("bias" in name) for name, some in values(1.0).items()}
    write(bias_ridges, runs(tmp_path, far, values(1.0, 1)), outputs("a"), provenance)
    assert pd.read_csv(outputs("a").csv).query("label != 'prior'")[["below", "above"]].to_numpy().max() < 0.015


@needs_r
def test_a_bias_that_runs_away_is_counted_and_does_not_set_the_axis(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    far = values(1.0)
    far["layer0.bias[1]"][0] -= 1e4
    write(bias_ridges, runs(tmp_path, far, values(1.0, 1)), outputs("a"), provenance)
    layer = pd.read_csv(outputs("a").csv).query("layer == 'layer 1' and role == 'bias'")
    assert -8 < layer["x"].min() < -1.5
    below = layer.drop_duplicates(["label", "run"]).set_index(["label", "run"])["below"]
    assert below["b1[2]", "flat"] == pytest.approx(0.25, abs=0.01)
    assert below.drop([("b1[2]", "flat")]).max() < 0.02


def test_runs_that_do_not_fit_are_refused(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    weights = {name: some for name, some in values(1.0).items() if "weight" in name}
    endless = {name: np.where(np.arange(200) == 3, np.inf, some) for name, some in values(1.0).items()}
    pair = runs(tmp_path / "a", values(1.0), values(1.0))
    for given, says in (
        ([], "two labels, not none"),
        (pair[:1], "two labels"),
        ([pair[0], pair[1]._replace(label=pair[0].label)], "two labels"),
        (runs(tmp_path / "b", weights, values(1.0)), "flat hold no bias"),
        (runs(tmp_path / "c", endless, values(1.0)), "every chain holds values that are not finite"),
        (runs(tmp_path / "d", {n: v[:, :1] for n, v in values(1.0).items()}, values(1.0)), "chains of one draw"),
    ):
        with pytest.raises(ValueError, match=says):
            write(bias_ridges, given, outputs("a"), provenance)
