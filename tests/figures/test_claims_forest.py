from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.kinds.claims_forest import claims_forest, forest_table
from tests.figures.shown import shown


def judged(*changes: dict[str, Any]) -> pd.DataFrame:
    """Rows of a claims table."""
    common: dict[str, Any] = {
        "section": "table 1", "relation": "equals", "verdict": "reproduced", "paper_value": 0.5, "tolerance": 0.1,
        "bound": np.nan, "value": 0.55, "sd": np.nan, "standard_error": 0.02, "difference": np.nan,
        "difference_sd": np.nan, "difference_standard_error": np.nan, "compares": False,
    }  # fmt: skip
    return pd.DataFrame([{**common, "claim": f"claim_{i}", **change} for i, change in enumerate(changes)])


CLAIMS = judged(
    {},
    {"section": "text", "verdict": "not reproduced", "value": 5.0, "sd": 0.3},
    {"value": -9.0, "difference": 0.4, "difference_sd": 0.05, "compares": True},
    {"relation": "changes_less_than", "bound": 0.01, "difference": -0.004, "compares": True, "tolerance": np.nan},
    {"relation": "greater_than", "bound": 0.01, "tolerance": np.nan},
    {"verdict": "not run", "value": np.nan, "standard_error": np.nan},
    {"verdict": "not tested", "value": 0.6},
)


def test_deviations_are_in_units_of_the_limit_and_grouped() -> None:
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
    assert ax.get_title(loc="right") == "1 of 6 numeric claims not run"


def test_claims_that_nothing_has_measured_yet_are_named(tmp_path: Path) -> None:
    table = CLAIMS.assign(value=np.nan, difference=np.nan, verdict="not run")
    table.to_parquet(tmp_path / "claims.parquet")
    assert set(claims_forest([], claims=tmp_path / "claims.parquet").numbers["verdict"]) == {"not run"}


def test_runs_and_tables_without_numbers_are_refused(tmp_path: Path) -> None:
    CLAIMS[CLAIMS["relation"] == "greater_than"].to_parquet(tmp_path / "claims.parquet")
    with pytest.raises(ValueError, match=r"claims\.parquet: no claim has a published number and a limit"):
        claims_forest([], claims=tmp_path / "claims.parquet")
    with pytest.raises(ValueError, match="take the runs out of its settings: mile"):
        claims_forest([shown()], claims=tmp_path / "claims.parquet")
