"""The page and the table of claims."""

import base64
import io
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from bnn_atlas.claims.html import thumbnail, write_page
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.report import report
from bnn_atlas.claims.rules import Verdict
from bnn_atlas.claims.table import SCHEMA, write_claims
from bnn_atlas.claims.verdict import Judgement, judge_all
from bnn_atlas.metrics.tables.parquet import write_table
from bnn_atlas.provenance import collect

from .making import COMPARISON, RUNS, claimed, planned, printed, row, seeds, table

REDUCED = {n: r | ({"reductions": ["chains: 1000 -> 10"]} if n == "single" else {}) for n, r in RUNS.items()}
CLAIMS: list[dict[str, Any]] = [
    {"statement": "Errors are <b>small</b> & \"few\"", "figure": "curve", "basis": "half of <it>"},
    {"runs": ["single"], "published": printed(0.1215)},
    {"published": printed(-0.9)},
    {"metric": "lppd", "figure": "absent"},
    COMPARISON | {"paper": "Somebody, 2001"},
]  # fmt: skip


class Page(HTMLParser):
    """What a page holds: tags and links, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def judgements(tmp_path: Path) -> list[Judgement]:
    rows = [
        *seeds("mile", 0.5, 0.25, 0.75), *seeds("ensemble", 0.75, 0.75, 1.25),
        row("single", 0.2, standard_error=0.01, over="rows"),
    ]  # fmt: skip
    table(tmp_path, rows)
    studies = [claimed(*CLAIMS, runs=REDUCED), claimed({"runs": ["gone"]}, name="other", title="Another study")]
    return judge_all(studies, {"small": tmp_path / "small.parquet"})


@pytest.fixture
def figures(tmp_path: Path) -> dict[str, Path]:
    path = tmp_path / "curve.png"
    Image.radial_gradient("L").convert("RGB").resize((1200, 900)).save(path)
    return {"small/curve": path}


def written(folder: Path, judgements: list[Judgement], figures: dict[str, Path]) -> str:
    provenance = collect({"scale": "laptop"}, root=folder)
    write_page(folder / "claims.html", judgements, figures, provenance)
    return (folder / "claims.html").read_text(encoding="utf-8")


def test_the_page_shows_every_claim_with_its_verdict(
    tmp_path: Path, judgements: list[Judgement], figures: dict[str, Path]
) -> None:
    text = written(tmp_path, judgements, figures)
    page = Page(text)
    claims = {a["id"]: a["data-verdict"] for a in page.all("tbody") if "data-verdict" in a}
    assert claims == {
        "small.c0": "not-tested", "small.c1": "reproduced", "small.c2": "failed", "small.c3": "not-run",
        "small.c4": "reproduced", "other.c0": "not-run",
    }  # fmt: skip
    shown = re.sub(r"\s+", " ", "".join(page.texts))
    assert "needed: scale paper: snakemake --cores 2 gone --config scale=paper" in shown


def test_the_page_loads_nothing_and_links_to_files_beside_it(
    tmp_path: Path, judgements: list[Judgement], figures: dict[str, Path]
) -> None:
    text = written(tmp_path, judgements, figures)
    page = Page(text)
    assert not re.search(r"(?i)\bhttps?:|@import|url\(|\bfetch\(", text)
    (image,) = page.all("img")
    assert (image["src"] or "").startswith("data:image/png;base64,")
    assert all("src" not in attributes for attributes in page.all("script"))
    links = [a["href"] or "" for a in page.all("a")]
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {link for link in links if not link.startswith("#")} == {"figures/small/curve.png", "claims.parquet"}
    assert {link[1:] for link in links if link.startswith("#")} == {"small-curve"} <= ids
    (policy,) = (m["content"] for m in page.all("meta") if m.get("http-equiv"))
    assert (policy or "").startswith("default-src 'none'")


def test_the_same_claims_give_the_same_bytes(
    tmp_path: Path, judgements: list[Judgement], figures: dict[str, Path]
) -> None:
    first = written(tmp_path, judgements, figures)
    write_claims(tmp_path / "claims.parquet", judgements, {})
    kept = (tmp_path / "claims.parquet").read_bytes()
    assert written(tmp_path, judgements, figures) == first
    write_claims(tmp_path / "claims.parquet", judgements, {})
    assert (tmp_path / "claims.parquet").read_bytes() == kept


def test_without_claims_there_is_a_page_that_says_so(tmp_path: Path) -> None:
    text = written(tmp_path, [], {})
    assert "None of the chosen studies has claims" in text
    write_claims(tmp_path / "claims.parquet", [], {})
    assert list(pd.read_parquet(tmp_path / "claims.parquet").columns) == SCHEMA.names


def test_the_table_holds_values_verdicts_and_rows(tmp_path: Path, judgements: list[Judgement]) -> None:
    write_claims(tmp_path / "claims.parquet", judgements, {})
    found = pd.read_parquet(tmp_path / "claims.parquet")
    assert found["verdict"].tolist() == [str(j.verdict) for j in judgements]
    first, reduced, *_, missing, compared, _ = found.to_dict("records")
    assert (first["value"], first["repetitions"], first["sd"]) == (0.5, 3, 0.25)
    assert (first["paper"], compared["paper"]) == ("Nobody, 2000", "Somebody, 2001")
    assert (first["basis"], compared["basis"]) == ("half of <it>", "half")
    assert (first["compares"], compared["compares"]) == (False, True)
    assert [r["value"] for r in first["rows"]] == [0.5, 0.25, 0.75]
    assert reduced["reductions"].tolist() == ["single: chains: 1000 -> 10"]
    assert math.isnan(missing["value"])
    assert missing["needed"]
    assert compared["difference"] == pytest.approx(0.5 - 2.75 / 3)
    assert {r["side"] for r in compared["rows"]} == {"value", "compared with"}


def test_a_figure_that_is_a_table_has_no_picture(tmp_path: Path, judgements: list[Judgement]) -> None:
    (tmp_path / "curve.tex").write_text("1 & 2")
    text = written(tmp_path, judgements, {"small/curve": tmp_path / "curve.tex"})
    assert "<img" not in text


def test_thumbnails_are_small_copies(figures: dict[str, Path]) -> None:
    data = thumbnail(figures["small/curve"]).removeprefix("data:image/png;base64,")
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        assert picture.size == (520, 390)
        assert picture.convert("L").getpixel((260, 195)) < 20 < 200 < picture.convert("L").getpixel((2, 2))


def test_excluded_chains_are_said_on_the_page_and_in_the_table(tmp_path: Path) -> None:
    table(tmp_path, [row("single", 0.5, chains=19, note="1 of 20 chains excluded: 1 not finite")])
    study = claimed({"runs": ["single"], "chains": 20}, runs={"single": planned("single", chains=20)})
    judgements = judge_all([study], {"small": tmp_path / "small.parquet"})
    text = written(tmp_path, judgements, {})
    assert '<p class="small">1 of 20 chains of single, split 0 excluded</p>' in text
    assert '<td class="right">19 of 20</td>' in text
    assert "if more than 5 per cent are, it is not run" in text
    write_claims(tmp_path / "claims.parquet", judgements, {})
    (found,) = pd.read_parquet(tmp_path / "claims.parquet").to_dict("records")
    assert found["verdict"] == "agrees"
    assert [(r["chains"], r["excluded"]) for r in found["rows"]] == [(19, 1)]


def test_the_rule_reads_plain_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table("small.parquet", seeds("mile", 0.5, 0.5, 0.5))
    plain = claimed({}).model_dump(mode="json")
    assert ClaimedStudy.model_validate(plain) == claimed({})
    report([plain], ["small.parquet"], {}, scale="laptop", table="claims.parquet", page="claims.html")
    assert pd.read_parquet("claims.parquet")["verdict"].tolist() == [str(Verdict.AGREES)]
    assert "small.c0" in Path("claims.html").read_text()
