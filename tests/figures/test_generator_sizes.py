from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.implicit_vi.generator_sizes import generator_sizes
from bnn_atlas.figures.latex import TableOutputs
from bnn_atlas.metrics.tables.files import write_table
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.provenance import Provenance
from tests.figures.shown import shown


def fit(path: Path, weights: int, points: int = 1) -> Path:
    np.savez(
        path,
        **{
            "generator.branches.0.0.weight": np.zeros((2, 5, 3)),
            "generator.branches.0.1.bias": np.zeros((2, weights)),
            "generated": np.zeros((2, weights), int),
            "points": np.zeros((2, points), int),
            "noise": np.array([3, 3]),
            "point": np.zeros((2, points)),
        },
    )
    return path


def run(name: str, file: Path, table: Path, **changes: object):
    generator = {"kind": "matrix", "noise": [1, 3], "hidden": [[2, 2]]}
    settings = {"method": {"kind": "implicit", "generator": generator, "sigma": 0.1}}
    return shown(name, {"fit": file, "table": table}, method="implicit", settings=settings, **changes)


def variances(path: Path) -> Path:
    """A metric table with the median variances 0.012 and 0.018 of the two splits of a, and none of b."""
    rows = [
        Row("s", run, "demo", split, "airfoil", "mlp", "implicit", 1, 9, metric, value, None, "")
        for run, split, metric, value in (
            ("a", 0, "variance_within_weight_median", 0.012),
            ("a", 1, "variance_within_weight_median", 0.018),
            ("b", 0, "rmse", 0.2),
        )
    ]
    write_table(path, rows)
    return path


def test_one_row_for_a_generator(provenance: Provenance, tmp_path: Path) -> None:
    outputs = TableOutputs(tmp_path / "t.tex", tmp_path / "t.csv")
    small, large = fit(tmp_path / "a.npz", 10), fit(tmp_path / "b.npz", 2000, points=0)
    found = variances(tmp_path / "table.parquet")
    runs = [run("a", small, found), run("a", small, found, split=1), run("b", large, found)]
    generator_sizes(runs, outputs, provenance)
    table = pd.read_csv(outputs.csv)
    assert table[["entropy", "scored_by"]].drop_duplicates().to_numpy().tolist() == [
        ["Lanczos, 10 steps, 1 probe", "Lanczos, 3 steps, 1 probe"]
    ]
    assert table[["label", "noise", "weights", "points", "parameters"]].to_numpy().tolist() == [
        ["a", 3, 10, 1, 25],
        ["b", 3, 2000, 0, 2015],
    ]
    assert table["variance"].tolist() == pytest.approx([1.5, np.nan], nan_ok=True)
    text = outputs.tex.read_text(encoding="utf-8")
    entropy = "Lanczos, 10 steps, 1 probe; scored: Lanczos, 3 steps, 1 probe"
    assert rf"a & Airfoil & matrix multiplication & {entropy} & 3 & 10 & 1 & 25 & 2.5 & 1.5 \\" in text
    assert r"3 steps, 1 probe & 3 & 2,000 & 0 & 2,015 & 1.0 & nan \\" in text


def test_other_methods_are_refused(provenance: Provenance, tmp_path: Path) -> None:
    outputs = TableOutputs(tmp_path / "t.tex", tmp_path / "t.csv")
    with pytest.raises(ValueError, match="run 'mile' has the method mclmc, and only implicit runs"):
        generator_sizes([shown()], outputs, provenance)
