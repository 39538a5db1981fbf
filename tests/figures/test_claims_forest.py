from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.claims_forest import LETTERS, claims_forest, forest_table


def judged(*changes: dict[str, Any]) -> pd.DataFrame:
    """Rows of a claims table."""
    common: dict[str, Any] = {
        "place": "table 1, column RMSE", "statement": "it is 0.5", "relation": "equals", "verdict": "agrees",
        "identity": "same", "paper_value": 0.5, "paper_text": "0.5", "here": "0.55", "size": 0.1,
        "d": 0.05, "error": 0.02,
    }  # fmt: skip
    return pd.DataFrame([{**common, "claim": f"claim_{i}", **change} for i, change in enumerate(changes)])


CLAIMS = judged(
    {},
    {"place": "text", "verdict": "differs", "d": 4.5, "error": 0.3, "statement": "a statement of -1 words " * 9},
    {"d": -0.1, "error": np.nan, "identity": "reduced"},
    {"relation": "above", "size": 0.01},
    {"place": "", "paper_value": np.nan},
    {"verdict": "to run", "d": 9.0, "error": 0.1},
    {"verdict": "cannot tell", "d": 0.1, "place": "table 1 (airfoil)"},
)


def test_deviations_are_in_units_of_the_size_and_grouped() -> None:
    table = forest_table(CLAIMS)
    assert list(table["claim"]) == ["claim_0", "claim_2", "claim_5", "claim_6", "claim_1"]
    assert list(dict.fromkeys(table["group"])) == ["table 1", "text"]
    np.testing.assert_allclose(table["deviation"], [0.5, -1.0, np.nan, 1.0, 45.0])
    np.testing.assert_allclose(table["bar"], [0.4, np.nan, np.nan, 0.4, 6.0])


def test_every_mark_is_inside_beside_its_statement_and_numbers(tmp_path: Path) -> None:
    CLAIMS.to_parquet(tmp_path / "claims.parquet")
    ax = claims_forest([], claims=tmp_path / "claims.parquet").figure.axes[0]
    low, high = ax.get_xlim()
    assert low == -high
    assert high > 45
    assert [text.get_text() for text in ax.texts][:2] == ["table 1", "0.5  \N{RIGHTWARDS ARROW}  0.55"]
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "it is 0.5"
    assert max(len(line) for name in names for line in name.splitlines()) <= LETTERS
    assert "of \N{MINUS SIGN}1 words" in names[3]
    assert [name.count("\n") for name in names] == [0, 0, 0, 1], "a long statement has a second line"
    assert ax.get_title(loc="right") == "1 of 5 to run"


def test_claims_that_nothing_has_measured_yet_are_named(tmp_path: Path) -> None:
    table = CLAIMS.assign(d=np.nan, error=np.nan, verdict="to run")
    table.to_parquet(tmp_path / "claims.parquet")
    assert set(claims_forest([], claims=tmp_path / "claims.parquet").numbers["verdict"]) == {"to run"}


def test_runs_and_tables_without_numbers_are_refused(tmp_path: Path) -> None:
    CLAIMS[CLAIMS["relation"] == "above"].to_parquet(tmp_path / "claims.parquet")
    with pytest.raises(ValueError, match=r"claims\.parquet: no claim equals a published number"):
        claims_forest([], claims=tmp_path / "claims.parquet")
