"""Pruning curves: means over repeated orders, published marks, with and without dead inputs."""

from pathlib import Path

import pandas as pd
import pytest

from bnn_atlas.figures.permutation_symmetry.pruning_curves import pruning_controls, pruning_curves
from bnn_atlas.metrics.tables.parquet import PRUNING_SCHEMA, write_frame
from bnn_atlas.published import published_numbers

from .shown import shown

KEPT = (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 1)


def curves(path: Path) -> Path:
    rows = []
    for dead in ("kept", "removed"):
        for network, of, rank, repeats in (
            ("HMC", "mean", "sd of HMC", 1), ("HMC", "mean", "random", 2), ("HMC", "mean as sampled", "its own sd", 1),
            ("ensemble", "mean", "sd of HMC", 1), ("ensemble", "draw", "sd of ensemble", 1),
        ):  # fmt: skip
            for repeat in range(repeats):
                for kept in KEPT:
                    rows.append((network, of, rank, repeat, dead, float(kept), 5, kept / 200 + repeat / 10, 0.01, 1.0))
    write_frame(path, pd.DataFrame(rows, columns=PRUNING_SCHEMA.names), PRUNING_SCHEMA)
    return path


def test_curves_are_means_over_orders_beside_the_published_ones(tmp_path: Path) -> None:
    runs = [shown("hmc", {"pruning_curves": curves(tmp_path / "c.parquet")}, task="classification", dataset="mnist")]
    of_all, with_controls = pruning_curves(runs), pruning_controls(runs)
    of = of_all.numbers.set_index(["network", "of", "whose", "kept"]).sort_index()
    assert of.loc[("ensemble", "mean", "first", 20.0), ["accuracy", "published"]].tolist() == pytest.approx([10, 79.84])
    assert set(of_all.numbers["rank"]) == {"sd of HMC", "its own sd", "sd of ensemble"}
    assert [len(ax.lines) for ax in of_all.figure.axes] == [4, 4], "each curve and the published one"
    of = with_controls.numbers.set_index(["dead_inputs", "network", "rank", "kept"]).sort_index()
    assert of.loc[("kept", "HMC", "random", 50.0), "accuracy"] == pytest.approx(100 * (0.25 + 0.05))
    assert of.loc[("removed", "HMC", "random", 50.0), "orders"] == 2
    assert [ax.get_title("right") for ax in with_controls.figure.axes[:2]] == ["HMC", "ensemble"]


def test_every_published_curve_has_a_value_at_each_share() -> None:
    curves: dict[str, list[str]] = {}
    for one in published_numbers("permutation_symmetry", "pruning"):
        curves.setdefault(one.label, []).append(one.x)
    assert len(curves) == 8
    assert {len(kept) for kept in curves.values()} == {12}
