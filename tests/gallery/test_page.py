"""The gallery of a study, from a few numbers and pictures."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bnn_atlas.claims.table import write_claims
from bnn_atlas.claims.verdict import judge
from bnn_atlas.config.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.gallery.captions import markdown
from bnn_atlas.gallery.page import LARGEST, WIDTH, duration, write_gallery
from bnn_atlas.gallery.pictures import shrink
from bnn_atlas.gallery.times import RuleTime, StudyJobs, jobs, machine, rule_times
from tests.claims.making import COMPARISON, RUNS, claimed, row, seeds, table
from tests.config.folders import REPOSITORY

STUDY = {"name": "small", "title": "A study", "paper": "Nobody, 2000.", "differences": ["Other rows.", "Other noise."]}
SUMMARY = [
    ("mile", "", "rmse", 0.5, 0.1),
    ("mile", "", "lppd", -1.25, 0.2),
    ("priors", "prior.scale=2", "rmse", 0.75, np.nan),
    ("priors", "prior.scale=2", "rhat_function_max", np.nan, np.nan),
    ("mile", "", "agreement (hmc)", 0.875, np.nan),
    ("mile", "", "agreement_ceiling", 0.9, np.nan),
]
WORD = "unconverged reference: R-hat of function values up to 3.80, ESS down to 4"
CAPTION = """**Few numbers.**

On *W*\\ :sub:`1`, in
``file.csv``. Compare.

{{ snakemake.params.figure.caption }}

Scale ``{{ snakemake.config["scale"] }}``.
"""
REDUCED = {"mile": ["chains: 1000 -> 10"], "ensemble": ["chains: 1000 -> 10", "method.steps: 50 -> 5"]}


UNMEASURED = " cannot be judged: the table has no diagnostics |"


def benchmark(file: Path, seconds: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"s\th:m:s\tcpu_time\n{seconds}\t0:00:01\t{seconds / 2}\n")


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Any]:
    """What a finished run leaves: two figures (one with many numbers), a LaTeX table, claims, a summary, times."""
    figures = tmp_path / "figures"
    figures.mkdir()
    for name, rows in (("few", 3), ("many", LARGEST // 2)):
        Image.new("RGB", (2 * WIDTH, 1000), "white").save(figures / f"{name}.png")
        (figures / f"{name}.csv").write_text("a\n" + "1\n" * rows)
    (figures / "uci.csv").write_text(
        "metric,method,dataset,mean,sd,mean_rank,best\nlppd,A,airfoil,-1,0.25,1.5,True\nlppd,A,energy,2,,1.5,True\n"
        "lppd,B,energy,1,0.5,2,False\nrmse,A,airfoil,0.5,0.1,1,True\n"
    )
    (figures / "uci.tex").write_text("1 & 2")
    (tmp_path / "few.rst").write_text(CAPTION)
    (tmp_path / "notes.rst").write_text("Not needed at\nfirst.\n")
    change = {"paper_value": -0.25321, "tolerance": 0.1, "relation": "equals", "than": {"runs": ["ensemble"]}}
    study = claimed(
        {"figure": "few", "basis": "a quarter"},
        {"bound": 0, **COMPARISON},
        {"figure": "absent", **change},
        {"runs": ["gone"], "statement": "a | b"},
        {"runs": ["single"], "statement": "a single run"},
        runs={name: plan | {"reductions": REDUCED.get(plan["entry"], [])} for name, plan in RUNS.items()},
    )
    measured = table(
        tmp_path,
        seeds("mile", 0.4, 0.5, 0.6)
        + seeds("ensemble", 0.7, 0.8, 0.9)
        + [row("single", 0.5, standard_error=0.02, note=SCALED_WITH_TEST_ROWS)],
    )
    write_claims(tmp_path / "claims.parquet", [judge(name, study, measured) for name in study.claims.claims])
    frame = pd.DataFrame(SUMMARY, columns=["entry", "point", "metric", "mean", "sd"])
    frame["at"] = frame["metric"].str.extract(r" \((.*)\)")[0]
    frame["metric"] = frame["metric"].str.removesuffix(" (hmc)")
    frame["note"] = frame["entry"].map({"priors": SCALED_WITH_TEST_ROWS}).astype(object)
    frame.loc[frame["at"] == "hmc", "note"] = WORD
    frame["trust"] = frame["entry"].map(
        {"mile": "do not trust: R-hat of function values at most 3.80", "priors": "fine"}
    )
    frame.assign(dataset="airfoil", model="mlp", method="mclmc", chains=10, draws=100).to_csv(
        tmp_path / "summary.csv", index=False
    )
    (tmp_path / "runs.csv").write_text("run\nmile\n")
    benchmark(tmp_path / "benchmarks/sample/small/mile/split0/block0.tsv", 100)
    benchmark(tmp_path / "benchmarks/sample/small/gone/split0/block0.tsv", 1000)
    benchmark(tmp_path / "benchmarks/figures/small/few.tsv", 3)
    benchmark(tmp_path / "benchmarks/figures/small/gone.tsv", 1000)
    return {
        "study": STUDY,
        "scale": "laptop",
        "command": "snakemake galleries",
        "figures": sorted(figures.iterdir()),
        "captions": {
            "few": {"caption": tmp_path / "few.rst", "notes": tmp_path / "notes.rst", "text": "As in the paper."}
        },
        "summary": tmp_path / "summary.csv",
        "runs": tmp_path / "runs.csv",
        "claims": tmp_path / "claims.parquet",
        "jobs": jobs(
            tmp_path / "benchmarks", StudyJobs("small", {"mile": [1, 1]}, ["few", "many", "uci"], [], [])
        ).assign(machine="a machine"),
    }


def test_page_and_files(tmp_path: Path, inputs: dict[str, Any]) -> None:
    folder = tmp_path / "gallery"
    write_gallery(folder, **inputs)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "claims.csv", "few.csv", "few.png", "many.png", "runs.csv", "summary.csv", "uci.csv", "uci.tex",
    ]  # fmt: skip
    text = (folder / "README.md").read_text()
    assert text.startswith("# A study\n\nNobody, 2000. Made at scale `laptop` by\n\n```sh\nsnakemake galleries\n```\n")
    assert "in 2 min of jobs (52 s of one core). Machine: a machine. " in text
    assert "Differences from the paper at every scale:\n\n- Other rows.\n- Other noise.\n\n## Claims" in text
    assert "1 reproduced, 3 reproduced at reduced scale, 1 not run." in text
    rows = [line for line in text.splitlines() if line.startswith(("| The error", "| a "))]
    reduced = "chains 1000 → 10; steps 50 → 5 | reproduced at reduced scale |"
    own = "0.5000 | within 0.25 of it | 0.5000 ± 0.1000 | chains 1000 → 10 | reproduced at reduced scale |"
    assert rows[:3] == [
        f"| The error is 0.5 | Table 1, [figure](#few) | {own}{UNMEASURED}",
        f"| The error is 0.5 | Table 1 | – | difference below 0 | difference −0.3000 ± 0.0000 | {reduced}{UNMEASURED}",
        "| The error is 0.5 | Table 1 | difference −0.25321 | difference within 0.1 of it "
        f"| difference −0.3000 ± 0.0000 | {reduced}{UNMEASURED}",
    ]
    assert rows[3].startswith(
        r"| a \| b | Table 1 | 0.5000 | within 0.25 of it | – |  | not run: scale laptop does not"
    )
    assert rows[4].split(" | ")[4] == r"0.5000 ± 0.0200 \*", "a single run has the error of its row"
    assert pd.read_csv(folder / "claims.csv")["basis"].tolist()[0] == "a quarter"
    assert f"Its {LARGEST // 2:,} plotted numbers (0.3 MB)" in text
    scores = "| mile | airfoil | mlp | mclmc | 10 | 100 | 0.5000 ± 0.1000 | −1.2500 ± 0.2000 | "
    assert f"{scores}0.8750 (unconverged reference) |  | do not trust: R-hat of function values at most 3.80 |" in text
    assert text.count(rf"\* {SCALED_WITH_TEST_ROWS}") == 2, "below the claims and below the scores"
    assert r"| priors (prior.scale=2) \* | airfoil | mlp | mclmc | 10 | 100 | 0.7500 |  |  | – | fine |" in text
    assert "| sample | 1 | 1.7 | 0.8 |" in text
    assert "| figures | 1 | 0.1 | 0.0 |" in text


def test_a_large_summary_is_left_out_and_the_page_says_where_it_is(tmp_path: Path, inputs: dict[str, Any]) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    write_gallery(small, **inputs)
    assert "are in [summary.csv](summary.csv)." in (small / "README.md").read_text()
    row = Path(inputs["summary"]).read_text().splitlines()[-1]
    with Path(inputs["summary"]).open("a") as file:
        file.write((row + "\n") * (LARGEST // len(row)))
    write_gallery(large, **inputs)
    assert not (large / "summary.csv").exists()
    text = (large / "README.md").read_text()
    assert f"rows (0.3 MB) that are not kept here; the command above makes them in `{inputs['summary']}`" in text


def test_figures_have_captions_and_their_latex(tmp_path: Path, inputs: dict[str, Any]) -> None:
    folder = tmp_path / "gallery"
    write_gallery(folder, **inputs)
    _, few, many, uci = (folder / "README.md").read_text().partition("## Scores")[0].split("\n### ")
    assert few == (
        "few\n\n![few](few.png)\n\n**Few numbers.**\n\nOn *W*<sub>1</sub>, in `file.csv`. Compare.\n\n"
        "As in the paper.\n\n"
        "Numbers: [few.csv](few.csv).\n\n<details><summary>Notes</summary>\n\nNot needed at first.\n\n</details>\n"
    )
    assert many.startswith(f"many\n\n![many](many.png)\n\nIts {LARGEST // 2:,} plotted numbers")
    assert uci == (
        "uci\n\n`lppd`:\n\n| method | airfoil | energy | mean rank |\n|---|---|---|---|\n"
        "| A | −1.000 ± 0.250 | 2.000 | 1.50 |\n| B |  | 1.000 ± 0.500 | 2.00 |\n\n"
        "`rmse`:\n\n| method | airfoil | energy | mean rank |\n|---|---|---|---|\n| A | 0.500 ± 0.100 |  | 1.00 |\n\n"
        "Table in LaTeX: [uci.tex](uci.tex).\nNumbers: [uci.csv](uci.csv).\n\n"
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
    summary.assign(entry=ODD, dataset="<i>", model="*m*").to_csv(inputs["summary"], index=False)
    judged = pd.read_parquet(inputs["claims"])
    judged.assign(statement=ODD, section="<script>").to_parquet(inputs["claims"])
    inputs["study"] = STUDY | {"title": ODD, "paper": ODD, "differences": [ODD, "# no heading", "1. no list"]}
    inputs["captions"]["few"]["text"] = ODD
    write_gallery(tmp_path / "gallery", **inputs)
    text = (tmp_path / "gallery" / "README.md").read_text()
    in_cell = SHOWN.replace("a|b", r"a\|b")
    assert text.startswith(f"# {SHOWN}\n\n{SHOWN}. Made at")
    assert f"\n- {SHOWN}\n- \\# no heading\n- 1\\. no list\n" in text
    assert f"\n| {in_cell} | &lt;script&gt;, [figure](#few) | " in text
    assert f"\n| {in_cell} | &lt;i&gt; | \\*m\\* | mclmc |" in text
    assert f"Compare.\n\n{SHOWN}\n\n" in text
    assert not re.search(r"<(b|i|script)>", text)


def test_links_of_the_page_exist(tmp_path: Path, inputs: dict[str, Any]) -> None:
    folder = tmp_path / "gallery"
    write_gallery(folder, **inputs)
    text = (folder / "README.md").read_text()
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert {"#few", "uci.tex", "few.png", "claims.csv"} <= links
    assert [link for link in links if link[0] != "#" and not (folder / link).exists()] == []
    assert {link[1:] for link in links if link[0] == "#"} <= set(re.findall(r"^### (.+)$", text, re.MULTILINE))


def test_study_without_claims_or_figures(tmp_path: Path, inputs: dict[str, Any]) -> None:
    folder = tmp_path / "gallery"
    write_gallery(folder, **inputs | {"claims": None, "figures": [], "captions": {}})
    text = (folder / "README.md").read_text()
    assert "## Claims" not in text
    assert "## Figures" not in text
    assert "## Scores" in text


def test_shrink(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 600, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    shrink(tmp_path / "large.png", tmp_path / "small.png", 200)
    with Image.open(tmp_path / "small.png") as small:
        assert (small.size, small.mode) == ((200, 100), "P")
    shrink(tmp_path / "large.png", tmp_path / "same.png", 1000)
    with Image.open(tmp_path / "same.png") as same:
        assert same.size == (600, 300)


def test_rule_times(tmp_path: Path) -> None:
    counted = {
        "sample/small/mile/split0/block0.tsv": 4, "sample/small/mile/split1/block1.tsv": 6,
        "subset/small/mile/split0/1234abcd.tsv": 2, "predict/small/mile/split0/test.tsv": 3,
        "figures/small/few.tsv": 5, "figures/small/diagnostics/mile-split1.tsv": 7,
        "table/small-runs.tsv": 30, "table/small.tsv": 1, "warmstart/airfoil-12.tsv": 8,
    }  # fmt: skip
    old = (
        "sample/small/mile/split2/block0.tsv", "sample/small/mile/split0/block2.tsv", "split/small/gone/split0.tsv",
        "subset/small/mile/split0/gone.tsv", "figures/small/gone.tsv", "figures/small/diagnostics/mile-split2.tsv",
        "figures/small/diagnostics/gone-split0.tsv", "sample/smaller/mile/split0/block0.tsv", "claims.tsv",
        "warmstart/airfoil-34.tsv",
    )  # fmt: skip
    for file, seconds in counted.items():
        benchmark(tmp_path / file, seconds)
    for file in old:
        benchmark(tmp_path / file, 1000)
    of = StudyJobs("small", {"mile": [2, 2]}, ["few"], ["1234abcd"], ["warmstart/airfoil-12"])
    found = jobs(tmp_path, of)
    assert found["job"].tolist()[:2] == ["small/diagnostics/mile-split1", "small/few"]
    assert set(found["machine"]) == {machine()}
    assert rule_times(found) == [
        RuleTime("table", 2, 31, 15.5), RuleTime("figures", 2, 12, 6), RuleTime("sample", 2, 10, 5),
        RuleTime("warmstart", 1, 8, 4), RuleTime("predict", 1, 3, 1.5), RuleTime("subset", 1, 2, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (3570, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
