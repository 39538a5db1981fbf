from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.stopping_rule import Evidence, _title, stopping_rule
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import write_e_values, write_table

from .shown import shown

SHIFT = 1000.0
"""How much less evidence there is against the ensemble here."""


def evidence(path: Path, chains: list[tuple[int, list[float]]], alpha: float = 0.01) -> Shown:
    write_e_values(path, [(number, np.array(values), np.array(values) - SHIFT) for number, values in chains], alpha)
    write_table(path.with_suffix(".table"), [])
    return shown("MILE", {"e_values": path, "table": path.with_suffix(".table")})


def test_evidence_crosses_where_it_first_reaches_the_level(tmp_path: Path) -> None:
    level = np.log(100)
    chains = [(0, [1.0, level - 1e-9, level + 1e-9, 0.0]), (1, [5.0, 1.0]), (4, [-1.0, -2.0, -3.0, 4.6])]
    run = evidence(tmp_path / "e.parquet", chains)
    table = stopping_rule([run]).numbers
    crossing = table.groupby("chain")["crossing"].first()
    assert crossing[0] == 3
    assert crossing[1] == 1
    assert crossing.isna()[4]
    assert table["crossing_ensemble"].isna().all()
    np.testing.assert_allclose(table["log_e_ensemble"], table["log_e"] - SHIFT)
    assert (table["alpha"] == 0.01).all()
    assert list(table.loc[table["chain"] == 4, "log_e"]) == [-1.0, -2.0, -3.0, 4.6]


def test_evidence_that_is_not_finite_is_kept_and_only_plus_infinity_crosses(tmp_path: Path) -> None:
    chains = [(0, [1.0, np.inf]), (1, [-1.0, -np.inf]), (2, [np.nan, np.nan]), (3, [0.0, 3000.0])]
    table = stopping_rule([evidence(tmp_path / "e.parquet", chains)]).numbers
    assert table.groupby("chain")["crossing"].first().fillna(0).tolist() == [2, 0, 0, 2]
    assert table["log_e"].tolist()[1:4:2] == [np.inf, -np.inf]
    assert table.loc[table["chain"] == 2, "log_e"].isna().all()


def test_long_evidence_keeps_the_crossing_among_the_drawn_points(tmp_path: Path) -> None:
    values = np.full(3000, -1.0)
    values[2718] = 50.0
    table = stopping_rule([evidence(tmp_path / "e.parquet", [(0, values.tolist())])]).numbers
    assert len(table) < 600
    assert table.loc[table["log_e"] == 50.0, "draw"].tolist() == [2719]


def test_files_of_evidence_that_say_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.parquet: there are no E-values"):
        stopping_rule([evidence(tmp_path / "none.parquet", [])])
    pd.DataFrame({"chain": [0], "draw": [1], "log_e": [0.0]}).to_parquet(tmp_path / "plain.parquet")
    with pytest.raises(ValueError, match=r"plain\.parquet"):
        stopping_rule([shown("a", {"e_values": tmp_path / "plain.parquet"})])


@pytest.mark.parametrize(
    ("second", "title"),
    [
        ([5.0, 1.0], "a, against\nown warm start:\n2 of 2 reach 100 at draws 1 to 3"),
        ([-1.0, 1.0], "a, against\nown warm start:\n1 of 2 reach 100 at draw 3"),
    ],
)
def test_the_title_says_how_many_get_there(tmp_path: Path, second: list[float], title: str) -> None:
    run = evidence(tmp_path / "e.parquet", [(0, [0.0, 1.0, 6.0]), (1, second)])
    own, ensemble = Evidence.read(run.files["e_values"], "a")
    assert _title(own) == title
    assert _title(ensemble) == "a, against\nall warm starts together:\n0 of 2 reach 100"
    assert ensemble.chains[0]["log_e"].tolist() == [-1000.0, -999.0, -994.0]


def test_lines_are_evidence_per_draw_and_the_level_falls(tmp_path: Path) -> None:
    run = evidence(tmp_path / "e.parquet", [(0, [10.0, 5000.0]), (1, [-20.0, -30000.0])])
    table = tmp_path / "table.parquet"
    of = {"study": "s", "run": "MILE", "scale": "demo", "split": 0, "dataset": "d", "model": "m", "method": "mclmc"}
    write_table(table, [Row(**of, chains=2, draws=n, metric="lppd_cumulative_draws", value=0.1 * n) for n in (1, 2)])
    drawing = stopping_rule([run._replace(files={**run.files, "table": table})])
    own, _, lppd = drawing.figure.axes
    assert [line.get_ydata().tolist() for line in own.lines if len(line.get_xdata()) == 2] == [
        [10.0, 2500.0], [-20.0, -15000.0]
    ]  # fmt: skip
    np.testing.assert_allclose(own.lines[-1].get_ydata()[[0, -1]], [np.log(100), np.log(100) / 2])
    assert lppd.lines[0].get_ydata().tolist() == [0.1, 0.2]
    assert drawing.numbers["lppd"].tolist() == [0.1, 0.2] * 2
