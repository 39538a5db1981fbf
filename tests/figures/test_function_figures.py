"""The figures of functions of single draws and of evidence along the chains."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.sampling_perspective.diversity import functional_diversity
from bnn_atlas.figures.sampling_perspective.functions import names, read_functions
from bnn_atlas.figures.sampling_perspective.permuted import permuted_warmstarts
from bnn_atlas.figures.sampling_perspective.stopping import Evidence, _title, stopping_rule
from bnn_atlas.figures.sampling_perspective.under_over import under_over
from bnn_atlas.figures.sampling_perspective.wasserstein import wasserstein
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.metrics.e_value_table import write_e_values
from bnn_atlas.metrics.functional import wasserstein_squared
from bnn_atlas.metrics.functions import load_functions, save_functions
from bnn_atlas.provenance import Provenance

from .shown import shown
from .synthetic_functions import functions_on_line, functions_on_rows, running_predictions, save_running

Outputs = Callable[[str], FigureOutputs]


def two_runs(folder: Path, **sizes: int) -> list[Shown]:
    runs = []
    for seed, run in enumerate(("Permuted", "Regular")):
        functions = functions_on_rows(folder / f"{run}-functions.npz", between=seed, seed=seed, **sizes)
        predictive = running_predictions(folder / f"{run}-predictive.npz", chains=3, draws=60, seed=seed)
        runs.append(shown(run, {"functions": functions, "predictive": predictive}))
    return runs


def networks(folder: Path, count: int = 3, **changes: int) -> list[Shown]:
    return [
        shown(f"{i + 1}x8", {"functions": functions_on_line(folder / f"{i}.npz", rough=i + 1, seed=i, **changes)})
        for i in range(count)
    ]


def evidence(path: Path, chains: list[tuple[int, list[float]]], alpha: float = 0.01) -> Shown:
    write_e_values(path, [(number, np.array(values)) for number, values in chains], alpha)
    return shown("MILE", {"e_values": path})


def changed(run: Shown, **changes: np.ndarray | None) -> Shown:
    path = run.files["functions"]
    save_functions(path, load_functions(path)._replace(**changes))
    return run


def test_permuted_warm_starts_beside_regular_ones(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    runs = two_runs(tmp_path, draws=5)
    for folder in ("a", "b"):
        permuted_warmstarts(runs, outputs(folder), provenance)
    for first, second in zip(outputs("a"), outputs("b"), strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert read_provenance(outputs("a").png) == provenance
    table = pd.read_csv(outputs("a").csv)
    assert list(table["label"].unique()) == ["Permuted", "Regular"]
    pairs = table[table["panel"] == "distances"]
    assert len(pairs) == 2 * 20 * 19 // 2
    source = load_functions(runs[1].files["functions"])
    assert source.mean is not None
    assert source.scale is not None
    row = pairs[(pairs["label"] == "Regular") & (pairs["chain_a"] == 1) & (pairs["chain_b"] == 3)].iloc[7]
    a, b = (int(row["chain_a"]), int(row["draw_a"]) // 10), (int(row["chain_b"]), int(row["draw_b"]) // 10)
    expected = np.sum((source.mean[a] - source.mean[b]) ** 2 + (source.scale[a] - source.scale[b]) ** 2)
    np.testing.assert_allclose(row["wasserstein_squared"], expected, rtol=1e-4)
    roots = np.sqrt(source.scale[a]) - np.sqrt(source.scale[b])
    published = np.sum((source.mean[a] - source.mean[b]) ** 2 + roots**2)
    assert published != pytest.approx(expected, rel=1e-3)
    np.testing.assert_allclose(row["wasserstein_squared_as_published"], published, rtol=1e-4)
    running = table[(table["panel"] == "running LPPD") & (table["label"] == "Permuted")]
    assert sorted(running["chain"].dropna().unique()) == [0, 1, 2]
    assert list(running["draws"].unique())[-1] == 60
    together = running[running["chain"].isna()].set_index("draws")["lppd"]
    mean_of_chains = running.groupby("draws")["lppd"].mean()
    assert (together >= mean_of_chains - 1e-12).all()


def test_what_cannot_be_drawn_of_a_running_lppd_stays_in_the_csv(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    runs = two_runs(tmp_path, draws=3, rows=5)
    density = np.zeros((3, 4, 6))
    density[0, :2, 0], density[1, :2, 0] = -np.inf, -np.inf
    save_running(runs[0].files["predictive"], density, divergent=(2,))
    permuted_warmstarts(runs, outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    rows = table[(table["panel"] == "running LPPD") & (table["label"] == "Permuted")]
    together = rows[rows["chain"].isna()]["lppd"].to_numpy()
    assert (together[:2] == -np.inf).all()
    assert np.isfinite(together[2:]).all()
    assert rows[rows["chain"] == 2]["lppd"].isna().all()


def test_distances_within_the_first_chain(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    runs = two_runs(tmp_path, draws=6)
    wasserstein(runs[:1], outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    assert len(table) == 15
    assert (table["chain_a"] == 0).all()
    source = load_functions(runs[0].files["functions"])
    assert source.mean is not None
    higher = source.mean[0, 0].mean() > source.mean[0, 1].mean()
    assert (table["z"][0] > 0) == higher
    wasserstein(runs, outputs("b"), provenance)
    assert len(pd.read_csv(outputs("b").csv)) == 30


def test_constant_functions_have_distances_but_no_z(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    (run,) = two_runs(tmp_path, chains=2, draws=3)[:1]
    mean = np.zeros((2, 3, 30), dtype=np.float32)
    wasserstein([changed(run, mean=mean)], outputs("a"), provenance)
    assert pd.read_csv(outputs("a").csv)["z"].isna().all()


def test_bands_hold_nine_tenths_of_the_functions(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    runs = networks(tmp_path)
    functional_diversity(runs, outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    band = table[(table["panel"] == "band") & (table["label"] == "2x8")]
    source = load_functions(runs[1].files["functions"])
    assert source.mean is not None
    inside = (source.mean >= band["low"].to_numpy()) & (source.mean <= band["high"].to_numpy())
    assert abs(inside.mean() - 0.9) < 0.01
    bins = table[table["panel"] == "distances"]
    assert (bins.groupby("label")["pairs"].sum() == 200 * 199 // 2).all()
    assert (bins.groupby("label")["x_end"].max() == bins["x_end"].max()).all()
    # Bins of the distance, not of its square, up to the farthest pair of all networks.
    np.testing.assert_allclose(np.diff(bins.loc[bins["label"] == "2x8", "x"]), bins["x_end"].max() / 40, rtol=1e-6)
    farthest = max(wasserstein_squared(one.mean, one.scale).max() for one in read_functions(runs))
    np.testing.assert_allclose(bins["x_end"].max(), np.sqrt(farthest), rtol=1e-6)
    assert len(table[table["panel"] == "training rows"]) == 40


def test_bands_of_networks_that_are_under_and_over_parameterised(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    runs = networks(tmp_path, 2, points=20)
    source = load_functions(runs[0].files["functions"])
    assert source.mean is not None
    same = np.broadcast_to(source.mean[:1, :1], source.mean.shape).copy()
    under_over([changed(runs[0], mean=same), runs[1]], outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    first = table[table["label"] == "1x8"]
    parts = dict(iter(first.groupby("series")))
    np.testing.assert_allclose(parts["functions"]["value"], parts["functions"]["high"], rtol=1e-6)
    # One function only: what is left is its noise of 0.2.
    width = parts["with noise"]["high"].to_numpy() - parts["with noise"]["value"].to_numpy()
    np.testing.assert_allclose(width, 2 * norm.ppf(0.95) * 0.2, rtol=1e-5)
    assert parts["draw"]["number"].nunique() == 5
    second = table[(table["label"] == "1x8") & (table["series"] == "mean")]
    np.testing.assert_allclose(second["value"], same[0, 0], rtol=1e-5)


def test_chains_that_are_not_finite_are_left_out_and_named(tmp_path: Path) -> None:
    (run,) = two_runs(tmp_path)[:1]
    source = load_functions(run.files["functions"])
    assert source.mean is not None
    mean = source.mean.copy()
    mean[2, 3, 4] = np.nan
    (found,) = read_functions([changed(run, mean=mean)])
    assert list(dict.fromkeys(found.chain)) == [0, 1, 3]
    assert found.remark == "not finite, left out: chain 2"
    np.testing.assert_array_equal(found.mean[50:100], mean[1])
    thinned = found.at_most(3)
    assert list(thinned.draw) == [0, 240, 490] * 3
    with pytest.raises(ValueError, match=r"Permuted has 0 finite draws \(4 chains of 50, 4 of them not finite\)"):
        read_functions([changed(run, mean=np.full_like(mean, np.nan))])


def test_names_tell_runs_and_splits_apart() -> None:
    assert names([shown("a", label="MILE"), shown("b", label="HMC")]) == ["MILE", "HMC"]
    splits = [shown("a", label="MILE", split=0), shown("a", label="MILE", split=1), shown("b", label="HMC")]
    assert names(splits) == ["MILE, split 0", "MILE, split 1", "HMC"]
    assert names([shown("a", label="MILE"), shown("b", label="MILE")]) == ["a", "b"]
    again = [shown(run, label="MILE", split=split) for run in "ab" for split in (0, 1)]
    assert names(again) == ["a, split 0", "a, split 1", "b, split 0", "b, split 1"]
    with pytest.raises(ValueError, match="no runs"):
        names([])


def test_functions_that_do_not_fit_are_refused_in_words(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    rows, lines = two_runs(tmp_path, draws=2), networks(tmp_path, 2)
    for figure in (functional_diversity, under_over):
        with pytest.raises(ValueError, match="not along a line"):
            figure(rows, outputs("a"), provenance)
    shorter = shown("short", {"functions": functions_on_line(tmp_path / "short.npz", points=20)})
    with pytest.raises(ValueError, match="different inputs"):
        functional_diversity([*lines, shorter], outputs("a"), provenance)
    other = lines[1]._replace(dataset="other")
    with pytest.raises(ValueError, match="airfoil and other: bands of different data sets"):
        functional_diversity([lines[0], other], outputs("a"), provenance)
    one = shown("one", {"functions": functions_on_rows(tmp_path / "one.npz", chains=3, draws=1)})
    with pytest.raises(ValueError, match="one draw; distances need at least 2"):
        wasserstein([one], outputs("a"), provenance)
    classes = changed(lines[0], mean=None, scale=None, probabilities=np.full((4, 50, 60, 2), 0.5, dtype=np.float32))
    with pytest.raises(ValueError, match="is a classification"):
        under_over([classes], outputs("a"), provenance)
    with pytest.raises(ValueError, match="5 runs: at most 4"):
        permuted_warmstarts([rows[0]] * 5, outputs("a"), provenance)
    assert not outputs("a").png.exists()


def test_evidence_crosses_where_it_first_reaches_the_level(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    level = np.log(100)
    chains = [(0, [1.0, level - 1e-9, level + 1e-9, 0.0]), (1, [5.0, 1.0]), (4, [-1.0, -2.0, -3.0, 4.6])]
    run = evidence(tmp_path / "e.parquet", chains)
    for folder in ("a", "b"):
        stopping_rule([run], outputs(folder), provenance)
    assert outputs("a").png.read_bytes() == outputs("b").png.read_bytes()
    table = pd.read_csv(outputs("a").csv)
    crossing = table.groupby("chain")["crossing"].first()
    assert crossing[0] == 3
    assert crossing[1] == 1
    assert np.isnan(crossing[4])
    assert (table["alpha"] == 0.01).all()
    assert list(table.loc[table["chain"] == 4, "log_e"]) == [-1.0, -2.0, -3.0, 4.6]


@pytest.mark.parametrize(
    ("second", "title"),
    [
        ([5.0, 1.0], "a: 2 of 2 chains reach 100\nat draws 1 to 3 (median 2)\nthe rule ends all chains after draw 3"),
        ([-1.0, 1.0], "a: 1 of 2 chains reach 100\nat draw 3\nthe rule ends no chain"),
    ],
)
def test_the_title_says_whether_the_rule_ends_the_block(tmp_path: Path, second: list[float], title: str) -> None:
    run = evidence(tmp_path / "e.parquet", [(0, [0.0, 1.0, 6.0]), (1, second)])
    assert _title(Evidence.read(run.files["e_values"], "a")) == title


def test_evidence_that_is_not_finite_is_kept_and_only_plus_infinity_crosses(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    chains = [(0, [1.0, np.inf]), (1, [-1.0, -np.inf]), (2, [np.nan, np.nan]), (3, [0.0, 3000.0])]
    stopping_rule([evidence(tmp_path / "e.parquet", chains)], outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    assert table.groupby("chain")["crossing"].first().fillna(0).tolist() == [2, 0, 0, 2]
    assert table["log_e"].tolist()[1:4:2] == [np.inf, -np.inf]
    assert table.loc[table["chain"] == 2, "log_e"].isna().all()


def test_long_evidence_keeps_the_crossing_among_the_drawn_points(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    values = np.full(3000, -1.0)
    values[2718] = 50.0
    stopping_rule([evidence(tmp_path / "e.parquet", [(0, values.tolist())])], outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    assert len(table) < 600
    assert table.loc[table["log_e"] == 50.0, "draw"].tolist() == [2719]


def test_files_of_evidence_that_say_nothing_are_refused(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"none\.parquet: there are no E-values"):
        stopping_rule([evidence(tmp_path / "none.parquet", [])], outputs("a"), provenance)
    pd.DataFrame({"chain": [0], "draw": [1], "log_e": [0.0]}).to_parquet(tmp_path / "plain.parquet")
    with pytest.raises(ValueError, match=r"plain\.parquet"):
        stopping_rule([shown("a", {"e_values": tmp_path / "plain.parquet"})], outputs("a"), provenance)
