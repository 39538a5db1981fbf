from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.implicit_vi.generator_sizes import generator_sizes
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import write_table
from tests.figures.conftest import tex
from tests.figures.shown import shown
from tests.figures.small import IMPLICIT, fit


def run(name: str, file: Path, table: Path, sigma: float = 0.1, **changes: object):
    settings = {"method": {**IMPLICIT, "sigma": sigma}}
    return shown(name, {"fit": file, "table": table}, method="implicit", settings=settings, **changes)


VARIANCE = "variance_within_weight_median"
VARIANCES = (("a", 0, VARIANCE, 0.012), ("a", 1, VARIANCE, 0.018), ("b", 0, "rmse", 0.2))
"""Two splits of a, and none of b."""


def measured(path: Path, values: Sequence[tuple[str, int, str, float]] = VARIANCES) -> Path:
    """A metric table: run, split, metric and value."""
    write_table(
        path, [Row("s", a, "demo", b, "airfoil", "mlp", "implicit", 1, 9, c, d, None, "") for a, b, c, d in values]
    )
    return path


def test_one_row_for_a_generator(tmp_path: Path) -> None:
    small, large = fit(tmp_path / "a.npz", 10), fit(tmp_path / "b.npz", 2000, points=0)
    found = measured(tmp_path / "table.parquet")
    runs = [run("a", small, found), run("a", small, found, split=1), run("b", large, found)]
    text = tex(generator_sizes, runs, tmp_path)
    table = pd.read_csv(tmp_path / "table.csv")
    assert table[["entropy", "scored_by"]].drop_duplicates().to_numpy().tolist() == [
        ["Lanczos, 10 steps, 1 probe", "Lanczos, 3 steps, 1 probe"]
    ]
    assert table[["label", "noise", "weights", "points", "parameters"]].to_numpy().tolist() == [
        ["a", 3, 10, 1, 25],
        ["b", 3, 2000, 0, 2015],
    ]
    assert table["variance"].tolist() == pytest.approx([1.5, np.nan], nan_ok=True)
    entropy = "Lanczos, 10 steps, 1 probe; scored: Lanczos, 3 steps, 1 probe"
    assert rf"a & Airfoil & matrix multiplication & 3 & 10 & 1 & 25 & 2.5 & {entropy} & -- & 0.1 & 1.5 \\" in text
    assert rf"3 & 2,000 & 0 & 2,015 & 1.0 & {entropy} & -- & 0.1 & -- \\" in text


def test_fits_that_differ_in_sigma_alone_have_rows_of_their_own(tmp_path: Path) -> None:
    file = fit(tmp_path / "a.npz", 10)
    found = measured(tmp_path / "table.parquet", [("wide", 0, VARIANCE, 0.005), ("narrow", 0, VARIANCE, 1e-6)])
    runs = [run(name, file, found, sigma, label="LeNet") for name, sigma in (("wide", 0.05), ("narrow", 0.001))]
    text = tex(generator_sizes, runs, tmp_path)
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["label"].tolist() == ["LeNet", "LeNet"]
    assert table["sigma"].tolist() == [0.05, 0.001]
    assert table["variance"].tolist() == pytest.approx([2.0, 1.0])
    assert r"-- & 0.05 & 2 \\" in text
    assert r"-- & 0.001 & 1 \\" in text


def test_entropy_and_its_error_are_means_over_splits(tmp_path: Path) -> None:
    file = fit(tmp_path / "a.npz", 10)
    values = [
        ("a", 0, "entropy", -1200.0), ("a", 1, "entropy", -1300.5),
        ("a", 0, "entropy_error", 2.0), ("a", 1, "entropy_error", 3.0),
        ("exact", 0, "entropy", 12.34), ("exact", 0, "entropy_error", 0.0),
        ("vague", 0, "entropy", -760123.4), ("vague", 0, "entropy_error", 1234.5),
        ("without", 0, "entropy", 1.0),
    ]  # fmt: skip
    found = measured(tmp_path / "table.parquet", values)
    runs = [run("a", file, found, split=1), *(run(name, file, found) for name in ("a", "exact", "vague", "without"))]
    text = tex(generator_sizes, runs, tmp_path)
    table = pd.read_csv(tmp_path / "table.csv").set_index("label")
    assert table["mean_entropy"].to_dict() == {"a": -1250.25, "exact": 12.34, "vague": -760123.4, "without": 1.0}
    assert table["entropy_error"].tolist() == pytest.approx([2.5, 0, 1234.5, np.nan], nan_ok=True)
    for cell in (r"$-$1,250.2 $\pm$ 2.5", r"12.3 $\pm$ 0", r"$-$760,123 $\pm$ 1,234", "--"):
        assert f"1 probe & {cell} & 0.1 & " in text
