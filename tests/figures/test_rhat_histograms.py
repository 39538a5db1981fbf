from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.rhat_histograms import rhat_histograms
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import FUNCTION_SCHEMA, PARAMETER_SCHEMA, write_frame
from tests.figures.shown import shown
from tests.figures.synthetic_runs import correlated, write_run


def run(folder: Path, weights: list[float], functions: list[float], plain: float = 1.0, name: str = "hmc") -> Shown:
    """A run with these rank-normalised R-hats, and one plain R-hat for all."""
    files = {key: folder / f"{name}-{key}.parquet" for key in ("parameters", "function_values")}
    for file, schema, values in zip(
        files.values(), (PARAMETER_SCHEMA, FUNCTION_SCHEMA), (weights, functions), strict=True
    ):
        frame = pd.DataFrame(np.nan, index=range(len(values)), columns=schema.names).astype(object)
        write_frame(file, frame.assign(rhat=values, rhat_gelman_rubin=plain), schema)
    return shown(name, files)


def shares(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    below = table[table["kind"] == "at most 1.1"]
    return {
        (space.split()[0], form.split(",")[0].split("-")[0]): share
        for space, form, share in below[["space", "form", "share"]].itertuples(index=False)
    }


def test_shares_below_the_limit_and_bins_that_hold_all(tmp_path: Path) -> None:
    one = run(tmp_path, [1.0, 1.05, 1.1, 3.0, np.inf, 200.0], [0.999, 1.001, 1.2, np.nan], plain=1.3)
    table = rhat_histograms([one]).numbers
    assert shares(table) == pytest.approx(
        {("weights", "rank"): 0.5, ("weights", "plain"): 0.0, ("function", "rank"): 2 / 3, ("function", "plain"): 0.0}
    )
    bins = table[table["kind"] == "bin"].groupby(["space", "form"])["share"]
    np.testing.assert_allclose(bins.sum(), 1)
    weights = table[(table["kind"] == "bin") & (table["space"] == "weights") & table["form"].str.startswith("rank")]
    assert weights["share"].iloc[-1] == pytest.approx(2 / 6), "infinite and very large ones are in the last bin"
    found = table[(table["kind"] == "at most 1.1") & table["form"].str.startswith("rank")]
    assert found["left_out"].tolist() == [0, 1]
    remarks = ["without R-hat: constant draws" in ax.get_title("right") for ax in rhat_histograms([one]).figure.axes]
    assert remarks == [False, True], "in the panel that leaves values out, and only there"


def test_the_axis_ends_where_the_values_do(tmp_path: Path) -> None:
    narrow, wide = (rhat_histograms([run(tmp_path, [1.01, top], [1.0], name=f"{top}")]).figure for top in (1.02, 30.0))
    assert narrow.axes[0].get_xlim()[1] < 0 < wide.axes[0].get_xlim()[1]


def test_files_of_the_metrics_have_what_it_reads(tmp_path: Path) -> None:
    """Chains that agree, and chains apart: both forms of R-hat see it, in weights and in functions."""
    theta = correlated(3, 60)
    apart = theta + np.array([-1.0, 0, 1.0])[:, None, None]
    tables = {}
    for name, draws in (("same", theta), ("apart", apart)):
        files = write_run(tmp_path, draws, name=name)
        one = shown(name, {"parameters": Path(files.parameters), "function_values": Path(files.functions)})
        tables[name] = shares(rhat_histograms([one]).numbers)
    assert min(tables["same"].values()) > 0.6
    assert max(share for (space, _), share in tables["apart"].items() if space == "weights") == 0
    assert max(tables["apart"].values()) < 0.5, "functions of weights that cancel do not part"


def test_a_row_per_label_and_errors_that_say_what_to_do(tmp_path: Path) -> None:
    runs = [run(tmp_path, [1.0], [1.0], name=name) for name in ("a", "b")]
    assert list(dict.fromkeys(rhat_histograms(runs).numbers["label"])) == ["a", "b"]
    with pytest.raises(ValueError, match="c: weights: no R-hat is defined"):
        rhat_histograms([run(tmp_path, [np.nan], [1.0], name="c")])
    old = pd.read_parquet(runs[0].files["parameters"]).drop(columns="rhat_gelman_rubin")
    old.to_parquet(runs[0].files["parameters"])
    with pytest.raises(ValueError, match="no column rhat_gelman_rubin; delete it and run the metrics of a again"):
        rhat_histograms(runs)
