"""The gallery of a study, from a few numbers and pictures."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bnn_atlas.gallery.pictures import LARGEST, markdown, shrink
from bnn_atlas.gallery.study import duration, ladder, write_gallery
from tests.config.folders import REPOSITORY
from tests.gallery.making import STUDY, benchmark, gallery_inputs, study_jobs, timing


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Any]:
    """Arguments of `write_gallery`."""
    return gallery_inputs(tmp_path)


def page(folder: Path, inputs: dict[str, Any], **changes: Any) -> str:
    """The text of the page."""
    write_gallery(folder / "gallery", **inputs | changes)
    return (folder / "gallery" / "README.md").read_text()


def section(text: str, heading: str) -> str:
    """What is below a heading of the second level, up to the next one."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_page_and_files(tmp_path: Path, inputs: dict[str, Any]) -> None:
    text = page(tmp_path, inputs)
    assert sorted(path.name for path in (tmp_path / "gallery").iterdir()) == [
        "README.md", "claims.csv", "few.csv", "few.png", "many.png", "runs.csv", "summary.csv", "uci.csv", "uci.tex",
    ]  # fmt: skip
    assert text.startswith("# A study\n\nNobody, 2000.\n\nResults at scale `laptop`, which changes some of the paper")
    assert "2 agrees, 1 differs, 1 holds, 1 does not hold, 1 to run. The cause of 1 of 2 [miss" in text
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [
        "Findings", "Check it yourself", "Claims", "Misses and their causes", "Differences from the paper", "Figures",
        "Scores", "Machines and time",
    ]  # fmt: skip
    assert "At every scale:\n\n- Other rows.\n- Other noise.\n" in text
    assert "\n\n\n" not in text
    assert pd.read_csv(tmp_path / "gallery" / "claims.csv")["basis"].tolist()[0] == "a quarter"


def test_the_ladder_of_commands(tmp_path: Path, inputs: dict[str, Any]) -> None:
    usual = section(page(tmp_path / "usual", inputs), "Check it yourself")
    assert [line.partition(" |")[0] for line in usual.splitlines()[3:]] == ["| 1 s", "| 1 day", "| days on a GPU"]
    assert "\n| 1 day | `snakemake --cores 2 --config scale=laptop 'studies=[small]'` | " in usual
    steps = ladder("small", [("evaluate", "3 | 4 h", 7)])
    own = section(page(tmp_path / "own", inputs, steps=steps), "Check it yourself").splitlines()[3:]
    assert own[:2] == [
        "| 1 s | this page | Everything as it was measured here. |",
        "| 3 \\| 4 h | `snakemake --cores 2 evaluate` | 7 claims, with their verdicts. |",
    ]
    assert len(own) == 4


def test_a_large_summary_is_left_out_and_the_page_says_where_it_is(tmp_path: Path, inputs: dict[str, Any]) -> None:
    assert "are in [summary.csv](summary.csv)." in page(tmp_path / "small", inputs)
    row = Path(inputs["summary"]).read_text().splitlines()[-1]
    with Path(inputs["summary"]).open("a") as file:
        file.write((row + "\n") * (LARGEST // len(row)))
    text = page(tmp_path / "large", inputs)
    assert not (tmp_path / "large" / "gallery" / "summary.csv").exists()
    assert "rows (0.5 MB) that are not kept here; the command below makes them (`tables/small-summary.csv` of" in text


def test_figures_have_headings_in_words_and_definitions_folded(tmp_path: Path, inputs: dict[str, Any]) -> None:
    links, few, many, uci = section(page(tmp_path, inputs), "Figures").split('\n<a id="')
    assert links == "\n[A few](#few) · [many](#many) · [uci](#uci)\n"
    assert few == (
        'few"></a>\n\n### A few\n\n![A few](few.png)\n\n**Few numbers.**\n\nAs in the paper.\n\n'
        "Numbers: [few.csv](few.csv).\n\n<details><summary>How to read it</summary>\n\n"
        "On *W*<sub>1</sub>, in `file.csv`. Compare.\n\nNot needed at first.\n\n</details>\n"
    )
    assert many.startswith(
        f'many"></a>\n\n### many\n\n![many](many.png)\n\nIts {LARGEST // 2:,} plotted numbers (0.5 MB)'
    )
    assert uci == (
        'uci"></a>\n\n### uci\n\nLPPD:\n\n| method | air \\| foil | energy | mean rank |\n|---|---|---|---|\n'
        "| A | **−1.000 ± 0.250** | **2.000** | 1.50 |\n| B |  | 1.000 ± 0.500 | 2.00 |\n\n"
        "RMSE:\n\n| method | air \\| foil | energy | mean rank |\n|---|---|---|---|\n"
        "| A | **0.500 ± 0.100** |  | 1.00 |\n\n"
        "Table in LaTeX: [uci.tex](uci.tex).\nNumbers: [uci.csv](uci.csv).\n"
    )


@pytest.mark.parametrize("file", sorted((REPOSITORY / "workflow/report").glob("**/*.rst")), ids=lambda file: file.stem)
def test_every_caption_of_the_repository_becomes_markdown(file: Path) -> None:
    text = markdown(file)
    assert text.startswith("**") or file.parent.name == "notes" or file.stem == "workflow"
    assert text.endswith(".")
    assert text.count("`") % 2 == 0
    for left in ("{{", ":sub:", ":sup:", "``", "\\ "):
        assert left not in text


ODD = "<b>x</b> | *y* [z](http://w) `a|b` _c_ d_e 1 < 2 &lt; \\ ~~f~~"
SHOWN = r"&lt;b&gt;x&lt;/b&gt; \| \*y\* \[z\](http://w) `a|b` \_c\_ d_e 1 &lt; 2 &amp;lt; \\ \~\~f\~\~"


def test_texts_of_a_study_show_as_they_were_written(tmp_path: Path, inputs: dict[str, Any]) -> None:
    summary = pd.read_csv(inputs["summary"])
    summary.assign(entry=ODD, model="*m*").to_csv(inputs["summary"], index=False)
    judged = pd.read_parquet(inputs["claims"])
    judged.assign(statement=ODD, place="<script>", cause=ODD).to_parquet(inputs["claims"])
    findings = [finding | {"statement": ODD} for finding in STUDY["findings"]]
    inputs["study"] = STUDY | {"title": ODD, "paper": ODD, "findings": findings}
    inputs["study"]["differences"] = [ODD, "# no heading", "1. no list"]
    inputs["captions"]["few"] |= {"title": ODD, "text": ODD}
    text = page(tmp_path, inputs, datasets={"airfoil": ODD})
    in_cell = SHOWN.replace("a|b", r"a\|b")
    assert text.startswith(f"# {SHOWN}\n\n{SHOWN}.\n")
    assert f"\n- {SHOWN}\n- \\# no heading\n- 1\\. no list\n" in text
    assert f"\n| 1 | {in_cell}<br><sub>&lt;script&gt; · [figure](#few) · measured: {in_cell}</sub> | " in text
    assert f" | {in_cell}<br><sub>&lt;script&gt; · [figure](#few) · finding 1</sub> | " in text
    assert f"<sub>by 0.047; up to 0.01 would agree</sub> | {in_cell} | " in text
    assert f"\n### {SHOWN}\n\n![{SHOWN}](few.png)\n\n**Few numbers.**\n\n{SHOWN}\n\n" in text
    assert f"\n### Scores on {in_cell}\n" in text
    assert f"\n| {in_cell} | \\*m\\* | mclmc |" in text
    assert not re.search(r"<(b|i|script)>", text)


def test_links_of_the_page_exist(tmp_path: Path, inputs: dict[str, Any]) -> None:
    text = page(tmp_path, inputs)
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert {"#few", "uci.tex", "few.png", "claims.csv"} <= links
    assert [link for link in links if link[0] != "#" and not (tmp_path / "gallery" / link).exists()] == []
    headings = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert {link[1:] for link in links if link[0] == "#"} <= headings | set(re.findall(r'<a id="(.+?)">', text))


def test_study_without_claims_or_figures(tmp_path: Path, inputs: dict[str, Any]) -> None:
    text = page(tmp_path, inputs, claims=None, figures=[], captions={}, study=STUDY | {"findings": []}, scale="paper")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Check it yourself", "Differences from the paper", "Scores", "Machines and time"]
    assert (
        "Results at the paper's settings; [runs.csv](runs.csv) lists the settings of each run.\nNo claim of the paper"
        in text
    )
    assert "evaluate" not in text


def test_time_and_the_machine_of_each_run(tmp_path: Path, inputs: dict[str, Any]) -> None:
    text = section(page(tmp_path / "one", inputs), "Machines and time")
    assert "in 2 min of jobs (52 s of one core).\nSampled on a processor, 2 cores.\n" in text
    assert "\n| mile | 1 | a processor, 2 cores | 1 | 1.7 | 0.8 |\n" in text
    assert "\n| sample | 1 | 1.7 | 0.8 |\n| figures | 1 | 0.1 | 0.0 |\n" in text
    benchmark(tmp_path / "benchmarks/sample/small/big/split0/block0.tsv", 7200)
    timing(tmp_path / "small/big/split0/block0/timing.json", device="gpu a GPU")
    more = {"jobs": study_jobs(tmp_path, {"mile": [1, 1], "big": [1, 1]}), "entries": {"mile": "mile", "big": "big"}}
    text = section(page(tmp_path / "two", inputs, **more), "Machines and time")
    assert (
        "| a GPU (host: a processor, 2 cores) | 1 | 2 h 00 min | big |\n| a processor, 2 cores | 1 | 2 min | mile |"
        in text
    )


def test_shrink(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 600, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    shrink(tmp_path / "large.png", tmp_path / "small.png", 200)
    with Image.open(tmp_path / "small.png") as small:
        assert (small.size, small.mode) == ((200, 100), "P")
    shrink(tmp_path / "large.png", tmp_path / "same.png", 1000)
    with Image.open(tmp_path / "same.png") as same:
        assert same.size == (600, 300)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (3570, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
