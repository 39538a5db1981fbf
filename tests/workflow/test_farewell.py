"""The last lines of a run."""

from types import SimpleNamespace
from typing import Any

import pytest

from bnn_atlas.workflow.farewell import farewell
from bnn_atlas.workflow.paths import Paths


def lines(targets: frozenset[str] = frozenset(), scale: str = "demo", **changes: Any) -> list[str]:
    atlas = SimpleNamespace(settings=SimpleNamespace(scale=scale), studies={"small": None}, claims={"small": None})
    vars(atlas).update({key: value for key, value in changes.items() if key == "claims"})
    figures = SimpleNamespace(not_made=changes.get("not_made", []))
    drawn = SimpleNamespace(
        outputs=["results/demo/figures/small/fireball.pdf", "results/demo/figures/small/fireball.png"]
    )
    known = SimpleNamespace(figure={"fireball": drawn, "small_fireball": drawn}.get)
    return farewell(atlas, Paths("results/demo"), figures, known, "Install R.", targets, 243.4).splitlines()


def test_three_places_to_look_and_what_to_do_next() -> None:
    text = lines()
    assert text[0] == "Made in 4 min 3 s. Where to look first:"
    assert [line.split()[0] for line in text[1:4]] == [
        "results/demo/claims.html", "results/demo/figures/small/", "results/demo/tables/small-summary.csv",
    ]  # fmt: skip
    assert text[4] == "What to do next:"
    assert any(line.strip().startswith("snakemake --cores 2 diagnostics ") for line in text[5:])


def test_columns_are_aligned() -> None:
    starts = [len(line) - len(line[2:].partition("  ")[2].lstrip()) for line in lines()[1:4]]
    assert len(set(starts)) == 1


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_commands_name_the_scale(scale: str) -> None:
    assert any(f"--config scale={scale} galleries" in line for line in lines(scale=scale))


def test_figures_that_need_r_are_named() -> None:
    assert "Not made: one, two. Install R." in lines(not_made=["one", "two"])


def test_a_study_without_claims_has_no_claims_page() -> None:
    assert not any("claims.html" in line for line in lines(claims={}))


@pytest.mark.parametrize(
    ("target", "paths"),
    [
        ("fireball", ["results/demo/figures/small/fireball.png"]),
        ("small_fireball", ["results/demo/figures/small/fireball.png"]),
        ("small", ["results/demo/figures/small/", "results/demo/tables/small-summary.csv"]),
        ("claims", ["results/demo/claims.html"]),
        ("small_claims", ["results/demo/claims/small.html"]),
    ],
)
def test_a_named_target_ends_with_what_was_made(target: str, paths: list[str]) -> None:
    assert lines(frozenset({target})) == ["Made in 4 min 3 s:", *(f"  {path}" for path in paths)]


def test_a_file_as_target_ends_without_words() -> None:
    assert lines(frozenset({"results/demo/tables/small.parquet"})) == []


def test_everything_among_the_targets_ends_as_everything() -> None:
    assert lines(frozenset({"all", "fireball"}))[0].endswith("Where to look first:")
