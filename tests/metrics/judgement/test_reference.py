"""The rule for references: each condition alone decides, and conditions that a run cannot be held against do not."""

import pytest

from bnn_atlas.metrics.judgement.reference import reference_measurement
from bnn_atlas.metrics.judgement.trust import UNCONVERGED
from bnn_atlas.metrics.tables.measurement import Measurement

ABOVE = "rhat_function_share_above"
GOOD = {
    ABOVE: 0.05,
    "ess_bulk_log_posterior": 100.0,
    "acceptance_chain_min": 0.6,
    "acceptance_mean": 0.95,
    "prior_shell": 1.06,
    "prior_shell_shift": -3.0,
}


def judged(**changes: float | None) -> Measurement:
    values = {name: value for name, value in (GOOD | changes).items() if value is not None}
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
