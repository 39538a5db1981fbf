"""The table of compact representations: cells, published numbers by label, repetitions."""

from pathlib import Path

import pandas as pd
import pytest

from bnn_atlas.figures.permutation_symmetry.compact_agreement import compact_agreement, compact_numbers
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import tex
from tests.figures.set_files import UNCONVERGED, written


def run(folder: Path, name: str, accuracy: float, near: float | None = None, note: str = "", **changes) -> Shown:
    values = {} if near is None else {"agreement": (near, 0.01), "total_variation": (1 - near, 0.02)}
    against = {"hmc": {"test": values}} if values else None
    return written(folder, name, {"accuracy": (accuracy, 0.005)}, None, against, note, **changes)


def test_cells_and_published_numbers(tmp_path: Path) -> None:
    shown = [
        run(tmp_path, "hmc", 0.98, label="HMC"),
        run(tmp_path, "q_r", 0.4, 0.41, label="HMC, q_r", note="reference not converged: R-hat 1.8"),
    ]
    text = tex(compact_agreement, shown, tmp_path)
    assert r"HMC & $0.980 \pm 0.005$ & -- & -- & $0.984$ & $1.000$ & $0.000$" in text
    assert (
        r"HMC, q\_r & $0.400 \pm 0.005$ & $0.410 \pm 0.010$ & $0.590 \pm 0.020$ & $0.823$ & $0.825$ & $0.657$" in text
    )
    assert "reference not converged: R-hat 1.8" in text
    assert len(pd.read_csv(tmp_path / "table.csv")) == 6


def test_the_csv_says_which_runs_should_not_be_trusted_as_the_table_does(tmp_path: Path) -> None:
    shown = [run(tmp_path, "hmc", 0.98, label="HMC"), written(tmp_path, "q_r", UNCONVERGED, label="q")]
    text = tex(compact_agreement, shown, tmp_path)
    assert (r"q $\dagger$ &" in text, r"HMC $\dagger$" in text) == (True, False)
    numbers = pd.read_csv(tmp_path / "table.csv")
    assert numbers.groupby("label")["distrusted"].all().to_dict() == {"HMC": False, "q": True}


def test_runs_of_one_label_are_averaged_over_seeds_only(tmp_path: Path) -> None:
    seeds = [
        run(tmp_path, f"q-{seed}", 0.4 + seed / 10, 0.5, label="q", entry="q", point={"seed": seed}) for seed in (0, 1)
    ]
    numbers = compact_numbers(seeds)[0].set_index("metric")
    assert numbers.loc["accuracy", "value"] == pytest.approx(0.45)
    assert numbers.loc["accuracy", "error"] == pytest.approx(0.05)
    assert numbers["published"].isna().all()
