"""The frame of all pictures: what it says of the chains that they lean on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from bnn_atlas.figures import page, style
from bnn_atlas.figures.drawing import write
from bnn_atlas.figures.hmc_posteriors.agreement import convergence_text
from bnn_atlas.figures.kinds.bands import under_over
from bnn_atlas.figures.page import Drawing, FigureOutputs, check_fits, sign_text, signed, trusted, without_diverged
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.provenance import Provenance
from tests.figures.set_files import CONVERGED, UNCONVERGED, written
from tests.figures.shown import shown as shown_without_table


def test_labels_of_chains_that_should_not_be_trusted_have_a_sign_and_a_reason(tmp_path: Path) -> None:
    runs = [
        written(tmp_path, "a", CONVERGED, label="good", method="hmc"),
        written(tmp_path, "b", CONVERGED, label="bad", method="hmc"),
        written(tmp_path, "b", UNCONVERGED, label="bad", method="hmc", split=1),
        written(tmp_path, "c", {"chains_excluded": 0}, label="SGD", method="map"),
    ]
    trusts = trusted(runs)
    assert [signed(label, trusts) for label in ("good", "bad", "SGD")] == ["good", "bad †", "SGD"]
    text = sign_text(trusts)
    assert text.startswith("† not to be trusted: bad (")
    assert "R-hat of function values up to 1.80" in text
    assert "good" not in text
    assert sign_text(trusted(runs[:1])) == ""


def test_chains_in_words(tmp_path: Path) -> None:
    one = written(tmp_path, "a", CONVERGED, method="hmc", chains=3)
    assert convergence_text(read_table(one.files["table"])) == (
        "3 chains × 100 draws, R-hat of function values 1.02 at most, 1.00 in the median, ESS of function values 480 "
        "at least, acceptance 0.85"
    )
    point = written(tmp_path, "b", {"chains_excluded": 0}, method="map", chains=10)
    assert convergence_text(read_table(point.files["table"])) == "10 chains × 100 draws"


def test_chains_that_may_serve_as_a_reference_have_no_sign(tmp_path: Path) -> None:
    wide = {**CONVERGED, "rhat_function_max": 1.2, "reference_fit": 1}
    runs = [
        written(tmp_path, "a", wide, label="fit", method="hmc"),
        written(tmp_path, "b", {**wide, "reference_fit": 0}, label="unfit", method="hmc"),
        written(tmp_path, "c", {**wide, "chains_excluded": 4}, label="fewer", method="hmc"),
    ]
    trusts = trusted(runs)
    assert [signed(label, trusts) for label in trusts] == ["fit", "unfit †", "fewer †"]
    assert convergence_text(read_table(runs[0].files["table"])).startswith("10 chains × 100 draws; ")


def drawn(
    shown: list[Shown], draw: Callable[[Axes], None], outputs: FigureOutputs, made_of: Provenance, **more: Any
) -> Figure:
    with style.context():
        figure = Figure(figsize=(3.25, 2))
        draw(figure.subplots())
        Drawing(figure, pd.DataFrame({"x": [1.0]}), **more).write(outputs, shown, made_of)
    return figure


def test_the_sign_is_at_the_names_of_untrusted_runs_wherever_they_are(
    outputs: Callable[[str], FigureOutputs], provenance: Provenance, tmp_path: Path
) -> None:
    runs = [
        written(tmp_path, "a", CONVERGED, label="SGHMC", method="hmc"),
        written(tmp_path, "b", UNCONVERGED, label="SG", method="hmc"),
        written(tmp_path, "c", UNCONVERGED, label="two\nlines", method="hmc"),
    ]

    def draw(ax: Axes) -> None:
        ax.set_yticks([0, 1, 2], ["SGHMC", "SG", "two lines"])
        ax.set_title("SG: 12 draws")
        page.legend_below(ax.get_figure(), {name: Line2D([], []) for name in ("SGHMC", "SG", "SG of a paper")})

    figure = drawn(runs, draw, outputs("a"), provenance, notes=["a note"])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["SGHMC", "SG †", "two lines †"]
    assert figure.axes[0].get_title(loc="left") == "SG †: 12 draws"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["SGHMC", "SG †", "SG of a paper"]
    head = " ".join(figure.get_suptitle().split())
    assert head.startswith("a note † not to be trusted: SG (R-hat")
    assert "two lines (R-hat" in head


@pytest.mark.parametrize(
    ("title", "written_as"),
    [
        ("test rows", "Test rows"),
        ("log-likelihood, at most 3", "Log-likelihood, at most 3"),
        ("notMNIST", "notMNIST"),
        ("layer0.bias[7]", "layer0.bias[7]"),
        ("d = 60", "d = 60"),
    ],
)
def test_titles_begin_with_a_capital_unless_they_begin_with_a_symbol_or_a_name(
    title: str, written_as: str, outputs: Callable[[str], FigureOutputs], provenance: Provenance
) -> None:
    figure = drawn([], lambda ax: ax.set_title(title, fontsize=5), outputs("a"), provenance, notes=[title])
    (ax,) = figure.axes
    assert ax.get_title(loc="left") == written_as
    assert figure.get_suptitle() == written_as
    assert [text.get_fontsize() for text in ax.findobj(Text) if text.get_text() == written_as] == [5]


def test_a_picture_without_names_names_the_untrusted_above_it(
    outputs: Callable[[str], FigureOutputs], provenance: Provenance, tmp_path: Path
) -> None:
    runs = [written(tmp_path, f"r{i}", UNCONVERGED, label=f"r{i}", method="hmc") for i in range(8)]
    figure = drawn(runs, lambda ax: None, outputs("a"), provenance, names=[f"run {i}" for i in range(8)])
    head = " ".join(figure.get_suptitle().split())
    assert head.startswith("Not to be trusted: run 0 (R-hat")
    assert head.endswith("and 3 more of 8.")
    assert max(map(len, figure.get_suptitle().splitlines())) <= 70
    assert drawn([], lambda ax: None, outputs("b"), provenance).get_suptitle() == ""


def test_what_diverged_is_left_out_with_all_its_seeds_and_splits(tmp_path: Path) -> None:
    """One of two seeds exploded on one data set, and steps diverged in a chain that may not be a reference."""
    steps = {**CONVERGED, "divergences": 40, "divergence_share": 0.1, "divergences_chains": 2}

    def one(run: str, own: dict[str, float], seed: int, **changes: Any) -> Shown:
        point = {"split.seed": seed, "prior.scale": 1}
        return written(tmp_path, run, own, entry="ivon", label="IVON", method="hmc", point=point, **changes)

    shown = [
        one("a", {**CONVERGED, "rmse": 0.5}, 1, dataset="yacht"),
        one("b", {**CONVERGED, "rmse": 13.2}, 2, dataset="yacht"),
        one("b", {**CONVERGED, "rmse": 0.5}, 2, dataset="yacht", split=1),
        one("c", {**CONVERGED, "rmse": 0.5}, 2, dataset="energy"),
        written(tmp_path, "d", {**steps, "reference_fit": 0}, label="HMC", method="hmc", dataset="energy"),
        written(tmp_path, "e", {**steps, "reference_fit": 1}, label="long HMC", method="hmc", dataset="energy"),
        shown_without_table("f"),
    ]
    left, text = without_diverged(shown)
    assert [one.run for one in left] == ["c", "e", "f"]
    assert text == (
        "Diverged and not shown: IVON, Yacht (an RMSE of 13.2, where a constant has about 1); "
        "HMC, Energy (40 steps (10% of all) diverged, in 2 of 10 chains)."
    )
    assert without_diverged(left) == (left, "")
    assert without_diverged(shown[:3])[0] == []


def test_a_figure_of_runs_that_all_diverged_says_so(
    outputs: Callable[[str], FigureOutputs], provenance: Provenance, tmp_path: Path
) -> None:
    bad = [written(tmp_path, name, {**CONVERGED, "rmse": 9.0}) for name in ("one", "other")]

    def kind(shown: Sequence[Shown]) -> Drawing:
        raise AssertionError("there is nothing to draw")

    files = outputs("lost")
    write(kind, bad, files, provenance)
    numbers = pd.read_csv(files.csv)
    assert numbers.run.tolist() == ["one", "other"]
    assert numbers.diverged.str.contains("RMSE of 9").all()
    write(under_over, bad, outputs("panels"), provenance)
    assert pd.read_csv(outputs("panels").csv).equals(numbers)
    table = [tmp_path / "lost.tex", tmp_path / "lost.csv"]
    write(kind, bad, table, provenance)
    assert table[0].read_text(encoding="utf-8").count("& an RMSE of 9") == 2
    assert files.png.stat().st_size > 1000


def test_a_figure_says_in_its_notes_what_it_leaves_out(
    outputs: Callable[[str], FigureOutputs], provenance: Provenance, tmp_path: Path
) -> None:
    good, bad = (written(tmp_path, name, {**CONVERGED, "rmse": rmse}) for name, rmse in (("good", 0.5), ("bad", 9.0)))
    given: list[str] = []
    figures: list[Figure] = []

    def kind(shown: list[Shown]) -> Drawing:
        given.extend(one.run for one in shown)
        figures.append(Figure(figsize=(3.25, 2)))
        return Drawing(figures[0], pd.DataFrame({"x": [1.0]}), notes=["a note"])

    write(kind, [good, bad], outputs("a"), provenance)
    assert given == ["good"]
    head = " ".join(figures[0].get_suptitle().split())
    assert head == "a note Diverged and not shown: bad (an RMSE of 9, where a constant has about 1)."


def test_what_does_not_fit_is_refused_with_what_to_do() -> None:
    check_fits(4, 4, "runs")
    with pytest.raises(ValueError, match=r"^5 runs: at most 4 fit in one figure; name fewer in the figure's `runs`$"):
        check_fits(5, 4, "runs")
    with pytest.raises(ValueError, match=r"^5 arrays: at most 4 fit in one figure; show a smaller network$"):
        check_fits(5, 4, "arrays", "show a smaller network")
