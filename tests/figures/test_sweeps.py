"""What all figures of a sweep share: the value of a field in a run, the rows, the marks."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.parts.figures import PERIODS, VARIANCE
from bnn_atlas.figures.xy.figure import sweep_figure
from bnn_atlas.figures.xy.panels import NONE_LEFT, OPEN, Panel, published_rows
from bnn_atlas.figures.xy.table import AT_INFINITY, Field, sweep_table, value_of
from bnn_atlas.published import Number
from tests.figures.shown import shown
from tests.figures.swept import swept

TEMPERATURE = Field("temperature", "temperature", marks=(1.0,))
ACCURACY = Panel("accuracy", "accuracy")


def test_a_value_is_that_of_the_grid_then_of_the_settings() -> None:
    settings = {"temperature": 0.3, "method": {"step_size": 0.01}}
    one = shown(settings=settings, point={"temperature": 3})
    assert value_of(one, TEMPERATURE) == 3.0
    assert value_of(one._replace(point={}), TEMPERATURE) == 0.3
    assert value_of(one, Field("method.step_size", "")) == 0.01


def test_variance_and_quarter_periods_follow_from_other_settings() -> None:
    sd = 0.2**0.5
    settings = {"temperature": 4.0, "method": {"trajectory_length": 1.5 * np.pi / 2 * sd * 2}}
    one = shown(settings=settings, prior_sd=sd)
    assert value_of(one, Field(VARIANCE, "")) == pytest.approx(0.2)
    assert value_of(one, Field(PERIODS, "")) == pytest.approx(1.5)


def test_words_are_places_of_a_field_with_categories() -> None:
    field = Field("prior.kind", "prior", categories={"normal": "Gaussian"})
    assert value_of(shown(settings={"prior": {"kind": "normal"}}), field) == "normal"


def test_a_run_has_its_monte_carlo_error_and_repetitions_that_over_seeds(tmp_path: Path) -> None:
    cold = swept(tmp_path, "cold", point={"temperature": 0.1})
    warm = [
        swept(tmp_path, f"warm{seed}", {"accuracy": 0.8 + 0.1 * seed}, point={"temperature": 1, "seed": seed})
        for seed in (0, 1)
    ]
    table = sweep_table([cold, *warm], TEMPERATURE, ["accuracy"]).set_index("x")
    assert table.loc[0.1, ["value", "error", "error_over", "repetitions"]].tolist() == [0.9, 0.01, "Monte Carlo", 1]
    assert table.loc[1.0, ["error_over", "repetitions"]].tolist() == ["seeds", 2]
    assert table.loc[1.0, "value"] == pytest.approx(0.85)
    assert table.loc[1.0, "error"] == pytest.approx(0.1 / 2**0.5 / 2**0.5)


def test_open_marks_are_chains_that_did_not_converge(tmp_path: Path) -> None:
    runs = [
        swept(tmp_path, f"t{t}", {"accuracy": 0.9 - 0.01 * t}, point={"temperature": t}, converged=t != 3)
        for t in (1, 3)
    ]
    table = sweep_table(runs, TEMPERATURE, ["accuracy"])
    assert table["converged"].tolist() == [True, False]
    assert table["rhat_share_above"].tolist() == [0.0, 0.2]
    assert "R-hat of function values up to 1.60" in table["trust"].iloc[1]
    theirs = published_rows((), "temperature", ["accuracy"])
    figure = sweep_figure(table, TEMPERATURE, [ACCURACY], theirs)
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "o" and len(line.get_xdata())]
    fills = {float(line.get_xdata()[0]): to_hex(line.get_markerfacecolor()) for line in marks}
    assert fills[3.0] == "#ffffff" != fills[1.0]
    assert OPEN in [text.get_text() for text in figure.legends[0].get_texts()]
    all_fine = sweep_figure(table[table["converged"]], TEMPERATURE, [ACCURACY], theirs)
    assert OPEN not in [text.get_text() for text in all_fine.legends[0].get_texts()]


def test_optima_are_level_lines_wherever_they_have_no_such_setting(tmp_path: Path) -> None:
    hmc = swept(tmp_path, "hmc", settings={"method": {"step_size": 0.01}})
    sgd = swept(tmp_path, "sgd", {"accuracy": 0.7}, label="SGD", method="map", settings={"method": {}})
    field = Field("method.step_size", "step size")
    table = sweep_table([hmc, sgd], field, ["accuracy"], levels=[KindOfDraws.POINT])
    assert np.isnan(table["x"].iloc[1])
    assert table["converged"].tolist() == [True, True]
    figure = sweep_figure(table, field, [ACCURACY], published_rows((), field.name, []))
    level = [line for line in figure.axes[0].lines if set(line.get_ydata()) == {0.7}]
    assert len(level) == 1


def test_a_run_whose_chains_are_all_excluded_is_a_cross(tmp_path: Path) -> None:
    moved = swept(tmp_path, "moved", {"acceptance_mean": 0.8}, point={"temperature": 1})
    stuck = swept(tmp_path, "still", {"accuracy": np.nan, "chains_excluded": 3.0}, point={"temperature": 3})
    panels = [ACCURACY, Panel("acceptance_mean", "acceptance")]
    table = sweep_table([moved, stuck], TEMPERATURE, [panel.metric for panel in panels])
    assert table.set_index(["x", "metric"])["value"].isna().to_dict() == {
        (1.0, "accuracy"): False, (1.0, "acceptance_mean"): False,
        (3.0, "accuracy"): True, (3.0, "acceptance_mean"): True,
    }  # fmt: skip
    figure = sweep_figure(table, TEMPERATURE, panels, published_rows((), "", []))
    for ax in figure.axes:
        (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
        assert cross.get_xdata().tolist() == [3.0]
    assert NONE_LEFT in [text.get_text() for text in figure.legends[0].get_texts()]


def test_published_numbers_say_that_they_were_read_off_and_have_their_own_panel(tmp_path: Path) -> None:
    table = sweep_table([swept(tmp_path, "a", point={"temperature": 1})], TEMPERATURE, ["accuracy"])
    values = (("0.1", "0.8"), ("1.0", "0.86"))
    numbers = [
        Number("cold", "IMDB", x, "accuracy", Decimal(value), None, None, Decimal("0.01"), "figure 9")
        for x, value in values
    ]
    theirs = published_rows(numbers, "temperature", ["accuracy", "lppd"])
    assert theirs["approximate"].all()
    assert theirs["value"].tolist() == [0.8, 0.86]
    figure = sweep_figure(table, TEMPERATURE, [ACCURACY], theirs)
    assert "published, IMDB (~)" in [text.get_text() for text in figure.legends[0].get_texts()]
    own, paper = (ax for ax in figure.axes if ax.get_visible())
    assert own.get_ylim()[0] > 0.86, "they do not stretch the axis of the runs"
    (low, high), (left, right) = paper.get_ylim(), paper.get_xlim()
    assert low < 0.8 < 0.86 < high
    assert left < 0.1 < 1.0 < right


def test_the_lppd_of_infinitely_many_draws_is_drawn_for_converged_chains_alone(tmp_path: Path) -> None:
    runs = [swept(tmp_path, f"t{t}", point={"temperature": t}, converged=t == 1, loss=0.6) for t in (1, 3)]
    table = sweep_table(runs, TEMPERATURE, ["lppd", AT_INFINITY])
    limits = table[table["metric"] == AT_INFINITY].set_index("x")["value"]
    assert limits.to_dict() == pytest.approx({1.0: -0.298}), "-0.3 with 300 draws, c = 0.6"


def test_a_few_far_values_are_counted_and_do_not_set_the_axis(tmp_path: Path) -> None:
    scores = {0.1: 0.90, 0.3: 0.91, 1: 0.90, 3: 0.91, 10: 0.2}
    runs = [swept(tmp_path, f"t{t}", {"accuracy": v}, point={"temperature": t}) for t, v in scores.items()]
    ax = sweep_figure(
        sweep_table(runs, TEMPERATURE, ["accuracy"]), TEMPERATURE, [ACCURACY], published_rows((), "", [])
    ).axes[0]
    assert ax.get_ylim()[0] > 0.8
    assert ax.get_title(loc="right") == "1 off scale, to 0.2"


def test_infinite_scores_are_triangles_at_the_edge(tmp_path: Path) -> None:
    runs = [swept(tmp_path, f"t{t}", {"lppd": v}, point={"temperature": t}) for t, v in ((1, -0.3), (3, -np.inf))]
    table = sweep_table(runs, TEMPERATURE, ["lppd"])
    figure = sweep_figure(table, TEMPERATURE, [Panel("lppd", "LPPD")], published_rows((), "", []))
    (triangle,) = [line for line in figure.axes[0].lines if line.get_marker() == "v" and len(line.get_xdata())]
    assert triangle.get_xdata().tolist() == [3.0]


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    one = swept(tmp_path, "a", point={"temperature": 1})
    with pytest.raises(ValueError, match="no run of the figure has acceptance_mean; run their metrics again"):
        sweep_table([one], TEMPERATURE, ["acceptance_mean"])
