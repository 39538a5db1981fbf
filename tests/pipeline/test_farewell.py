"""The last lines of a run."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.pipeline.farewell import FEW, farewell
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.report.console import checked
from tests.config.folders import CLAIM

from .workspace import small_workspace, snakemake

CLAIMS = ClaimsConfig.model_validate(
    {"paper": "p", "steps": {"evaluate": {"takes": "a minute", "claims": ["error"]}}, "claims": {"error": CLAIM}}
)
AS_PAGES = "as pages: snakemake --cores 2 so_far --config scale=demo 'studies=[small]'"
CELLS = {
    "study": "small", "relation": "above", "size": "0.1", "paper_text": "0.12345", "here": "0.50000 ± 0.25000",
    "identity": "same", "reason": "", "verdict": "agrees", "scale": "laptop", "statement": "It is 0.12345",
    "origin": "made here", "rows": "value: one split 0 airfoil rmse, 10 chains, 100 draws = 0.5",
}  # fmt: skip


def page(folder: Path, *rows: dict[str, str]) -> None:
    """The claims beside a page."""
    folder.mkdir(parents=True)
    with (folder / "claims.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["claim", *CELLS])
        writer.writeheader()
        writer.writerows(CELLS | row for row in rows)


def lines(targets: frozenset[str] = frozenset(), scale: str = "demo", **changes: Any) -> list[str]:
    atlas = SimpleNamespace(settings=SimpleNamespace(scale=scale), studies={"small": None}, claims={"small": CLAIMS})
    vars(atlas).update({key: value for key, value in changes.items() if key == "claims"})
    figures = SimpleNamespace(not_made=changes.get("not_made", []))
    drawn = SimpleNamespace(
        outputs=["results/demo/figures/small/fireball.pdf", "results/demo/figures/small/fireball.png"]
    )
    tables = [f"results/demo/small/one/split{split}/metrics/metrics.parquet" for split in (0, 1)]
    known = SimpleNamespace(figure={"fireball": drawn, "small_fireball": drawn}.get, runs={"one": tables})
    return farewell(atlas, Paths("results/demo"), figures, known, "Install R.", targets, 243.4).text.splitlines()


def test_three_places_to_look_and_what_to_do_next() -> None:
    text = lines()
    assert text[0] == "Made in 4 min 3 s. Where to look first:"
    assert [line.split()[0] for line in text[1:4]] == [
        "results/demo/site/index.html", "results/demo/figures/small/", "results/demo/tables/small-summary.csv",
    ]  # fmt: skip
    assert text[4] == "What to do next:"
    assert any(line.strip().startswith("snakemake --cores 2 diagnostics ") for line in text[5:])


def test_columns_are_aligned() -> None:
    starts = [len(line) - len(line[2:].partition("  ")[2].lstrip()) for line in lines()[1:4]]
    assert len(set(starts)) == 1


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_commands_name_the_scale(scale: str) -> None:
    assert any(f"snakemake --cores 2 keep --config scale={scale}" in line for line in lines(scale=scale))


def test_figures_that_need_r_are_named() -> None:
    assert "Not made: one, two. Install R." in lines(not_made=["one", "two"])


@pytest.mark.parametrize("targets", [frozenset(), frozenset({"fireball"})])
def test_without_the_compiled_gradient_one_line_says_so(
    targets: frozenset[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnn_atlas.pipeline.farewell.library", lambda: tmp_path / "gradient.so")
    assert sum(line.startswith("No compiled gradient: ") for line in lines(targets)) == 1


@pytest.mark.parametrize(
    ("target", "paths"),
    [
        ("fireball", ["results/demo/figures/small/fireball.png"]),
        ("small_fireball", ["results/demo/figures/small/fireball.png"]),
        ("small", ["results/demo/figures/small/", "results/demo/tables/small-summary.csv"]),
        ("claims", ["results/demo/claims.parquet", AS_PAGES]),
        ("small_claims", ["results/demo/claims/small.parquet", AS_PAGES]),
        ("site", ["results/demo/site/index.html"]),
        ("so_far", ["results/demo/so_far/index.html", "results/demo/so_far/small/README.md"]),
        ("keep", ["docs/results/small/README.md"]),
    ],
)
def test_a_named_target_ends_with_what_was_made(target: str, paths: list[str]) -> None:
    assert lines(frozenset({target})) == ["Made in 4 min 3 s:", *(f"  {path}" for path in paths)]


def test_a_table_of_few_claims_ends_with_their_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "results/demo/claims/small.parquet"
    table.parent.mkdir(parents=True)
    row = {"verdict": "differs", "statement": "It is -1"}
    for number in (2, FEW + 1):
        pd.DataFrame([row] * number).to_parquet(table)
        told = [line.strip() for line in lines(frozenset({"small_claims"}))[1:]]
        shown = ["differs: It is \N{MINUS SIGN}1"] * number if number <= FEW else []
        assert told == [f"results/demo/claims/small.parquet  ({number} differ)", *shown, AS_PAGES]


def test_a_file_as_target_ends_without_words() -> None:
    assert lines(frozenset({"results/demo/tables/small.parquet"})) == []


def test_everything_among_the_targets_ends_as_everything() -> None:
    assert lines(frozenset({"all", "fireball"}))[0].endswith("Where to look first:")


def runs(folder: Path, draws: str, machine: str) -> None:
    """The runs that a page keeps."""
    (folder / "kept").mkdir()
    (folder / "kept/runs.csv").write_text(f"run,split,machine,vector_bits,draws\none,0,{machine},256,{draws}\n")


def test_a_step_ends_with_its_claims_beside_what_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, kept = Path("results/demo/so_far/small"), Path("docs/results/small")
    missed = {"claim": "error", "verdict": "differs", "reason": "by 0.4", "identity": "reduced"}
    page(made, missed, CELLS | {"claim": "growth", "paper_text": "", "verdict": "holds"})
    page(kept, {"claim": "error"})
    runs(made, "abc", "EPYC")
    runs(kept, "abc", "Xeon")
    assert lines(frozenset({"evaluate"})) == [
        "Made in 4 min 3 s:",
        "",
        "small:",
        "  differs (reduced), EXPECTED: agrees: It is 0.12345",
        "      error: paper 0.12345, here 0.50000 ± 0.25000, limit > 0.1; by 0.4; "
        "draws: 1 of 1 sets are the published ones (SHA-256)",
        "  results/demo/so_far/small/README.md",
        "",
        "made on: EPYC (256-bit vectors)",
        "published draws: Xeon (256-bit vectors)",
        "0 of 1 claims came out as expected; not: error",
    ]
    assert lines(frozenset({"so_far"}))[2] == "  results/demo/so_far/small/README.md  (1 holds, 1 differs)"


@pytest.mark.parametrize(
    ("here", "expected", "draws", "lost"),
    [
        ({}, "agrees", "abc", []),
        ({}, "agrees", "abd", []),
        ({"verdict": "cannot tell"}, "agrees", "", ["error"]),
        ({}, "to run", "abc", []),
        ({"origin": "came with the clone"}, "agrees", "abc", ["error"]),
        ({"scale": "demo", "verdict": "differs"}, "agrees", "abc", []),
        ({"claim": "another"}, "agrees", "abc", ["error"]),
    ],
)
def test_what_is_not_as_expected_is_lost(
    here: dict[str, str], expected: str, draws: str, lost: list[str], tmp_path: Path
) -> None:
    page(tmp_path / "made", {"claim": "error"} | here)
    page(tmp_path / "kept", {"claim": "error", "verdict": expected})
    runs(tmp_path / "made", "abc", "EPYC")
    runs(tmp_path / "kept", draws, "EPYC")
    found = checked(tmp_path / "made", tmp_path / "kept", ["error"], {})
    assert found.lost == lost
    text = {"abc": "1 of 1 sets", "abd": "0 of 1 sets", "": "no SHA-256 is kept"}[draws]
    assert not found.lines or here.get("origin") or text in found.lines[1]


def test_the_demo_ends_on_how_many_checks_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checks = {"checks": {"takes": "a second", "scale": "demo", "claims": ["error"]}}
    claims = {"small": CLAIMS.model_copy(update={"steps": ClaimsConfig.model_validate(
        {"paper": "p", "steps": checks, "claims": {"error": CLAIM}}).steps})}  # fmt: skip
    page(Path("results/demo/site/small"), {"claim": "error"})
    assert lines(claims=claims)[-1] == "1 of 1 checks hold"
    failed = {"claim": "error", "verdict": "differs", "reason": "by 0.4"}
    page(Path("results/demo/so_far/small"), failed)
    assert lines(frozenset({"checks"}), claims=claims)[1:] == ["0 of 1 checks hold", "  error: differs: by 0.4"]


def test_the_whole_demo_fails_if_a_check_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page(Path("results/demo/site/small"), {"claim": "error", "verdict": "differs"})
    checks = CLAIMS.model_copy(update={"steps": {"checks": CLAIMS.steps["evaluate"]}})
    atlas = SimpleNamespace(settings=SimpleNamespace(scale="demo"), studies={"small": None}, claims={"small": checks})
    figures, known = SimpleNamespace(not_made=[]), SimpleNamespace()
    assert farewell(atlas, Paths("results/demo"), figures, known, None, frozenset(), 1.0).lost == ["error"]


def test_claims_of_which_nothing_is_expected_are_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, kept = Path("results/demo/so_far/small"), Path("docs/results/small")
    page(made, {"claim": "error"})
    page(kept, {"claim": "error", "verdict": "to run"})
    runs(made, "abc", "EPYC")
    runs(kept, "abc", "EPYC")
    assert lines(frozenset({"evaluate"}))[-1] == "1 further claim: nothing expected yet"


def test_the_name_of_a_run_ends_with_its_scores_and_how_they_are_judged() -> None:
    assert lines(frozenset({"one"}))[1:] == [
        "  results/demo/small/one/split0/metrics/", "  results/demo/small/one/split1/metrics/",
        "  judged by: snakemake --cores 2 so_far --config scale=demo",
    ]  # fmt: skip


def test_a_study_without_claims_ends_with_its_scores_and_whether_to_trust_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = Path("results/demo/tables/small-summary.csv")
    table.parent.mkdir(parents=True)
    header = "entry,point,metric,mean,standard_error,trust"
    scores = [f"one,depth={i},lppd,-0.5{i},0.0123,fine" for i in range(12)]
    table.write_text("\n".join([header, *scores, "one,depth=0,rmse_original_units,1573.3,,fine", "one,,rhat,1,,x"]))
    for found in (lines(frozenset({"small"}), claims={})[3:], lines(claims={})[4:16]):
        assert found[:3] == [
            "  run          LPPD           RMSE in the target's units  trust",
            "  one depth=0  -0.5 ± 0.012   1573                        fine",
            "  one depth=1  -0.51 ± 0.012                              fine",
        ]
        assert len(found) == 12
        assert found[-1] == "  2 more in results/demo/tables/small-summary.csv"


def test_touching_files_makes_nothing_to_look_at(tmp_path: Path) -> None:
    run = snakemake(small_workspace(tmp_path / "clone"), "--touch")
    assert run.returncode == 0
    assert "done in" in run.stdout
    assert "Where to look first" not in run.stdout
