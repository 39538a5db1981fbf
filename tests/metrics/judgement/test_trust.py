"""Whether a run can be trusted, and whether it may serve as a reference."""

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.metrics.judgement import trust as judging
from bnn_atlas.metrics.judgement.checks import Check, Status, Thresholds, checks
from bnn_atlas.metrics.judgement.trust import UNCONVERGED, Trust, overall, reference_measurement, sentence
from bnn_atlas.metrics.tables.measurement import Measurement, Row

FINE, LOOK, DISTRUST, UNKNOWN = Status.FINE, Status.LOOK, Status.DISTRUST, Status.UNKNOWN
GOOD = {"chains_excluded": 0.0, "rhat_function_max": 1.02, "rhat_weight_max": 1.03, "ess_bulk_function_min": 900.0,
        "ess_tail_function_min": 800.0}  # fmt: skip


def rows_of(values, method="mclmc", run="one", split=0, dataset="data", **notes):
    return pd.DataFrame([
        Row("study", run, "demo", split, dataset, "mlp", method, 10, 100, metric, value, None, notes.get(metric, ""))
        for metric, value in values.items()
    ])  # fmt: skip


def found(values, method="hmc", **notes) -> dict[str, Check]:
    return {check.name: check for check in checks(rows_of(GOOD | values, method, **notes))}


def test_limits_belong_to_the_better_side():
    rising, falling = Thresholds(1.0, 2.0), Thresholds(2.0, 1.0, falling=True)
    after, before = np.nextafter(1.0, 9), np.nextafter(2.0, -9)
    assert [rising.status(v) for v in (0.5, 1.0, after, 2.0, np.nextafter(2.0, 9), np.inf)] == [
        FINE, FINE, LOOK, LOOK, DISTRUST, DISTRUST
    ]  # fmt: skip
    assert [falling.status(v) for v in (3.0, 2.0, before, 1.0, np.nextafter(1.0, -9), -np.inf)] == [
        FINE, FINE, LOOK, LOOK, DISTRUST, DISTRUST
    ]  # fmt: skip
    assert rising.status(float("nan")) is falling.status(float("nan")) is UNKNOWN


@pytest.mark.parametrize(("name", "metric", "statuses"), [
    ("convergence", "rhat_function_max", {1.05: FINE, 1.051: LOOK, 1.1: LOOK, 1.101: DISTRUST, np.inf: DISTRUST}),
    ("effective draws", "ess_bulk_function_min", {400.0: FINE, 399.9: LOOK, 100.0: LOOK, 99.9: DISTRUST}),
    ("effective draws", "ess_tail_function_min", {400.0: FINE, 399.9: LOOK, 99.9: DISTRUST}),
    ("log posterior", "rhat_log_posterior", {1.05: FINE, 1.06: LOOK, 1.2: DISTRUST}),
    ("log posterior", "ess_tail_log_posterior", {400.0: FINE, 150.0: LOOK, 9.0: DISTRUST}),
    ("noise", "rhat_noise_max", {1.05: FINE, 1.06: LOOK, 1.2: DISTRUST}),
    ("noise", "ess_bulk_noise_min", {400.0: FINE, 150.0: LOOK, 9.0: DISTRUST}),
    ("acceptance", "acceptance_chain_min", {0.4: FINE, 0.39: LOOK, 0.1: LOOK, 0.09: DISTRUST}),
    ("trajectories cut short", "cut_short_share", {0.0: FINE, 0.1: FINE, 0.11: LOOK, 1.0: LOOK}),
    ("excluded chains", "chains_excluded", {0.0: FINE, 1.0: LOOK, 2.0: DISTRUST, 10.0: DISTRUST}),
])  # fmt: skip
def test_each_check_at_its_limits(name, metric, statuses):
    for value, status in statuses.items():
        assert found({metric: value})[name].status is status, f"{metric} = {value}"


def test_the_words_are_those_a_person_reads():
    assert (
        found({})["convergence"].text == "R-hat of function values up to 1.02 (fine up to 1.05, do not trust above 1.1)"
    )
    bad = found({"chains_excluded": 3.0}, chains_excluded="3 of 10 chains excluded: 2 not finite, 1 never moved")
    assert bad["excluded chains"].text.startswith("3 of 10 chains excluded: 2 not finite, 1 never moved (any: look")
    cut = found({"cut_short_share": 0.92, "cut_short_share_chain_max": 1.0}, "nuts")["trajectories cut short"]
    assert cut.text.startswith("92% of trajectories ended at the largest tree depth or number of steps, 100% in a ")
    high = found({"rhat_weight_max": 4.0})["convergence"]
    assert "of weights 4.00, not judged" in high.text
    assert high.status is FINE, "weights are not judged"


def test_divergences_are_judged_by_their_share_where_it_is_known():
    def status(**values):
        return found({"divergences": 5.0, "divergences_chains": 2.0} | values)["divergences"]

    assert found({"divergences": 0.0, "divergences_chains": 0.0})["divergences"].status is FINE
    assert status(divergence_share=0.01).status is LOOK
    assert status(divergence_share=0.010001).status is DISTRUST
    assert status().status is LOOK
    assert "5 steps (0.5% of all) diverged, in 2 of 10 chains" in status(divergence_share=0.005).text
    assert "divergences" not in found({})


def test_energy_of_an_unadjusted_sampler():
    def check(variance, bias):
        values = {"energy_change_mean_square_per_dimension": variance, "covariance_bias_bound": bias}
        return found(values, method="mclmc")["energy error"]

    assert check(5e-4, 0.0516).status is FINE
    assert "correct to within 5.2%" in check(5e-4, 0.0516).text
    assert check(5.1e-4, 0.052).status is LOOK
    assert check(0.5, np.nan).status is LOOK
    assert "no bound on the bias is known" in check(0.5, np.nan).text
    assert check(0.51, np.nan).status is DISTRUST
    assert "energy error" not in found({"energy_change_mean_square_per_dimension": 3.0}), "a Metropolis test removes it"


def test_one_draw_or_one_chain_cannot_be_judged():
    nothing = {"rhat_function_max": np.nan, "ess_bulk_function_min": np.nan, "ess_tail_function_min": np.nan}
    note = "undefined: needs at least 4 draws; 1 of 10 chains excluded: 1 not finite"
    result = found(nothing, rhat_function_max=note)
    assert result["convergence"] == Check(
        "convergence", UNKNOWN, "R-hat of function values undefined: needs at least 4 draws"
    )
    assert "effective draws" not in result
    assert overall(list(result.values())) is UNKNOWN


def test_independent_draws_say_nothing_about_the_approximation():
    for method in ("mean_field", "laplace"):
        result = found({}, method=method)
        assert list(result) == ["excluded chains", "approximation"]
        assert overall(list(result.values())) is UNKNOWN


def test_a_noise_that_has_not_converged_is_no_fit():
    for noise, status in ((1.04, FINE), (0.94, LOOK), (1.14, LOOK), (0.84, DISTRUST), (np.nan, UNKNOWN)):
        values = {"noise_sd": noise, "noise_sd_optimal": 1.0}
        assert found(values, method="implicit")["noise of the fit"].status is status, noise
    assert "noise of the fit" not in found({"noise_sd": 0.3}, method="implicit")
    said = judging.trust(rows_of(GOOD | {"noise_sd": 0.29, "noise_sd_optimal": 0.47}, "implicit"))
    assert said == Trust(DISTRUST, "the noise is 0.29 where 0.47 is optimal for the functions of the fit")


def test_the_verdict_is_the_worst_of_all_checks():
    def line(*statuses):
        return sentence([Check(f"check {i}", status, "") for i, status in enumerate(statuses)])

    assert line(FINE, FINE) == "Nothing here speaks against this run."
    assert line(FINE, LOOK, LOOK) == "Look closer before you trust this run: check 1, check 2."
    assert line(LOOK, UNKNOWN) == "This run cannot be judged: check 1."
    assert line(LOOK, UNKNOWN, DISTRUST) == "Do not trust this run: check 2."


@pytest.mark.parametrize(
    "method", ["sgld", "sghmc", "sghmc_clr_prec", "sghmc_prec", "adaptive_sghmc", "unadjusted_hmc", "baoab"]
)
def test_draws_from_stochastic_gradients_or_without_the_test_are_never_simply_fine(method):
    good = found({}, method)
    assert good["bias"].status is LOOK
    assert "no Metropolis test" in good["bias"].text
    assert ("mini-batches" in good["bias"].text) == (method not in ("unadjusted_hmc", "baoab"))
    assert overall(list(good.values())) is LOOK
    assert "bias" not in found({}, "hmc")


def test_noise_that_does_not_mix_is_seen_where_functions_do():
    made = checks(rows_of(GOOD | {"rhat_noise_max": 1.8, "ess_bulk_noise_min": 12.0}))
    assert overall(made) is DISTRUST
    assert judging.trust(rows_of(GOOD | {"rhat_noise_max": 1.8})).words == "do not trust: noise: R-hat 1.80"
    assert judging.trust(rows_of(GOOD)).words == "fine"


@pytest.mark.parametrize(("bfmi", "status"), [(0.5, FINE), (0.3, FINE), (0.02, Status.LOOK)])
def test_little_information_in_the_energy_is_a_reason_to_look(bfmi, status):
    made = checks(rows_of(GOOD | {"bfmi_min": bfmi}, "nuts"))
    assert overall(made) is status
    assert f"BFMI as low as {bfmi:.2f}" in {check.name: check.text for check in made}["missing information"]
    assert "missing information" not in {check.name for check in checks(rows_of(GOOD, "mclmc"))}


def test_a_run_that_may_serve_as_a_reference_needs_a_look_at_most_by_what_the_rule_judges():
    """Its worst function value is beyond the limit; noise, divergences and excluded chains count as for any run."""
    wide = GOOD | {"rhat_function_max": 1.2, "ess_tail_function_min": 60.0, "ess_tail_log_posterior": 90.0}
    fit = wide | {"reference_fit": 1.0}
    assert (
        judging.trust(rows_of(wide)).status is judging.trust(rows_of(wide | {"reference_fit": 0.0})).status is DISTRUST
    )
    judged = judging.trust(rows_of(fit))
    assert judged.status is LOOK
    assert (
        judged.text == "R-hat of function values up to 1.20; ESS of function values as low as 60; log posterior: ESS 90"
    )
    assert sentence(checks(rows_of(fit))).startswith(
        "Look closer before you trust this run: convergence, effective draws"
    )
    for other in ({"rhat_noise_max": 1.8}, {"divergences": 9.0, "divergence_share": 0.02}, {"chains_excluded": 1.0}):
        assert judging.trust(rows_of(fit | other)).status is DISTRUST, other
    assert found(fit)["convergence"].text.endswith(
        "above 1.1; look closer, since the run passes the rule for references)"
    )


def test_trust_of_every_run_and_split_is_that_of_its_own_rows():
    bad = GOOD | {"rhat_function_max": 7.0}
    table = pd.concat([
        rows_of(GOOD, run="a"), rows_of(bad, run="a", split=1), rows_of({"rmse": 1.0}, run="b"),
        rows_of({"rhat_function_max": 9.0}, run="a", dataset="data/fog3"), rows_of(GOOD, "laplace", run="c"),
        rows_of({"chains_excluded": 0.0}, "deep_ensemble", run="d"),
        rows_of({"chains_excluded": 10.0}, "deep_ensemble", run="e"),
    ])  # fmt: skip
    found = judging.trusts(table)
    assert {key: one.status for key, one in found.items()} == {
        ("a", 0): FINE, ("a", 1): DISTRUST, ("b", 0): UNKNOWN, ("c", 0): UNKNOWN, ("d", 0): FINE, ("e", 0): DISTRUST,
    }  # fmt: skip
    assert found["a", 1].words == "do not trust: R-hat of function values up to 7.00"
    assert found["d", 0].words == judging.NO_CHAIN
    assert judging.worst(list(found.values())) == found["a", 1]
    assert judging.worst([found["a", 0], found["b", 0]]).status is UNKNOWN
    assert judging.worst([]) == Trust(UNKNOWN, "nothing was measured")


def test_the_mean_of_an_approximation_is_one_network_whose_weights_need_no_size():
    note = "5,000 parameters; draws from the prior have 1"
    rows = rows_of(GOOD | {"prior_shell": 0.01, "rows_train": 100.0}, "compact", prior_shell=note)
    assert judging.trust(rows).status is DISTRUST
    assert judging.trust(rows.assign(chains=1, draws=1)).words == judging.NO_CHAIN


def test_the_word_of_a_reference_is_found_in_a_note():
    word = f"{judging.UNCONVERGED}: ESS of the log posterior 4 (at least 100)"
    assert judging.reference_word(f"against hmc; {word}; scaled with all rows") == word
    assert judging.reference_word("against hmc; reference converged: acceptance 0.88") == ""


def test_reasons_are_short_and_whole():
    values = {"divergences": 2.0, "divergences_chains": 1.0, "divergence_share": 0.02, "rhat_weight_max": 9.0}
    bad = judging.trust(rows_of(GOOD | values | {"rhat_function_max": 1.4}, "nuts"))
    steps = "2 steps (2% of all) diverged, in 1 of 10 chains"
    assert bad.text == f"the fit diverged: {steps}; R-hat of function values up to 1.40"


ABOVE = "rhat_function_share_above"
ACCEPTED = {
    ABOVE: 0.05,
    "ess_bulk_log_posterior": 100.0,
    "acceptance_chain_min": 0.6,
    "acceptance_mean": 0.95,
    "prior_shell": 1.06,
    "prior_shell_shift": -3.0,
}


def judged(**changes: float | None) -> Measurement:
    values = {name: value for name, value in (ACCEPTED | changes).items() if value is not None}
    rows = [Measurement(name, value, at="1.1" if name == ABOVE else "") for name, value in values.items()]
    return reference_measurement([*rows, Measurement(ABOVE, 0.9, at="1.01")])


def test_a_run_at_all_limits_passes_with_its_numbers() -> None:
    found = judged()
    assert found.value == 1
    assert found.note == (
        "reference converged: R-hat above 1.1 at 5.0% of function values (at most 5%), ESS of the log posterior 100 "
        "(at least 100), acceptance 0.95, lowest 0.60 (from 0.6 to 0.95), theta^2 over the prior variance 1.060, "
        "changing by -3.0 standard errors (at most 3)"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({ABOVE: 0.051}, "R-hat above 1.1 at 5.1% of function values"),
        ({"ess_bulk_log_posterior": 99.0}, "ESS of the log posterior 99"),
        ({"acceptance_chain_min": 0.59}, "acceptance 0.95, lowest 0.59"),
        ({"acceptance_mean": 0.998}, "acceptance 1.00, lowest 0.60"),
        ({"prior_shell_shift": 3.1}, "changing by +3.1 standard errors"),
        ({"prior_shell_shift": -3.1}, "changing by -3.1 standard errors"),
        ({ABOVE: None}, "R-hat of function values not known (needs two chains)"),
        ({"ess_bulk_log_posterior": None}, "ESS of the log posterior not known"),
        ({"ess_bulk_log_posterior": float("nan")}, "ESS of the log posterior not known"),
    ],
)
def test_each_condition_alone_fails_it(changes: dict[str, float | None], said: str) -> None:
    found = judged(**changes)
    assert found.value == 0
    assert found.note.startswith(f"{UNCONVERGED}: ")
    assert said in found.note
    assert found.note.count(" (") <= 1, "what passes is not named among the reasons"
    assert "; " not in found.note, "notes are joined by it"


def test_what_a_run_does_not_have_does_not_count_against_it() -> None:
    without = judged(acceptance_chain_min=None, acceptance_mean=None, prior_shell=None, prior_shell_shift=None)
    assert without.value == 1
    assert "acceptance" not in without.note


@pytest.mark.parametrize(
    ("method", "shell", "note", "status"),
    [
        ("hmc", 1.09, "1,000 parameters; draws from the prior have 1", FINE),
        ("sghmc", 1.23, "1,000 parameters; draws from the prior have 1; rows are dependent", DISTRUST),
        ("mean_field", 0.003, "1,000 parameters; draws from the prior have 1", DISTRUST),
        ("deep_ensemble", 0.003, "1,000 parameters; draws from the prior have 1", FINE),
        ("hmc", 9.99, "1,000 parameters; draws from the prior have 10", FINE),
        ("hmc", 3.0, "999 parameters; draws from the prior have 1", None),
        ("hmc", 0.033, "1,000 parameters; draws from the prior have 0.03", None),
    ],
)
def test_theta_squared_is_held_against_every_method_where_the_prior_determines_it(method, shell, note, status):
    """There are 100 training rows; with fewer than ten parameters for each, the data may change it."""
    values = GOOD | {"prior_shell": shell, "rows_train": 100.0}
    rows = rows_of(values, method, prior_shell=note)
    words = judging.trust(rows).words
    assert ("theta^2 is" in words) == (status is DISTRUST)
    if method == "hmc":
        made = found({"prior_shell": shell, "rows_train": 100.0}, prior_shell=note).get(
            "theta^2 over the prior variance"
        )
        assert (made and made.status) is status


@pytest.mark.parametrize("method", ["hmc", "ivon", "map"])
def test_a_fit_that_diverged_is_never_trusted_whatever_its_method(method):
    for rmse, diverged in ((13.2, True), (1.9, False)):
        words = judging.trust(rows_of(GOOD | {"rmse": rmse}, method)).words
        assert words.startswith("do not trust: the fit diverged: an RMSE of 13.2") == diverged


@pytest.mark.parametrize(("value", "error", "status"), [
    (0.96, 0.001, FINE), (0.94, 0.03, FINE), (0.94, 0.01, LOOK), (3.0, None, LOOK), (float("nan"), None, UNKNOWN),
])  # fmt: skip
def test_a_temperature_beyond_errors_is_a_reason_to_look(value, error, status):
    """At T = 0.5 the same distance counts twice."""
    name = "effective_temperature"
    for aim in (1.0, 0.5):
        table = rows_of(GOOD | {name: value * aim}, "hmc", **{name: f"draws from the posterior have {aim:g}; thinned"})
        table["monte_carlo_error"] = error and error * aim
        check = next(check for check in checks(table) if check.name == "temperature")
        assert check.status is status
        assert f"of the posterior {aim:g} (" in check.text


@pytest.mark.parametrize(("shift", "status"), [(3.0, FINE), (-3.0, FINE), (3.1, LOOK), (-40.0, LOOK)])
def test_chains_that_still_move_at_their_end_are_a_reason_to_look(shift, status):
    check = found({"log_posterior_late_shift": shift})["last tenth"]
    assert check.status is status
    assert f"{shift:+.1f} standard errors" in check.text


CHANGES = [
    ("ivon", {"bound_late_change": (35.0, 4.0)}, LOOK, "the bound changes by +35 \N{PLUS-MINUS SIGN} 4 nats"),
    ("ivon", {"bound_late_change": (-35.0, 4.0)}, LOOK, "the bound changes by -35"),
    ("ivon", {"bound_late_change": (35.0, 12.0)}, FINE, ""),
    ("ivon", {"bound_late_change": (0.9, 0.01)}, FINE, ""),
    ("ivon", {"kl_late_change": (0.02, 0.001)}, LOOK, "the KL divergence from the prior changes by +0.02"),
    ("ivon", {"kl_late_change": (0.009, 0.001)}, FINE, ""),
    ("implicit", {"bound_late_change": (0.0, 1.0), "bound_gain": (-50.0, 9.0)}, DISTRUST,
     "the bound is 50 \N{PLUS-MINUS SIGN} 9 nats below that of the start"),
    ("implicit", {"bound_late_change": (0.0, 1.0), "bound_gain": (-50.0, 17.0)}, FINE, ""),
    ("deep_ensemble", {"loss_late_change": (-0.05, 0.01)}, LOOK, "the training loss changes by -0.05"),
    ("deep_ensemble", {"loss_late_change": (0.05, 0.01)}, LOOK, "the training loss changes by +0.05"),
    ("map", {"optimum_rise": (0.02, None)}, LOOK, "further steps raise the log posterior by 0.02 nats per row"),
    ("map", {"optimum_rise": (0.009, None)}, FINE, ""),
    ("laplace", {"newton_decrement": (1.2, None)}, LOOK, "the maximum is about 1.2 posterior standard deviations away"),
    ("laplace", {"newton_decrement": (0.9, None)}, FINE, ""),
    ("hmc", {"prior_shell_shift": (-3.1, None)}, LOOK, "theta^2 changes by -3.1 standard errors"),
    ("hmc", {"prior_shell_shift": (2.9, None), "log_posterior_late_shift": (2.9, None)}, FINE, ""),
]  # fmt: skip


def test_an_optimum_of_which_nothing_is_known_is_a_reason_to_look():
    for value in (0.001, np.nan):
        table = rows_of(GOOD | {"optimum_rise": value}, "map")
        table.loc[table["metric"] == "optimum_rise", "note"] = "not finite for 1 of 3 chains; chain 0, the worst of 2"
        (check,) = [check for check in checks(table) if check.name == "last tenth"]
        assert check.status is LOOK
        assert "`optimum_rise` is not finite for 1 of 3 chains (" in check.text


@pytest.mark.parametrize(("method", "values", "status", "words"), CHANGES)
def test_one_rule_says_of_every_method_what_still_moves(method, values, status, words):
    """Approximations stay without a judgement of their quality unless they ended below their start."""
    table = rows_of(GOOD | {name: value for name, (value, _) in values.items()}, method)
    errors = {name: error for name, (_, error) in values.items()}
    table["monte_carlo_error"] = table["metric"].map(errors).astype(float)
    (check,) = [check for check in checks(table) if check.name == "last tenth"]
    assert check.status is status
    trusted = judging.trust(table)
    if method in ("ivon", "implicit", "laplace"):
        assert trusted.status is (DISTRUST if status is DISTRUST else UNKNOWN)
    else:
        assert trusted.status is (status if method in ("deep_ensemble", "map") or status is LOOK else FINE)
    assert words in trusted.text
    assert words or "nats" not in trusted.text


@pytest.mark.parametrize(("change", "status"), [(-0.05, LOOK), (0.05, FINE)])
def test_a_loss_on_validation_rows_may_rise(change, status):
    """It ends the training, and the best epoch is kept."""
    values = GOOD | {"loss_late_change": change}
    table = rows_of(values, "deep_ensemble", loss_late_change="validation loss; last tenth of the epochs")
    (check,) = [check for check in checks(table) if check.name == "last tenth"]
    assert check.status is status
    assert check.text.startswith(f"the validation loss changes by {change:+}")
    assert "(fine within 3 errors or 0.01 nats per row; beyond them look closer" in check.text


@pytest.mark.parametrize(
    ("gap", "error", "far"), [(1.6, 0.5, True), (1.6, 0.6, False), (0.9, 0.1, False), (-9.0, 0.1, False)]
)
def test_a_bound_with_an_entropy_that_is_too_large_is_said_to_be_so(gap, error, far):
    """Beyond three errors and a nat; the quality of the fit is not judged either way."""
    table = rows_of(GOOD | {"linearisation_gap": gap}, "implicit")
    table["monte_carlo_error"] = error
    (check,) = [check for check in checks(table) if check.name == "linearised entropy"]
    assert check.status is (LOOK if far else FINE)
    trusted = judging.trust(table)
    assert trusted.status is UNKNOWN
    words = f"the bound may be too large by {gap:g} \N{PLUS-MINUS SIGN} {error:g} nats; draws are independent"
    assert (words in trusted.text) == far


@pytest.mark.parametrize(("change", "status"), [(0.1, FINE), (0.099, DISTRUST)])
def test_a_fit_that_learned_nothing_of_the_curvature_is_not_trusted(change, status):
    assert found({"curvature_change": change}, "ivon")["curvature"].status is status
    trusted = judging.trust(rows_of(GOOD | {"curvature_change": change}, "ivon"))
    assert trusted.status is (DISTRUST if status is DISTRUST else UNKNOWN)
    assert ("9.9% from that at its start" in trusted.text) == (status is DISTRUST)


@pytest.mark.parametrize(("share", "fit", "diverged"), [(0.011, 0.0, True), (0.009, 0.0, False), (0.011, 1.0, False)])
def test_chains_of_which_too_many_steps_diverged_have_diverged_unless_they_may_be_a_reference(share, fit, diverged):
    steps = {"divergences": 40.0, "divergence_share": share, "divergences_chains": 2.0, "reference_fit": fit}
    words = judging.trust(rows_of(GOOD | steps, "hmc")).words
    assert words.startswith("do not trust: the fit diverged: 40 steps") == diverged
    assert words.count("40 steps") == 1, "the reason is given once"


def test_the_worst_of_several_is_what_diverged():
    distrusted = Trust(DISTRUST, "R-hat of function values up to 1.8")
    gone = Trust(DISTRUST, "the fit diverged: an RMSE of 13.2")
    assert judging.worst([Trust(FINE, ""), distrusted, gone]) == gone
    assert judging.worst([distrusted, Trust(UNKNOWN, "not known")]) == distrusted
