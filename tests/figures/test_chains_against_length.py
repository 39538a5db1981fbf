from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.hmc_posteriors.chains_against_length import chains_against_length, length_table
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import read_table, write_rows
from tests.figures.swept import swept

DRAWS = (10, 25, 50, 100)


def run(folder: Path, *, converged: bool = True, metrics: tuple[str, ...] = ("accuracy", "lppd", "ece")) -> Shown:
    """Three chains; a score is 0.5 + k / 1000 of a chain alone with k draws, and 0.1 more of all."""
    one = swept(folder, "long", converged=converged)
    table = read_table(one.files["table"])
    first = table[table["metric"] == "accuracy"]
    rows = [
        first.assign(metric=f"{metric}{name}", draws=k, value=0.5 + k / 1000 + more, standard_error=error)
        for metric in metrics
        for name, more, error in (("_chain_mean_cumulative_draws", 0.0, 0.03), ("_cumulative_draws", 0.1, np.nan))
        for k in DRAWS
    ]
    curves = pd.concat(rows, ignore_index=True)
    others = table[~table["metric"].isin(curves["metric"])]
    write_rows(one.files["table"], pd.concat([others, curves], ignore_index=True))
    return one


def test_averages_are_at_the_number_of_all_their_draws(tmp_path: Path) -> None:
    table = chains_against_length([run(tmp_path)]).numbers
    own = table[(table["kind"] == "run") & (table["metric"] == "accuracy")]
    one, every = (own[own["of"] == of].set_index("draws") for of in ("one chain", "all chains"))
    assert one["value"].to_dict() == pytest.approx({10: 0.51, 25: 0.525, 50: 0.55, 100: 0.6})
    assert every["value"].to_dict() == pytest.approx({30: 0.61, 75: 0.625, 150: 0.65, 300: 0.7})
    assert one["error"].tolist() == [0.03] * 4
    assert every["error"].isna().tolist() == [True, True, True, False], "the Monte Carlo error is that of all draws"
    assert every["error"].iloc[-1] == 0.01
    theirs = table[table["kind"] == "published"]
    assert theirs["of"].eq("CIFAR-10").all()
    assert len(theirs) == 15


def test_the_lppd_is_what_is_still_to_gain_and_published_numbers_have_a_row_of_their_own(tmp_path: Path) -> None:
    one = run(tmp_path)
    table = read_table(one.files["table"])
    of_all = table["metric"] == "lppd_cumulative_draws"
    table.loc[of_all, "value"] = -0.3 - 1.0 / (3 * table["draws"])  # c = 1
    write_rows(one.files["table"], table)
    own, paper = chains_against_length([one]).figure.axes[1], chains_against_length([one]).figure.axes[4]
    _, every = (line for line in own.lines if len(line.get_xdata()) == len(DRAWS))
    assert every.get_ydata() == pytest.approx([1 / 30, 1 / 75, 1 / 150, 1 / 300], rel=1e-6)
    sides = [(text.get_text(), text.get_ha()) for text in paper.texts]
    assert sides == [("1", "left"), ("2", "right"), ("3", "left"), ("2", "right"), ("3", "left")], "none on another"


def test_chains_that_do_not_pass_are_told_of(tmp_path: Path) -> None:
    table, words = length_table([run(tmp_path, converged=False)])
    assert not table["converged"].any()
    assert words == "reference not converged: x"
    table, words = length_table([run(tmp_path)])
    assert table["converged"].all()
    assert words == "reference converged: x"


def test_what_has_no_curves_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run long has no ece_chain_mean_cumulative_draws and ece_cumulative_draws"):
        length_table([run(tmp_path, metrics=("accuracy", "lppd"))])
