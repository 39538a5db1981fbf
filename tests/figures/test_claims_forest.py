from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.claims_forest import claims_forest, forest_table


def judged(*changes: dict[str, Any]) -> pd.DataFrame:
    """Rows of a claims table."""
    common: dict[str, Any] = {
        "place": "table 1", "relation": "equals", "verdict": "agrees", "paper_value": 0.5, "size": 0.1, "d": 0.05,
        "error": 0.02, "value": 0.55, "difference": np.nan, "compares": False,
    }  # fmt: skip
    return pd.DataFrame([{**common, "claim": f"claim_{i}", **change} for i, change in enumerate(changes)])


CLAIMS = judged(
    {},
    {"place": "text", "verdict": "differs", "value": 5.0, "d": 4.5, "error": 0.3},
    {"value": -9.0, "difference": 0.4, "d": -0.1, "error": 0.05, "compares": True},
    {"relation": "alike", "size": 0.01, "difference": -0.004, "d": -0.004, "error": np.nan, "compares": True},
    {"relation": "above", "size": 0.01},
    {"verdict": "to run", "value": np.nan, "d": np.nan, "error": np.nan},
    {"verdict": "cannot tell", "value": 0.6, "d": 0.1},
)


def test_deviations_are_in_units_of_the_size_and_grouped() -> None:
    table = forest_table(CLAIMS)
    assert list(table["claim"]) == ["claim_0", "claim_2", "claim_3", "claim_5", "claim_6", "claim_1"]
    np.testing.assert_allclose(table["deviation"], [0.5, -1.0, -0.4, np.nan, 1.0, 45.0])
    np.testing.assert_allclose(table["bar"], [0.2, 0.5, np.nan, np.nan, 0.2, 3.0])


def test_files_hold_the_numbers_and_every_mark_is_inside(tmp_path: Path) -> None:
    CLAIMS.to_parquet(tmp_path / "claims.parquet")
    ax = claims_forest([], claims=tmp_path / "claims.parquet").figure.axes[0]
    low, high = ax.get_xlim()
    assert low == -high
    assert high > 45
    assert {text.get_text() for text in ax.texts} == {"table 1", "text"}
    assert ax.get_title(loc="right") == "1 of 6 numeric claims to run"


def test_claims_that_nothing_has_measured_yet_are_named(tmp_path: Path) -> None:
    table = CLAIMS.assign(value=np.nan, difference=np.nan, verdict="to run")
    table.to_parquet(tmp_path / "claims.parquet")
    assert set(claims_forest([], claims=tmp_path / "claims.parquet").numbers["verdict"]) == {"to run"}


def test_runs_and_tables_without_numbers_are_refused(tmp_path: Path) -> None:
    CLAIMS[CLAIMS["relation"] == "above"].to_parquet(tmp_path / "claims.parquet")
    with pytest.raises(ValueError, match=r"claims\.parquet: no claim has a published number and a limit"):
        claims_forest([], claims=tmp_path / "claims.parquet")
