"""The table of methods against data sets: means, ranks, bold cells and LaTeX."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.uci_table import uci_numbers, uci_table
from bnn_atlas.figures.latex import escape
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import read_table, write_table

from .conftest import tex
from .set_files import CONVERGED, UNCONVERGED
from .shown import shown


def run(folder: Path, label: str, dataset: str, lppd: float, rmse: float = 0.5, seed: int = 1, **changes: Any) -> Shown:
    """One run of a method on a data set, with its table; rows of other sets and metrics are there too."""
    name = f"{label}-{dataset}-{seed}".replace(" ", "")
    rows = [
        Row("s", name, "paper", 0, where, "mlp", "m", 10, 100, metric, value)
        for where, metric, value in (
            (dataset, "lppd", lppd), (dataset, "rmse", rmse), (f"{dataset}/far", "lppd", 9.0), (dataset, "other", 9.0),
        )
    ]  # fmt: skip
    path = folder / f"{name}.parquet"
    write_table(path, rows)
    point = {"dataset": dataset, "seed": seed}
    return shown(
        name, {"table": path}, **({"entry": label, "label": label, "point": point, "dataset": dataset} | changes)
    )


def numbers(runs: list[Shown], metric: str = "lppd") -> pd.DataFrame:
    found = uci_numbers(runs)
    return found[found["metric"] == metric].set_index(["method", "dataset"])


def written(folder: Path, runs: list[Shown], scale: str = "paper") -> str:
    reductions = {"uci": [] if scale == "paper" else ["method.warmup: 50000 -> 15000"]}
    return tex(uci_table, runs, folder, scale=scale, reductions=reductions)


def test_mean_and_sd_are_over_seeds(tmp_path: Path) -> None:
    values = np.array([0.1, 0.4, 0.7])
    found = numbers([run(tmp_path, "MILE", "airfoil", v, seed=i) for i, v in enumerate(values)])
    cell = found.loc["MILE", "airfoil"]
    assert (cell["repetitions"], cell["mean"]) == (3, pytest.approx(0.4))
    assert cell["sd"] == pytest.approx(values.std(ddof=1))
    assert math.isnan(numbers([run(tmp_path, "MILE", "airfoil", 0.1)]).loc["MILE", "airfoil"]["sd"])


def test_the_published_lppd_follows_where_the_code_gets_a_method_wrong(tmp_path: Path) -> None:
    right, wrong = run(tmp_path, "MILE", "airfoil", 0.5), run(tmp_path, "Laplace", "airfoil", 0.1)
    assert "published" not in written(tmp_path, [right, wrong])
    rows = read_table(wrong.files["table"])
    published = rows[rows["metric"] == "lppd"].assign(metric="lppd_sommer", value=-1.2)
    write_table(wrong.files["table"], [Row(*row) for row in pd.concat([rows, published]).itertuples(index=False)])
    found = numbers([right, wrong], "lppd_sommer")
    assert found["mean"].tolist() == [0.5, -1.2]
    block = written(tmp_path, [right, wrong]).partition("LPPD as the published code computes it")[2]
    assert "0.500" in block
    assert "$-1.200$" in block
    assert "from the predictive variance" in block


def test_one_run_of_each_has_no_deviation_to_speak_of(tmp_path: Path) -> None:
    body = written(tmp_path, [run(tmp_path, "MILE", "airfoil", 0.5), run(tmp_path, "VI", "airfoil", 0.1)])
    assert "One run of each method on a data set, standardised targets; best value in bold." in body
    assert "deviation over" not in body
    unequal = [run(tmp_path, "MILE", "airfoil", 0.5), *(run(tmp_path, "VI", "airfoil", 0.1, seed=i) for i in (1, 2))]
    assert "over 1 to 2 seeds and splits" in written(tmp_path, unequal)


def test_ranks_share_ties_and_go_the_right_way(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, "A", "airfoil", 1.0, 0.1), run(tmp_path, "B", "airfoil", 1.0, 0.3),
        run(tmp_path, "C", "airfoil", 0.5, 0.2), run(tmp_path, "A", "energy", 0.0, 0.3),
        run(tmp_path, "B", "energy", 2.0, 0.2), run(tmp_path, "C", "energy", 1.0, 0.1),
    ]  # fmt: skip
    lppd, rmse = numbers(runs), numbers(runs, "rmse")
    assert lppd["rank"].to_dict() == {
        ("A", "airfoil"): 1.5, ("A", "energy"): 3, ("B", "airfoil"): 1.5, ("B", "energy"): 1, ("C", "airfoil"): 3,
        ("C", "energy"): 2,
    }  # fmt: skip
    assert lppd.index.tolist() == [(method, data) for method in "ABC" for data in ("airfoil", "energy")]
    assert lppd["mean_rank"].groupby("method").first().to_dict() == {"A": 2.25, "B": 1.25, "C": 2.5}
    assert rmse["mean_rank"].groupby("method").first().to_dict() == {"A": 2.0, "B": 2.5, "C": 1.5}
    assert lppd.index[lppd["best"]].tolist() == [("A", "airfoil"), ("B", "airfoil"), ("B", "energy")]


def test_a_method_that_lacks_a_data_set_is_not_ranked_there_and_it_is_said(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, "MILE", "airfoil", 1.0), run(tmp_path, "MILE", "energy", 1.0), run(tmp_path, "VI", "energy", 2.0),
    ]  # fmt: skip
    found = numbers(runs)
    assert found["mean_rank"].groupby("method").first().to_dict() == {"MILE": 1.5, "VI": 1.0}
    assert found.loc[("VI", "energy"), "ranked_datasets"] == 1
    text = written(tmp_path, runs)
    assert r"VI & -- & $\mathbf{2.000}$ & 1.00 \\" in text
    assert "data sets for which a method has a number: VI over 1 of 2." in text
    assert "VI over" not in written(tmp_path, runs[1:])
    reordered = written(tmp_path, [*runs[:2], run(tmp_path, "VI", "airfoil", 2.0)])
    assert r"method & Airfoil & Energy & mean rank \\" in reordered


def test_what_is_not_finite_is_shown_and_never_best(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, "A", "airfoil", -math.inf, math.nan), run(tmp_path, "B", "airfoil", math.nan, 0.5),
        run(tmp_path, "C", "airfoil", 0.1, 0.6),
    ]  # fmt: skip
    found = numbers(runs)
    assert found["rank"].dropna().to_dict() == {("A", "airfoil"): 2, ("C", "airfoil"): 1}
    assert found.index[found["best"]].tolist() == [("C", "airfoil")]
    text = written(tmp_path, runs)
    assert r"A & $-\infty$ & 2.00 \\" in text
    assert r"B & NaN & -- \\" in text
    worst = numbers([run(tmp_path, "A", "airfoil", -math.inf), run(tmp_path, "A", "airfoil", 1.0, seed=2)])
    assert worst["mean"].tolist() == [-math.inf]
    assert not worst["best"].any()


def diagnosed(one: Shown, values: Mapping[str, float], split: int = 0) -> Shown:
    """The run as chains of HMC with these diagnostics, as split `split`."""
    kept = [row for _, row in read_table(one.files["table"]).drop(columns=["split", "method"]).iterrows()]
    scores = [Row(**row, split=split, method="hmc") for row in kept]
    path = one.files["table"].with_name(f"{one.run}-split{split}.parquet")
    write_table(path, [*scores, *(scores[0]._replace(metric=name, value=value) for name, value in values.items())])
    return one._replace(method="hmc", split=split, files={"table": path})


def test_distrusted_cells_have_a_sign(tmp_path: Path) -> None:
    """HMC, the best everywhere, has one split on energy whose chains have not converged, and good ones on airfoil."""
    air, energy = (run(tmp_path, "HMC", dataset, 3.0, 0.1) for dataset in ("airfoil", "energy"))
    others = [run(tmp_path, "VI", dataset, 2.0) for dataset in ("airfoil", "energy")]
    runs = [diagnosed(air, CONVERGED), diagnosed(energy, CONVERGED), diagnosed(energy, UNCONVERGED, 1), *others]
    found = numbers(runs)
    assert found.index[found["distrusted"]].tolist() == [("HMC", "energy")]
    assert found.index[found["best"]].tolist() == [("HMC", "airfoil"), ("HMC", "energy")]
    text = written(tmp_path, runs)
    assert r"HMC & $\mathbf{3.000}$ & $\mathbf{3.000} \pm 0.000$ $\dagger$ & 1.00 \\" in text
    assert r"$\dagger$ not to be trusted: HMC on Energy (R-hat of function values up to 1.80; " in text
    csv = pd.read_csv(tmp_path / "table.csv")
    assert csv["distrusted"].tolist() == [False, True, False, False] * 2
    assert "dagger" not in written(tmp_path, [runs[0], *others])


def test_the_latex_holds_one_row_per_method(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, label, dataset, value + seed / 10, seed=seed, likelihood=likelihood)
        for label, value, likelihood in (("MILE & co", 0.9, "learned_noise"), ("Laplace", 0.1, "gaussian"))
        for dataset in ("air_foil", "energy")
        for seed in (1, 2)
    ]
    text = written(tmp_path, runs, scale="laptop")
    assert all(line.startswith("%") for line in text.splitlines()[:2])
    body = text.partition(r"\begin{tabular}{lrrr}")[2]
    assert body.count(r"\midrule") == 2
    assert r"method & Air\_foil & Energy & mean rank \\" in body
    assert r"MILE \& co & $\mathbf{1.050} \pm 0.071$ & $\mathbf{1.050} \pm 0.071$ & 1.00 \\" in body
    assert r"Laplace & $0.250 \pm 0.071$ & $0.250 \pm 0.071$ & 2.00 \\" in body
    assert "over 2 seeds and splits" in body
    assert r"Noise: one learned level (MILE \& co); known in advance (Laplace)." in body
    assert "Reduced setting: scale laptop" in body
    assert body.rstrip().endswith(r"\end{tabular}")


def test_a_run_without_rmse_is_refused(tmp_path: Path) -> None:
    one = run(tmp_path, "MILE", "airfoil", 1.0)
    write_table(one.files["table"], [Row("s", "r", "paper", 0, "airfoil", "mlp", "m", 1, 1, "lppd", 0.1)])
    with pytest.raises(ValueError, match="0 rows of 'rmse' for 'airfoil'"):
        uci_numbers([one])


def test_escaping() -> None:
    assert escape("50% of a_b & {c}\n$d$ #1 ~^\\ −1 ± 2") == (
        r"50\% of a\_b \& \{c\} \$d\$ \#1 \textasciitilde{}\textasciicircum{}\textbackslash{} $-$1 $\pm$ 2"
    )
