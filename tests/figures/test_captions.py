"""Captions of the report: valid, short, and of one form."""

import re
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
from docutils.core import publish_parts

from bnn_atlas.config.parts.figures import kinds
from bnn_atlas.figures.r_setup import RCODE

REPORT = Path(__file__).parents[2] / "workflow" / "report"
CAPTIONS = sorted(path.stem for path in REPORT.glob("*.rst") if path.stem != "workflow")
LONGEST = 100
"""Words on how to read a figure."""
STUDIES = r"Sommer|Izmailov|Xiao|Uppal|arXiv \d"


def rendered(file: Path) -> str:
    figure = {"caption": "Compare with *this*."}
    snakemake = SimpleNamespace(config={"scale": "laptop"}, params=SimpleNamespace(figure=figure))
    text = jinja2.Template(file.read_text(encoding="utf-8"), undefined=jinja2.StrictUndefined).render(
        snakemake=snakemake
    )
    publish_parts(text, writer="html", settings_overrides={"halt_level": 2, "report_level": 2})
    return text


@pytest.mark.parametrize("name", CAPTIONS)
def test_a_caption_is_one_sentence_and_at_most_100_words_on_how_to_read_it(name: str) -> None:
    first, reading, *rest = rendered(REPORT / f"{name}.rst").strip().split("\n\n")
    assert re.fullmatch(r"\*\*[^.]+\.\*\*", first.replace("\n", " ")), "one sentence in bold"
    assert len(reading.split()) <= LONGEST
    assert rest[-1].startswith("Scale ``laptop``.")
    assert rest[:-1] == (["Compare with *this*."] if name in kinds() else []), "the rest goes into notes/"


@pytest.mark.parametrize("name", sorted(path.stem for path in REPORT.glob("notes/*.rst")))
def test_notes_belong_to_a_caption_and_are_valid(name: str) -> None:
    assert name in CAPTIONS
    assert rendered(REPORT / "notes" / f"{name}.rst")


def test_the_landing_text_says_the_scale() -> None:
    assert "``laptop``" in rendered(REPORT / "workflow.rst")


@pytest.mark.parametrize("name", kinds())
def test_each_kind_has_a_caption(name: str) -> None:
    assert name in CAPTIONS


@pytest.mark.parametrize("name", [name for name, kind in kinds().items() if ".kinds." in kind.module])
def test_captions_of_kinds_for_all_studies_name_no_paper(name: str) -> None:
    assert not re.search(STUDIES, (REPORT / f"{name}.rst").read_text(encoding="utf-8"))


def test_every_r_file_belongs_to_a_kind_or_is_included() -> None:
    included = {name for file in RCODE.glob("*.R") for name in re.findall(r"\b(\w+)\.R\b", _includes(file))}
    assert {file.stem for file in RCODE.glob("*.R")} <= {*kinds(), *included}


def _includes(file: Path) -> str:
    return "\n".join(line for line in file.read_text(encoding="utf-8").splitlines() if "@include" in line)
