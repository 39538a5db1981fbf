"""Verdicts: what passes, what fails, and what is never a pass."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.claims.sides import ClaimError
from bnn_atlas.claims.verdict import Judgement, Verdict, judge, judge_all

from .making import COMPARISON, RUNS, claimed, judged, planned, row, seeds, table

LPPD = {"metric": "lppd_cumulative_chains"}


def cumulative(run: str, **values: float) -> list[Any]:
    """Rows of the LPPD by number of chains, `c10=0.7` for 10 chains."""
    return [row(run, value, chains=int(name[1:]), **LPPD) for name, value in values.items()]


def test_the_mean_over_seeds_is_judged_and_its_spread_is_given(tmp_path: Path) -> None:
    found = judged(tmp_path, seeds("mile", 0.5, 0.75, 1.0), claimed({}))
    assert found.own is not None
    assert found.own.value == 0.75
    assert found.own.repetitions == 3
    assert found.own.sd == pytest.approx(0.25)
    assert found.own.standard_error == pytest.approx(0.25 / math.sqrt(3))
    assert (found.verdict, found.margin) == (Verdict.REPRODUCED, 0.0)
    assert judged(tmp_path, seeds("mile", 0.5, 0.75, 1.01), claimed({})).verdict == Verdict.FAILED


def test_splits_are_repetitions_too(tmp_path: Path) -> None:
    study = claimed({"runs": ["single"]}, runs={"single": planned("single", splits=2)})
    rows = [row("single", 0.4), row("single", 0.6, split=1)]
    found = judged(tmp_path, rows, study)
    assert found.own is not None
    assert (found.own.value, found.own.repetitions) == (0.5, 2)
    assert judged(tmp_path, rows[:1], study).verdict == Verdict.NOT_RUN


def test_a_number_of_full_size_is_not_answered_by_a_reduced_run(tmp_path: Path) -> None:
    reduced = {"single": planned("single", reductions=("method.steps: 10000 -> 100",))}
    for full_size, runs, verdict in (
        (True, reduced, Verdict.NOT_RUN),
        (False, reduced, Verdict.REDUCED),
        (True, None, Verdict.REPRODUCED),
    ):
        study = claimed({"runs": ["single"], "full_size": full_size}, **({"runs": runs} if runs else {}))
        found = judged(tmp_path, [row("single", 0.5)], study)
        assert found.verdict == verdict
    found = judged(tmp_path, [row("single", 0.5)], claimed({"runs": ["single"], "full_size": True}, runs=reduced))
    assert "paper's settings, and this scale reduces single" in found.reason
    assert "snakemake --cores 2 single --config scale=paper" in found.needed


def test_one_run_has_the_error_of_its_row_or_none(tmp_path: Path) -> None:
    study = claimed({"runs": ["single"]})
    for error in (0.03, None):
        own = judged(tmp_path, [row("single", 0.5, standard_error=error)], study).own
        assert own is not None
        assert (own.repetitions, own.sd, own.standard_error) == (1, None, error)


@pytest.mark.parametrize(
    ("relation", "values"),
    [
        ({"relation": "equals"}, {0.25: True, 0.75: True, 0.24: False, 0.76: False}),
        ({"than": {"runs": ["ensemble"]}}, {1.25: True, 1.75: True, 1.24: False, 1.76: False, 0.5: False}),
        ({"relation": "at_most", "tolerance": None, "bound": 0.5}, {0.5: True, 0.4: True, 0.501: False}),
        ({"relation": "at_least", "tolerance": None, "bound": 0.5}, {0.5: True, 0.6: True, 0.499: False}),
        (COMPARISON | {"relation": "at_least", "bound": -0.25}, {0.75: True, 9.0: True, 0.74: False}),
        (COMPARISON | {"relation": "at_most", "bound": 0.25}, {1.25: True, -9.0: True, 1.26: False}),
        (COMPARISON, {0.9: True, 1.0: False, 1.1: False}),
        (COMPARISON | {"bound": 0.5}, {0.4: True, 0.5: False, 0.9: False}),
        (COMPARISON | {"relation": "greater_than"}, {1.1: True, 1.0: False, 0.9: False}),
        (COMPARISON | {"relation": "greater_than", "bound": 0.5}, {1.6: True, 1.5: False, 1.4: False}),
        (COMPARISON | {"relation": "changes_less_than", "bound": 0.5}, {1.4: True, 0.6: True, 1.5: False, 0.4: False}),
    ],
)
def test_relations(tmp_path: Path, relation: dict[str, Any], values: dict[float, bool]) -> None:
    """The ensemble has 1.0."""
    for value, holds in values.items():
        rows = [*seeds("mile", value, value, value), *seeds("ensemble", 1.0, 1.0, 1.0)]
        found = judged(tmp_path, rows, claimed(relation))
        assert found.verdict == (Verdict.REPRODUCED if holds else Verdict.FAILED), value
        assert found.margin is not None
        assert found.margin >= 0 if holds else found.margin <= 0


@pytest.mark.parametrize(("relation", "sign"), [("at_least", -1), ("at_most", 1)])
def test_an_imprecise_difference_near_its_limit_tests_nothing(tmp_path: Path, relation: str, sign: int) -> None:
    """Differences 0.1, 0.2 and 0.3 have a mean of 0.2 and a standard error of 0.0577, however much the pairs vary."""
    sides = [
        *seeds("ensemble", 1.0, 5.0, 9.0),
        *seeds("mile", *(b + sign * d for b, d in ((1, 0.1), (5, 0.2), (9, 0.3)))),
    ]
    cases = (
        (0, 3.4, Verdict.FAILED),
        (0, 3.5, Verdict.NOT_TESTED),
        (0.4, 3.4, Verdict.REPRODUCED),
        (0.4, 3.5, Verdict.NOT_TESTED),
        (0.4, None, Verdict.REPRODUCED),
    )
    for bound, errors, verdict in cases:
        limits = {"relation": relation, "bound": sign * bound, "errors": errors}
        found = judged(tmp_path, sides, claimed(COMPARISON | limits))
        assert (found.verdict, found.bound) == (verdict, sign * bound)
        assert found.margin == pytest.approx(bound - 0.2)
        assert ("standard errors" in found.reason) == (verdict == Verdict.NOT_TESTED)


def test_errors_over_splits_count_the_rows_that_splits_share(tmp_path: Path) -> None:
    """Five differences of variance 0.01 with a ninth of the rows in the test set: sqrt(0.01 (1/5 + 1/9)) = 0.0558."""
    runs = {name: planned(name, splits=5) for name in ("mile", "ensemble")}
    claim = COMPARISON | {"relation": "at_least", "bound": 0, "errors": 2}
    gaps = np.array([-0.1, 0.1, 0.0, 0.1, -0.1])
    for mean, verdict in ((-0.11, Verdict.NOT_TESTED), (-0.12, Verdict.FAILED)):
        rows = [row("ensemble", 1.0, split=n) for n in range(5)]
        rows += [row("mile", 1.0 + mean + gap, split=n) for n, gap in enumerate(gaps)]
        for run, n in itertools.product(runs, range(5)):
            rows += [row(run, size, split=n, metric=f"rows_{part}") for part, size in (("test", 10.0), ("train", 90.0))]
        assert judged(tmp_path, rows, claimed(claim, runs=runs)).verdict == verdict


def test_without_a_standard_error_such_a_limit_tests_nothing(tmp_path: Path) -> None:
    claim = COMPARISON | {"relation": "at_least", "bound": 0, "errors": 2, "runs": ["single"]}
    study = claimed(claim, runs={"single": planned("single"), "ensemble": planned("ensemble")})
    found = judged(tmp_path, [row("single", 2.0), row("ensemble", 1.0)], study)
    assert found.verdict == Verdict.NOT_TESTED
    assert "standard error of the difference" in found.reason
    assert found.needed


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("relation", ["at_most", "at_least", "less_than", "greater_than"])
def test_a_value_that_is_not_finite_never_passes(tmp_path: Path, bad: float, relation: str) -> None:
    change = {"tolerance": None, "bound": 0.0, "relation": relation}
    compares = relation in ("less_than", "greater_than")
    study = claimed(change | ({"than": {"runs": ["ensemble"]}} if compares else {}))
    rows = [*seeds("mile", 0.5, bad, 0.5), *seeds("ensemble", 1.0, 1.0, 1.0)]
    found = judged(tmp_path, rows, study)
    assert (found.verdict, found.margin) == (Verdict.FAILED, None)
    assert "mile-seed2" in found.reason
    assert str(bad) in found.reason


def test_a_reduced_run_on_either_side_lowers_the_verdict(tmp_path: Path) -> None:
    rows = [*seeds("mile", 0.5, 0.5, 0.5), *seeds("ensemble", 1.0, 1.0, 1.0)]
    for entry in ("mile", "ensemble"):
        runs = {n: r | ({"reductions": ["chains: 10 -> 4"]} if r["entry"] == entry else {}) for n, r in RUNS.items()}
        found = judged(tmp_path, rows, claimed(COMPARISON, runs=runs))
        assert found.verdict == Verdict.REDUCED
        assert found.reductions == {entry: ("chains: 10 -> 4",)}
    failed = judged(tmp_path, seeds("mile", 5.0, 5.0, 5.0), claimed({}, runs=runs))
    assert failed.verdict == Verdict.FAILED
    other = {n: r | ({"reductions": ["chains: 10 -> 4"]} if n == "single" else {}) for n, r in RUNS.items()}
    assert judged(tmp_path, seeds("mile", 0.5, 0.5, 0.5), claimed({}, runs=other)).verdict == Verdict.REPRODUCED


def not_run(found: Judgement, *parts: str) -> None:
    assert found.verdict == Verdict.NOT_RUN
    assert (found.own, found.other, found.difference, found.margin) == (None, None, None, None)
    assert found.needed
    missing = [part for part in parts if part not in f"{found.reason}; needed: {found.needed}"]
    assert not missing, found


def test_what_is_missing_is_not_run_and_says_what_is_needed(tmp_path: Path) -> None:
    rows = seeds("mile", 0.5, 0.5, 0.5)
    command = "snakemake --cores 2 mile --config scale=laptop"
    not_run(judge("c0", claimed({}), None), "no table of the study small", command)
    not_run(judged(tmp_path, rows, claimed({"runs": ["gone"]})), "does not run 'gone'", "scale paper", "scale=paper")
    not_run(judged(tmp_path, rows, claimed({"runs": ["gone-seed1"]})), "does not run 'gone-seed1'", "scale=paper")
    not_run(judged(tmp_path, rows, claimed({"metric": "lppd"})), "no metric 'lppd'")
    not_run(judged(tmp_path, rows[:2], claimed({})), "run 'mile-seed3', split 0 has not been run", command)
    not_run(judged(tmp_path, rows, claimed({"dataset": "airfoil/far"})), "for 'airfoil/far'")
    both = "snakemake --cores 2 mile ensemble --config scale=laptop"
    not_run(judged(tmp_path, rows, claimed(COMPARISON)), "run 'ensemble-seed1'", both)


def test_a_number_of_chains_that_was_not_run_is_not_answered_by_another(tmp_path: Path) -> None:
    rows = [r for seed in (1, 2, 3) for r in cumulative(f"mile-seed{seed}", c1=0.1, c2=0.2, c5=0.3, c8=0.4, c10=0.5)]
    assert judged(tmp_path, rows, claimed(LPPD | {"chains": 5, "paper_value": 0.3})).verdict == Verdict.REPRODUCED
    found = judged(tmp_path, rows, claimed(LPPD | {"chains": 100}))
    not_run(found, "'lppd_cumulative_chains' at 100 chains, only at 1, 2, ..., 10", "scale paper")
    fewer = claimed(LPPD | {"chains": 20}, scales={"mile": {"paper": 10}})
    not_run(judged(tmp_path, rows, fewer), "a run with 20 chains or more")
    missing = judged(tmp_path, [], claimed(LPPD | {"chains": 100}))
    not_run(
        missing, "'mile-seed1', split 0 has not been run", "scale paper: snakemake --cores 2 mile --config scale=paper"
    )
    whole = judged(tmp_path, rows, claimed(LPPD))
    assert whole.own is not None
    assert whole.own.value == 0.5, "all chains where no number is given"
    assert [r.chains for r in whole.rows["value"]] == [10, 10, 10]


def test_a_scale_that_is_named_has_the_chains_of_the_claim(tmp_path: Path) -> None:
    """The run is missing here, or on other data: neither laptop nor the first 100 chains of paper answer for 500."""
    scales = {name: {"laptop": 100, "paper": 500} for name in ("gone", "gone-seed1")}
    for change in ({"runs": ["gone"]}, {"runs": ["gone-seed1"]}):
        plan = planned("gone", dataset="diabetes", other_data="dataset: airfoil -> diabetes")
        for runs in (RUNS, RUNS | {"gone-seed1": plan}):
            for chains, needed in (
                (100, "scale laptop or paper: "),
                (101, "scale paper: "),
                (501, "a run with 501 chains"),
            ):
                study = claimed(LPPD | change | {"chains": chains}, runs=runs, scales=scales, scale="demo")
                not_run(judged(tmp_path, [], study), f"needed: {needed}")
            wanted = LPPD | change | {"relation": "changes_less_than", "tolerance": None, "bound": 0.1}
            for than, needed in (
                (99, "scale laptop or paper: "),
                (100, "scale paper: "),
                (500, "a run with 501 chains"),
            ):
                study = claimed(wanted | {"than": {"chains": than}}, runs=runs, scales=scales, scale="demo")
                not_run(judged(tmp_path, [], study), f"needed: {needed}")


def test_all_chains_against_more_than_there_are_need_a_larger_scale(tmp_path: Path) -> None:
    """At laptop there are 10; 100 chains are compared with all, which must be more than 100."""
    change = LPPD | {"relation": "changes_less_than", "tolerance": None, "bound": 0.1, "than": {"chains": 100}}
    rows = cumulative("single", c1=0.1, c10=0.5)
    for paper, needed in ((100, "a run with 101 chains or more"), (101, "scale paper: ")):
        scales = {"single": {"laptop": 10, "paper": paper}}
        not_run(judged(tmp_path, rows, claimed(change | {"runs": ["single"]}, scales=scales)), f"needed: {needed}")


def test_excluded_chains_are_counted_and_do_not_leave_a_claim_unrun(tmp_path: Path) -> None:
    runs = {name: planned(name, chains=40) for name in ("single", "double")}
    rows = [*cumulative("single", c1=0.1, c5=0.3, c39=0.5), *cumulative("double", c1=0.2, c5=0.2, c38=0.25)]
    claim = LPPD | {"runs": ["single"]}
    for chains, expected in ((40, (0.5, 39, 1)), (None, (0.5, 39, 1)), (5, (0.3, 5, 0))):
        found = judged(tmp_path, rows, claimed(claim | {"chains": chains, "paper_value": 0.4}, runs=runs))
        assert found.verdict == Verdict.REPRODUCED
        assert [(r.value, r.chains, r.excluded) for r in found.rows["value"]] == [expected]
    for chains in (7, 50):
        not_run(judged(tmp_path, rows, claimed(claim | {"chains": chains}, runs=runs)), f"at {chains} chains")
    compared = COMPARISON | claim | {"relation": "greater_than", "chains": 40}
    found = judged(tmp_path, rows, claimed(compared | {"than": {"runs": ["double"], "chains": 40}}, runs=runs))
    assert found.difference is not None
    assert found.difference.value == 0.25
    assert [(r.chains, r.excluded) for r in found.rows["compared with"]] == [(38, 2)]
    itself = claimed(compared | {"than": {"chains": 39}}, runs=runs)
    not_run(judged(tmp_path, rows, itself), "39 chains of 100 draws in all", "same measurement")


@pytest.mark.parametrize("chains", [None, 40])
def test_few_chains_that_are_left_do_not_answer_for_all(tmp_path: Path, chains: int | None) -> None:
    """Of 40 chains 2 may be missing, 5 per cent."""
    study = claimed(LPPD | {"runs": ["single"], "chains": chains}, runs={"single": planned("single", chains=40)})
    assert judged(tmp_path, cumulative("single", c5=0.4, c38=0.5), study).verdict == Verdict.REPRODUCED
    for left in (37, 3):
        found = judged(tmp_path, cumulative("single", c1=0.4, **{f"c{left}": 0.5}), study)
        not_run(found, f"split 0: {40 - left} of 40 chains were excluded", "at least 38 of its 40 chains")


def test_a_run_without_a_chain_left_answers_nothing_and_says_why(tmp_path: Path) -> None:
    """Whichever metric is asked for: the headlines are missing values, the others are not there."""
    note = "10 of 10 chains excluded: 8 never moved, 2 not finite"
    rows = [
        row("single", 10.0, metric="chains_excluded", note=note),
        row("single", float("nan"), metric="rmse", chains=0, note=f"no chain left to average; {note}"),
    ]
    for metric in ("rmse", "coverage"):
        change = {"runs": ["single"], "metric": metric, "at": "0.9" if metric == "coverage" else ""}
        not_run(judged(tmp_path, rows, claimed(change)), f"split 0: {note}", "a run whose chains move")


def test_a_metric_that_a_run_lacks_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "small.parquet"
    table(tmp_path, [row("single", 0.5, metric=metric) for metric in ("lppd_chain_max", "rmse")])
    claims = [{"runs": ["single"], "metric": metric} for metric in ("lppd_chain_min", "accuracy")]
    near, far = judge_all([claimed(*claims)], {"small": path})
    not_run(near, "no metric 'lppd_chain_min' for 'airfoil'; did you mean 'lppd_chain_max'?")
    not_run(far, "no metric 'accuracy' for 'airfoil'; needed: a run that measures it")


def test_a_table_with_more_chains_than_planned_does_not_answer_for_fewer(tmp_path: Path) -> None:
    study = claimed(LPPD | {"runs": ["single"], "chains": 10})
    not_run(judged(tmp_path, cumulative("single", c5=0.4, c20=0.5), study), "at 10 chains, only at 5, 20")
    own = judged(tmp_path, cumulative("single", c5=0.4, c20=0.5), claimed(LPPD | {"runs": ["single"]})).rows["value"]
    assert [(r.chains, r.excluded) for r in own] == [(20, 0)]


def test_numbers_of_draws_are_chosen_alike(tmp_path: Path) -> None:
    rows = [row("single", v, draws=d, metric="lppd_cumulative_draws") for d, v in ((1, 0.1), (50, 0.4), (100, 0.5))]
    claim = {"metric": "lppd_cumulative_draws", "runs": ["single"], "relation": "greater_than", "tolerance": None}
    found = judged(tmp_path, rows, claimed(claim | {"than": {"draws": 50}}))
    assert found.own is not None
    assert found.other is not None
    assert (found.own.value, found.other.value) == (0.5, 0.4)
    not_run(judged(tmp_path, rows, claimed(claim | {"than": {"draws": 7}})), "at 7 draws, only at 1, 50, ..., 100")


def test_other_data_do_not_answer(tmp_path: Path) -> None:
    change = "dataset: airfoil -> diabetes"
    runs = {"mile-seed1": planned("mile", {"seed": 1}, dataset="diabetes", reductions=[change], other_data=change)}
    study = claimed({}, runs=runs, scale="demo")
    found = judged(tmp_path, [row("mile-seed1", 0.5, dataset="diabetes")], study)
    not_run(found, change, "scale laptop or paper")
    assert [r.value for r in found.rows["value"]] == [0.5], "what there is can be seen"


def test_a_row_compared_with_itself_is_not_run(tmp_path: Path) -> None:
    saturation = LPPD | {
        "runs": ["mile-seed1"], "tolerance": None, "relation": "changes_less_than", "bound": 0.01,
        "than": {"chains": 10},
    }  # fmt: skip
    rows = cumulative("mile-seed1", c1=0.1, c10=0.5)
    not_run(
        judged(tmp_path, rows, claimed(saturation)), "10 chains of 100 draws in all", "same measurement", "scale=paper"
    )
    mixed = saturation | {"metric": "lppd", "than": {"metric": LPPD["metric"], "chains": 10}}
    not_run(judged(tmp_path, [*rows, row("mile-seed1", 0.5, metric="lppd")], claimed(mixed)), "same measurement")
    rows = cumulative("mile-seed1", c1=0.1, c10=0.5, c20=0.505)
    found = judged(tmp_path, rows, claimed(saturation))
    assert found.verdict == Verdict.REPRODUCED
    assert found.difference is not None
    assert found.difference.value == pytest.approx(0.005)
    assert found.difference.standard_error is None, "both values come from the same test rows"


def test_differences_are_paired_by_seed_where_both_sides_have_the_same_seeds(tmp_path: Path) -> None:
    own, other = np.array([0.1, 0.5, 0.9]), np.array([0.3, 0.6, 1.2])
    rows = [*seeds("mile", *own), *seeds("ensemble", *other)]
    found = judged(tmp_path, rows[::-1], claimed(COMPARISON)).difference
    assert found is not None
    assert found.value == pytest.approx((own - other).mean())
    assert found.sd == pytest.approx((own - other).std(ddof=1))
    assert found.standard_error == pytest.approx((own - other).std(ddof=1) / math.sqrt(3))


def test_differences_of_unequal_repetitions_have_the_error_of_independent_means(tmp_path: Path) -> None:
    own, other = np.array([0.1, 0.5, 0.9]), np.array([0.3, 0.6])
    study = claimed(COMPARISON, runs={n: r for n, r in RUNS.items() if n != "ensemble-seed3"})
    found = judged(tmp_path, [*seeds("mile", *own), *seeds("ensemble", *other)], study).difference
    assert found is not None
    assert found.value == pytest.approx(own.mean() - other.mean())
    assert found.standard_error == pytest.approx(math.sqrt(own.var(ddof=1) / 3 + other.var(ddof=1) / 2))
    assert found.sd is None
    single = claimed(COMPARISON | {"than": {"runs": ["single"]}})
    found = judged(tmp_path, [*seeds("mile", *own), row("single", 1.0, standard_error=0.1)], single).difference
    assert found is not None
    assert found.standard_error is None, "of one repetition nothing is known"


def test_grids_are_paired_by_what_repeats_in_both(tmp_path: Path) -> None:
    """Prior scale differs between the sides and is no repetition."""
    runs = {
        f"grid-scale{scale}-seed{seed}": planned("grid", {"prior.scale": scale, "seed": seed})
        for scale in (1, 10)
        for seed in (1, 2)
    }
    names = {scale: [f"grid-scale{scale}-seed{seed}" for seed in (1, 2)] for scale in (1, 10)}
    study = claimed(COMPARISON | {"runs": names[1], "than": {"runs": names[10]}}, runs=runs)
    rows = [row(name, value) for name, value in zip([*names[1], *names[10]], (0.1, 0.5, 0.2, 0.9), strict=True)]
    found = judged(tmp_path, rows, study).difference
    assert found is not None
    assert found.sd == pytest.approx(np.std([-0.1, -0.4], ddof=1))


def test_two_rows_for_one_value_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClaimError, match="run 'single', split 0: 2 rows of 'rmse'"):
        judged(tmp_path, [row("single", 0.5), row("single", 0.6)], claimed({"runs": ["single"]}))


def test_all_claims_of_all_studies_in_order(tmp_path: Path) -> None:
    table(tmp_path, seeds("mile", 0.5, 0.5, 0.5))
    studies = [claimed({}, {"metric": "lppd"}), claimed({}, name="unmade")]
    found = judge_all(studies, {"small": tmp_path / "small.parquet", "unmade": tmp_path / "none.parquet"})
    assert [(j.study.name, j.name, j.verdict) for j in found] == [
        ("small", "c0", Verdict.REPRODUCED), ("small", "c1", Verdict.NOT_RUN), ("unmade", "c0", Verdict.NOT_RUN),
    ]  # fmt: skip


def test_a_metric_with_a_parameter_is_judged_where_the_claim_says(tmp_path: Path) -> None:
    rows = [row("single", value, metric="coverage", at=at) for at, value in (("0.5", 0.1), ("0.9", 0.5))]
    claim = {"runs": ["single"], "metric": "coverage"}
    found = judged(tmp_path, rows, claimed(claim | {"at": 0.9}))
    assert found.verdict == Verdict.REPRODUCED
    assert found.own is not None
    assert found.own.value == 0.5
    not_run(judged(tmp_path, rows, claimed(claim)), "has 'coverage' at 0.5, 0.9, not at ''", "`at` of the claim")
    not_run(judged(tmp_path, rows, claimed(claim | {"at": "0.95"})), "not at '0.95'")
    than = {"relation": "less_than", "paper_value": None, "tolerance": None, "than": {"at": "0.9"}}
    assert judged(tmp_path, rows, claimed(claim | {"at": "0.5"} | than)).verdict == Verdict.REPRODUCED
