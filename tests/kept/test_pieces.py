"""What a page keeps of its results for the next sitting."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from bnn_atlas.files import TableError
from bnn_atlas.kept.jobs import JOB_COLUMNS
from bnn_atlas.kept.pieces import (
    FOLDER,
    RUN_COLUMNS,
    Piece,
    compact,
    kept_scale,
    read_piece,
    union,
    write_piece,
)
from tests.claims.making import row, table

ABOUT = ("0012", "12e4", "a machine", "jax 1", "", "xla", "256", "00e1")
"""Hashes that look like numbers, and more."""


def piece(folder: Path, **values: float) -> Piece:
    """A piece with the RMSE of some runs, a job and a figure of each, and their densities."""
    return Piece(
        scale="laptop",
        table=table(folder, [row(run, value) for run, value in values.items()]),
        runs=pd.DataFrame([(run, 0, *ABOUT) for run in values], columns=list(RUN_COLUMNS)),
        jobs=pd.DataFrame(
            [("sample", f"small/{run}", v, 2 * v, "m") for run, v in values.items()], columns=JOB_COLUMNS
        ),
        figures={f"of_{run}": "1" for run in values},
        densities={(run, 0, "lppd", 10): np.array([value, -1.23456, -np.inf]) for run, value in values.items()},
    )


def written(folder: Path, kept: Piece) -> Path:
    folder.mkdir()
    write_piece(folder, kept)
    return folder


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    rows = [row("one", 0.5), row("two", float("nan"))]
    made = piece(tmp_path, one=0.5, two=0.25)._replace(table=table(tmp_path, rows))
    page = written(tmp_path / "page", made)
    found = read_piece(page, "laptop")
    for name in ("table", "runs", "jobs"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(made, name))
    assert (found.figures, found.places) == (made.figures, {("one", 0), ("two", 0)})
    np.testing.assert_array_equal(found.densities["one", 0, "lppd", 10], np.float32([0.5, -1.235, -np.inf]))
    stored = pq.read_table(page / FOLDER / "metrics.parquet")
    assert (stored["value"].null_count, stored["standard_error"].null_count) == (0, 2), "a value may not be finite"
    assert (found.folder, kept_scale(page)) == (page, "laptop")
    again = written(tmp_path / "again", found)
    for file in (page / FOLDER).iterdir():
        assert (again / FOLDER / file.name).read_bytes() == file.read_bytes(), file.name


def test_a_page_from_before_draws_were_recorded_is_read(tmp_path: Path) -> None:
    runs = written(tmp_path / "page", piece(tmp_path, one=0.5)) / FOLDER / "runs.csv"
    pd.read_csv(runs, dtype=str).drop(columns=["kernel", "vector_bits", "draws"]).to_csv(runs, index=False)
    assert read_piece(tmp_path / "page", "laptop").runs[["kernel", "vector_bits", "draws"]].to_numpy().tolist() == [
        [""] * 3
    ]


def test_nothing_is_kept_where_there_is_nothing_and_of_another_scale(tmp_path: Path) -> None:
    assert kept_scale(tmp_path) is None
    for found in (read_piece(tmp_path, "laptop"), read_piece(written(tmp_path / "p", piece(tmp_path, a=1)), "paper")):
        assert (len(found.table), found.places, found.figures, found.densities) == (0, set(), {}, {})
    empty = written(tmp_path / "empty", Piece.empty("laptop"))
    assert read_piece(empty, "laptop").places == set()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    page = written(tmp_path / "page", piece(tmp_path, one=0.5))
    (page / FOLDER / "densities.parquet").write_bytes(b"no")
    with pytest.raises(TableError, match=r"page/kept: not what a page keeps .*restore it, or delete the folder"):
        read_piece(page, "laptop")


def test_fresh_results_replace_kept_ones_and_nothing_else(tmp_path: Path) -> None:
    fresh = piece(tmp_path, one=0.1, new=0.2)._replace(densities={})
    both = union(fresh, read_piece(written(tmp_path / "page", piece(tmp_path, one=0.5, old=0.3)), "laptop"))
    assert dict(zip(both.table["run"], both.table["value"], strict=True)) == {"one": 0.1, "new": 0.2, "old": 0.3}
    assert both.places == {("one", 0), ("new", 0), ("old", 0)}
    assert dict(zip(both.jobs["job"], both.jobs["seconds"], strict=True)) == {
        "small/one": 0.1, "small/new": 0.2, "small/old": 0.3,
    }  # fmt: skip
    assert both.figures.keys() == {"of_one", "of_new", "of_old"}
    assert both.densities.keys() == {("old", 0, "lppd", 10)}, "those of an earlier run do not belong to the fresh one"


def test_of_metrics_by_chains_only_rows_that_a_page_reads_are_kept(tmp_path: Path) -> None:
    rows = [row("one", 0.0, metric="lppd_cumulative_chains", chains=n) for n in range(1, 138)]
    rows += [row("one", 0.0, metric="lppd_cumulative_draws", draws=n) for n in range(1, 11)]
    rows += [row("two", 0.0, metric="lppd_cumulative_chains", chains=n) for n in (1, 3)]
    kept = compact(table(tmp_path, [*rows, row("one", 1.0)]), {37})
    by_draws = kept["metric"] == "lppd_cumulative_draws"
    assert kept[by_draws]["draws"].tolist() == list(range(1, 11)), "the points of a curve that figures show"
    kept = kept[~by_draws]
    assert kept[kept["run"] == "one"]["chains"].tolist() == [1, 2, 5, 10, 20, 37, 50, 100, 137, 10]
    assert kept[kept["run"] == "two"]["chains"].tolist() == [1, 3]
