from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.methods_by_gradients import methods_by_gradients
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import read_table, write_rows, write_table
from tests.figures.shown import shown


def run(folder: Path, name: str, method: str, shift: float, counted: dict[str, float], **changes: Any) -> Shown:
    common: dict[str, Any] = {
        "study": "s", "run": name, "scale": "demo", "split": 0, "dataset": "airfoil", "model": "mlp", "method": method,
        "chains": 4,
    }  # fmt: skip
    curve = {1: -1.0, 10: -0.5, 100: -0.4} if method != "deep_ensemble" else {1: -0.6}
    rows = [
        Row(**common, draws=draws, metric="lppd_cumulative_draws", value=value + shift, standard_error=0.05)
        for draws, value in curve.items()
    ]
    note = "of all chains, of mini-batches of 64 rows" if method == "sghmc" else "of all chains, of the full data"
    rows += [Row(**common, draws=100, metric=metric, value=value, note=note) for metric, value in counted.items()]
    write_table(folder / f"{name}.parquet", rows)
    return shown(name, {"table": folder / f"{name}.parquet"}, method=method, **changes)


def runs(folder: Path) -> list[Shown]:
    return [
        run(folder, "mile", "mclmc", 0.0, {"gradients_sampling": 2000, "gradients_total": 12000}),
        run(folder, "hmc", "hmc", -0.1, {"gradients_sampling": 50000}),
        run(folder, "sghmc", "sghmc", -0.2, {"gradients_sampling": 400, "gradients_total": 800}),
        run(folder, "ensemble", "deep_ensemble", 0.0, {}),
    ]


def test_a_draw_costs_its_share_of_the_gradients(tmp_path: Path) -> None:
    curves = methods_by_gradients(runs(tmp_path)).numbers
    mile = curves[curves["label"] == "mile"]
    np.testing.assert_allclose(mile["gradients"], [10020, 10200, 12000])
    assert curves.loc[curves["label"].isin(["hmc", "ensemble"]), "gradients"].isna().all()
    assert set(curves.loc[curves["label"] == "sghmc", "of"]) == {"of mini-batches of 64 rows"}


def test_lines_and_runs_that_are_near_their_starts(tmp_path: Path) -> None:
    shown = [*runs(tmp_path), run(tmp_path, "nuts", "nuts", 0.0, {"gradients_total": 9, "prior_shell": 0.2})]
    drawing = methods_by_gradients(shown)
    assert len(drawing.numbers) == 13
    (ax,) = drawing.figure.axes
    assert [len(line.get_xdata()) for line in ax.lines if line.get_marker() == "None"] == [3, 2, 3, 2, 2]
    legend = [text.get_text() for text in drawing.figure.legends[0].get_texts()]
    assert "sghmc (4 chains, mini-batches)" in legend
    assert "nuts (4 chains, near their starts)" in legend


def test_seeds_are_averaged_and_other_differences_refused(tmp_path: Path) -> None:
    counted = {"gradients_sampling": 2000.0, "gradients_total": 12000.0}
    pair = [
        run(tmp_path, f"mile-{seed}", "mclmc", shift, counted, label="MILE", entry="mile", point={"seed": seed})
        for seed, shift in ((1, 0.1), (2, -0.1))
    ]
    curves = methods_by_gradients(pair).numbers
    np.testing.assert_allclose(curves["lppd"], [-1.0, -0.5, -0.4])
    assert set(curves["repetitions"]) == {2}


def test_a_run_of_which_only_the_score_of_all_draws_is_kept_has_its_last_point(tmp_path: Path) -> None:
    counted = {"gradients_sampling": 2000.0, "gradients_total": 12000.0, "lppd": -0.3}
    one = run(tmp_path, "nuts", "nuts", 0.0, counted)
    table = read_table(one.files["table"])
    write_rows(one.files["table"], table[table["metric"] != "lppd_cumulative_draws"])
    drawing = methods_by_gradients([runs(tmp_path)[0], one])
    (row,) = drawing.numbers[drawing.numbers["label"] == "nuts"].to_dict("records")
    assert (row["draws"], row["gradients"], row["lppd"]) == (100, 12000, -0.3)
    assert [note.partition(",")[0] for note in drawing.notes] == ["Only the last point is known of nuts"]
    assert methods_by_gradients(runs(tmp_path)).notes == []


def test_a_run_without_any_score_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "empty.parquet", [])
    with pytest.raises(ValueError, match=r"empty\.parquet: no rows lppd_cumulative_draws of run mile"):
        methods_by_gradients([shown("mile", {"table": tmp_path / "empty.parquet"})])
