"""Verdicts: what passes, what fails, and what is never a pass."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.claims.estimate import Part
from bnn_atlas.claims.rules import Verdict
from bnn_atlas.claims.sides import ClaimError
from bnn_atlas.claims.verdict import Judgement, judge, judge_all

from .making import ALIKE, COMPARISON, RUNS, claimed, judged, planned, printed, row, seeds, table

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
    assert (found.d, found.error) == (0.25, found.own.standard_error)
    assert found.verdict == Verdict.CANNOT_TELL, "two standard errors, 0.29, are more than the size"
    assert found.needed == "about 4 seeds (now 3)"
    assert judged(tmp_path, seeds("mile", 0.7, 0.75, 0.8), claimed({})).verdict == Verdict.AGREES
    assert judged(tmp_path, seeds("mile", 0.75, 0.8, 0.85), claimed({})).verdict == Verdict.DIFFERS


def test_splits_are_repetitions_too(tmp_path: Path) -> None:
    study = claimed({"runs": ["single"]}, runs={"single": planned("single", splits=2)})
    rows = [row("single", 0.4), row("single", 0.6, split=1)]
    found = judged(tmp_path, rows, study)
    assert found.own is not None
    assert (found.own.value, found.own.repetitions) == (0.5, 2)
    assert judged(tmp_path, rows[:1], study).verdict == Verdict.TO_RUN


def test_a_number_of_full_size_is_not_answered_by_a_reduced_run(tmp_path: Path) -> None:
    reduced = {"single": planned("single", reductions=("method.steps: 10000 -> 100",))}
    for full_size, runs, verdict in (
        (True, reduced, Verdict.TO_RUN),
        (False, reduced, Verdict.AGREES),
        (True, None, Verdict.AGREES),
    ):
        study = claimed({"runs": ["single"], "full_size": full_size}, **({"runs": runs} if runs else {}))
        found = judged(tmp_path, [row("single", 0.5)], study)
        assert found.verdict == verdict
    found = judged(tmp_path, [row("single", 0.5)], claimed({"runs": ["single"], "full_size": True}, runs=reduced))
    assert "paper's settings, and this scale reduces single" in found.reason
    assert (found.measured and found.measured.value, found.d) == (0.5, 0.0), "the value is shown, but not judged"
    assert "snakemake --cores 2 single --config scale=paper" in found.needed
    one = {"mile-seed1": planned("mile", {"seed": 1}, reductions=["grid.seed: [1, 2, 3] -> [1]"])}
    for rows in ([row("mile-seed1", 0.5)], []):
        found = judged(tmp_path, rows, claimed({"full_size": True}, runs=one))
        assert found.needed == "scale paper: snakemake --cores 2 mile --config scale=paper", "with all its seeds"
    chains = claimed(LPPD | {"chains": 20})
    found = judged(tmp_path, seeds("mile", 0.5, 0.5, 0.5, **LPPD), chains)
    assert found.needed == "scale paper: snakemake --cores 2 mile --config scale=paper", "here, too"


def test_one_run_has_the_error_of_its_row_or_none(tmp_path: Path) -> None:
    study = claimed({"runs": ["single"]})
    for error in (0.03, None):
        own = judged(tmp_path, [row("single", 0.5, standard_error=error)], study).own
        assert own is not None
        assert (own.repetitions, own.sd, own.standard_error) == (1, None, error)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("relation", ["at_most", "at_least", "below", "above"])
def test_a_value_that_is_not_finite_is_never_shown_as_a_result(tmp_path: Path, bad: float, relation: str) -> None:
    change = COMPARISON | {"relation": relation} | ({"bound": 0.0} if relation.startswith("at_") else {})
    rows = [*seeds("mile", 0.5, bad, 0.5), *seeds("ensemble", 1.0, 1.0, 1.0)]
    found = judged(tmp_path, rows, claimed(change))
    assert (found.verdict, found.d, found.own) == (Verdict.CANNOT_TELL, None, None)
    assert found.reason == f"the fit diverged: rmse of run 'mile-seed2', split 0 is {bad}"


def test_a_reduction_counts_where_it_touches_what_the_claim_uses(tmp_path: Path) -> None:
    rows = [r for seed in (1, 2, 3) for r in cumulative(f"mile-seed{seed}", c5=0.5, c10=0.6)]
    rows += seeds("ensemble", 1.0, 1.0, 1.0, **LPPD)
    for reductions, change, identity in (
        ([], {}, "same"),
        (["chains: 100 -> 10"], {}, "reduced"),
        (["chains: 100 -> 10"], {"chains": 5}, "same"),
        (["chains: 100 -> 10", "method.steps: 50 -> 5"], {"chains": 5}, "reduced"),
        (["grid.seed: [1, 2, 3, 4] -> [1, 2, 3]"], {"unaffected_by": ["seed"]}, "same"),
        (["grid.seed: [1, 2, 3, 4] -> [1, 2, 3]"], {"unaffected_by": ["chains"]}, "reduced"),
    ):
        runs = {
            n: r | {"reductions": reductions if r["entry"] == "mile" else ["chains: 9 -> 1"]} for n, r in RUNS.items()
        }
        found = judged(tmp_path, rows, claimed(LPPD | change, runs=runs))
        assert found.identity == identity, (reductions, change)
        assert bool(found.reductions) == (identity == "reduced")


@pytest.mark.parametrize(
    ("problem", "other_data", "identity"),
    [
        ("as_published", None, "same"),
        ("settings_unknown", None, "settings unknown"),
        ("own", None, "another problem"),
        ("as_published", "dataset: airfoil -> diabetes", "another problem"),
    ],
)
def test_the_farthest_run_behind_a_claim_says_what_it_is_to_the_paper(
    tmp_path: Path, problem: str, other_data: str | None, identity: str
) -> None:
    far = {"problem": problem, "other_data": other_data, "reductions": ["method.steps: 50 -> 5"] if other_data else []}
    runs = {"mile": planned("mile"), "ensemble": planned("ensemble", **far)}
    rows = [row("mile", 0.5), row("ensemble", 1.0)]
    found = judged(tmp_path, rows, claimed(COMPARISON, runs=runs))
    assert (found.identity, found.verdict) == (identity, Verdict.HOLDS)
    gone = claimed({"runs": ["gone"]}, runs={}, problems={"gone": [problem]})
    if other_data is None:
        assert judged(tmp_path, rows, gone).identity == identity, "as it would be at scale paper"


def to_run(found: Judgement, *parts: str) -> None:
    assert found.verdict == Verdict.TO_RUN
    assert (found.own, found.other, found.difference, found.d) == (None, None, None, None)
    assert found.needed
    missing = [part for part in parts if part not in f"{found.reason}; needed: {found.needed}"]
    assert not missing, found


def test_what_is_missing_is_to_run_and_says_what_is_needed(tmp_path: Path) -> None:
    rows = seeds("mile", 0.5, 0.5, 0.5)
    command = "snakemake --cores 2 mile --config scale=laptop"
    to_run(judge("c0", claimed({}), None), "no table of the study small", command)
    to_run(judged(tmp_path, rows, claimed({"runs": ["gone"]})), "does not run 'gone'", "scale paper", "scale=paper")
    to_run(judged(tmp_path, rows, claimed({"runs": ["gone-seed1"]})), "does not run 'gone-seed1'", "scale=paper")
    to_run(judged(tmp_path, rows, claimed({"metric": "lppd"})), "no metric 'lppd'")
    to_run(judged(tmp_path, rows[:2], claimed({})), "run 'mile-seed3', split 0 has not been run", command)
    to_run(judged(tmp_path, rows, claimed({"dataset": "airfoil/far"})), "for 'airfoil/far'")
    both = "snakemake --cores 2 mile ensemble --config scale=laptop"
    to_run(judged(tmp_path, rows, claimed(COMPARISON)), "run 'ensemble-seed1'", both)


def test_a_number_of_chains_that_was_not_run_is_not_answered_by_another(tmp_path: Path) -> None:
    rows = [r for seed in (1, 2, 3) for r in cumulative(f"mile-seed{seed}", c1=0.1, c2=0.2, c5=0.3, c8=0.4, c10=0.5)]
    assert judged(tmp_path, rows, claimed(LPPD | {"chains": 5, "published": printed(0.3)})).verdict == Verdict.AGREES
    found = judged(tmp_path, rows, claimed(LPPD | {"chains": 100}))
    to_run(found, "'lppd_cumulative_chains' at 100 chains, only at 1, 2, ..., 10", "scale paper")
    fewer = claimed(LPPD | {"chains": 20}, scales={"mile": {"paper": 10}})
    to_run(judged(tmp_path, rows, fewer), "a run with 20 chains or more")
    missing = judged(tmp_path, [], claimed(LPPD | {"chains": 100}))
    to_run(
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
                to_run(judged(tmp_path, [], study), f"needed: {needed}")
            wanted = ALIKE | LPPD | change
            for than, needed in (
                (99, "scale laptop or paper: "),
                (100, "scale paper: "),
                (500, "a run with 501 chains"),
            ):
                study = claimed(wanted | {"than": {"chains": than}}, runs=runs, scales=scales, scale="demo")
                to_run(judged(tmp_path, [], study), f"needed: {needed}")


def test_all_chains_against_more_than_there_are_need_a_larger_scale(tmp_path: Path) -> None:
    """At laptop there are 10; 100 chains are compared with all, which must be more than 100."""
    change = ALIKE | LPPD | {"than": {"chains": 100}}
    rows = cumulative("single", c1=0.1, c10=0.5)
    for paper, needed in ((100, "a run with 101 chains or more"), (101, "scale paper: ")):
        scales = {"single": {"laptop": 10, "paper": paper}}
        to_run(judged(tmp_path, rows, claimed(change | {"runs": ["single"]}, scales=scales)), f"needed: {needed}")


def test_excluded_chains_are_counted_and_do_not_leave_a_claim_to_run(tmp_path: Path) -> None:
    runs = {name: planned(name, chains=40) for name in ("single", "double")}
    rows = [*cumulative("single", c1=0.1, c5=0.3, c39=0.5), *cumulative("double", c1=0.2, c5=0.2, c38=0.25)]
    claim = LPPD | {"runs": ["single"]}
    for chains, expected in ((40, (0.5, 39, 1)), (None, (0.5, 39, 1)), (5, (0.3, 5, 0))):
        found = judged(tmp_path, rows, claimed(claim | {"chains": chains, "published": printed(0.4)}, runs=runs))
        assert found.verdict == Verdict.AGREES
        assert [(r.value, r.chains, r.excluded) for r in found.rows["value"]] == [expected]
    for chains in (7, 50):
        to_run(judged(tmp_path, rows, claimed(claim | {"chains": chains}, runs=runs)), f"at {chains} chains")
    compared = claim | COMPARISON | {"relation": "above", "chains": 40}
    found = judged(tmp_path, rows, claimed(compared | {"than": {"runs": ["double"], "chains": 40}}, runs=runs))
    assert found.difference is not None
    assert found.difference.value == 0.25
    assert [(r.chains, r.excluded) for r in found.rows["compared with"]] == [(38, 2)]
    itself = claimed(compared | {"than": {"chains": 39}}, runs=runs)
    to_run(judged(tmp_path, rows, itself), "39 chains of 100 draws in all", "same measurement")


@pytest.mark.parametrize("chains", [None, 40])
def test_few_chains_that_are_left_do_not_answer_for_all(tmp_path: Path, chains: int | None) -> None:
    """Of 40 chains 2 may be missing, 5 per cent."""
    study = claimed(LPPD | {"runs": ["single"], "chains": chains}, runs={"single": planned("single", chains=40)})
    assert judged(tmp_path, cumulative("single", c5=0.4, c38=0.5), study).verdict == Verdict.AGREES
    for left in (37, 3):
        found = judged(tmp_path, cumulative("single", c1=0.4, **{f"c{left}": 0.5}), study)
        to_run(found, f"split 0: {40 - left} of 40 chains were excluded", "at least 38 of its 40 chains")


def test_a_run_without_a_chain_left_answers_nothing_and_says_why(tmp_path: Path) -> None:
    """Whichever metric is asked for: the headlines are missing values, the others are not there."""
    note = "10 of 10 chains excluded: 8 never moved, 2 not finite"
    rows = [
        row("single", 10.0, metric="chains_excluded", note=note),
        row("single", float("nan"), metric="rmse", chains=0, note=f"no chain left to average; {note}"),
    ]
    for metric in ("rmse", "coverage"):
        change = {"runs": ["single"], "metric": metric, "at": "0.9" if metric == "coverage" else ""}
        to_run(judged(tmp_path, rows, claimed(change)), f"split 0: {note}", "a run whose chains move")


def test_a_metric_that_a_run_lacks_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "small.parquet"
    table(tmp_path, [row("single", 0.5, metric=metric) for metric in ("lppd_chain_max", "rmse")])
    claims = [{"runs": ["single"], "metric": metric} for metric in ("lppd_chain_min", "accuracy")]
    near, far = judge_all([claimed(*claims)], {"small": path})
    to_run(near, "no metric 'lppd_chain_min' for 'airfoil'; did you mean 'lppd_chain_max'?")
    to_run(far, "no metric 'accuracy' for 'airfoil'; needed: a run that measures it")


def test_a_table_with_more_chains_than_planned_does_not_answer_for_fewer(tmp_path: Path) -> None:
    study = claimed(LPPD | {"runs": ["single"], "chains": 10})
    to_run(judged(tmp_path, cumulative("single", c5=0.4, c20=0.5), study), "at 10 chains, only at 5, 20")
    own = judged(tmp_path, cumulative("single", c5=0.4, c20=0.5), claimed(LPPD | {"runs": ["single"]})).rows["value"]
    assert [(r.chains, r.excluded) for r in own] == [(20, 0)]


def test_numbers_of_draws_are_chosen_alike(tmp_path: Path) -> None:
    rows = [row("single", v, draws=d, metric="lppd_cumulative_draws") for d, v in ((1, 0.1), (50, 0.4), (100, 0.5))]
    claim = {
        "metric": "lppd_cumulative_draws",
        "runs": ["single"],
        "relation": "above",
        "size": None,
        "published": None,
    }
    found = judged(tmp_path, rows, claimed(claim | {"than": {"draws": 50}}))
    assert found.own is not None
    assert found.other is not None
    assert (found.own.value, found.other.value) == (0.5, 0.4)
    to_run(judged(tmp_path, rows, claimed(claim | {"than": {"draws": 7}})), "at 7 draws, only at 1, 50, ..., 100")


def test_other_data_do_not_answer_for_a_published_number(tmp_path: Path) -> None:
    change = "dataset: airfoil -> diabetes"
    runs = {"mile-seed1": planned("mile", {"seed": 1}, dataset="diabetes", reductions=[change], other_data=change)}
    study = claimed({}, runs=runs, scale="demo")
    found = judged(tmp_path, [row("mile-seed1", 0.5, dataset="diabetes")], study)
    to_run(found, change, "scale laptop or paper")
    assert [r.value for r in found.rows["value"]] == [0.5], "what there is can be seen"


def test_a_row_compared_with_itself_is_to_run(tmp_path: Path) -> None:
    saturation = ALIKE | LPPD | {"runs": ["mile-seed1"], "size": 0.01, "than": {"chains": 10}}
    rows = cumulative("mile-seed1", c1=0.1, c10=0.5)
    to_run(
        judged(tmp_path, rows, claimed(saturation)), "10 chains of 100 draws in all", "same measurement", "scale=paper"
    )
    mixed = saturation | {"metric": "lppd", "than": {"metric": LPPD["metric"], "chains": 10}}
    to_run(judged(tmp_path, [*rows, row("mile-seed1", 0.5, metric="lppd")], claimed(mixed)), "same measurement")
    rows = cumulative("mile-seed1", c1=0.1, c10=0.5, c20=0.505)
    found = judged(tmp_path, rows, claimed(saturation))
    assert found.verdict == Verdict.HOLDS
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
    assert found.parts == (
        Part("seeds", pytest.approx(own.std(ddof=1) / math.sqrt(3)), 3),
        Part("rows", 0.1, 0),
    )


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
        ("small", "c0", Verdict.AGREES), ("small", "c1", Verdict.TO_RUN), ("unmade", "c0", Verdict.TO_RUN),
    ]  # fmt: skip


def test_a_metric_with_a_parameter_is_judged_where_the_claim_says(tmp_path: Path) -> None:
    rows = [row("single", value, metric="coverage", at=at) for at, value in (("0.5", 0.1), ("0.9", 0.5))]
    claim = {"runs": ["single"], "metric": "coverage"}
    found = judged(tmp_path, rows, claimed(claim | {"at": 0.9}))
    assert found.verdict == Verdict.AGREES
    assert found.own is not None
    assert found.own.value == 0.5
    to_run(judged(tmp_path, rows, claimed(claim)), "has 'coverage' at 0.5, 0.9, not at ''", "`at` of the claim")
    to_run(judged(tmp_path, rows, claimed(claim | {"at": "0.95"})), "not at '0.95'")
    than = {"relation": "below", "published": None, "size": None, "than": {"at": "0.9"}}
    assert judged(tmp_path, rows, claimed(claim | {"at": "0.5"} | than)).verdict == Verdict.HOLDS
