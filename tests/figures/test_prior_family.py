from collections.abc import Callable
from pathlib import Path

import pytest

from bnn_atlas.figures.hmc_posteriors.prior_family import FIELD, prior_family
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import SCORES, sweep_figure
from bnn_atlas.figures.sweeps.panels import published_rows, series_of
from bnn_atlas.figures.sweeps.scores import sweep_table
from bnn_atlas.published import published_numbers
from tests.figures.conftest import Drawn
from tests.figures.swept import swept

Outputs = Callable[[str], FigureOutputs]


def family(folder: Path, kind: str, accuracy: float) -> Shown:
    return swept(
        folder, kind, {"accuracy": accuracy}, settings={"prior": {"kind": kind}}, point={"prior": {"kind": kind}}
    )


def test_families_are_places_in_one_order(drawn: Drawn, tmp_path: Path) -> None:
    runs = [family(tmp_path, "logistic", 0.91), family(tmp_path, "laplace", 0.92), family(tmp_path, "normal", 0.9)]
    table = drawn(prior_family, runs)
    own = table[(table["kind"] == "run") & (table["metric"] == "accuracy")]
    assert own.set_index("x")["value"].to_dict() == {"logistic": 0.91, "laplace": 0.92, "normal": 0.9}
    theirs = table[(table["kind"] == "published") & (table["metric"] == "ece")]
    assert theirs.set_index("x")["value"].to_dict() == {"normal": 0.029, "mixture": 0.025, "logistic": 0.024}

    panels = SCORES["classification"]
    scores = sweep_table(runs, FIELD, [panel.metric for panel in panels])
    theirs = series_of(published_numbers("hmc_posteriors", "prior_family"))
    figure = sweep_figure(scores, FIELD, panels, theirs, published_rows(theirs, FIELD.name, ["accuracy"]))
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == ["Gaussian", "mixture", "logistic", "Laplace"]
    marks = {
        round(float(y), 3): float(x)
        for line in figure.axes[0].lines
        if line.get_marker() == "o"
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    assert marks == {0.9: 0.0, 0.91: 2.0, 0.92: 3.0}


def test_an_unknown_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'prior\.kind' is 'he'; this figure has normal, mixture, logistic"):
        prior_family([family(tmp_path, "he", 0.9)])
