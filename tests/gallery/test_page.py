"""The gallery of a study, from a few numbers and pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bnn_atlas.claims.table import write_claims
from bnn_atlas.claims.verdict import judge
from bnn_atlas.gallery.page import LARGEST, WIDTH, duration, write_gallery
from bnn_atlas.gallery.pictures import shrink
from bnn_atlas.gallery.times import RuleTime, rule_times
from tests.claims.making import COMPARISON, claimed, seeds, table

STUDY = {"name": "small", "title": "A study", "paper": "Nobody, 2000."}
SUMMARY = [
    ("mile", "", "rmse", 0.5, 0.1),
    ("mile", "", "lppd", -1.25, 0.2),
    ("priors", "prior.scale=2", "rmse", 0.75, np.nan),
]


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
    (figures / "uci.csv").write_text("a\n1\n")
    (figures / "uci.tex").write_text("1 & 2")
    study = claimed({}, {"bound": 0, **COMPARISON}, {"runs": ["gone"], "statement": "a | b"})
    measured = table(tmp_path, seeds("mile", 0.4, 0.5, 0.6) + seeds("ensemble", 0.7, 0.8, 0.9))
    write_claims(tmp_path / "claims.parquet", [judge(name, study, measured) for name in study.claims.claims])
    frame = pd.DataFrame(SUMMARY, columns=["entry", "point", "metric", "mean", "sd"])
    frame.assign(dataset="airfoil", model="mlp", method="mclmc", chains=10, draws=100).to_csv(
        tmp_path / "summary.csv", index=False
    )
    (tmp_path / "runs.csv").write_text("run\nmile\n")
    benchmark(tmp_path / "benchmarks/sample/small/mile/split0/block0.tsv", 100)
    return {
        "study": STUDY,
        "scale": "laptop",
        "command": "snakemake galleries",
        "figures": sorted(figures.iterdir()),
        "summary": tmp_path / "summary.csv",
        "runs": tmp_path / "runs.csv",
        "claims": tmp_path / "claims.parquet",
        "benchmarks": tmp_path / "benchmarks",
    }


def test_page_and_files(tmp_path: Path, inputs: dict[str, Any]) -> None:
    folder = tmp_path / "gallery"
    write_gallery(folder, **inputs)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "claims.csv", "few.csv", "few.png", "many.png", "runs.csv", "summary.csv", "uci.csv", "uci.tex",
    ]  # fmt: skip
    text = (folder / "README.md").read_text()
    assert text.startswith("# A study\n\nNobody, 2000. Made at scale `laptop` by\n\n```sh\nsnakemake galleries\n```\n")
    assert "in 2 min of jobs (50 s of one core)" in text
    assert "2 reproduced, 1 not run." in text
    assert "| 0.5000 | 0.5000 ± 0.1000 | reproduced" in text
    assert "|  | −0.3000 ± 0.0000 | reproduced" in text
    assert r"| a \| b | Table 1 |" in text
    assert f"Its {LARGEST // 2:,} plotted numbers (0.3 MB)" in text
    assert "| mile | airfoil | mlp | mclmc | 10 | 100 | 0.5000 ± 0.1000 | −1.2500 ± 0.2000 |" in text
    assert "| priors (prior.scale=2) | airfoil | mlp | mclmc | 10 | 100 | 0.7500 |  |" in text
    assert "| sample | 1 | 1.7 | 0.8 |" in text


def test_links_of_the_page_exist(tmp_path: Path, inputs: dict[str, Any]) -> None:
    folder = tmp_path / "gallery"
    write_gallery(folder, **inputs)
    links = pd.Series([(folder / "README.md").read_text()]).str.findall(r"\]\(([^)]+)\)")[0]
    assert len(links) > 4
    assert [link for link in links if not (folder / link).exists()] == []


def test_study_without_claims_or_figures(tmp_path: Path, inputs: dict[str, Any]) -> None:
    folder = tmp_path / "gallery"
    write_gallery(folder, **inputs | {"claims": None, "figures": []})
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
    benchmark(tmp_path / "sample/small/mile/split0/block0.tsv", 4)
    benchmark(tmp_path / "sample/small/mile/split1/block0.tsv", 6)
    benchmark(tmp_path / "sample/smaller/mile/split0/block0.tsv", 100)
    benchmark(tmp_path / "table/small-runs.tsv", 30)
    benchmark(tmp_path / "table/small.tsv", 1)
    benchmark(tmp_path / "claims.tsv", 1)
    assert rule_times(tmp_path, "small") == [RuleTime("table", 2, 31, 15.5), RuleTime("sample", 2, 10, 5)]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (3570, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
