"""Draws of single weights: densities, lines over them, correlations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.implicit_vi.weights import cross_layer_correlation, parallel_coordinates, weight_densities
from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.aligned_draws import save_aligned_draws
from tests.figures.aligned_files import aligned_draws
from tests.figures.subset_files import run_with_subset, write_draws, write_subset

THREE = tuple(f"layer{layer}.weight[0,{place}]" for layer in range(2) for place in range(10))


def three_weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(place, 0.5, (2, 150)) for place, name in enumerate(THREE)}


def test_densities_integrate_to_one(tmp_path: Path) -> None:
    still = {**three_weights(1), THREE[0]: np.full((2, 150), 0.25)}
    files = [write_draws(tmp_path / f"{n}.parquet", values) for n, values in enumerate((three_weights(0), still))]
    runs = [run_with_subset(tmp_path, name, file) for name, file in zip("ab", files, strict=True)]
    table = weight_densities(runs).numbers
    assert table["parameter"].nunique() == 16
    assert {"W1[1,1]", "W2[1,10]"} < set(table["parameter"])
    single = table[(table["label"] == "b") & (table["parameter"] == "W1[1,1]")]
    assert single["x"].tolist() == [0.25]
    one = table[(table["label"] == "a") & (table["parameter"] == "W1[1,1]")]
    assert np.trapezoid(one["density"], one["x"]) == pytest.approx(1, abs=0.03)
    assert (one["x"] * one["density"]).sum() / one["density"].sum() == pytest.approx(0, abs=0.1)


def test_lines_are_draws_in_the_order_of_the_means(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = {"layer0.weight[0,0]": 3.0, "layer0.weight[0,1]": -2.0, "layer1.weight[0,0]": 0.5}
    values = {name: rng.normal(mean, 0.1, (2, 40)) for name, mean in means.items()}
    file = write_draws(tmp_path / "draws.parquet", values)
    runs = [run_with_subset(tmp_path, name, file) for name in "ab"]
    table = parallel_coordinates(runs).numbers
    own = table[table["run"] == "a"]
    assert own["line"].nunique() == 50
    assert own[own["line"] == 0]["parameter"].tolist() == ["W1[1,2]", "W2[1,1]", "W1[1,1]"]
    first = own[own["line"] == 0].set_index("parameter")["value"]
    assert first["W1[1,2]"] == pytest.approx(values["layer0.weight[0,1]"][0, 0], rel=1e-5)


NAMES = [f"layer{layer}.weight[0,{place}]" for layer in range(3) for place in range(4)]


def draws(shared: float) -> np.ndarray:
    """Weights of the first two layers have the correlation shared^2 / (1 + shared^2); the third is independent."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 400, 12))
    values[:, :, :8] += shared * rng.normal(size=(2, 400, 1))
    return values


def run_of(folder: Path, name: str, values: np.ndarray, names: Sequence[str] = NAMES, **changes: Any) -> Shown:
    return run_with_subset(folder, name, write_subset(folder / f"{name}-draws.parquet", names, values), **changes)


def test_correlations_of_pairs_of_layers(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path, name, draws(shared), method=method)
        for name, shared, method in (("one", 1.0, "implicit"), ("independent", 0.0, "mean_field"))
    ]
    table = cross_layer_correlation(runs).numbers.set_index(["run", "layers"])
    assert list(table.loc["one"].index) == ["1 and 2", "1 and 3", "2 and 3"]
    assert table.loc[("one", "1 and 2"), "correlation"] == pytest.approx(0.5, abs=0.05)
    assert table.loc[("one", "1 and 2"), "excess"] == pytest.approx(0.5, abs=0.05)
    assert table["independent"].to_numpy() == pytest.approx(798**-0.5, rel=0.3)
    assert table["from_first"].loc["one"].tolist() == [0.0, 0.0, 0.0]
    assert table.loc[("independent", "1 and 2"), "from_first"] == pytest.approx(0.5, abs=0.05)
    for place in (("one", "1 and 3"), ("independent", "1 and 2")):
        assert table.loc[place, "correlation"] == pytest.approx(798**-0.5, rel=0.5)
        assert table.loc[place, "excess"] < 0.03


def test_repeated_draws_are_no_correlation(tmp_path: Path) -> None:
    """A chain that rejects seven of eight proposals has higher correlations by chance, here an excess of 0.095."""
    values = np.repeat(np.random.default_rng(1).normal(size=(2, 50, 300)), 8, axis=1)
    table = of_unrelated(values, tmp_path)
    assert table["independent"].to_numpy() == pytest.approx(98**-0.5, rel=0.03)
    assert table["excess"].max() < 0.02


def test_rejected_proposals_are_no_correlation(tmp_path: Path) -> None:
    """Chains that reject two of five proposals, each at its own times, in all weights at once."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(4, 80, 600))
    for chain in values:
        for draw in np.flatnonzero(rng.uniform(size=79) < 0.4) + 1:
            chain[draw] = chain[draw - 1]
    table = of_unrelated(values, tmp_path)
    assert table["correlation"].min() > 1.3 * 316**-0.5
    assert table["excess"].max() < 0.02


def test_slow_chains_have_no_correlation(tmp_path: Path) -> None:
    """Weights that vary by themselves, as autoregressions of 0.97, with an excess of 0.104 over half a chain later."""
    rng, states = np.random.default_rng(0), [np.zeros((4, 600))]
    for _ in range(280):
        states.append(0.97 * states[-1] + rng.normal(size=(4, 600)))
    table = of_unrelated(np.stack(states[-80:], axis=1), tmp_path)
    assert table["correlation"].min() > 0.2
    assert table["excess"].max() < 0.02


def of_unrelated(values: np.ndarray, folder: Path) -> pd.DataFrame:
    """The figure's numbers for draws [c, s, p] of three layers of as many weights."""
    names = [f"layer{layer}.weight[0,{place}]" for layer in range(3) for place in range(values.shape[2] // 3)]
    return cross_layer_correlation([run_of(folder, "one", values, names)]).numbers


def test_a_weight_that_never_moves_enters_nothing(tmp_path: Path) -> None:
    values = draws(1.0)
    values[:, :, 0] = 3.0
    assert cross_layer_correlation([run_of(tmp_path, "one", values)]).numbers["correlation"][0] == pytest.approx(
        0.5, abs=0.05
    )


def test_too_few_draws(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run 'one': 3 draws of a chain have no correlations"):
        cross_layer_correlation([run_of(tmp_path, "one", draws(0.0)[:, :3])])


def test_one_layer_has_no_pairs(tmp_path: Path) -> None:
    one = run_of(tmp_path, "one", draws(0.0)[:, :, :4], NAMES[:4])
    with pytest.raises(ValueError, match="run 'one': correlations across layers need weights of two layers"):
        cross_layer_correlation([one])


def test_aligned_draws_beside_the_draws_as_they_are(tmp_path: Path) -> None:
    """Chains without an order of units, whose correlations show in the frame of an alignment alone."""
    file = tmp_path / "aligned.npz"
    found = aligned_draws(file, chains=2, draws=400, apart=0.0)
    shared = np.random.default_rng(5).normal(size=(2, 400, 1))
    save_aligned_draws(file, found._replace(values=found.values | {"aligned": found.values["aligned"] + shared}))
    names, values = NAMES[:8], draws(0.0)[:, :, :8]
    one = run_of(tmp_path, "one", values, names)._replace(parts={"aligned_draws": {"by_rows": file}})
    two = run_of(tmp_path, "two", values, names, method="mean_field")
    table = cross_layer_correlation([one, two]).numbers.set_index(["run", "units"])
    assert table.loc[("one", "as sampled"), "correlation"] == pytest.approx(798**-0.5, rel=0.5)
    assert table.loc[("one", "aligned"), "correlation"] == pytest.approx(0.5, abs=0.05)
    assert table.loc[("one", "aligned"), ["draws", "alignment"]].tolist() == [800, "by_rows"]
    assert table.index.get_level_values("units").tolist() == ["as sampled", "aligned", "as sampled"]
    assert table["from_first"].tolist() == [0, 0, 0]
