from pathlib import Path

import pytest

from bnn_atlas.figures.latex import TableOutputs


def test_outputs_of_a_table_are_told_by_their_endings() -> None:
    assert TableOutputs.of(["a/b.csv", "a/b.tex"]) == TableOutputs(Path("a/b.tex"), Path("a/b.csv"))
    with pytest.raises(ValueError, match=r"one \.tex and one \.csv, not a\.pdf"):
        TableOutputs.of(["a.pdf"])
