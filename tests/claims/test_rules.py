"""The rules that turn a difference, its error and the size that matters into a verdict."""

import re
from pathlib import Path

import pytest

from bnn_atlas.claims.rules import Verdict, decide
from bnn_atlas.config.claims.claim import Relation

AGREES, DIFFERS, UNSURE, HOLDS, SMALLER, NOT = (
    Verdict.AGREES, Verdict.DIFFERS, Verdict.CANNOT_TELL, Verdict.HOLDS, Verdict.SMALLER, Verdict.DOES_NOT_HOLD
)  # fmt: skip


@pytest.mark.parametrize(
    ("relation", "d", "error", "size", "verdict"),
    [
        ("equals", 0.1, 0.02, 0.1, AGREES),
        ("equals", -0.1, None, 0.1, AGREES),
        ("equals", 0.11, 0.02, 0.1, DIFFERS),
        ("equals", -0.11, None, 0.1, DIFFERS),
        ("equals", 0.11, 0.06, 0.1, UNSURE),
        ("equals", 0.0, 0.06, 0.1, UNSURE),
        ("equals", 0.09, 0.04, 0.1, AGREES),
        ("above", 0.1, 0.04, 0.1, HOLDS),
        ("above", 0.09, 0.04, 0.1, SMALLER),
        ("above", 0.02, 0.03, 0.1, NOT),
        ("above", 0.02, 0.05, 0.1, UNSURE),
        ("above", 0.2, 0.11, 0.1, UNSURE),
        ("above", -0.3, 0.1, 0.1, NOT),
        ("above", 0.1, 0.04, 0.0, HOLDS),
        ("above", 0.1, 0.06, 0.0, UNSURE),
        ("above", -0.1, 0.06, 0.0, UNSURE),
        ("above", -0.1, 0.04, 0.0, NOT),
        ("above", 0.0, None, 0.0, NOT),
        ("below", -0.1, 0.04, 0.1, HOLDS),
        ("below", 0.3, 0.1, 0.1, NOT),
        ("alike", 0.05, 0.02, 0.1, HOLDS),
        ("alike", -0.05, 0.03, 0.1, UNSURE),
        ("alike", -0.15, 0.02, 0.1, NOT),
        ("at_least", 0.2, 0.05, 0.1, HOLDS),
        ("at_least", 0.2, 0.06, 0.1, UNSURE),
        ("at_least", 0.0, 0.04, 0.1, NOT),
        ("at_least", -0.05, 0.02, -0.1, HOLDS),
        ("at_most", 0.0, 0.05, 0.1, HOLDS),
        ("at_most", 0.0, 0.06, 0.1, UNSURE),
        ("at_most", 0.2, 0.04, 0.1, NOT),
    ],
)
def test_a_verdict_follows_from_the_difference_its_error_and_the_size(
    relation: Relation, d: float, error: float | None, size: float, verdict: Verdict
) -> None:
    limits = {"bound": size} if relation.startswith("at_") else {"size": size}
    found = decide(relation, d, error, **limits)
    assert found.verdict == verdict
    assert bool(found.reason.partition("at the limit")[0]) == (verdict not in (AGREES, HOLDS))
    if verdict is NOT and relation in ("above", "below"):
        assert (found.reason == "the other sign") == ((d < 0) == (relation == "above") and d != 0)


@pytest.mark.parametrize(
    ("relation", "d", "error", "verdict", "note"),
    [
        ("equals", 0.099, 0.04, AGREES, "at the limit: inside 0.1 by 0.03 of its standard error"),
        ("equals", -0.061, 0.04, AGREES, "at the limit: inside 0.1 by 1 of its standard error"),
        ("equals", -0.059, 0.04, AGREES, ""),
        ("equals", -0.11, 0.02, DIFFERS, "at the limit: outside 0.1 by 0.5 of its standard error"),
        ("equals", 0.13, 0.02, DIFFERS, ""),
        ("equals", 0.1, None, AGREES, ""),
        ("equals", 0.09, 0.06, UNSURE, ""),
        ("above", 0.11, 0.02, HOLDS, "at the limit: beyond 0.1 by 0.5 of its standard error"),
        ("below", -0.13, 0.02, HOLDS, ""),
        ("below", -0.09, 0.02, SMALLER, "at the limit: short of 0.1 by 0.5 of its standard error"),
        ("above", 0.03, 0.03, NOT, ""),
        ("alike", 0.05, 0.02, HOLDS, ""),
    ],
)
def test_a_verdict_nearer_to_its_limit_than_its_error_says_so(
    relation: Relation, d: float, error: float | None, verdict: Verdict, note: str
) -> None:
    found = decide(relation, d, error, 0.1)
    assert found.verdict == verdict
    assert found.reason.endswith(note)
    assert bool(note) == ("at the limit" in found.reason)


@pytest.mark.parametrize(
    ("relation", "d", "at_infinity", "verdict"),
    [
        ("equals", 0.05, 0.09, AGREES),
        ("equals", 0.05, 0.3, UNSURE),
        ("equals", 0.2, 0.3, DIFFERS),
        ("above", 0.2, 0.09, SMALLER),
        ("above", 0.05, 0.2, SMALLER),
        ("above", 0.2, 0.01, UNSURE),
        ("above", -0.1, -0.3, NOT),
        ("alike", 0.15, 0.02, UNSURE),
        ("alike", 0.15, 0.45, NOT),
    ],
)
def test_the_bias_of_finite_draws_has_a_sign(
    relation: Relation, d: float, at_infinity: float, verdict: Verdict
) -> None:
    found = decide(relation, d, 0.01, 0.1, None, at_infinity)
    assert found.verdict == verdict


def test_every_rule_on_the_page_names_a_test_that_exists() -> None:
    page = Path("docs/verdicts.md").read_text(encoding="utf-8")
    assert page.count("\n") <= 80
    tests = "".join(file.read_text(encoding="utf-8") for file in Path("tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > 15
    assert [name for name in named if f"def {name}(" not in tests] == []
    assert all(f"{verdict}" in page for verdict in Verdict)
