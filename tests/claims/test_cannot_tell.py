"""What a verdict says of claims whose runs did not sample, or lean on a reference that has not converged."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.claims.estimate import Part, difference
from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.rules import HOLDS, Verdict
from bnn_atlas.claims.verdict import judge, judge_all
from bnn_atlas.files import save_arrays
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, save
from bnn_atlas.metrics.tables.measurement import Row

from .making import COMPARISON, claimed, judged, planned, printed, row, table

STARTS = {
    "chains": planned("chains", chained=True, starts="starts"),
    "starts": planned("starts"),
    "rival": planned("rival", chained=True),
}
CLAIM: dict[str, Any] = {"runs": ["chains"], "metric": "lppd", "published": printed(-0.367), "size": 0.028}
GREATER = COMPARISON | CLAIM | {"relation": "above", "published": None, "size": None}


def lppd(chains: float, starts: float) -> list[Row]:
    rows = [row("chains", chains, metric="lppd")]
    return [*rows, row("starts", starts, metric="lppd", draws=1, method="deep_ensemble")]


def diagnosed(run: str, rhat: float) -> list[Row]:
    values = {"chains_excluded": 0.0, "rhat_function_max": rhat, "ess_bulk_function_min": 900.0}
    return [row(run, value, metric=metric) for metric, value in values.items()]


def test_chains_that_score_as_their_warm_starts_test_nothing(tmp_path: Path) -> None:
    """Fashion-MNIST as it was: -0.3821 after sampling, -0.3839 before, either within the limit."""
    found = judged(tmp_path, lppd(-0.3821, -0.3839), claimed(CLAIM, runs=STARTS))
    assert found.verdict == Verdict.CANNOT_TELL
    assert found.reason == "the warm starts alone have -0.3839, with which it agrees, too"
    assert found.needed
    assert found.own is not None
    assert found.own.value == -0.3821, "the number is still shown"


@pytest.mark.parametrize(("shell", "excused"), [(0.051, True), (0.053, False), (0.75, False), (None, False)])
def test_a_miss_is_excused_only_if_the_chains_have_stayed_at_their_starts(
    tmp_path: Path, shell: float | None, excused: bool
) -> None:
    """theta^2 over the prior variance is 0.047 at the starts."""
    rows = [*lppd(-0.50, -0.49), row("starts", 0.047, metric="prior_shell", draws=1)]
    rows += [] if shell is None else [row("chains", shell, metric="prior_shell")]
    found = judged(tmp_path, rows, claimed(CLAIM, runs=STARTS))
    assert found.verdict == (Verdict.CANNOT_TELL if excused else Verdict.DIFFERS)
    assert (found.reason == "the warm starts alone have -0.49, with which it differs, too") == excused


@pytest.mark.parametrize(
    ("chains", "starts", "verdict"),
    [
        (-0.367, -0.45, Verdict.AGREES),  # the starts miss it
        (-0.347, -0.39, Verdict.AGREES),  # both meet it, and sampling moves the value by more than the limit
        (-0.50, -0.38, Verdict.DIFFERS),  # sampling loses what the starts had
        (-0.50, -0.80, Verdict.DIFFERS),
    ],
)
def test_chains_that_differ_from_their_starts_are_judged(
    tmp_path: Path, chains: float, starts: float, verdict: Verdict
) -> None:
    assert judged(tmp_path, lppd(chains, starts), claimed(CLAIM, runs=STARTS)).verdict == verdict


def test_of_an_ensemble_with_more_members_as_many_count_as_there_are_chains(tmp_path: Path) -> None:
    runs = STARTS | {"starts": planned("starts", chains=20)}
    larger = [row("starts", -0.30, metric="lppd", chains=20), row("starts", -0.3, metric="rmse", chains=20)]
    for at_ten, verdict in ((-0.3839, Verdict.CANNOT_TELL), (-0.45, Verdict.AGREES)):
        part = row("starts", at_ten, metric="lppd_cumulative_chains", chains=10)
        rows = [row("chains", -0.3821, metric="lppd"), *larger, part]
        assert judged(tmp_path, rows, claimed(CLAIM, runs=runs)).verdict == verdict
    rows = [row("chains", -0.3821), *larger]
    other = CLAIM | {"metric": "rmse"}
    assert judged(tmp_path, rows, claimed(other, runs=runs)).verdict == Verdict.AGREES, "nothing is known of ten"


def test_levelling_off_is_tested_where_the_level_is_another(tmp_path: Path) -> None:
    """Warm starts level off with their number, too; what counts is whether their values are the chains'."""
    metric = "lppd_cumulative_chains"
    limits = {"relation": "alike", "published": None, "size": 0.01}
    claim = {"runs": ["chains"], "metric": metric, "chains": 10, "than": {"chains": 5}} | limits

    def rows(starts: float) -> list[Row]:
        values = {("chains", 5): 0.800, ("chains", 10): 0.805, ("starts", 5): starts, ("starts", 10): starts + 0.004}
        return [row(run, value, metric=metric, chains=chains) for (run, chains), value in values.items()]

    assert judged(tmp_path, rows(0.4), claimed(claim, runs=STARTS)).verdict == Verdict.HOLDS
    assert judged(tmp_path, rows(0.799), claimed(claim, runs=STARTS)).verdict == Verdict.CANNOT_TELL


def test_a_comparison_with_the_starts_themselves_is_a_test(tmp_path: Path) -> None:
    claim = GREATER | {"than": {"runs": ["starts"]}}
    assert judged(tmp_path, lppd(-0.3, -0.4), claimed(claim, runs=STARTS)).verdict == Verdict.HOLDS


def test_what_no_chain_enters_needs_no_chain(tmp_path: Path) -> None:
    """Least squares is the same for the run and for its warm starts, as it should be."""
    rows = [row(run, 0.66, metric="rmse_linear") for run in ("chains", "starts")]
    claim = {"runs": ["chains"], "metric": "rmse_linear", "published": printed(0.66), "size": 1e-6}
    found = judged(tmp_path, [*rows, *diagnosed("chains", 7.0)], claimed(claim, runs=STARTS))
    assert (found.verdict, found.trust) == (Verdict.AGREES, None)


def test_without_the_starts_nothing_is_known_of_them(tmp_path: Path) -> None:
    assert judged(tmp_path, lppd(-0.367, 0.0)[:1], claimed(CLAIM, runs=STARTS)).verdict == Verdict.AGREES
    rival = claimed(CLAIM | {"runs": ["rival"]}, runs=STARTS)
    assert judged(tmp_path, [row("rival", -0.367, metric="lppd")], rival).verdict == Verdict.AGREES


def test_agreement_with_an_unconverged_reference_cannot_be_told(tmp_path: Path) -> None:
    word = "reference not converged: ESS of the log posterior 4 (at least 100)"
    claim = {"runs": ["chains"], "metric": "agreement", "at": "hmc", "published": printed(0.94), "size": 0.05}
    for note, verdict in ((f"{word}; against hmc", Verdict.CANNOT_TELL), ("against hmc", Verdict.AGREES)):
        rows = [row("chains", 0.94, metric="agreement", at="hmc", note=note, standard_error=0.01)]
        found = judged(tmp_path, rows, claimed(claim, runs=STARTS))
        assert (found.verdict, found.reason) == (verdict, f"chains: {word}" if verdict != Verdict.AGREES else "")
        assert found.own is not None
        assert found.own.value == 0.94, "the number is kept, with that remark"


def test_claims_about_the_predictions_of_a_reference_need_it_to_have_converged(tmp_path: Path) -> None:
    word = "reference not converged: R-hat above 1.1 at 12.0% of function values (at most 5%)"
    runs = {"hmc": planned("hmc", chained=True, reference=True), "rival": planned("rival", chained=True)}
    accurate = {"runs": ["hmc"], "metric": "accuracy", "published": printed(0.9), "size": 0.05}
    better = GREATER | {"runs": ["rival"], "metric": "accuracy", "than": {"runs": ["hmc"]}}
    rhat = {"runs": ["hmc"], "metric": "rhat_function_max", "published": printed(1.5), "size": 0.1}
    for fit in (0.0, 1.0):
        rows = [row("hmc", 0.9, metric="accuracy", standard_error=0.01), row("hmc", 1.5, metric="rhat_function_max")]
        rows += [
            row("rival", 0.95, metric="accuracy", standard_error=0.01),
            row("rival", 0.0, metric="reference_fit", note=word),
        ]
        rows.append(row("hmc", fit, metric="reference_fit", note=f"{word}; scaled with all rows"))
        for claim in (accurate, better):
            found = judged(tmp_path, rows, claimed(claim, runs=runs))
            assert (found.verdict in HOLDS, found.reason) == (fit == 1, f"chains: {word}" if fit == 0 else "")
            assert bool(found.needed) == (fit == 0)
        of_chains = judged(tmp_path, rows, claimed(rhat, runs=runs))
        assert of_chains.verdict == Verdict.AGREES, "how the chains went is no matter of convergence"
        own = judged(tmp_path, rows, claimed(accurate | {"runs": ["rival"], "published": printed(0.95)}, runs=runs))
        assert own.verdict == Verdict.AGREES, "nobody is compared with this one"
        leaning = claimed(accurate | {"runs": ["rival"], "published": printed(0.95), "leans_on": ["rival"]}, runs=runs)
        assert judged(tmp_path, rows, leaning).verdict == Verdict.CANNOT_TELL, "the claim says that it leans on it"


NOISE = {"runs": ["rival"], "metric": "noise_sd", "published": printed(0.3), "size": 0.05}
ABOUT_NOISE = COMPARISON | {"runs": ["rival"], "metric": "noise_sd", "size": 0.05}


@pytest.mark.parametrize(
    ("claim", "problem", "optimal", "verdict"),
    [
        (NOISE | {"published": None, "value": 0.3}, "own", 0.3, Verdict.AGREES),
        (NOISE | {"published": None, "value": 0.3}, "own", 0.47, Verdict.CANNOT_TELL),
        (NOISE, "as_published", 0.47, Verdict.AGREES),
        (NOISE, "settings_unknown", 0.47, Verdict.CANNOT_TELL),
        (ABOUT_NOISE | {"than": {"metric": "noise_sd_optimal"}}, "own", 0.47, Verdict.HOLDS),
        (NOISE | {"metric": "lppd", "published": None, "value": 0.5}, "own", 0.47, Verdict.CANNOT_TELL),
        (NOISE | {"metric": "rmse", "published": None, "value": 0.5}, "own", 0.47, Verdict.AGREES),
    ],
)
def test_a_noise_that_its_fit_still_moves_is_not_tested(
    tmp_path: Path, claim: dict[str, Any], problem: str, optimal: float, verdict: Verdict
) -> None:
    """But for a number that was published for this very fit, and where the noise does not enter."""
    values = {"chains_excluded": 0.0, "noise_sd": 0.29, "noise_sd_optimal": optimal, "lppd": 0.5, "rmse": 0.5}
    rows = [row("rival", value, metric=metric, method="implicit") for metric, value in values.items()]
    found = judged(tmp_path, rows, claimed(claim, runs={"rival": planned("rival", problem=problem)}))
    assert found.verdict == verdict
    if verdict == Verdict.CANNOT_TELL:
        assert found.reason.startswith("the noise is 0.29 where 0.47 is optimal")


def test_a_claim_is_not_tested_where_that_which_has_to_hold_first_does_not(tmp_path: Path) -> None:
    for value, verdict in ((0.5, Verdict.AGREES), (0.9, Verdict.CANNOT_TELL)):
        rows = [row("single", value), row("rival", 0.5)]
        study = claimed({"runs": ["single"]}, {"runs": ["rival"], "given": "c0"}, runs={
            name: planned(name) for name in ("single", "rival")
        })  # fmt: skip
        found = judge("c1", study, table(tmp_path, rows))
        assert found.verdict == verdict
    assert found.reason == "c0, which has to hold first: differs"


def test_a_claim_about_the_bias_of_steps_needs_a_referee_that_has_mixed(tmp_path: Path) -> None:
    word = "the referee has not mixed and bounds nothing: R-hat 1.80 between its halves"
    shift = {"metric": "referee_log_likelihood_shift", "published": printed(1.9), "size": 0.5, "runs": ["chains"]}
    mixed = shift | {"metric": "referee_mixed", "published": printed(1), "size": 0.1}
    for value, note, verdict in ((0.0, f"1: yes, 0: no; {word}", "cannot tell"), (1.0, "1: yes, 0: no", "agrees")):
        rows = [row("chains", 2.0, metric="referee_log_likelihood_shift", note=note, standard_error=0.1)]
        rows.append(row("chains", value, metric="referee_mixed", note=note))
        found = judged(tmp_path, rows, claimed(shift, runs=STARTS))
        assert (found.verdict, found.reason) == (verdict, f"chains: {word}" if verdict == "cannot tell" else "")
        assert bool(found.needed) == (verdict == "cannot tell")
        assert judged(tmp_path, rows, claimed(mixed, runs=STARTS)).verdict == ("agrees" if value else "differs")
        other = claimed({"metric": "lppd", "published": printed(-0.3), "size": 0.1, "runs": ["chains"]}, runs=STARTS)
        assert judged(tmp_path, [*rows, row("chains", -0.3, metric="lppd")], other).verdict == "agrees"
    nothing = [
        row("chains", 2.0, metric="referee_lppd"),
        row("chains", np.nan, metric="referee_mixed", note="none left"),
    ]
    found = judged(tmp_path, nothing, claimed(shift | {"metric": "referee_lppd"}, runs=STARTS))
    assert (found.verdict, found.reason) == (Verdict.CANNOT_TELL, "chains: the referee has not mixed: none left")


def test_a_verdict_carries_the_worst_trust_of_its_runs(tmp_path: Path) -> None:
    rows = [row("chains", -0.3, metric="lppd"), row("rival", -0.4, metric="lppd")]
    rows += [*diagnosed("chains", 1.01), *diagnosed("rival", 7.0), *diagnosed("starts", 9.0)]
    found = judged(tmp_path, rows, claimed(GREATER | {"than": {"runs": ["rival"]}}, runs=STARTS))
    assert found.verdict == Verdict.HOLDS
    assert found.trust is not None
    assert found.trust.words == "do not trust: R-hat of function values up to 7.00"
    assert [r.trust for r in found.rows["value"]] == ["fine"]


def test_differences_on_the_same_rows_are_paired_by_row(tmp_path: Path) -> None:
    """Rows differ by nats and the runs by a tenth: their own errors say nothing, the paired one does."""
    rng = np.random.default_rng(0)
    hard, gap = 3 * rng.normal(size=40), 0.1 + 0.01 * rng.normal(size=40)
    files = {}
    for run, density in (("chains", hard + gap), ("rival", hard)):
        by_chain = np.array([density, density, np.full(40, np.nan)])
        divergent = np.array([False, False, True])
        path = tmp_path / f"{run}.npz"
        save_arrays(path, {"log_density_by_chain": by_chain, "divergent": divergent, "other": np.zeros(3)})
        files[f"small/{run}/split0"] = path
    values = {"chains": float((hard + gap).mean()), "rival": float(hard.mean())}
    table(tmp_path, [row(r, v, metric="lppd", chains=2, standard_error=0.5, over="rows") for r, v in values.items()])
    runs = {name: plan | {"chains": 2} for name, plan in STARTS.items()}
    study = claimed(GREATER | {"than": {"runs": ["rival"]}}, runs=runs)
    paired = Part("rows, paired", pytest.approx(gap.std(ddof=1) / np.sqrt(40)), 40)
    for given, part in ((files, paired), ({}, Part("rows, not paired", pytest.approx(np.hypot(0.5, 0.5)), 0))):
        (found,) = judge_all([study], {"small": tmp_path / "small.parquet"}, predictions=given)
        assert found.difference is not None
        assert found.parts == (part,), "as if independent where single rows are not known, which is too large"


def test_differences_of_accuracies_are_paired_by_row(tmp_path: Path) -> None:
    """Both are right at 30 of 40 rows, and one of them at five more."""
    rows, nothing = 40, np.empty(0, dtype=np.int64)
    right = {"chains": np.arange(rows) < 35, "rival": np.arange(rows) < 30}
    files = {}
    for run, correct in right.items():
        observed = np.where(correct, 0.7, 0.3)
        summary = PredictiveSummary(
            1, np.zeros(1, bool), np.zeros(1, bool), nothing, np.empty((1, 1, 0)), nothing, nothing,
            log_density_by_chain=np.log(observed)[None],
            probabilities_by_batch=np.stack([observed, 1 - observed], axis=1)[None, None], batch_stops=np.array([1]),
        )  # fmt: skip
        files[f"small/{run}/split0"] = tmp_path / f"{run}.npz"
        save(files[f"small/{run}/split0"], summary)
    values = {run: float(correct.mean()) for run, correct in right.items()}
    table(tmp_path, [row(run, v, metric="accuracy", chains=1, standard_error=0.07) for run, v in values.items()])
    runs = {name: plan | {"chains": 1} for name, plan in STARTS.items()}
    study = claimed(GREATER | {"metric": "accuracy", "than": {"runs": ["rival"]}}, runs=runs)
    (found,) = judge_all([study], {"small": tmp_path / "small.parquet"}, predictions=files)
    assert found.difference is not None
    differs = right["chains"] ^ right["rival"]
    assert found.difference.standard_error == pytest.approx(differs.std(ddof=1) / np.sqrt(rows))
    measured = Measured(None, predictions={key.partition("/")[2]: file for key, file in files.items()})
    other_set = [[of._replace(dataset="data/noise") for of in side] for side in found.rows.values()]
    assert difference(*other_set, study, measured).standard_error is None, "these are predictions for the test rows"


def test_errors_over_splits_are_corrected_for_the_rows_they_share(tmp_path: Path) -> None:
    study = claimed({"runs": ["single"], "size": 0.24}, runs={"single": planned("single", splits=2)})
    rows = [row("single", value, split=split) for split, value in enumerate((0.4, 0.6))]
    sizes = {"rows_test": 20.0, "rows_train": 80.0}
    rows += [row("single", n, split=s, metric=metric) for s in (0, 1) for metric, n in sizes.items()]
    own = judged(tmp_path, rows, study).own
    assert own is not None
    assert (own.over, own.standard_error) == ("splits", pytest.approx(np.sqrt(0.02 * (0.5 + 0.25))))
