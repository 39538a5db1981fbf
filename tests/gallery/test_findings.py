"""Verdicts on findings."""

import pytest

from bnn_atlas.gallery.verdicts import _counted, _worst_trust, combined

REPRODUCED, REDUCED, FAILED = "reproduced", "reproduced at reduced scale", "not reproduced"
NOT_TESTED, NOT_RUN = "not tested", "not run"


@pytest.mark.parametrize(
    ("verdicts", "expected", "counted"),
    [
        ([REPRODUCED], REPRODUCED, "1 claim"),
        ([REPRODUCED, REPRODUCED], REPRODUCED, "2 of 2 claims"),
        ([REPRODUCED, REDUCED], REDUCED, "2 of 2 claims"),
        ([REDUCED, NOT_RUN, REPRODUCED], REDUCED, "2 of 3 claims, 1 not run"),
        ([NOT_RUN, REPRODUCED], NOT_RUN, "1 of 2 claims"),
        ([NOT_RUN, NOT_TESTED], NOT_TESTED, "1 of 2 claims, 1 not run"),
        ([REPRODUCED, NOT_TESTED], NOT_TESTED, "1 of 2 claims"),
        ([NOT_TESTED, REPRODUCED, FAILED], FAILED, "1 of 3 claims"),
        ([NOT_RUN, FAILED], FAILED, "1 of 2 claims, 1 not run"),
    ],
)
def test_the_verdict_on_a_finding(verdicts: list[str], expected: str, counted: str) -> None:
    verdict = combined(verdicts)
    assert (verdict, _counted(verdict, verdicts)) == (expected, counted)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fine", "look closer", "do not trust", "cannot be judged"], "do not trust"),
        (["no chain", "look closer"], "look closer"),
        (["fine", "no chain"], "fine"),
        ([], "–"),
    ],
)
def test_the_trust_in_a_finding_is_that_in_its_worst_run(words: list[str], expected: str) -> None:
    assert _worst_trust(words) == expected
