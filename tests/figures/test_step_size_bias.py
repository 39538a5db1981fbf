from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnn_atlas.figures import style
from bnn_atlas.figures.kinds.step_size_bias import MOST_COLUMNS, step_size_bias
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import REFEREE_SCHEMA, write_frame, write_table
from tests.figures.shown import shown

CHAINS = 3


def run(folder: Path, variance: float, shift: float, mixed: bool = True, **changes: Any) -> Shown:
    """A run whose log-likelihood shifts by `shift` and whose LPPD falls from 1 to 0.5 (a chain's from 0 to -1)."""
    name = f"{changes.get('dataset', 'airfoil')}-{variance:g}"
    files = {key: folder / f"{name}-{key}.parquet" for key in ("table", "referee", "referee_chains")}
    one = shown(name, files, energy_variance=variance, entry="bias", **changes)
    common: dict[str, Any] = {
        "study": "s", "run": name, "scale": "demo", "split": 0, "dataset": one.dataset, "model": one.model,
        "method": one.method, "chains": CHAINS, "draws": 100,
    }  # fmt: skip
    tables: dict[str, list[tuple[str, float, float | None]]] = {
        "table": [
            ("lppd", 1.0, 0.3),
            ("lppd_chain_mean", 0.0, 0.1),
            ("energy_change_mean_square_per_dimension", 3 * variance, None),
        ],
        "referee": [
            ("referee_log_likelihood_shift", shift, 0.2),
            ("referee_log_prior_shift", -shift, 0.2),
            ("referee_lppd", 0.5, 0.3),
            ("referee_lppd_change", -0.5, 0.02),
            ("referee_lppd_chain_mean", -1.0, 0.1),
            ("referee_mixed", float(mixed), None),
        ],
    }
    note = "" if mixed else "the referee has not mixed and bounds nothing: R-hat 1.3"
    for key, rows in tables.items():
        write_table(files[key], [Row(**common, metric=m, value=v, standard_error=e, note=note) for m, v, e in rows])
    chains = pd.DataFrame(0.0, index=range(CHAINS), columns=REFEREE_SCHEMA.names)
    chains["chain"] = range(CHAINS)
    chains["log_likelihood_shift"] = shift + np.array([-0.4, 0, 0.4])
    write_frame(files["referee_chains"], chains, REFEREE_SCHEMA)
    return one


def two_sets(folder: Path) -> list[Shown]:
    return [
        run(folder, variance, shift, mixed, dataset=dataset)
        for dataset in ("airfoil", "energy")
        for variance, shift, mixed in ((0.5, 3.0, False), (0.005, 0.1, True))
    ]


def test_files_hold_what_is_drawn(tmp_path: Path) -> None:
    table = step_size_bias(two_sets(tmp_path)).numbers
    runs = table[(table["kind"] == "run") & (table["column"] == "Energy")].set_index("energy_variance")
    assert runs["shift"].to_dict() == {0.5: 3.0, 0.005: 0.1}
    assert runs["prior_shift"].to_dict() == {0.5: -3.0, 0.005: -0.1}
    np.testing.assert_allclose(runs["realised_energy_variance"], [1.5, 0.015])
    assert (runs["together_before"] + runs["together_change"] == runs["together_after"]).all()
    assert runs["mixed"].tolist() == [False, True]
    assert "bounds nothing" in runs.loc[0.5, "note"]
    chains = table[(table["kind"] == "chain") & (table["run"] == "airfoil-0.5")]
    np.testing.assert_allclose(chains["shift"], [2.6, 3.0, 3.4])


def marks(figure: Figure, panel: int, marker: str) -> list[Line2D]:
    """Marks of runs in a panel, which are drawn one by one, with bars or without."""
    return [line for line in figure.axes[panel].lines if line.get_marker() == marker and len(line.get_xdata()) == 1]


@pytest.mark.parametrize("sets", [1, 2])
def test_marks_are_open_where_the_referee_has_not_mixed(tmp_path: Path, sets: int) -> None:
    figure = step_size_bias(two_sets(tmp_path)[: 2 * sets]).figure
    assert len(figure.axes) == 2 * sets
    shifts, scores = marks(figure, 0, "o"), marks(figure, sets, "s")
    for found, count in ((shifts, 2), (scores, 2)):
        is_open = {float(np.ravel(line.get_xdata())[0]): to_hex(line.get_markerfacecolor()) for line in found}
        assert (len(found), is_open[0.5], is_open[0.005] in (style.BLUE.lower(), style.ORANGE.lower())) == (
            count, "#ffffff", True,
        )  # fmt: skip
    # What the run itself scored does not depend on its referee.
    assert all(to_hex(line.get_markerfacecolor()) != "#ffffff" for line in marks(figure, sets, "o"))
    assert "open: the referee has not mixed" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_axis_is_logarithmic_and_zero_is_in_view(tmp_path: Path) -> None:
    figure = step_size_bias(two_sets(tmp_path)).figure
    assert {ax.get_xscale() for ax in figure.axes} == {"log"}
    for ax in figure.axes[:2]:
        low, high = ax.get_ylim()
        assert low < 0 < 3.4 < high


def test_a_run_whose_chains_are_all_excluded_has_no_marks_of_its_referee(tmp_path: Path) -> None:
    runs = two_sets(tmp_path)[:2]
    common: dict[str, Any] = {
        "study": "s", "run": runs[0].run, "scale": "demo", "split": 0, "dataset": "airfoil", "model": "m",
        "method": "mclmc", "chains": 0, "draws": 100,
    }  # fmt: skip
    write_table(runs[0].files["referee"], [Row(**common, metric="referee_mixed", value=np.nan, note="no chain left")])
    first = step_size_bias(runs).numbers.iloc[0]
    assert np.isnan(first["shift"])
    assert (first["mixed"], first["note"]) == (False, "no chain left")


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    runs = two_sets(tmp_path)
    with pytest.raises(ValueError, match="data sets: at most"):
        step_size_bias([runs[0]._replace(label=f"set {i}") for i in range(MOST_COLUMNS + 1)])
    write_table(runs[0].files["referee"], [])
    with pytest.raises(ValueError, match=r"no row 'referee_mixed' of run airfoil-0\.5"):
        step_size_bias(runs[:1])
