"""Imports within the metrics point from judgement to gathering to formulas to tables."""

import ast

import pytest

from tests.test_architecture import PACKAGE, imported

FLOORS = ("tables", "formulas", "gathering", "judgement")


@pytest.mark.parametrize("floor", FLOORS)
def test_no_import_points_up(floor: str) -> None:
    above = tuple(f"bnn_atlas.metrics.{name}." for name in FLOORS[FLOORS.index(floor) + 1 :])
    files = list((PACKAGE / "metrics" / floor).glob("*.py"))
    assert files
    for file in files:
        names = imported(ast.parse(file.read_text(encoding="utf-8")))
        assert [name for name in names if name.startswith(above)] == [], file.name
