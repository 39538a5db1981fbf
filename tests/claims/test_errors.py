"""Of what the error of a difference is made, and what would make it small enough."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.claims.estimate import Part, total
from bnn_atlas.claims.rules import Verdict
from bnn_atlas.claims.verdict import leading
from bnn_atlas.metrics.formulas.averages import extrapolation
from bnn_atlas.metrics.judgement.measure import ORDERINGS
from bnn_atlas.metrics.tables.measurement import Row

from .making import ALIKE, COMPARISON, claimed, judged, planned, printed, row

SINGLE = {"runs": ["single"]}
RUNS = {name: planned(name) for name in ("single", "other")}


def error(folder: Path, rows: list[Row], **claim: Any) -> dict[str, float]:
    """The parts of the error of a claim about `single`."""
    found = judged(folder, rows, claimed(SINGLE | claim, runs=RUNS))
    assert found.error == total(found.parts)
    return {part.of: pytest.approx(part.error) for part in found.parts}


def test_errors_of_rows_chains_and_the_published_number_are_added_in_squares(tmp_path: Path) -> None:
    rows = [row("single", 0.5, standard_error=0.03, over="rows", monte_carlo_error=0.04)]
    assert error(tmp_path, rows) == {"rows": 0.03, "chains": 0.04}
    assert error(tmp_path, rows, same_rows=True) == {"chains": 0.04}
    number = printed(0.5, error=0.1, of_mean=0.05, reading=0.02)
    assert error(tmp_path, rows, published=number) == {"rows": 0.03, "chains": 0.04, "published": 0.05, "reading": 0.02}
    other = row("other", 0.9, standard_error=0.04, over="rows", monte_carlo_error=0.03)
    compared = error(tmp_path, [*rows, other], **COMPARISON | {"than": {"runs": ["other"]}})
    assert compared == {"rows, not paired": 0.05, "chains": 0.05}, "as if independent, since single rows are not known"
    study = claimed(SINGLE | COMPARISON | {"than": {"runs": ["other"]}}, runs=RUNS)
    found = judged(tmp_path, [*rows, other], study).difference
    assert found is not None
    assert found.over == "rows, not paired"
    assert error(tmp_path, [row("single", 0.5)]) == {}


@pytest.mark.parametrize("dataset", ["airfoil", "airfoil/gap"])
@pytest.mark.parametrize(("run", "reference", "kept"), [("single", "other", 0.1), ("other", "single", -0.1)])
def test_a_difference_in_lppd_takes_its_paired_error_from_the_table(
    tmp_path: Path, dataset: str, run: str, reference: str, kept: float
) -> None:
    """Unpaired, the errors 0.03 and 0.04 would give 0.05; the table knows 0.002 for the same difference."""
    values = {"single": (-0.4, 0.03), "other": (-0.5, 0.04)}
    rows = [
        row(name, value, metric="lppd", dataset=dataset, standard_error=e, over="rows")
        for name, (value, e) in values.items()
    ]
    claim = COMPARISON | {"metric": "lppd", "dataset": dataset, "than": {"runs": ["other"]}}
    difference = {"metric": "elpd_diff", "at": reference, "dataset": dataset, "standard_error": 0.002, "over": "rows"}
    assert error(tmp_path, [*rows, row(run, kept, **difference)], **claim) == {"rows, paired": 0.002}
    assert error(tmp_path, [*rows, row(run, kept + 0.01, **difference)], **claim) == {"rows, not paired": 0.05}
    elsewhere = row(run, kept, **difference | {"dataset": "airfoil/shift"})
    assert error(tmp_path, [*rows, elsewhere], **claim) == {"rows, not paired": 0.05}


@pytest.mark.parametrize(
    ("value", "more", "verdict", "reason"),
    [
        (0.5, {}, Verdict.AGREES, "error not known (one fit)"),
        (0.69, {}, Verdict.AGREES, "error not known (one fit)"),
        (0.71, {}, Verdict.CANNOT_TELL, "error not known (one fit), and 0.21 is within 0.05 of 0.25"),
        (0.79, {}, Verdict.CANNOT_TELL, "error not known (one fit), and 0.29 is within 0.05 of 0.25"),
        (0.81, {}, Verdict.DIFFERS, "by 0.31; up to 0.25 would agree; error not known (one fit)"),
        (0.71, {"standard_error": 0.01}, Verdict.AGREES, ""),
        (0.71, {"metric": "rmse_linear"}, Verdict.AGREES, ""),
        (0.71, {"metric": "transpositions_ceiling"}, Verdict.AGREES, ""),
    ],
)
def test_a_value_whose_error_is_not_known_is_not_exact(
    tmp_path: Path, value: float, more: dict[str, Any], verdict: Verdict, reason: str
) -> None:
    claim = SINGLE | {"metric": more.get("metric", "rmse")}
    found = judged(tmp_path, [row("single", value, **more)], claimed(claim, runs=RUNS))
    assert (found.verdict, found.reason) == (verdict, reason)
    published = claim | {"published": printed(0.5, of_mean=0.01)}
    found = judged(tmp_path, [row("single", value, **more)], claimed(published, runs=RUNS))
    assert found.verdict == verdict, "the error of the published number is not ours"


def test_a_value_compared_with_one_without_an_error_has_none(tmp_path: Path) -> None:
    above = COMPARISON | {"relation": "above", "size": 0.3, "than": {"runs": ["other"]}}
    rows = [row("single", 0.8, standard_error=0.01), row("other", 0.5)]
    found = judged(tmp_path, rows, claimed(SINGLE | above, runs=RUNS))
    assert (found.verdict, found.needed) == (Verdict.CANNOT_TELL, "its spread over other seeds, for an error")


@pytest.mark.parametrize(
    ("metric", "why", "needed"),
    [
        ("marginal_sd", "to measure again", "measuring it again, for an error"),
        ("rhat_weight_max", "one set of chains", "its spread over other seeds, for an error"),
    ],
)
def test_an_error_that_is_not_known_is_said_to_be_missing_and_why(
    tmp_path: Path, metric: str, why: str, needed: str
) -> None:
    runs = {"single": planned("single", chained=True)}
    claim = SINGLE | {"metric": metric, "at": "layer0.bias" if metric == "marginal_sd" else ""}
    rows = [row("single", 0.71, metric=metric, at=claim["at"])]
    found = judged(tmp_path, rows, claimed(claim, runs=runs))
    assert (found.reason, found.needed) == (f"error not known ({why}), and 0.21 is within 0.05 of 0.25", needed)


@pytest.mark.parametrize(
    ("metric", "value", "bound", "verdict"),
    [
        ("correlation_transpositions_barrier", 0.91, 0.9, Verdict.CANNOT_TELL),
        ("correlation_transpositions_barrier", 0.95, 0.9, Verdict.HOLDS),
        ("accuracy", 0.91, 0.9, Verdict.CANNOT_TELL),
        ("accuracy", 0.93, 0.9, Verdict.HOLDS),
        ("rmse", 0.35, 0.3, Verdict.CANNOT_TELL),
        ("rmse", 0.37, 0.3, Verdict.HOLDS),
    ],
)
def test_near_a_bound_is_a_fifth_of_the_way_to_no_effect(
    tmp_path: Path, metric: str, value: float, bound: float, verdict: Verdict
) -> None:
    """A share of at least 0.9 can hold without an error: it need not be above 1.08."""
    limit = {"relation": "at_least", "published": None, "size": None, "bound": bound, "metric": metric}
    found = judged(tmp_path, [row("single", value, metric=metric)], claimed(SINGLE | limit, runs=RUNS))
    assert found.verdict == verdict


@pytest.mark.parametrize(("number", "known"), [(2, False), (3, True)])
def test_two_values_that_happen_to_be_equal_have_no_known_error(tmp_path: Path, number: int, known: bool) -> None:
    runs = {f"mile-seed{seed}": planned("mile", {"seed": seed}) for seed in range(number)}
    rows = [row(run, 0.5) for run in runs]
    found = judged(tmp_path, rows, claimed({"runs": ["mile"]}, runs=runs))
    assert (found.error, found.reason) == ((0.0, "") if known else (None, "error not known (two equal values)"))
    figure = {"note": f"mean of {number} pairs of networks", "standard_error": 0.0}
    found = judged(tmp_path, [row("single", 0.5, **figure)], claimed(SINGLE, runs=RUNS))
    assert (found.error, found.reason) == ((0.0, "") if known else (None, "error not known (two equal values)"))


def test_a_calibration_error_has_the_error_of_the_gaps_or_says_that_it_is_not_known(tmp_path: Path) -> None:
    """Two bins of 0.8 and 0.6 right at confidences of 0.9 and 0.5: of 100 rows, s (hit - c) has the mean -0.1 or 0.1.

    The variance is (0.16 + 0.01 + 0.24 + 0.01) / 2 - 0.1^2 = 0.2.
    """
    claim = SINGLE | {"metric": "ece", "published": printed(0.1), "size": 0.04}
    rows = [row("single", 0.1, metric="ece", monte_carlo_error=0.001), row("single", 100.0, metric="rows_test")]
    found = judged(tmp_path, rows, claimed(claim, runs=RUNS))
    assert (found.verdict, found.reason) == (Verdict.AGREES, "error not known (rows)")
    assert judged(tmp_path, rows, claimed(claim | {"same_rows": True}, runs=RUNS)).reason == ""
    near = [row("single", 0.139, metric="ece", monte_carlo_error=0.0001), *rows[1:]]
    found = judged(tmp_path, near, claimed(claim, runs=RUNS))
    assert (found.verdict, found.needed) == (Verdict.CANNOT_TELL, "the values of single test rows, for their error")
    for at, *values in (("0.5", 0.9, 0.8, 0.5), ("1", 0.5, 0.6, 0.5)):
        names = ("confidence", "accuracy", "share")
        rows += [row("single", v, metric=f"calibration_{n}", at=at) for n, v in zip(names, values, strict=True)]
    expected = {"rows": pytest.approx(math.sqrt(0.2 / 100)), "chains": 0.001}
    assert error(tmp_path, rows, **claim) == expected


@pytest.mark.parametrize("metric", ["coverage", "entropy_histogram"])
def test_a_share_of_the_rows_has_the_error_of_a_share(tmp_path: Path, metric: str) -> None:
    """Of 98 rows all are inside: as if it were 99 of 100."""
    share = {"metric": metric, "at": "0.9"}
    rows = [row("single", 1.0, **share, monte_carlo_error=0.001), row("single", 98.0, metric="rows_test")]
    assert error(tmp_path, rows, **share) == {"rows": math.sqrt(0.99 * 0.01 / 98), "chains": 0.001}


def test_errors_over_splits_count_the_rows_that_splits_share(tmp_path: Path) -> None:
    """Five differences of variance 0.01 with a ninth of the rows in the test set: sqrt(0.01 (1/5 + 1/9)) = 0.0558."""
    runs = {name: planned(name, splits=5) for name in ("mile", "ensemble")}
    rows = [row("ensemble", 1.0, split=n) for n in range(5)]
    rows += [row("mile", 0.9 + gap, split=n) for n, gap in enumerate((-0.1, 0.1, 0.0, 0.1, -0.1))]
    for run in runs:
        for n in range(5):
            rows += [row(run, size, split=n, metric=f"rows_{part}") for part, size in (("test", 10.0), ("train", 90.0))]
    found = judged(tmp_path, rows, claimed(COMPARISON, runs=runs))
    assert found.parts == (Part("splits", pytest.approx(0.0558, abs=1e-4), 5),)
    assert found.verdict == Verdict.CANNOT_TELL, "twice that is more than 0.1"


@pytest.mark.parametrize(("chains", "variance"), [(4, 4 / 6 + 1 / ORDERINGS), (10, None)])
def test_fewer_chains_have_the_error_of_their_orders(tmp_path: Path, chains: int, variance: float | None) -> None:
    metric = "lppd_cumulative_chains"
    rows = [row("single", 0.5, metric=metric, chains=n) for n in (4, 10)]
    rows += [row("single", sd, metric=f"{metric}_order_sd", chains=n) for n, sd in ((4, 0.02), (10, 0.0))]
    rows.append(row("single", 0.5, metric="lppd", monte_carlo_error=0.01))
    expected = 0.01 if variance is None else 0.02 * math.sqrt(variance)
    assert error(tmp_path, rows, metric=metric, chains=chains) == {"chains": expected}


def test_averages_over_fewer_chains_or_draws_have_errors_from_those_of_all(tmp_path: Path) -> None:
    """Of 25 of 100 draws twice the Monte Carlo error of all; of single chains that of the mean of their scores."""
    rows = [row("single", 0.9, metric="accuracy", monte_carlo_error=0.01)]
    rows += [row("single", 0.8, metric="accuracy_cumulative_draws", draws=draws) for draws in (25, 100)]
    rows += [row("single", 0.8, metric="accuracy_cumulative_chains", chains=chains) for chains in (1, 2, 10)]
    means = {"metric": "accuracy_chain_mean_cumulative_draws", "standard_error": 0.03, "over": "chains"}
    rows.append(row("single", 0.8, **means))
    few = ALIKE | {"metric": "accuracy", "than": {"metric": "accuracy_cumulative_draws", "draws": 25}}
    assert error(tmp_path, rows, **few) == {"chains": math.hypot(0.01, 0.02)}
    for chains, expected in ((1, {"draws": 0.03}), (2, {}), (10, {"chains": 0.01})):
        assert error(tmp_path, rows, metric="accuracy_cumulative_chains", chains=chains) == expected


def test_a_finite_number_of_draws_biases_a_score_and_what_it_biases_alike_cancels(tmp_path: Path) -> None:
    """Scores of the first k draws that are a - 2 / k reach a at infinitely many."""

    def scores(run: str, level: float) -> list[Row]:
        curve = [row(run, level - 2 / k, metric="lppd_cumulative_draws", draws=k) for k in (10, 30, 50, 80, 100)]
        return [row(run, level - 0.02, metric="lppd"), *curve]

    rows = [*scores("single", 0.52), *scores("other", 0.32)]
    lppd = {"metric": "lppd"}
    found = judged(tmp_path, rows, claimed(SINGLE | lppd, runs=RUNS))
    assert found.own is not None
    assert found.own.at_infinity == pytest.approx(0.52)
    assert error(tmp_path, rows, **lppd) == {"finite draws": 0.02}
    above = COMPARISON | {"relation": "above", "than": {"runs": ["other"]}}
    compared = judged(tmp_path, rows, claimed(SINGLE | lppd | above, runs=RUNS))
    assert compared.difference is not None
    assert compared.difference.at_infinity == pytest.approx(0.2)
    assert compared.parts == (Part("finite draws", pytest.approx(0.0, abs=1e-9), 100),)
    assert compared.error is None, "a bias is no error"
    for draws, at_infinity in ((1, 0.22), (100, None)):
        rows = [*scores("single", 0.52), row("other", 0.3, metric="lppd", draws=draws)]
        found = judged(tmp_path, rows, claimed(SINGLE | lppd | above, runs=RUNS)).difference
        assert found is not None
        assert found.at_infinity == (pytest.approx(at_infinity) if at_infinity else None), "optima have no bias"


@pytest.mark.parametrize(
    ("metric", "value", "draws", "infinity"),
    [
        ("total_variation", 0.05, 100, 0.03),
        ("total_variation", 0.04, 100, 0.0),
        ("total_variation", 0.03, 100, 0.0),
        ("agreement", 0.95, 100, 0.97),
        ("total_variation", 0.05, 1, math.sqrt(0.05**2 - 0.04**2 / 2)),
    ],
)
def test_a_distance_that_few_draws_would_have_is_no_distance(
    tmp_path: Path, metric: str, value: float, draws: int, infinity: float
) -> None:
    """Two chains of 500 draws each are 0.04 apart, as are 1,000 draws of the run and all of the reference's."""
    apart = 1 - 0.04 * math.sqrt(2) if metric == "agreement" else 0.04 * math.sqrt(2)
    rows = [row("single", value, metric=metric, at="other", draws=draws)]
    rows.append(row("other", apart, metric=f"{metric}_ceiling", chains=2, draws=500))
    number = {"metric": metric, "at": "other"}
    found = judged(tmp_path, rows, claimed(SINGLE | number, runs=RUNS)).own
    assert found is not None
    assert found.at_infinity == pytest.approx(infinity, abs=1e-9)
    assert error(tmp_path, rows, **number) == {"finite draws": pytest.approx(abs(infinity - value))}


def test_the_limit_of_a_score_has_the_error_of_its_extrapolation_besides(tmp_path: Path) -> None:
    """By 0.3 at 100 draws and in the end: the curve's scatter leaves the sign of the limit open, the value's does not.

    The errors of both sides of a difference are added in squares, and that of the limit by `averages.extrapolation`.
    """
    draws, scatter = (25, 50, 75, 100), (0.3, -0.3, 0.3, 0.0)
    levels = {"single": 0.8, "other": 0.5}
    rows = [row(run, level, metric="lppd", monte_carlo_error=0.01) for run, level in levels.items()]
    for run, level in levels.items():
        for k, off in zip(draws, scatter, strict=True):
            shown = level + (off if run == "single" else 0.0)
            rows.append(row(run, shown, metric="lppd_cumulative_draws", draws=k))
    fit = extrapolation(np.array(draws), 0.8 + np.array(scatter))
    assert fit is not None
    above = COMPARISON | {"metric": "lppd", "relation": "above", "size": 0.1, "than": {"runs": ["other"]}}
    found = judged(tmp_path, rows, claimed(SINGLE | above, runs=RUNS))
    assert found.extrapolation_error == pytest.approx(fit.error)
    assert found.d_at_infinity == pytest.approx(0.3 + fit.shift)
    assert found.error == pytest.approx(0.01 * math.sqrt(2)), "the value at 100 draws has no part in it"
    assert found.verdict == Verdict.CANNOT_TELL
    assert found.reason.startswith("0.3 with these draws (holds), ")
    smooth = [r._replace(value=levels[r.run]) for r in rows]
    assert judged(tmp_path, smooth, claimed(SINGLE | above, runs=RUNS)).verdict == Verdict.HOLDS


@pytest.mark.parametrize(("of_chains", "error"), [(None, 0.00439), (0.1, 0.00764)])
def test_a_distance_without_its_floor_has_the_errors_of_both(
    tmp_path: Path, of_chains: float | None, error: float
) -> None:
    """0.05 +- 0.003 with a floor of 0.04 is 0.03: sqrt(0.053^2 - 0.04^2) - 0.03 = 0.00477, and 0.00532 below.

    0.00532^2 - 0.003^2 = 0.00439^2. A floor of 0.044, a tenth more, takes 0.00625 off.
    """
    apart = 0.04 * math.sqrt(2)
    rows = [row("single", 0.05, metric="total_variation", at="other", monte_carlo_error=0.003)]
    ceiling = {"metric": "total_variation_ceiling", "chains": 2, "draws": 500}
    rows.append(row("other", apart, **ceiling, standard_error=None if of_chains is None else of_chains * apart))
    found = judged(tmp_path, rows, claimed(SINGLE | {"metric": "total_variation", "at": "other"}, runs=RUNS))
    assert found.extrapolation_error == pytest.approx(error, abs=2e-5)


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"monte_carlo_error": 0.2}, "about 26 chains (now 10)"),
        ({"monte_carlo_error": 0.2, "chains": 1}, "about 260 draws per chain (now 100)"),
        ({"standard_error": 0.25}, "about 4 splits (now 1)"),
        ({"standard_error": 0.25, "monte_carlo_error": 0.13}, "about 6 splits (now 1) and about 51 chains (now 10)"),
        ({"standard_error": 0.12, "monte_carlo_error": 0.13, "all_rows": True}, "about 140 chains (now 10)"),
        (
            {"standard_error": 0.25, "monte_carlo_error": 0.13, "all_rows": True},
            "more test rows than there are; an error below 0.12 (now 0.28)",
        ),
    ],
)
def test_cannot_tell_says_how_many_of_what_would_decide_it(
    tmp_path: Path, changes: dict[str, Any], needed: str
) -> None:
    """The size is 0.25, so that an error of 0.125 is wanted."""
    plan = planned("single", chains=changes.get("chains", 10), all_rows=changes.get("all_rows", False))
    changes = {key: value for key, value in changes.items() if key != "all_rows"}
    rows = [row("single", 0.5, **changes), row("single", 50.0, metric="rows_test")]
    found = judged(tmp_path, rows, claimed(SINGLE, runs={"single": plan}))
    assert (found.verdict, found.needed) == (Verdict.CANNOT_TELL, needed)


def test_with_more_draws_the_difference_moves_on_to_that_at_infinitely_many(tmp_path: Path) -> None:
    """By 0.02 +- 0.015 at 100 draws and by 0.06 in the end; by 0.16 +- 0.015 at 100 draws but not at all in the end."""
    own: dict[str, Any] = {"metric": "lppd", "standard_error": 0.015}
    other = {"metric": "lppd", "standard_error": 1e-6, "draws": 1}
    curve = [row("single", 0.86 - 4 / k, metric="lppd_cumulative_draws", draws=k) for k in (30, 50, 80, 100)]
    rows = [*curve, row("single", 0.86 - 0.04, **own), row("other", 0.8, **other)]
    above = COMPARISON | {"metric": "lppd", "relation": "above", "size": 0.05, "than": {"runs": ["other"]}}
    found = judged(tmp_path, rows, claimed(SINGLE | above, runs=RUNS))
    assert (found.verdict, found.needed) == (Verdict.CANNOT_TELL, "about 130 draws per chain (now 100)")
    ahead = [r._replace(value=0.6 + 16 / r.draws) for r in curve]
    rows = [*ahead, row("single", 0.76, **own), row("other", 0.6, **other)]
    found = judged(tmp_path, rows, claimed(SINGLE | above | {"size": 0.17}, runs=RUNS))
    assert (found.verdict, found.needed) == (Verdict.CANNOT_TELL, "about 530 draws per chain (now 100)")
    assert found.reason.startswith("0.16 with these draws (holds, smaller), ")
    assert found.reason.endswith(" with infinitely many (does not hold)")


def test_the_error_of_a_mean_over_random_orders_asks_for_more_orders(tmp_path: Path) -> None:
    rows = [row("single", 0.5, standard_error=0.25, over="rows", note="mean of 3 orders")]
    found = judged(tmp_path, rows, claimed(SINGLE, runs=RUNS))
    assert (found.parts, found.needed) == ((Part("orders", 0.25, 3),), "about 12 random orders (now 3)")


def test_rows_that_could_be_paired_are_what_is_missing(tmp_path: Path) -> None:
    rows = [row(run, 0.5, standard_error=0.03, over="rows", metric="accuracy") for run in RUNS]
    rows += [row(run, 50.0, metric="rows_test") for run in RUNS]
    worse = COMPARISON | {"metric": "accuracy", "relation": "at_least", "size": None, "bound": -0.05}
    found = judged(tmp_path, rows, claimed(SINGLE | worse | {"than": {"runs": ["other"]}}, runs=RUNS))
    assert found.needed == "the values of single test rows, to pair both sides; an error below 0.025 (now 0.042)"


def test_a_published_number_with_too_large_an_error_is_what_has_to_be_better(tmp_path: Path) -> None:
    rows = [row("single", 0.5, monte_carlo_error=0.01)]
    found = judged(tmp_path, rows, claimed(SINGLE | {"published": printed(0.5, of_mean=0.2)}))
    assert (found.verdict, found.needed) == (
        Verdict.CANNOT_TELL,
        "a published number with an error below 0.12 (now 0.2)",
    )


def test_a_wrong_digit_is_an_erratum_only_where_it_differs(tmp_path: Path) -> None:
    wrong = SINGLE | {"published": printed(0.1), "size": 0.01, "erratum": "the formula gives 0.5"}
    found = judged(tmp_path, [row("single", 0.5)], claimed(wrong))
    assert (found.verdict, found.reason) == (Verdict.ERRATUM, "the formula gives 0.5")
    assert judged(tmp_path, [row("single", 0.1)], claimed(wrong)).verdict == Verdict.AGREES


ACCURACY = COMPARISON | {"metric": "accuracy", "relation": "above", "size": 0.03, "than": {"runs": ["other"]}}
AGREEMENT = ACCURACY | {"metric": "agreement", "at": "reference"}
SHIFTED = ACCURACY | {"dataset": "airfoil/fog3"}


@pytest.mark.parametrize(
    ("claim", "own", "other", "more", "room"),
    [
        (ACCURACY, 0.985, 0.98, [], "what the compared value, 0.98, leaves to 1"),
        (ACCURACY, 0.95, 0.94, [], ""),
        (ACCURACY, 0.99, 0.95, [], None),
        (ACCURACY | {"relation": "below"}, 0.01, 0.0, [], "what the compared value, 0, leaves to 0"),
        (ACCURACY, 0.001, 0.0, [], "what the farther of the two values is away from 0"),
        (AGREEMENT, 0.9, 0.91, [("reference", "agreement_ceiling", 0.93)], "reference's own chains, 0.93"),
        (AGREEMENT, 0.9, 0.89, [("reference", "agreement_ceiling", 0.93)], ""),
        (SHIFTED, 0.9, 0.89, [("other", "accuracy", 0.9)], "what the corruption does in all to the compared run"),
        (SHIFTED, 0.8, 0.79, [("other", "accuracy", 0.9)], ""),
    ],
)  # fmt: skip
def test_where_there_is_no_room_nothing_can_be_shown(
    tmp_path: Path,
    claim: dict[str, Any],
    own: float,
    other: float,
    more: list[tuple[str, str, float]],
    room: str | None,
) -> None:
    """`room` is empty where there is some and the claim does not hold, and None where it holds."""
    of = {"metric": claim["metric"], "at": claim.get("at", ""), "dataset": claim.get("dataset", "airfoil")}
    rows = [row(run, value, standard_error=0.01, **of) for run, value in (("single", own), ("other", other))]
    rows += [row(run, value, metric=metric) for run, metric, value in more]
    found = judged(tmp_path, rows, claimed(SINGLE | claim, runs=RUNS))
    if room:
        assert found.verdict == Verdict.CANNOT_SHOW
        assert room in found.reason
    else:
        assert found.verdict == (Verdict.HOLDS if room is None else found.verdict)
        assert found.verdict != Verdict.CANNOT_SHOW


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"rmse": 13.2}, "the fit diverged: run 'single', split 0: an RMSE of 13.2"),
        ({"rmse": 1.9}, ""),
        ({"prior_shell": 422.0}, "the fit diverged: run 'single', split 0: theta^2 of 422 times"),
        ({"prior_shell": 9.0}, ""),
        ({"prior_shell": 422.0, "rows_train": 1000.0}, ""),
        (
            {"divergences": 50.0, "divergence_share": 0.05, "reference_fit": 0.0},
            "the fit diverged: run 'single', split 0: 50 steps (5% of all) diverged",
        ),
        (
            {"divergences": 50.0, "divergence_share": 0.05, "reference_fit": 1.0},
            "chains: 50 steps (5% of all) diverged",
        ),
        ({"divergences": 5.0, "divergence_share": 0.005, "reference_fit": 0.0}, ""),
    ],
)
def test_what_has_diverged_is_never_a_result(tmp_path: Path, metrics: dict[str, float], reason: str) -> None:
    note = "5,000 parameters; draws from the prior have 1"
    values = {"rmse": 0.5, "rows_train": 100.0, "divergences_chains": 1.0} | metrics
    rows = [row("single", value, metric=metric, note=note) for metric, value in values.items()]
    rows.append(row("single", 0.5, metric="lppd", standard_error=0.01))
    found = judged(tmp_path, rows, claimed(SINGLE | {"metric": "lppd"}))
    assert found.verdict == (Verdict.CANNOT_TELL if reason else Verdict.AGREES)
    assert found.reason.startswith(reason) if reason else not found.reason
    assert (found.own is None) == reason.startswith("the fit diverged")


@pytest.mark.parametrize(
    ("claims", "place"),
    [
        ([("differs", "another problem"), ("agrees", "same")], 0),
        ([("to run", "same"), ("holds", "another problem"), ("differs", "reduced")], 2),
        ([("to run", "same"), ("to run", "same")], 0),
    ],
)
def test_a_finding_is_judged_by_its_main_claim_at_the_nearest_identity_that_was_run(
    claims: list[tuple[str, str]], place: int
) -> None:
    assert leading(claims) == place


def test_paired_seeds_on_the_same_rows_have_the_errors_of_both(tmp_path: Path) -> None:
    rows = [row(f"mile-seed{n}", v, standard_error=0.1, over="rows") for n, v in ((1, 0.4), (2, 0.5), (3, 0.6))]
    found = judged(tmp_path, rows, claimed({}))
    assert found.error == pytest.approx(math.hypot(np.std([0.4, 0.5, 0.6], ddof=1) / math.sqrt(3), 0.1))
