"""docs/accuracy.md: its measured numbers are those of the tables."""

import re
from pathlib import Path

import pytest

from bnn_atlas.report.accuracy import PAGE, Kept, write_accuracy
from tests.copies import REPOSITORY

TEMPLATE = REPOSITORY / "src/bnn_atlas/report/templates/accuracy.md.j2"
TYPED = {
    "4.39": "times as fast, by benchmarks/README.md",
    "3.57": "the same, as a pipeline",
    "0.1": "the published energy variance",
    "0.3": "the noise of the rows of the toy",
    "0.03": "a temperature of HMC on 1,000 images",
    "0.2": "its prior variance",
    "0.05": "sigma of the implicit posterior on MNIST",
    "0.003": "sigma of the implicit posterior on UCI sets",
}
"""Decimal numbers that the template may have, since no run of a study measures them -> what they are."""


def typed(text: str) -> list[str]:
    """The decimal numbers that are written in a template."""
    return re.findall(r"\d+\.\d+", re.sub(r"\{[{%].*?[%}]\}", "", text))


def test_it_is_as_the_tables_make_it(tmp_path: Path) -> None:
    write_accuracy(REPOSITORY, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text("utf-8") == (REPOSITORY / PAGE).read_text("utf-8"), "run `make schema`"


def test_no_measured_number_is_typed() -> None:
    assert set(typed(TEMPLATE.read_text("utf-8"))) == TYPED.keys()
    assert typed("an RMSE of 0.16837, {{ 0.16838 }} and {% set x = 0.16839 %}0.460") == ["0.16837", "0.460"]


def test_a_number_that_no_table_has_is_refused() -> None:
    study = Kept(REPOSITORY, "permutation_symmetry")
    with pytest.raises(KeyError, match="permutation_symmetry: nothing was measured for a claim 'gone'"):
        study.claim("gone")
    with pytest.raises(KeyError, match="run 'mnist_hmc' has no metric 'accuracy' at 'gone'"):
        study.metric("mnist_hmc", "accuracy", "gone")
    with pytest.raises(KeyError, match="run 'mnist_hmc' has no metric 'gone'"):
        study.counted("mnist_hmc", "gone", 0)
    with pytest.raises(KeyError, match=r"pruning_curves\.csv has 10 rows with \{'kept': 20\.0\}; one is needed"):
        study.figure("pruning_curves", "accuracy", kept=20.0)
