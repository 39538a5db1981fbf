"""docs/published_code.md: written from the kept results, with no empty cell."""

import re
from pathlib import Path

import pandas as pd
import pytest

from bnn_atlas.report.published_code import PAGE, Effects, extent, write_published_code
from tests.claims.making import row
from tests.copies import REPOSITORY


def test_the_page_is_that_of_the_kept_results_and_has_no_empty_cell(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/results").symlink_to(REPOSITORY / "docs/results")
    write_published_code(tmp_path)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert (REPOSITORY / PAGE).read_text(encoding="utf-8") == page, "run `make schema` after keeping results"
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) > 25
    assert all(len(re.split(r"(?<!\\)\|", line)) == 6 for line in rows)
    assert not re.search(r"\| *\|", page)


def test_changes_are_of_all_chains_and_only_where_both_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"chains": 2, "draws": 100}
    rows = [row("one", -1.0, metric="lppd"), row("one", 1.25, metric="nll"), row("two", -3.0, metric="lppd")]
    rows += [row("one", -7.0, metric="lppd", **few), row("one", 5.0, metric="nll", dataset="airfoil/shifted")]
    rows += [row("one", -4.0, metric="lppd", dataset="airfoil/shifted")]
    effects = Effects(Path("results"))
    monkeypatch.setattr("bnn_atlas.report.published_code.read_table", lambda path: pd.DataFrame(rows))
    changes = effects.changes("small", "lppd", "nll", -1)
    assert changes.to_dict() == {("one", 0, "airfoil", ""): -0.25, ("one", 0, "airfoil/shifted", ""): -1.0}
    assert effects.changes("small", "lppd", "nll", -1, "^[^/]+$").tolist() == [-0.25]
    assert effects.mean("small", "lppd", "one|two", on="^airfoil$") == -2.0
    assert effects.spread("small", "lppd", ".*") == pytest.approx(pd.Series([-1.0, -3.0, -4.0]).std())
    assert effects.largest("small", "nll") == 5.0
    with pytest.raises(ValueError, match="no rows of lppd for the runs three"):
        effects.mean("small", "lppd", "three")
    with pytest.raises(ValueError, match="no rows of rmse"):
        effects.largest("small", "rmse")


def test_a_change_is_said_in_words() -> None:
    assert (extent(-0.0834, 2), extent(1.26, 1)) == ("0.08 lower", "1.3 higher")
