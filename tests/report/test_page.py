"""The page of a study in Markdown, from a few numbers and pictures."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from bnn_atlas.figures.metadata import CHUNK, stamp_png
from bnn_atlas.figures.style import CYCLE, mixed
from bnn_atlas.report.page import write_page
from bnn_atlas.report.pictures import LARGEST, markdown, method_tables, shrink
from bnn_atlas.report.site import write_site
from bnn_atlas.report.view import study_view
from tests.config.folders import REPOSITORY
from tests.report.making import STUDY, study, study_inputs, write_judged


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_page(folder / "made", study(folder))
    return folder / "made"


def text(page: Path, name: str = "README") -> str:
    return (page / f"{name}.md").read_text(encoding="utf-8")


def test_files(page: Path) -> None:
    assert sorted(file.name for file in page.iterdir()) == [
        "README.md", "claims.csv", "claims.md", "few.csv", "few.png", "figures.md", "forest.svg",
        "machines.md", "many.png", "runs.csv", "scores.md", "summary.csv", "uci.csv", "uci.tex",
    ]  # fmt: skip
    with Image.open(page / "few.png") as picture:
        assert picture.size == (1300, 500)
    assert pd.read_csv(page / "claims.csv")["basis"].tolist()[0] == "a quarter"


def test_the_first_page(page: Path) -> None:
    assert re.findall(r"^## (.+)$", text(page), re.MULTILINE) == [
        "In one minute", "What the paper does not say", "Published numbers", "What differs", "What is open",
        "Gallery", "How to check",
    ]  # fmt: skip
    assert text(page).startswith(
        "# A study\n\nNobody, 2000. Only Table 1 could be read.\n\n**3 published numbers: 1 agrees, 1 differs,"
    )
    counts = "| **3 published numbers** | 1 differs | 1 agrees, 1 to run | – | – | tables (2), published files (1) |"
    assert counts in text(page)
    assert (
        "**Few errors are made** (Table 1)<br>\n"
        "Agrees in part (2 claims: 1 agrees, 1 does not hold). The main one:<br>\n"
        "**agrees** (reduced) The error is 0.5: paper 0.5, here 0.52 ± 0.02 "
        "(0.515 ± 0.03 at infinitely many draws)<br>\n"
        "One seed.\n"
    ) in text(page)
    differs, still_open = text(page).partition("## What differs")[2].split("## What is open")
    assert "| a run | 2 min: `snakemake --cores 2 mile --config scale=laptop` |" in differs
    assert "cannot tell" not in differs
    assert "**cannot tell**" in still_open
    assert "To run: 1 claim; [what settles them](claims.md#to-run)." in still_open
    assert "(figures.md#few)<br>0.52 ± 0.02: The error is 0.5 (agrees) |" in text(page)


def test_no_page_has_two_empty_lines_or_a_broken_table(page: Path) -> None:
    for file in page.glob("*.md"):
        assert "\n\n\n" not in file.read_text(), file.name
        for before, line in pairwise(file.read_text().splitlines()):
            if line.startswith("|---"):
                assert before.replace("\\|", "").count("|") == line.count("|"), (file.name, before)


def test_claims_are_on_a_page_of_their_own(page: Path) -> None:
    found = text(page, "claims")
    assert re.findall(r"^## (.+)$", found, re.MULTILINE) == [
        "Read in published files", "This project's own questions", "Read in tables", "Read in the text", "Causes",
        "To run", "Published numbers without a claim", "What scale laptop reduces",
    ]  # fmt: skip
    assert found.count("chains: 1000") == 1, "what is reduced is named once"
    assert "\n- snakemake --cores 2 gone: a \\| b\n" in found
    assert "\n- Table 2/\\*: no run can have it\n" in found
    assert "| [It grows by −0.3](#growth) | another rule | proved | a run | 0.5 |" in found


def test_figures_have_pictures_what_they_say_and_definitions_folded(page: Path) -> None:
    few, many, uci = text(page, "figures").split('\n<a id="')[1:]
    assert few.startswith('few"></a>\n\n## A few\n\n![A few](few.png)\n\n**Few numbers.**\n\nAs in the paper.\n\n- The')
    assert "\nOn *W*<sub>1</sub>, in `file.csv`. Compare.\n\nNot needed at first.\n" in few
    assert "\n[numbers](few.csv) · `snakemake --cores 2 small_few --config scale=laptop`\n" in few
    assert f"\n{LARGEST // 2:,} plotted numbers (0.5 MB), which the command makes" in many
    assert "\n\n\\* the best mean; † not to be trusted, for the reasons in the LaTeX file.\n" in uci
    assert "| A | −1.000 ± 0.250 \\* † | 2.000 \\* | 1.50 |\n| B |  | 1.000 ± 0.500 | 2.00 |\n" in uci
    assert "\n[LaTeX](uci.tex) · [numbers](uci.csv) · `" in uci


def test_scores_machines_and_times(page: Path) -> None:
    assert "## air \\| foil\n" in text(page, "scores")
    assert "- Other rows.\n- Other noise.\n" in text(page, "scores")
    assert "in 2 min of jobs (52 s of one core).\n" in text(page, "machines")
    assert "\n| mile | 1 | a processor, 2 cores | 1 | 1.7 | 0.8 |\n" in text(page, "machines")


def test_a_large_summary_is_left_out_and_the_page_says_where_it_is(tmp_path: Path) -> None:
    inputs = study_inputs(tmp_path)
    row = Path(inputs["summary"]).read_text().splitlines()[-1]
    with Path(inputs["summary"]).open("a") as file:
        file.write((row + "\n") * (LARGEST // len(row)))
    view = study_view(**inputs)
    write_page(tmp_path / "made", view)
    write_site(tmp_path / "made", view)
    assert not (tmp_path / "made" / "summary.csv").exists()
    assert "summary.csv" not in (tmp_path / "made" / "index.html").read_text(encoding="utf-8")
    assert "rows (0.5 MB) in `tables/small-summary.csv` of the results" in text(tmp_path / "made", "scores")


def test_links_of_the_pages_exist(page: Path) -> None:
    anchors = {file.name: set(re.findall(r'<a id="(.+?)">', file.read_text())) for file in page.glob("*.md")}
    anchors["claims.md"] |= {"to-run"}
    for file in page.glob("*.md"):
        links = re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', file.read_text())
        for link in map("".join, links):
            target, _, anchor = link.partition("#")
            assert (page / (target or file.name)).exists(), (file.name, link)
            assert not anchor or anchor in anchors[target or file.name], (file.name, link)


ODD = "<b>x</b> | *y* [z](http://w) `a|b` _c_ d_e 1 < 2 &lt; \\ ~~f~~"
SHOWN = r"&lt;b&gt;x&lt;/b&gt; \| \*y\* \[z\](http://w) `a|b` \_c\_ d_e 1 &lt; 2 &amp;lt; \\ \~\~f\~\~"


def test_texts_of_a_study_show_as_they_were_written(tmp_path: Path) -> None:
    changed = {"statement": ODD, "place": "<script>", "cause": ODD, "reason": ODD}
    findings = [finding | {"statement": ODD, "caveat": ODD} for finding in STUDY["findings"]]  # type: ignore[operator]
    changes = {
        "study": STUDY | {"title": ODD, "paper": ODD, "findings": findings, "differences": [ODD, "# no", "1. no"]},
        "datasets": {"airfoil": ODD},
    }
    inputs = study_inputs(tmp_path) | changes
    inputs["captions"]["few"] |= {"title": ODD, "text": ODD}
    write_judged(tmp_path / "claims.parquet", error=changed, growth=changed, far=changed)
    write_page(tmp_path / "made", study_view(**inputs))
    in_cell = SHOWN.replace("a|b", r"a\|b")
    assert text(tmp_path / "made").startswith(f"# {SHOWN}\n\n{SHOWN}. Only")
    assert f"**{SHOWN}** (&lt;script&gt;)" in text(tmp_path / "made")
    assert f"\n- {SHOWN}\n- \\# no\n- 1\\. no\n" in text(tmp_path / "made", "scores")
    assert f"\n## {SHOWN}\n\n![{SHOWN}](few.png)" in text(tmp_path / "made", "figures")
    assert f"| {in_cell} |" in text(tmp_path / "made", "claims")
    for file in (tmp_path / "made").glob("*.md"):
        assert not re.search(r"<(b|i|script)>", file.read_text()), file.name


def test_a_study_without_claims_or_figures(tmp_path: Path) -> None:
    write_page(tmp_path / "made", study(tmp_path, claims=None, files=[], captions={}, study=STUDY | {"findings": []}))
    assert re.findall(r"^## (.+)$", text(tmp_path / "made"), re.MULTILINE) == ["How to check"]
    assert "No claim of the paper is stated here yet" in text(tmp_path / "made")
    assert not (tmp_path / "made" / "forest.svg").exists()


@pytest.mark.parametrize("file", sorted((REPOSITORY / "workflow/report").glob("**/*.rst")), ids=lambda file: file.stem)
def test_every_caption_of_the_repository_becomes_markdown(file: Path) -> None:
    found = markdown(file)
    assert found.startswith("**") or file.parent.name == "notes" or file.stem == "workflow"
    assert found.endswith(".")
    assert found.count("`") % 2 == 0
    for left in ("{{", ":sub:", ":sup:", "``", "\\ "):
        assert left not in found


def test_shrink(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 600, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    stamp_png(tmp_path / "large.png", {CHUNK: "from there"})
    shrink(tmp_path / "large.png", tmp_path / "small.png", 200)
    shrink(tmp_path / "large.png", tmp_path / "same.png", 1000)
    for name, size in (("small", (200, 100)), ("same", (600, 300))):
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert (picture.size, picture.mode, picture.info[CHUNK]) == (size, "P", "from there"), name


def test_a_mark_of_few_pixels_keeps_its_colour(tmp_path: Path) -> None:
    pixels = np.repeat(np.random.default_rng(0).integers(0, 256, (300, 300, 1), np.uint8), 3, axis=2)
    for row, colour in enumerate(CYCLE):
        for column, white in enumerate(np.linspace(0, 1, 40)):  # as at the edge of a mark
            pixels[row, column] = 255 * np.array(to_rgb(mixed(colour, white)))
    Image.fromarray(pixels).save(tmp_path / "large.png")
    shrink(tmp_path / "large.png", tmp_path / "small.png")
    with Image.open(tmp_path / "small.png") as picture:
        assert np.abs(np.asarray(picture.convert("RGB")).astype(int) - pixels).max() < 10


def test_a_table_by_metrics_stands_beside_published_numbers(tmp_path: Path) -> None:
    rows = [
        ("HMC", "accuracy", 0.8535, 0.0035, 0.9843, False), ("HMC", "agreement", None, None, 1, False),
        ("q", "accuracy", 0.1, None, None, True),
    ]  # fmt: skip
    file = tmp_path / "table.csv"
    pd.DataFrame(rows, columns=["label", "metric", "value", "error", "published", "distrusted"]).to_csv(
        file, index=False
    )
    (table,) = method_tables(file, {})
    assert table.header == ["", "accuracy", "agreement", "published accuracy", "published agreement"]
    assert table.rows == [["HMC", "0.854 ± 0.004", "–", "0.9843", "1.0000"], ["q †", "0.100", "–", "–", "–"]]


def test_such_a_table_is_made_for_each_kind_of_rows(tmp_path: Path) -> None:
    rows = [
        (label, group, kind, "accuracy", value, None, 0.9, kind == "shifted")
        for kind, value in (("test", 0.8), ("shifted", 0.6))
        for label, group in (("HMC", "ceiling"), ("SGD", "same"))
    ]
    file = tmp_path / "table.csv"
    pd.DataFrame(
        rows, columns=["label", "group", "rows", "metric", "value", "error", "published", "distrusted"]
    ).to_csv(file, index=False)
    found = {table.metric: table.rows for table in method_tables(file, {})}
    assert found == {
        "Here, and as published: test rows": [["HMC, single chains", "0.800", "0.9000"], ["SGD", "0.800", "0.9000"]],
        "Here, and as published: shifted rows": [
            ["HMC, single chains †", "0.600", "0.9000"],
            ["SGD †", "0.600", "0.9000"],
        ],
    }
