from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.cumulative_lppd import (
    HALF_HEIGHT,
    LEAST_HEIGHT,
    _lppd_figure,
    _papers,
    cumulative_lppd,
    lppd_curves,
)
from bnn_atlas.figures.shown import Published, Shown
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import write_table
from tests.figures.shown import shown

FIRST = {1: (0.6, 0.04), 2: (0.7, 0.03), 4: (0.75, 0.0)}


def rows(run: str, dataset: str = "airfoil", method: str = "mclmc", shift: float = 0.0, split: int = 0) -> list[Row]:
    common: dict[str, Any] = {
        "study": "s", "run": run, "scale": "demo", "split": split, "dataset": dataset, "model": "mlp", "method": method
    }  # fmt: skip
    chains = [
        Row(**common, chains=c, draws=100, metric="lppd_cumulative_chains", value=v + shift, standard_error=0.3)
        for c, (v, _) in FIRST.items()
    ]
    deviations = [
        Row(**common, chains=c, draws=100, metric="lppd_cumulative_chains_order_sd", value=sd)
        for c, (_, sd) in FIRST.items()
    ]
    return [*chains, *deviations, Row(**common, chains=4, draws=100, metric="rmse", value=0.1)]


def frame(*parts: list[Row]) -> pd.DataFrame:
    return pd.DataFrame([row for part in parts for row in part], columns=Row._fields)


def runs(folder: Path, table: pd.DataFrame, **changes: Any) -> list[Shown]:
    """The runs of a table, whose rows are in one file."""
    file = folder / "table.parquet"
    write_table(file, [Row(*row) for row in table.itertuples(index=False)])
    return [shown(str(run), {"table": file}, **changes) for run in dict.fromkeys(table["run"])]


def test_files_appear_with_the_plotted_numbers(tmp_path: Path) -> None:
    write_table(tmp_path / "table.parquet", rows("mile"))
    run = shown("mile", {"table": tmp_path / "table.parquet"}, label="MILE")
    table = cumulative_lppd([run]).numbers
    assert list(table["chains"]) == [1, 2, 4]
    assert list(table["mean"]) == [0.6, 0.7, 0.75]
    np.testing.assert_allclose(table["sd"], [0.04, 0.03, np.nan], rtol=1e-12)
    assert set(table["label"]) == {"MILE"}


def test_several_files_are_one_table(tmp_path: Path) -> None:
    files = [tmp_path / f"{run}.parquet" for run in ("mile", "hmc")]
    for file in files:
        write_table(file, rows(file.stem, method=file.stem))
    assert list(
        dict.fromkeys(cumulative_lppd([shown(file.stem, {"table": file}) for file in files]).numbers["label"])
    ) == ["mile", "hmc"]


def test_many_data_sets_and_methods_fit(tmp_path: Path) -> None:
    parts = [rows(f"{m}_{d}", d, m) for d in ("a", "b", "c", "d", "e") for m in ("mclmc", "hmc")]
    kinds = {"b": "classification", "c": "classification"}
    several = [
        run._replace(dataset=run.run[-1], task=kinds.get(run.run[-1], "regression"))
        for run in runs(tmp_path, frame(*parts))
    ]
    assert len(cumulative_lppd(several).numbers) == 5 * 2 * 3


def test_runs_are_chosen_ordered_and_averaged_by_label() -> None:
    table = frame(
        rows("mile-1", shift=0.1), rows("mile-2", shift=-0.1), rows("mile-wide", shift=9), rows("hmc", method="hmc")
    )
    curves = lppd_curves(table, {"hmc": "hmc", "mile-1": "MILE", "mile-2": "MILE"}, "t")
    assert list(dict.fromkeys(curves["label"])) == ["hmc", "MILE"]
    mile = curves[curves["label"] == "MILE"]
    np.testing.assert_allclose(mile["mean"], [0.6, 0.7, 0.75])
    between = np.var([0.1, -0.1], ddof=1)
    np.testing.assert_allclose(mile["sd"], np.sqrt(np.array([0.04, 0.03, 0]) ** 2 + between))
    assert set(mile["repetitions"]) == {2}


def test_splits_are_repetitions_and_counts_that_one_lacks_are_left_out() -> None:
    short = [row for row in rows("mile", split=1) if row.chains < 4]
    curves = lppd_curves(frame(rows("mile"), short), None, "t")
    assert list(curves["chains"]) == [1, 2]
    assert set(curves["repetitions"]) == {2}


def test_minus_infinity_leaves_a_gap_and_stays_in_the_csv(tmp_path: Path) -> None:
    table = frame(rows("mile"))
    table.loc[0, ["value", "standard_error"]] = [-np.inf, np.nan]
    saved = cumulative_lppd(runs(tmp_path, table)).numbers
    assert saved["mean"][0] == -np.inf
    assert np.isnan(saved["sd"][0])
    assert np.isfinite(saved["mean"][1:]).all()


def test_nothing_finite_still_makes_a_figure(tmp_path: Path) -> None:
    table = frame(rows("mile"))
    table["value"] = -np.inf
    assert (cumulative_lppd(runs(tmp_path, table)).numbers["mean"] == -np.inf).all()


def test_one_chain_is_enough(tmp_path: Path) -> None:
    table = frame([row for row in rows("mile") if row.chains == 1])
    assert list(cumulative_lppd(runs(tmp_path, table)).numbers["chains"]) == [1]


def test_bad_tables_are_refused_in_words(tmp_path: Path) -> None:
    write_table(tmp_path / "empty.parquet", [])
    with pytest.raises(ValueError, match=r"empty\.parquet: no rows with metric lppd_cumulative_chains"):
        cumulative_lppd([shown("mile", {"table": tmp_path / "empty.parquet"})])
    (run,) = runs(tmp_path, frame(rows("mile")))
    absent = [run._replace(run=name) for name in ("hmc", "mile", "nuts")]
    with pytest.raises(ValueError, match="no cumulative LPPD of hmc, nuts; it has mile"):
        cumulative_lppd(absent)
    table = frame(rows("mile"))
    table.loc[1, "value"] = np.nan
    with pytest.raises(ValueError, match="lppd_cumulative_chains of run mile, split 0 at 2 chains is NaN"):
        cumulative_lppd(runs(tmp_path, table))


def test_runs_of_one_name_in_two_studies_are_two_lines(tmp_path: Path) -> None:
    for study, shift in (("s", 0.0), ("t", 1.0)):
        write_table(tmp_path / f"{study}.parquet", [row._replace(study=study) for row in rows("mile", shift=shift)])
    ours = shown("mile", {"table": tmp_path / "s.parquet"}, label="ours")
    theirs = shown("t/mile", {"table": tmp_path / "t.parquet"}, study="t", label="theirs")
    means = cumulative_lppd([ours, theirs]).numbers.groupby("label")["mean"].max()
    assert means["theirs"] == pytest.approx(means["ours"] + 1)


def test_published_numbers_are_marked_and_the_axes_hold_them(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, frame(rows("mile")), label="MILE")
    numbers = [
        Published("lppd_cumulative_chains", 0.61, 0.05, 1),
        Published("lppd_cumulative_chains", 0.80, None, 1000),
        Published("rmse", 0.14, None, None),
    ]
    saved = cumulative_lppd([run._replace(published=tuple(numbers))]).numbers.query("kind == 'published'")
    assert saved[["chains", "mean"]].values.tolist() == [[1, 0.61], [1000, 0.80]]
    papers = _papers([run._replace(published=tuple(numbers))])
    alone = Published("lppd_chain_mean", 0.59, 0.02, None)
    for given, expected in (((alone,), [0.59]), ((alone, numbers[0]), [0.61])):
        marks = _papers([run._replace(published=given)])
        assert marks.loc[marks["chains"] == 1, "mean"].tolist() == expected
    curves = lppd_curves(frame(rows("mile")), {"mile": "MILE"}, "t")
    upper, lower = _lppd_figure(curves, papers, set(), {"airfoil": "A"}).axes
    assert lower.get_xlim()[0] > 4
    np.testing.assert_allclose(lower.get_ylim(), [0.80 - HALF_HEIGHT, 0.80 + HALF_HEIGHT])
    assert upper.get_xlim()[1] > 1000
    low, high = upper.get_ylim()
    assert low < 0.56
    assert high > 0.80


def test_an_axis_is_never_lower_than_the_errors_over_rows() -> None:
    table = frame(rows("mile"))
    table.loc[table["metric"] == "lppd_cumulative_chains", "value"] *= 1e-3
    figure = _lppd_figure(lppd_curves(table, None, "t"), _papers([]), set(), {"airfoil": "A"})
    low, high = figure.axes[0].get_ylim()
    assert high - low == pytest.approx(LEAST_HEIGHT * 0.3)
