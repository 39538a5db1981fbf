"""Scores against one setting: where x comes from, what is drawn, published numbers, refusals."""

import math
from pathlib import Path

import pytest

from bnn_atlas.figures.hmc_posteriors.sweeps import (
    cold_posterior,
    prior_family,
    prior_scale,
    sgmcmc_bias,
    step_size_acceptance,
    trajectory_length,
)
from bnn_atlas.figures.shown import Shown
from tests.figures.swept import swept


def test_samplers_have_lines_and_optima_are_level(tmp_path: Path) -> None:
    temperatures = (0.1, 1, 10)
    hmc = [swept(tmp_path, f"h{t}", {"ece": 0.01 * t}, point={"temperature": t}) for t in temperatures]
    sgld = [
        swept(tmp_path, f"s{t}", label="SGLD", entry="sgld", method="sgld", point={"temperature": t}, converged=False)
        for t in temperatures
    ]
    sgd = swept(
        tmp_path, "sgd", {"accuracy": 0.7}, label="SGD", entry="sgd", method="map", settings={"temperature": 1.0}
    )
    table = cold_posterior([*hmc, *sgld, sgd]).numbers
    own = table[(table["kind"] == "run") & (table["metric"] == "ece")]
    assert own[own["label"] == "HMC"].set_index("x")["value"].to_dict() == {0.1: 0.001, 1.0: 0.01, 10.0: 0.1}
    assert own.groupby("label")["converged"].all().to_dict() == {"HMC": True, "SGD": True, "SGLD": False}
    assert own.loc[own["label"] == "SGD", "x"].isna().all()
    theirs = table[table["kind"] == "published"]
    assert theirs.groupby("metric").size().to_dict() == {"accuracy": 6, "lppd": 6, "ece": 6}


def test_bias_is_shown_where_short_chains_can_show_it_next_to_an_exact_chain(tmp_path: Path) -> None:
    fixed = {"label": "SGLD", "method": "sgld", "entry": "sgld", "converged": False}
    runs = [
        swept(tmp_path, f"s{i}", {"log_likelihood": -36.0 - i}, point={"method.step_size": 1e-6 * 2**i}, **fixed)
        for i in range(3)
    ]
    runs.append(swept(tmp_path, "hmc", {"log_likelihood": -39.0}, settings={"method": {"step_size": 0.004}}))
    drawing = sgmcmc_bias(runs)
    own = drawing.numbers[drawing.numbers["metric"] == "log_likelihood"]
    assert own[own["label"] == "SGLD"].set_index("x")["value"].to_dict() == {1e-6: -36.0, 2e-6: -37.0, 4e-6: -38.0}
    assert own.loc[own["label"] == "HMC", "x"].isna().all()
    assert [line for line in drawing.figure.axes[0].lines if set(line.get_ydata()) == {-39.0}]
    assert not set(drawing.numbers["metric"]) & {"agreement", "total_variation", "elpd_diff"}


def family(folder: Path, kind: str, accuracy: float) -> Shown:
    return swept(
        folder, kind, {"accuracy": accuracy}, settings={"prior": {"kind": kind}}, point={"prior": {"kind": kind}}
    )


def test_families_are_places_in_one_order(tmp_path: Path) -> None:
    runs = [family(tmp_path, "logistic", 0.91), family(tmp_path, "laplace", 0.92), family(tmp_path, "normal", 0.9)]
    table = prior_family(runs).numbers
    own = table[(table["kind"] == "run") & (table["metric"] == "accuracy")]
    assert own.set_index("x")["value"].to_dict() == {"logistic": 0.91, "laplace": 0.92, "normal": 0.9}
    theirs = table[(table["kind"] == "published") & (table["metric"] == "ece")]
    assert theirs.set_index("x")["value"].to_dict() == {"normal": 0.029, "mixture": 0.025, "logistic": 0.024}
    figure = prior_family(runs).figure
    ticks = [[text.get_text() for text in ax.get_xticklabels()] for ax in (figure.axes[0], figure.axes[3])]
    assert ticks == [["Gaussian", "logistic", "Laplace"], ["Gaussian", "mixture", "logistic"]]
    marks = {
        round(float(y), 3): float(x)
        for line in figure.axes[0].lines
        if line.get_marker() == "o"
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    assert marks == {0.9: 0.0, 0.91: 1.0, 0.92: 2.0}


def test_variances_come_from_the_grid_or_from_the_prior(tmp_path: Path) -> None:
    runs = [swept(tmp_path, f"v{v}", {"accuracy": 0.9 - v}, point={"prior.variance": v}) for v in (0.025, 0.1)]
    runs.append(swept(tmp_path, "reference", {"accuracy": 0.85}, prior_sd=0.5))
    table = prior_scale(runs).numbers
    own = table[(table["kind"] == "run") & (table["metric"] == "accuracy")].set_index("x")["value"]
    assert own.to_dict() == pytest.approx({0.025: 0.875, 0.1: 0.8, 0.25: 0.85})
    theirs = table[table["kind"] == "published"].groupby("label", sort=False)["x"].agg(list)
    assert theirs.tolist() == [[0.025, 0.05, 0.1, 0.2, 1.0] * 3, [0.00625, 0.0125, 0.025, 0.05, 1.0] * 3]


def test_acceptances_are_beside_the_published_ones(tmp_path: Path) -> None:
    runs = [
        swept(tmp_path, f"s{i}", {"acceptance_mean": value}, point={"method.step_size": 0.001 * 2**i})
        for i, value in enumerate((0.99, 0.95, 0.7))
    ]
    table = step_size_acceptance(runs).numbers
    found = table[table["metric"] == "acceptance_mean"].set_index("x")["value"]
    assert found.to_dict() == {0.001: 0.99, 0.002: 0.95, 0.004: 0.7, 1e-5: 0.722, 5e-5: 0.463, 1e-4: 0.222, 5e-4: 0.125}
    assert not table.loc[table["kind"] == "published", "approximate"].any()


def test_a_method_without_a_metropolis_test_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run of the figure has acceptance_mean"):
        step_size_acceptance([swept(tmp_path, "a", point={"method.step_size": 1})])


SD = 0.2**0.5
MIXING = {"ess_bulk_function_median_per_gradient": 0.004}


def test_lengths_are_in_quarter_periods_and_published_numbers_below(tmp_path: Path) -> None:
    runs = [
        swept(tmp_path, f"q{q}", {**MIXING, "accuracy": 0.8 + 0.05 * q}, point={"method.quarter_periods": q})
        for q in (0.25, 0.5, 1)
    ]
    length = 1.5 * math.pi / 2 * SD
    runs.append(swept(tmp_path, "resolved", MIXING, settings={"method": {"trajectory_length": length}}, prior_sd=SD))
    table = trajectory_length(runs).numbers
    own = table[(table["kind"] == "run") & (table["metric"] == "accuracy")].set_index("x")
    assert own["value"].round(4).to_dict() == {0.25: 0.8125, 0.5: 0.825, 1.0: 0.85, 1.5: 0.9}
    assert set(table.loc[table["kind"] == "run", "metric"]) == {
        "accuracy", "lppd", "lppd_at_infinity", "ece", "rhat_function_median", "rhat_function_max",
        "ess_bulk_function_median", "ess_bulk_function_min", "ess_bulk_function_median_per_gradient",
    }  # fmt: skip
    theirs = table[table["kind"] == "published"]
    assert theirs["approximate"].all()
    assert theirs.loc[theirs["metric"] == "lppd", "value"].tolist() == [-0.499, -0.419, -0.348, -0.354]
