import math
from pathlib import Path

from bnn_atlas.figures.hmc_posteriors.trajectory_length import trajectory_length
from tests.figures.conftest import Drawn
from tests.figures.swept import swept

SD = 0.2**0.5
MIXING = {"ess_bulk_function_median_per_gradient": 0.004}


def test_lengths_are_in_quarter_periods_and_published_numbers_below(drawn: Drawn, tmp_path: Path) -> None:
    runs = [
        swept(tmp_path, f"q{q}", {**MIXING, "accuracy": 0.8 + 0.05 * q}, point={"method.quarter_periods": q})
        for q in (0.25, 0.5, 1)
    ]
    length = 1.5 * math.pi / 2 * SD
    runs.append(swept(tmp_path, "resolved", MIXING, settings={"method": {"trajectory_length": length}}, prior_sd=SD))
    table = drawn(trajectory_length, runs)
    own = table[(table["kind"] == "run") & (table["metric"] == "accuracy")].set_index("x")
    assert own["value"].round(4).to_dict() == {0.25: 0.8125, 0.5: 0.825, 1.0: 0.85, 1.5: 0.9}
    assert set(table.loc[table["kind"] == "run", "metric"]) == {
        "accuracy", "lppd", "ece", "rhat_function_median", "rhat_function_max", "ess_bulk_function_median",
        "ess_bulk_function_min", "ess_bulk_function_median_per_gradient",
    }  # fmt: skip
    theirs = table[table["kind"] == "published"]
    assert theirs["approximate"].all()
    assert theirs.loc[theirs["metric"] == "lppd", "value"].tolist() == [-0.50, -0.42, -0.35, -0.35]
