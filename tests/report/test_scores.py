"""Scores on the page of a study."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.report.scores import LONGEST, score_sections

TITLES = {"hours": "bike sharing", "days": "bike sharing", "digits": "digits", "letters": "not digits"}


def scored(entry: str, values: dict[str, float], **changes: Any) -> list[dict[str, Any]]:
    """Rows of the summary for one setting."""
    fields = {
        "entry": entry, "point": "", "dataset": "hours", "model": "mlp 16 relu", "method": "mclmc", "chains": 10,
        "draws": 1000, "at": "", "sd": np.nan, "note": "", "trust": "fine",
    } | changes  # fmt: skip
    return [fields | {"metric": metric, "mean": value, "max": value} for metric, value in values.items()]


def sections(*rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return score_sections(pd.DataFrame([row for some in rows for row in some]), TITLES)


def test_a_data_set_has_the_columns_that_have_values() -> None:
    first, second = sections(
        scored("a", {"lppd": -1.0, "nll": 1.0, "rmse": 0.5, "rhat_function_max": np.nan, "brier": 3.0}),
        scored("b", {"accuracy": 0.9, "lppd": -0.1, "divergences": 59.0}, dataset="digits", chains=np.nan, trust=""),
    )
    assert (first["title"], second["title"]) == ("bike sharing", "digits")
    (table,) = first["tables"]
    assert table["header"] == ["run", "network", "method", "chains", "draws", "RMSE", "LPPD", "trust"]
    assert table["rows"] == [["a", "mlp 16 relu", "mclmc", "10", "1,000", "0.5000", "−1.0000", "fine"]]
    (table,) = second["tables"]
    assert table["header"] == ["run", "network", "method", "chains", "draws", "accuracy", "LPPD", "divergences"]
    assert table["rows"] == [["b", "mlp 16 relu", "mclmc", "", "1,000", "0.9000", "−0.1000", "59"]]


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ([{"lppd": -1.0, "nll": 1.0}, {"lppd": -2.0}], ["LPPD"]),
        ([{"lppd": -1.0, "nll": 1.0}, {"nll": 2.0}], ["NLL"]),
        ([{"lppd": -1.0, "nll": 1.5}], ["LPPD", "NLL"]),
    ],
)
def test_nll_and_lppd_are_both_shown_where_they_differ(values: list[dict[str, float]], columns: list[str]) -> None:
    (found,) = sections(*(scored(f"run{place}", one) for place, one in enumerate(values)))
    assert found["tables"][0]["header"][5:-1] == columns


def test_runs_of_one_setting_with_the_same_values_share_a_row() -> None:
    (found,) = sections(
        scored("a", {"lppd": -1.0}),
        scored("b", {"lppd": -1.0}, point="model.hidden=[16]; seed=2"),
        scored("c", {"lppd": -1.0}, chains=20),
        scored("d", {"lppd": -1.0000001}),
    )
    assert [row[0] for row in found["tables"][0]["rows"]] == ["a, b (seed=2)", "c", "d"]


def test_long_grids_are_folded() -> None:
    long = [scored("grid", {"rmse": float(n)}, point=f"dataset=hours; prior.scale={n}") for n in range(LONGEST + 1)]
    (found,) = sections(*long, scored("a", {"rmse": 0.5}), scored("alone", {"rmse": 99.0}))
    (table,) = found["tables"]
    assert [row[0] for row in table["rows"]] == ["a", "alone"]
    (grid,) = table["folded"]
    assert (grid["summary"], len(grid["rows"]), grid["rows"][3][0]) == ("grid: 13 settings", 13, "grid (prior.scale=3)")


def test_a_run_that_is_also_in_a_long_grid_stays_in_sight() -> None:
    long = [scored("grid", {"rmse": float(n)}, point=f"prior.scale={n}") for n in range(LONGEST + 2)]
    (found,) = sections(*long, scored("alone", {"rmse": 3.0}))
    (table,) = found["tables"]
    assert [row[0] for row in table["rows"]] == ["grid (prior.scale=3), alone"]
    assert len(table["folded"][0]["rows"]) == LONGEST + 1


def test_shifted_rows_and_other_sets_have_tables_of_their_own() -> None:
    (found,) = sections(
        scored("a", {"accuracy": 0.9, "agreement": 0.8}, dataset="digits"),
        scored("a", {"accuracy": 0.5}, dataset="digits/rotated30"),
        scored("a", {"auroc_entropy": 0.7}, dataset="digits/ood-letters"),
    )
    assert [(table["heading"], table["header"][5:]) for table in found["tables"]] == [
        ("", ["accuracy", "agreement", "trust"]),
        ("Shifted test rows", ["draws", "accuracy", "trust"]),
        ("Rows of other data sets", ["draws", "AUROC by entropy", "trust"]),
    ]
    assert [table["rows"][0][1] for table in found["tables"][1:]] == ["rotated30", "not digits"]


def test_data_sets_with_one_title_are_told_apart() -> None:
    found = sections(scored("a", {"rmse": 0.5}), scored("b", {"rmse": 0.5}, dataset="days"))
    assert [one["title"] for one in found] == ["bike sharing (`hours`)", "bike sharing (`days`)"]


def test_the_spread_by_rounding_stands_next_to_that_over_seeds() -> None:
    (found,) = sections(
        scored("a", {"lppd": 0.93, "rmse": 0.12}, sd=0.01, rounding_sd=0.02), scored("b", {"rmse": 0.1})
    )
    shown = [row[5:7] for row in found["tables"][0]["rows"]]
    assert shown == [["0.1200 ± 0.0100 (rounding 0.0200)", "0.9300 ± 0.0100 (rounding 0.0200)"], ["0.1000", ""]]


def test_the_likelihood_of_the_training_rows_stands_with_its_error_next_to_distances_from_a_reference() -> None:
    values = {"accuracy": 0.9, "log_likelihood": -39.69}
    (alone,) = sections(scored("a", values, monte_carlo_error=0.49))
    assert alone["tables"][0]["header"][5:-1] == ["accuracy"]
    (found,) = sections(
        scored("a", values, monte_carlo_error=0.49), scored("a", {"agreement": 0.98}, at="hmc", monte_carlo_error=0.01)
    )
    assert found["tables"][0]["header"][5:-1] == ["accuracy", "agreement (hmc)", "log-likelihood of the training rows"]
    assert found["tables"][0]["rows"][0][5:-1] == ["0.9000", "0.9800 ± 0.0100", "−39.69 ± 0.49"]


def test_what_has_diverged_is_not_shown_as_a_score() -> None:
    (found,) = sections(
        scored("a", {"rmse": 13.2}, trust="do not trust: the fit diverged: an RMSE of 13.2"), scored("b", {"rmse": 0.5})
    )
    assert [row[5:] for row in found["tables"][0]["rows"]] == [["–", "diverged"], ["0.5000", "fine"]]


def test_chains_with_divergent_steps_have_a_sign_and_a_word() -> None:
    (found,) = sections(
        scored("a", {"rmse": 0.4, "divergence_share": 0.011}, trust="do not trust: R-hat"),
        scored("b", {"rmse": 0.5, "divergence_share": 0.009}),
    )
    shown = [(row[0], *row[5:]) for row in found["tables"][0]["rows"]]
    assert shown == [("a †", "0.4000", "do not trust: divergent steps"), ("b", "0.5000", "fine")]
