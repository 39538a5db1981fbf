"""Pooling over seeds and splits: what is a repetition, what is not, and that nothing is left out."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.files import TableError
from bnn_atlas.metrics.formulas.repetitions import Repetitions, over_repetitions
from bnn_atlas.metrics.judgement.pooled import SCHEMA, GridPoint, point_text, summarise, write_summary
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import read_table, write_table
from tests.claims.making import row

RUNS = {
    f"grid-scale{scale}-seed{seed}": GridPoint("grid", {"prior.scale": scale, "seed": seed})
    for scale in (0.1, 1.0)
    for seed in (1, 2, 3)
} | {"single": GridPoint("single", {})}


def pooled(folder: Path, rows: list[Row]) -> pd.DataFrame:
    write_table(folder / "table.parquet", rows)
    return summarise(read_table(folder / "table.parquet"), RUNS)


def test_seeds_and_splits_are_pooled_and_grid_points_are_not(tmp_path: Path) -> None:
    values = np.array([0.1, 0.2, 0.6, 0.7])
    rows = [
        *(row(f"grid-scale0.1-seed{seed}", v) for seed, v in zip((1, 2, 3), values, strict=False)),
        row("grid-scale0.1-seed3", values[3], split=1),
        *(
            row("grid-scale0.1-seed3", rows, split=1, metric=m)
            for m, rows in (("rows_test", 30.0), ("rows_train", 120.0))
        ),
        row("grid-scale1.0-seed1", 5.0),
        row("single", 7.0),
    ]
    found = pooled(tmp_path, rows)
    first, second, third = found[found["metric"] == "rmse"].to_dict("records")
    assert [(r["entry"], r["point"], r["n"]) for r in (first, second, third)] == [
        ("grid", "prior.scale=0.1", 4), ("grid", "prior.scale=1.0", 1), ("single", "", 1),
    ]  # fmt: skip
    assert first["mean"] == pytest.approx(values.mean())
    assert first["sd"] == pytest.approx(values.std(ddof=1))
    means = np.array([values[:3].mean(), values[3]])
    assert first["standard_error"] == pytest.approx(math.sqrt(means.var(ddof=1) * (1 / 2 + 30 / 120)))
    assert first["over"] == "splits"
    assert (first["min"], first["max"]) == (0.1, 0.7)
    assert (second["mean"], second["not_finite"]) == (5.0, 0)
    assert math.isnan(second["sd"])
    assert math.isnan(second["standard_error"])


def test_sets_and_metrics_are_apart(tmp_path: Path) -> None:
    rows = [row("single", 1.0), row("single", 2.0, dataset="airfoil/far"), row("single", 3.0, metric="lppd")]
    assert pooled(tmp_path, rows)["mean"].tolist() == [1.0, 2.0, 3.0]


def test_all_chains_and_draws_are_taken_and_the_lppd_by_chains_is_kept(tmp_path: Path) -> None:
    rows = [
        *(row("single", c / 10, metric="lppd_cumulative_chains", chains=c) for c in (1, 2, 10)),
        *(row("single", c / 100, metric="lppd_cumulative_chains_order_sd", chains=c) for c in (1, 2)),
        *(row("single", s / 10, metric="lppd_cumulative_draws", draws=s) for s in (1, 100)),
        row("single", 0.5, chains=3, metric="other"),
        row("single", 0.7, chains=10, metric="other"),
        row("single", 0.6, chains=10, draws=50, metric="other"),
    ]
    found = pooled(tmp_path, rows)
    assert found[["metric", "chains", "draws", "mean"]].values.tolist() == [
        ["lppd_cumulative_chains", 1, 100, 0.1],
        ["lppd_cumulative_chains", 2, 100, 0.2],
        ["lppd_cumulative_chains", 10, 100, 1.0],
        ["lppd_cumulative_chains_order_sd", 1, 100, 0.01],
        ["lppd_cumulative_chains_order_sd", 2, 100, 0.02],
        ["other", 10, 100, 0.7],
    ]


def test_a_seed_with_an_excluded_chain_is_still_pooled(tmp_path: Path) -> None:
    seeds = [f"grid-scale0.1-seed{seed}" for seed in (1, 2)]
    rows = [row(seeds[0], 0.5), row(seeds[1], 0.7, chains=9)]
    for c in (1, 9, 10):
        rows += [row(r, 0.1, metric="lppd_cumulative_chains", chains=c) for r in seeds[: 1 if c == 10 else 2]]
    found = pooled(tmp_path, rows)
    assert found["n"].tolist() == [2, 2, 2, 1]
    assert math.isnan(found["chains"][0])
    assert found["chains"][1:].tolist() == [1, 9, 10]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_counted_and_not_left_out(tmp_path: Path, bad: float) -> None:
    rows = [row(f"grid-scale0.1-seed{seed}", v) for seed, v in zip((1, 2, 3), (0.1, bad, 0.3), strict=True)]
    found = pooled(tmp_path, rows)
    assert (found["n"][0], found["not_finite"][0]) == (3, 1)
    np.testing.assert_equal(found["mean"][0], bad)
    assert found[["sd", "standard_error"]].isna().all(axis=None)


def test_a_metric_is_pooled_at_each_of_its_parameters(tmp_path: Path) -> None:
    seeds = [f"grid-scale0.1-seed{seed}" for seed in (1, 2)]
    rows = [row(s, v, metric="coverage", at=at) for at, v in (("0.5", 0.4), ("0.9", 0.8)) for s in seeds]
    found = pooled(tmp_path, rows)
    assert found[["metric", "at", "n", "mean"]].values.tolist() == [
        ["coverage", "0.5", 2, 0.4],
        ["coverage", "0.9", 2, 0.8],
    ]


def test_one_repetition_has_no_spread() -> None:
    one = over_repetitions([2.0])
    assert (one.n, one.mean, one.low, one.high) == (1, 2.0, 2.0, 2.0)
    assert math.isnan(one.sd)
    assert math.isnan(one.standard_error)
    three = over_repetitions(np.array([1.0, 2.0, 6.0]))
    assert three == (3, 3.0, 7**0.5, 7**0.5 / 3**0.5, 1.0, 6.0, "seeds")
    assert one.over == ""


def test_the_error_over_splits_is_that_of_means_that_share_rows() -> None:
    """Five random 80/20 splits of 300 rows with heavy tails, ridge regression: sd / sqrt(5) is 1.6 times too small."""
    rng = np.random.default_rng(0)
    truth, naive, corrected = [], [], []
    for _ in range(400):
        x = rng.normal(size=(300, 5))
        y = x @ np.arange(5.0) + rng.standard_t(4, size=300)
        scores = []
        for _ in range(5):
            order = rng.permutation(300)
            test, train = order[:60], order[60:]
            w = np.linalg.solve(x[train].T @ x[train] + np.eye(5), x[train].T @ y[train])
            scores.append(np.mean((x[test] @ w - y[test]) ** 2))
        truth.append(np.mean(scores))
        naive.append(over_repetitions(scores).standard_error)
        corrected.append(over_repetitions(scores, Repetitions(range(5), 60 / 240)).standard_error)
    sd = np.std(truth)
    assert np.sqrt(np.mean(np.square(naive))) < 0.75 * sd
    assert np.sqrt(np.mean(np.square(corrected))) == pytest.approx(sd, rel=0.2)


def test_splits_of_unknown_size_have_no_error() -> None:
    assert math.isnan(over_repetitions([1.0, 2.0], Repetitions([0, 1], math.nan)).standard_error)
    seeds = over_repetitions([1.0, 2.0], Repetitions([3, 3], math.nan))
    assert (seeds.over, seeds.standard_error) == ("seeds", pytest.approx(0.5))


def test_split_seeds_of_a_grid_are_splits(tmp_path: Path) -> None:
    runs = {f"one-{seed}": GridPoint("one", {"split.seed": seed}) for seed in (1, 2)}
    rows = [row(run, value) for run, value in zip(runs, (1.0, 2.0), strict=True)]
    rows += [row(run, n, metric=m) for run in runs for m, n in (("rows_test", 20.0), ("rows_train", 80.0))]
    write_table(tmp_path / "table.parquet", rows)
    first = summarise(read_table(tmp_path / "table.parquet"), runs).iloc[0]
    assert (first["over"], first["standard_error"]) == ("splits", pytest.approx(math.sqrt(0.5 * 0.75)))


def test_one_run_keeps_its_own_error_and_what_it_is_over(tmp_path: Path) -> None:
    first = row("single", 1.0, standard_error=0.1, over="rows", monte_carlo_error=0.05)
    found = pooled(tmp_path, [first, row("single", 2.0, metric="lppd_chain_mean", standard_error=0.2, over="chains")])
    assert found[["standard_error", "over"]].values.tolist() == [[0.1, "rows"], [0.2, "chains"]]
    assert found["monte_carlo_error"].iloc[0] == pytest.approx(0.05)
    seeds = [row(f"grid-scale0.1-seed{s}", 1.0, standard_error=0.1, over="rows", monte_carlo_error=e)
             for s, e in ((1, 0.3), (2, 0.4))]  # fmt: skip
    both = pooled(tmp_path, seeds).iloc[0]
    assert (both["over"], both["monte_carlo_error"]) == ("seeds", pytest.approx(0.25))


def test_the_worst_trust_of_the_repetitions_and_unconverged_references_are_said(tmp_path: Path) -> None:
    rows = []
    for seed, rhat in ((1, 1.01), (2, 3.8)):
        of_seed = {"chains_excluded": 0.0, "rhat_function_max": rhat, "ess_bulk_function_min": 900.0}
        rows += [row(f"grid-scale0.1-seed{seed}", value, metric=metric) for metric, value in of_seed.items()]
    word = "reference not converged: R-hat of function values up to 3.80"
    rows += [row("grid-scale0.1-seed1", 0.9, metric="agreement", at="hmc", note=f"against hmc; {word}")]
    rows += [row("single", 0.5)]
    found = pooled(tmp_path, rows).set_index(["entry", "metric"])
    assert found.loc[("grid", "rhat_function_max"), "trust"] == ("do not trust: R-hat of function values up to 3.80")
    assert found.loc[("single", "rmse"), "trust"] == "cannot be judged: the table has no diagnostics"
    assert found.loc[("grid", "agreement"), "note"] == word


def test_infinities_of_both_signs_have_no_mean(tmp_path: Path) -> None:
    rows = [row("grid-scale0.1-seed1", math.inf), row("grid-scale0.1-seed2", -math.inf)]
    found = pooled(tmp_path, rows)
    assert found["not_finite"].tolist() == [2]
    assert found["mean"].isna().all()


def test_strange_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"runs that the study does not have: gone"):
        pooled(tmp_path, [row("gone", 1.0)])
    with pytest.raises(TableError, match="run 'single', split 0: 'rmse' is given twice"):
        pooled(tmp_path, [row("single", 1.0), row("single", 2.0)])


def test_files_hold_the_same_numbers_and_the_same_bytes(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", [row("grid-scale0.1-seed1", 1 / 3), row("grid-scale0.1-seed2", 0.7, chains=9)])
    kept = []
    for _ in range(2):
        write_summary(tmp_path / "t.parquet", RUNS, tmp_path / "s.parquet", tmp_path / "s.csv")
        kept.append([(tmp_path / f"s.{kind}").read_bytes() for kind in ("parquet", "csv")])
    assert kept[0] == kept[1]
    parquet, csv = pd.read_parquet(tmp_path / "s.parquet"), pd.read_csv(tmp_path / "s.csv")
    assert list(parquet.columns) == list(csv.columns) == SCHEMA.names
    assert parquet["mean"].tolist() == csv["mean"].tolist() == [(1 / 3 + 0.7) / 2]
    assert csv["draws"].tolist() == [100]
    assert csv["chains"].isna().all()


def test_an_empty_table_gives_an_empty_summary(tmp_path: Path) -> None:
    assert list(pooled(tmp_path, []).columns) == SCHEMA.names


def test_points_as_text() -> None:
    point = {"dataset": "airfoil", "model.hidden": [16, 16], "prior.scale": 0.5, "seed": 3, "split.seed": 1}
    assert point_text(point) == "dataset=airfoil; model.hidden=[16,16]; prior.scale=0.5"


def test_marks_of_the_runs_are_in_the_note(tmp_path: Path) -> None:
    write_table(tmp_path / "table.parquet", [row("single", 7.0), row("other", 5.0)])
    runs = {"single": GridPoint("single", {}, ["scaled with test rows"]), "other": GridPoint("other", {})}
    assert summarise(read_table(tmp_path / "table.parquet"), runs)["note"].tolist() == ["scaled with test rows", ""]


def test_runs_with_another_kernel_give_the_spread_by_rounding(tmp_path: Path) -> None:
    runs = {f"{kernel}-seed{seed}": GridPoint(kernel, {"seed": seed}) for kernel in ("auto", "xla") for seed in (1, 2)}
    runs |= {f"auto-seed{s}": GridPoint("auto", {"seed": s}, rounded=f"xla-seed{s}") for s in (1, 2)}
    values = {"auto-seed1": 1.0, "auto-seed2": 2.0, "xla-seed1": 1.3, "xla-seed2": 1.6}
    rows = [row(run, value, split=split) for run, value in values.items() for split in (0, 1)]
    write_table(tmp_path / "table.parquet", [*rows, row("auto-seed1", 1.0, metric="lppd")])
    found = summarise(read_table(tmp_path / "table.parquet"), runs)
    expected = [math.sqrt((0.3**2 + 0.4**2) / 4), np.nan, np.nan]
    np.testing.assert_allclose(found["rounding_sd"], expected, rtol=1e-6)
