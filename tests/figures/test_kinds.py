"""What is true of every kind of figure."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.methods.registry import method
from bnn_atlas.config.parts.figures import kinds
from bnn_atlas.figures import style
from bnn_atlas.figures.ggplot import RDrawing
from bnn_atlas.figures.latex import LatexTable
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.r_setup import available
from bnn_atlas.provenance import Provenance
from tests.figures.set_files import UNCONVERGED
from tests.figures.small import more, small

SHOWING = [name for name, kind in kinds().items() if kind.runs == "some"]
"""Kinds of any number of runs."""
SLOW = {
    "flat_likelihood",
    "marginal_densities",
    "nuts_vs_mean_field",
    "pair_plot",
    "sigma_histograms",
    "transpositions_stability",
}
"""Those that are drawn from most draws."""


def function(name: str) -> Any:
    return getattr(import_module(kinds()[name].module), name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in kinds()]
)
def test_the_same_runs_give_the_same_files_with_provenance_numbers_and_signs(
    name: str, provenance: Provenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "RC", style.RC | {"figure.dpi": 60, "savefig.dpi": 60})
    runs, given = small(name, tmp_path, UNCONVERGED), more(name, tmp_path)
    first, second = ([tmp_path / folder / f"x.{end}" for end in kinds()[name].endings] for folder in "ab")
    for files in (first, second):
        with style.context():
            made = function(name)(runs, **given)
            if isinstance(made, RDrawing) and (missing := available()):
                pytest.skip(str(missing))
            made.write(files, runs, provenance)
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    by_ending = {file.suffix: file for file in first}
    header = by_ending[".csv"].read_text(encoding="utf-8").partition("\n")[0]
    assert kinds()[name].columns == (*header.split(","),)
    if not isinstance(made, RDrawing):
        assert by_ending[".csv"].read_text() == made.numbers.to_csv(index=False, lineterminator="\n")
    if isinstance(made, LatexTable):
        text = by_ending[".tex"].read_text(encoding="utf-8")
        assert provenance.to_json() in text
    else:
        text = "" if isinstance(made, RDrawing) else made.figure.get_suptitle()
        assert read_provenance(by_ending[".png"]) == read_provenance(by_ending[".pdf"]) == provenance
    are_chains = any(method(one.method).kind_of_draws.are_chain for one in runs)
    if are_chains and not isinstance(made, RDrawing):
        assert "to be trusted: " in (said := " ".join(text.split()))
        assert "R-hat of function values up to 1.80" in said
