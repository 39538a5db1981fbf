"""The page of a run: every kind of run has one, nothing on it is cut off or printed over something else."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from bnn_atlas.figures import style
from bnn_atlas.figures.diagnostics import RunFiles, diagnostics_page
from bnn_atlas.figures.diagnostics.page import draw_page
from bnn_atlas.figures.diagnostics.run import Run
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.metrics.gathering.streaming import Limits
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.provenance import Provenance

from .synthetic_runs import LAYOUT, correlated, last_layer, reported, write_run

DENSITIES = ("log_likelihood", "log_prior")
CONVERGENCE = {"R-hat", "ESS", "autocorrelation", "ranks"}
COURSES = {"log posterior", "energy error", "acceptance", "step size"}


def densities(theta: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values for name, values in reported(theta).items() if name in DENSITIES}


def good(folder: Path) -> RunFiles:
    return write_run(folder, correlated(4, 900))


def mile(folder: Path) -> RunFiles:
    """Unadjusted, heavy-tailed energy error, ten chains that disagree."""
    theta = correlated(10, 150, 0.9) + 0.3 * np.random.default_rng(5).normal(size=(10, 1, 3))
    statistics = densities(theta)
    error = np.random.default_rng(2).standard_t(1, (10, 150)) * 3
    sizes = np.broadcast_to(np.geomspace(0.001, 0.4, 10)[:, None], (10, 150))
    statistics |= {"energy_change": error, "energy_change_squared": error**2, "step_size": sizes}
    statistics["divergent"] = np.zeros((10, 150), np.int32)
    return write_run(folder, theta, statistics, method="mclmc")


def one_chain(folder: Path) -> RunFiles:
    return write_run(folder, correlated(1, 120), cost=None)


def one_draw(folder: Path) -> RunFiles:
    theta = correlated(5, 1)
    return write_run(folder, theta, densities(theta), method="deep_ensemble")


def one_draw_of_many(folder: Path) -> RunFiles:
    theta = correlated(300, 1)
    return write_run(folder, theta, densities(theta), method="deep_ensemble")


def single(folder: Path) -> RunFiles:
    return write_run(folder, correlated(1, 1), {}, method="map", cost=None)


def two_draws(folder: Path) -> RunFiles:
    return write_run(folder, correlated(3, 2))


def thousand_chains(folder: Path) -> RunFiles:
    theta = correlated(1000, 12)
    theta[9, 4] = np.nan
    statistics = reported(theta)
    statistics["divergent"][7, 3:6] = 1
    return write_run(folder, theta, statistics, limits=Limits(function_rows=3))


def lost_chains(folder: Path) -> RunFiles:
    """Two chains that diverge, one that never moves, and one with a few divergent steps."""
    theta = correlated(10, 80)
    statistics = reported(theta)
    theta[[2, 5], 20:] = np.nan
    theta[7] = theta[7, 0]
    for name in DENSITIES:
        statistics[name][7] = statistics[name][7, 0]
        statistics[name][2, 20:] = np.nan
    statistics["log_likelihood"][5, 20:] = -4e6
    statistics["divergent"][[2, 5], 20:] = 5
    statistics["divergent"][0, 30] = 1
    statistics["energy_change"][2, 20:] = np.inf
    return write_run(folder, theta, statistics)


def no_chain_left(folder: Path) -> RunFiles:
    theta = correlated(3, 30)
    return write_run(folder, theta * np.nan, reported(theta))


def variational(folder: Path) -> RunFiles:
    theta = correlated(3, 60, 0.0)
    return write_run(folder, theta, densities(theta), method="mean_field")


def cyclical(folder: Path) -> RunFiles:
    """Stochastic gradients with a step size that falls again and again."""
    theta = correlated(2, 200)
    size = 1e-6 * (1 + np.cos(np.pi * (np.arange(200) % 50) / 50)) + 1e-12
    return write_run(folder, theta, {**densities(theta), "step_size": np.tile(size, (2, 1))}, method="sghmc_clr")


def nothing_reported(folder: Path) -> RunFiles:
    return write_run(folder, correlated(3, 60), {}, method="sgld")


def deep_network(folder: Path) -> RunFiles:
    blocks = [
        (Parameter(f"layer{i}.weight", (4, 3), "weight", i, 3, 4), Parameter(f"layer{i}.bias", (4,), "bias", i, 3, 4))
        for i in range(40)
    ]
    layout = Layout((*(array for block in blocks for array in block), *LAYOUT.parameters))
    others = np.random.default_rng(0).normal(size=(4, 50, 640))
    theta = np.concatenate([others, correlated(4, 50)], axis=2)
    name = "a_run_with_a_long_name-prior_scale0.1-hidden64x64x64-seed3"
    return write_run(folder, theta, name=name, layout=layout, predict=last_layer)


CASES: dict[Callable[[Path], RunFiles], set[str]] = {
    good: COURSES | CONVERGENCE,
    mile: (COURSES | CONVERGENCE) - {"acceptance"},
    one_chain: (COURSES | CONVERGENCE) - {"step size", "ranks"},
    one_draw: {"log posterior"},
    one_draw_of_many: {"log posterior"},
    single: set(),
    two_draws: COURSES,
    thousand_chains: COURSES | CONVERGENCE,
    lost_chains: COURSES | CONVERGENCE,
    no_chain_left: COURSES,
    variational: {"log posterior"},
    cyclical: {"log posterior", "step size"} | CONVERGENCE,
    nothing_reported: CONVERGENCE,
    deep_network: COURSES | CONVERGENCE,
}
"""A run, and the panels that its page has besides the test log density."""
WITHOUT_DENSITY = {single, no_chain_left}


@pytest.fixture(scope="module", params=list(CASES), ids=lambda case: case.__name__)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """The case, its run, the page as it is laid out, and its numbers."""
    run = Run.read(request.param(tmp_path_factory.mktemp("run")))
    with style.context(), mpl.rc_context({"figure.dpi": 100}):
        figure, numbers = draw_page(run)
        FigureCanvasAgg(figure).draw()
    return request.param, run, figure, numbers


def boxes(artists, renderer) -> list[tuple[str, Bbox]]:
    shown = [text for text in artists if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in shown]


def tick_boxes(ax, renderer) -> tuple[list[tuple[str, Bbox]], list[tuple[str, Bbox]]]:
    """Tick labels along x and along y; matplotlib does not print those beyond the ends of an axis."""
    frame = ax.bbox
    along_x = [
        (t, b) for t, b in boxes(ax.get_xticklabels(), renderer) if frame.x0 - 1 < (b.x0 + b.x1) / 2 < frame.x1 + 1
    ]
    along_y = [
        (t, b) for t, b in boxes(ax.get_yticklabels(), renderer) if frame.y0 - 1 < (b.y0 + b.y1) / 2 < frame.y1 + 1
    ]
    return along_x, along_y


def assert_apart(named: list[tuple[str, Bbox]]) -> None:
    for (first, a), (second, b) in combinations(named, 2):
        across, up = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across < 1 or up < 3, f"'{first}' and '{second}' are printed over each other"


def test_a_run_has_the_panels_that_make_sense_for_it(page) -> None:
    case, run, figure, numbers = page
    expected = CASES[case] | {"head"} | (set() if case in WITHOUT_DENSITY else {"test log density"})
    assert set(numbers["panel"]) == expected
    assert len(visible_axes(figure)) == len(expected) - 1 + ("ESS" in expected and run.value("seconds_sampling") > 0)


def visible_axes(figure: Figure):
    return [ax for part in figure.subfigs for ax in part.axes if ax.get_visible()]


def test_every_panel_shows_something(page) -> None:
    for ax in visible_axes(page[2]):
        drawn = [*ax.lines, *ax.collections, *ax.patches]
        assert drawn or ax.get_ylabel().startswith("ESS per second"), ax.get_title(loc="left")
        low, high = ax.get_ylim()
        assert np.isfinite([low, high]).all()
        assert low < high


def test_nothing_is_cut_off_or_printed_over_something_else(page) -> None:
    figure = page[2]
    renderer = figure.canvas.get_renderer()
    head = figure.subfigs[0]
    everything = boxes(head.texts, renderer)
    assert_apart(everything)
    labels = []
    for ax in visible_axes(figure):
        along_x, along_y = tick_boxes(ax, renderer)
        outside = boxes([ax.xaxis.label, ax.yaxis.label, ax._left_title], renderer)
        assert_apart(along_x)
        assert_apart(along_y)
        assert_apart(outside)
        everything += [*outside, *along_x, *along_y]
        labels += boxes([ax.xaxis.label, ax._left_title], renderer)
    assert_apart(labels)
    page_box = figure.bbox
    for text, box in everything:
        assert page_box.x0 <= box.x0, f"'{text}' is cut off"
        assert box.x1 <= page_box.x1, f"'{text}' is cut off"
        assert page_box.y0 <= box.y0, f"'{text}' is cut off"
        assert box.y1 <= page_box.y1, f"'{text}' is cut off"
    foot = min((box.y0 for _, box in boxes(head.texts, renderer)))
    for ax in visible_axes(figure):
        assert ax.get_tightbbox(renderer).y1 < foot, "the head reaches into the panels"


def test_the_numbers_stay_few_whatever_the_run(page) -> None:
    numbers = page[3]
    assert len(numbers) < 12_000
    assert list(numbers.columns) == ["panel", "series", "chain", "x", "value", "low", "high"]


def test_the_head_says_what_is_not_shown_and_why(tmp_path: Path) -> None:
    def head(files: RunFiles) -> str:
        with style.context():
            figure, _ = draw_page(Run.read(files))
        return " ".join(text.get_text() for text in figure.subfigs[0].texts)

    text = head(one_draw(tmp_path))
    assert "synthetic, split 0" in text
    assert "method deep_ensemble  |  scale demo  |  5 chains \N{MULTIPLICATION SIGN} 1 draw, 3 parameters" in text
    assert "This run cannot be judged: convergence." in text
    assert "R-hat (undefined: needs at least 4 draws)" in text
    text = head(lost_chains(tmp_path))
    assert "Do not trust this run: excluded chains" in text
    assert "3 of 10 chains excluded: 2 not finite, 1 never moved" in text
    assert "Acceptance (no Metropolis test)" in head(mile(tmp_path))


def numbers_of(files: RunFiles) -> pd.DataFrame:
    with style.context():
        return draw_page(Run.read(files))[1]


def test_numbers_are_those_of_the_tables(tmp_path: Path) -> None:
    files = good(tmp_path)
    numbers, run = numbers_of(files), Run.read(files)
    head = numbers[numbers["panel"] == "head"].set_index("series")["value"]
    assert head["rhat_function_max"] == run.functions["rhat"].max()
    assert head["ess_bulk_function_median_per_second"] == run.functions["ess_bulk"].median() / 8.0
    steps = numbers[numbers["panel"] == "step size"]
    np.testing.assert_allclose(steps["value"], np.geomspace(0.01, 0.03, 4))
    shares = numbers[(numbers["panel"] == "R-hat") & (numbers["series"] == "function values")]
    assert shares["value"].sum() == pytest.approx(1.0)
    ess = numbers[(numbers["panel"] == "ESS") & (numbers["series"] == "function values, quantile 0.5")]
    assert ess["value"].item() == pytest.approx(run.functions["ess_bulk"].median())
    posterior = numbers[(numbers["panel"] == "log posterior") & (numbers["chain"] == 2)]
    assert posterior["value"].mean() == pytest.approx(run.samplers["log_posterior_mean"][2])
    assert (posterior["low"] <= posterior["value"]).all()


def test_the_band_over_numbers_of_chains_is_the_spread_over_their_orders(tmp_path: Path) -> None:
    files = one_draw(tmp_path)
    numbers, table = numbers_of(files), Run.read(files).table
    together = numbers[numbers["series"] == "chains together"]
    spread = table.loc[table["metric"] == "lppd_cumulative_chains_order_sd", "value"].to_numpy()
    np.testing.assert_allclose(together["high"] - together["value"], spread)
    assert (spread[:-1] > 0).all()


def test_a_step_size_that_changes_is_shown_along_the_draws(tmp_path: Path) -> None:
    sizes = numbers_of(cyclical(tmp_path)).query("panel == 'step size' and chain == 1")
    assert sizes["x"].tolist() == list(range(1, 201))
    assert sizes["value"].max() == pytest.approx(2e-6, rel=1e-3)


def test_divergent_steps_are_marked_where_they_happened(tmp_path: Path) -> None:
    marks = numbers_of(lost_chains(tmp_path)).query("series == 'divergent steps'")
    assert set(marks["chain"]) == {0, 2, 5}
    assert marks.loc[marks["chain"] == 0, ["x", "value"]].to_numpy().tolist() == [[31.0, 1.0]]
    many = numbers_of(thousand_chains(tmp_path)).query("series == 'divergent steps'")
    assert many["chain"].isna().all()
    assert many["x"].tolist() == [4.0, 5.0, 6.0]


def test_crosses_stand_on_the_line_of_their_chain_or_at_the_edge_of_the_panel(tmp_path: Path) -> None:
    run = Run.read(lost_chains(tmp_path))
    with style.context():
        ax = visible_axes(draw_page(run)[0])[0]
    crosses = next(line for line in ax.lines if line.get_marker() == "x")
    posterior = run.curve("log_posterior")
    there = posterior.loc[(posterior["chain"] == 0) & (posterior["x"] == 31.0), "value"].item()
    assert [31.0, there] in np.column_stack(crosses.get_data()).tolist()
    assert np.nanmin(crosses.get_ydata()) == ax.get_ylim()[0] > -1000


def test_every_rhat_counts_however_far_out(tmp_path: Path) -> None:
    files = good(tmp_path)
    functions = pd.read_parquet(files.functions)
    functions["rhat"] = [0.99, np.inf, 50.0, np.nan, *np.linspace(1.01, 3, len(functions) - 4)]
    functions.to_parquet(files.functions)
    shares = numbers_of(files).query("panel == 'R-hat' and series == 'function values'")["value"]
    assert shares.sum() == pytest.approx(1.0)
    assert (shares.iloc[0], shares.iloc[-1]) == (pytest.approx(1 / 11), pytest.approx(2 / 11))


def test_making_a_page_again_changes_no_byte(tmp_path: Path, outputs, provenance: Provenance) -> None:
    files = one_draw(tmp_path)
    for folder in ("a", "b"):
        diagnostics_page(files, outputs(folder), provenance)
    written: FigureOutputs = outputs("a")
    for first, second in zip(written, outputs("b"), strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert read_provenance(written.png) == read_provenance(written.pdf) == provenance
    assert pd.read_csv(written.csv)["panel"].unique().tolist() == ["head", "log posterior", "test log density"]


def test_a_page_shows_one_run(tmp_path: Path, outputs, provenance: Provenance) -> None:
    files = one_draw(tmp_path)
    table = pd.read_parquet(files.table)
    pd.concat([table, table.assign(run="other")]).to_parquet(tmp_path / "two.parquet", index=False)
    with pytest.raises(ValueError, match=r"two\.parquet"):
        diagnostics_page(files._replace(table=tmp_path / "two.parquet"), outputs("a"), provenance)
