from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.figures.kinds.calibration import calibration
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import write_table
from tests.figures.set_files import written
from tests.figures.shown import shown

LEVELS = (0.5, 0.75, 0.9, 0.95)


def run(folder: Path, name: str, excess: float, rows: int = 400, **changes: Any) -> Shown:
    shares = np.full(10, 0.1) + excess * np.array([-1, 1] * 5)
    values = {f"coverage@{level:g}": level + excess for level in LEVELS}
    values |= {f"pit_histogram@{(i + 1) / 10:g}": float(share) for i, share in enumerate(shares)}
    one = written(folder, name, values, **{"dataset": "airfoil", "task": "regression", "method": "mclmc", **changes})
    np.savez(folder / f"{name}.npz", pit=np.zeros((4, rows)))
    return one._replace(files={**one.files, "predictive": folder / f"{name}.npz"})


def test_files_hold_both_metrics(tmp_path: Path) -> None:
    runs = [run(tmp_path, "good", 0.0), run(tmp_path, "wide", 0.04)]
    table = calibration(runs).numbers
    table = table[table["chains"] == table["chains"].max()]
    assert len(table) == 2 * (4 + 10)
    assert set(table["rows"]) == {400}
    np.testing.assert_allclose(table.query("run == 'wide' and metric == 'coverage'")["value"], np.add(LEVELS, 0.04))


def test_what_is_outside_chance_is_named(tmp_path: Path) -> None:
    figure = calibration([run(tmp_path, "good", 0.001), run(tmp_path, "wide", 0.06)]).figure
    good, wide = figure.axes[:2]
    assert not good.texts
    # 1.96 sqrt(0.25 / 400) = 0.049 at the level 0.5, less at the others.
    # 95% is too near to 90% for a label of its own.
    assert [text.get_text() for text in wide.texts] == ["+6%"] * 3


def test_seeds_share_a_column(tmp_path: Path) -> None:
    pair = [
        run(tmp_path, f"mile-{seed}", excess, label="MILE", entry="mile", point={"seed": seed})
        for seed, excess in ((1, 0.02), (2, -0.02))
    ]
    figure = calibration(pair).figure
    assert len(figure.axes) == 2
    np.testing.assert_allclose(figure.axes[0].lines[-1].get_ydata(), 0, atol=1e-12)


def test_fewer_chains_are_averaged_in_groups(tmp_path: Path) -> None:
    one = run(tmp_path, "mile", 0.0, chains=4)
    # Chains of PIT values 0 and 1 cover nothing; averages of two of them cover everything.
    np.savez(one.files["predictive"], pit=np.repeat([[0.0], [1.0], [1.0], [0.0]], 400, axis=1))
    coverage = calibration([one]).numbers.query("metric == 'coverage'").groupby("chains")["value"].mean()
    assert coverage.to_dict() == {1: 0.0, 2: 1.0, 4: pytest.approx(np.mean(LEVELS))}


def test_other_tables_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "empty.parquet", [])
    with pytest.raises(ValueError, match="no coverage and no pit_histogram of run mile; only regressions have them"):
        calibration([shown("mile", {"table": tmp_path / "empty.parquet"})])
