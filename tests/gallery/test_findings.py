"""The trust in findings."""

import pytest

from bnn_atlas.gallery.verdicts import _worst_trust


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
