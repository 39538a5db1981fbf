"""docs/accuracy.md: its measured numbers are those of the tables."""

import re
from pathlib import Path

import pytest

from bnn_atlas.report.accuracy import PAGE, Kept, write_accuracy
from tests.copies import REPOSITORY

TEMPLATE = REPOSITORY / "src/bnn_atlas/report/templates/accuracy.md.j2"
SOURCES = [*(REPOSITORY / "config").glob("**/*.*"), REPOSITORY / "benchmarks" / "README.md"]
"""Files with numbers that no run measures: settings, published numbers, and times beside other packages."""


def typed(text: str) -> list[str]:
    """The decimal numbers of a template that are written in it, and stand in none of the sources."""
    known = set(re.findall(r"\d+\.\d+", " ".join(file.read_text("utf-8") for file in SOURCES)))
    return [number for number in re.findall(r"\d+\.\d+", re.sub(r"\{[{%].*?[%}]\}", "", text)) if number not in known]


def test_it_is_as_the_tables_make_it(tmp_path: Path) -> None:
    write_accuracy(REPOSITORY, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text("utf-8") == (REPOSITORY / PAGE).read_text("utf-8"), "run `make schema`"


def test_no_measured_number_is_typed() -> None:
    assert typed(TEMPLATE.read_text("utf-8")) == []
    assert typed("an RMSE of 0.16837, {{ 0.16838 }} and 0.1215") == ["0.16837"]


def test_a_number_that_no_table_has_is_refused() -> None:
    study = Kept(REPOSITORY, "permutation_symmetry")
    with pytest.raises(KeyError, match="permutation_symmetry: nothing was measured for a claim 'gone'"):
        study.claim("gone")
    with pytest.raises(KeyError, match="run 'mnist_hmc' has no metric 'accuracy' at 'gone'"):
        study.metric("mnist_hmc", "accuracy", "gone")
    with pytest.raises(KeyError, match=r"pruning_curves\.csv has 10 rows with \{'kept': 20\.0\}; one is needed"):
        study.figure("pruning_curves", "accuracy", kept=20.0)
