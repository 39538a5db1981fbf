"""What figures say of the chains that they lean on."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from bnn_atlas.figures import style
from bnn_atlas.figures.convergence import convergence_text, head, sign_text, signed, trusted
from bnn_atlas.figures.implicit_vi.cross_layer_correlation import cross_layer_correlation
from bnn_atlas.figures.implicit_vi.parallel_coordinates import parallel_coordinates
from bnn_atlas.figures.implicit_vi.weight_densities import weight_densities
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.metrics.tables.files import read_table
from bnn_atlas.provenance import Provenance
from tests.figures.layered_subsets import write_draws
from tests.figures.set_files import CONVERGED, UNCONVERGED, written
from tests.figures.subset_files import run_with_subset


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
    assert "R-hat of function values at most 1.80" in text
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


def test_the_head_is_wrapped_and_left_out_where_there_is_nothing_to_say() -> None:
    figure = Figure(figsize=(3.25, 2))
    head(figure, ["", ""])
    assert figure.get_suptitle() == ""
    head(figure, ["word " * 40, "end"])
    lines = figure.get_suptitle().splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 70
    assert lines[-1] == "end"


@pytest.mark.parametrize("kind", [cross_layer_correlation, parallel_coordinates, weight_densities])
def test_figures_of_draws_say_whose_chains_should_not_be_trusted(
    kind: Callable[..., None],
    outputs: Callable[[str], FigureOutputs],
    provenance: Provenance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    values = {f"layer{layer}.weight[0,{place}]": rng.normal(size=(2, 20)) for layer in range(2) for place in range(2)}
    file = write_draws(tmp_path / "draws.parquet", values)
    diagnostics = {"good": CONVERGED, "bad": UNCONVERGED}
    runs = [run_with_subset(tmp_path, name, file, own) for name, own in diagnostics.items()]
    drawn: list[Figure] = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure))
    kind(runs, outputs("a"), provenance)
    assert drawn[0].get_suptitle().startswith("† not to be trusted: bad (R-hat")
    texts = [text.get_text() for text in drawn[0].findobj(Text)]
    assert sum(text.startswith("bad") and text.endswith("†") for text in texts) == 1
    assert not any(text.startswith("good") and "†" in text for text in texts)
