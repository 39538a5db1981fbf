"""What a run cost, also where a rule ended its blocks at different draws."""

import json

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.metrics.gathering.cost import (
    RATED,
    Cost,
    Phase,
    TimingError,
    gradient_measurements,
    read_cost,
    time_measurements,
)
from bnn_atlas.metrics.tables.measurement import Measurement

PHASES = [{"name": "burn-in", "steps": 500, "seconds": 12.5}, {"name": "sampling", "steps": 1000, "seconds": 20.0}]
COST = Cost((Phase("burn-in", 500, 12.5), Phase("sampling", 1000, 20.0)), 10, 2.0, ("cpu x86_64",), 1)
ESS = [Measurement(name, 10.0 * (place + 1)) for place, name in enumerate(RATED)]


def write(path, **changes):
    path.parent.mkdir(exist_ok=True)
    content = {"phases": PHASES, "device": "cpu x86_64", "chains": 10, "gradients_per_step": 2.0} | changes
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def counted(values):
    return pd.DataFrame({"gradients": np.array(values, dtype=float)})


def test_one_block_is_read_as_it_is(tmp_path):
    cost = read_cost([write(tmp_path / "timing.json")])
    assert cost._replace(courses={}) == COST
    assert (cost.seconds, cost.sampling.seconds) == (32.5, 20.0)
    assert cost.note == "wall time on cpu x86_64"


def test_blocks_add_up(tmp_path):
    first = write(tmp_path / "a" / "timing.json")
    other = [PHASES[0] | {"seconds": 0.5}, PHASES[1] | {"seconds": 1.0}]
    second = write(tmp_path / "b" / "timing.json", phases=other, chains=5, device="gpu H100")
    cost = read_cost([first, second])
    assert [phase.seconds for phase in cost.phases] == [13.0, 21.0]
    assert [phase.steps for phase in cost.phases] == [500, 1000]
    assert cost.chains == 15
    assert cost.note == "wall time on cpu x86_64 and gpu H100, sum over 2 blocks"
    assert cost.gradients([cost.sampling]) == 2.0 * 15 * 1000


def test_courses_are_of_all_chains_in_the_order_of_the_blocks(tmp_path):
    first = write(tmp_path / "a" / "timing.json", courses={"elbo": [[1.0, 2.0]], "kl": [[3.0, float("nan")]]})
    second = write(tmp_path / "b" / "timing.json", courses={"elbo": [[5.0, 6.0]]})
    courses = read_cost([first, second]).courses
    assert set(courses) == {"elbo"}, "of what all blocks have"
    np.testing.assert_array_equal(courses["elbo"], [[1, 2], [5, 6]])
    assert not read_cost([write(tmp_path / "timing.json")]).courses


def test_a_missing_file_means_unknown(tmp_path):
    assert read_cost([]) is None
    assert read_cost([write(tmp_path / "timing.json"), tmp_path / "none" / "timing.json"]) is None


@pytest.mark.parametrize("changes", [
    {"phases": []}, {"phases": [PHASES[0] | {"seconds": -1.0}]}, {"phases": [{"name": "x"}]}, {"chains": 0},
    {"gradients_per_step": float("nan")}, {"device": 3},
])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, changes):
    with pytest.raises(TimingError, match=r"timing\.json: not a timing file"):
        read_cost([write(tmp_path / "timing.json", **changes)])


def test_a_truncated_file_and_blocks_of_different_plans_are_refused(tmp_path):
    whole = write(tmp_path / "a" / "timing.json")
    other = write(tmp_path / "b" / "timing.json", phases=PHASES[1:])
    with pytest.raises(TimingError, match=r"b/timing\.json: phases .* in .*a/timing\.json"):
        read_cost([whole, other])
    whole.write_text(whole.read_text()[:40])
    with pytest.raises(TimingError, match=r"delete the folder .* and call snakemake again"):
        read_cost([whole])


def test_effective_draws_per_gradient_by_hand():
    rows = {row.metric: row for row in gradient_measurements(ESS, counted([np.nan] * 10), COST, None)}
    assert rows["gradients_sampling"].value == 2 * 10 * 1000
    assert rows["gradients_total"].value == 2 * 10 * 1500
    assert rows["ess_bulk_weight_min_per_gradient"].value == 10.0 / 20_000
    assert rows["ess_bulk_function_median_per_gradient"].value == 50.0 / 20_000
    assert rows["ess_bulk_function_median_per_gradient_total"].value == 50.0 / 30_000
    assert "full data" in rows["ess_bulk_weight_min_per_gradient"].note
    assert len(rows) == 2 + 2 * len(RATED)


def test_gradients_that_the_trace_counted_come_first():
    per_chain = counted([100.0] * 10)
    rows = {row.metric: row for row in gradient_measurements(ESS, per_chain, COST, None)}
    assert rows["gradients_sampling"].value == 1000
    assert rows["gradients_total"].value == 1000 + 2 * 10 * 500
    without = {row.metric: row for row in gradient_measurements(ESS, per_chain, None, None)}
    assert without["gradients_sampling"].value == 1000
    assert not any("total" in metric for metric in without)
    unknown = COST._replace(gradients_per_step=None)
    assert "gradients_total" not in {row.metric for row in gradient_measurements(ESS, per_chain, unknown, None)}
    alone = unknown._replace(phases=COST.phases[1:])
    total = {row.metric: row.value for row in gradient_measurements(ESS, per_chain, alone, None)}
    assert total["gradients_total"] == 1000, "without another phase, everything is the sampling"


def test_gradients_that_the_warm_up_counted_come_first(tmp_path):
    """Of two blocks; a block that did not count leaves those of the phase unknown."""
    phases = [PHASES[0] | {"gradients": 700}, PHASES[1]]
    first = write(tmp_path / "a" / "timing.json", phases=phases, gradients_per_step=None)
    second = write(tmp_path / "b" / "timing.json", phases=phases, gradients_per_step=None)
    cost = read_cost([first, second])
    rows = {row.metric: row.value for row in gradient_measurements(ESS, counted([100.0] * 20), cost, None)}
    assert rows["gradients_total"] == 2000 + 1400
    write(second, gradients_per_step=None)
    metrics = {
        row.metric for row in gradient_measurements(ESS, counted([100.0] * 20), read_cost([first, second]), None)
    }
    assert metrics.isdisjoint({"gradients_total"})


def test_nothing_is_said_where_gradients_are_unknown():
    assert gradient_measurements(ESS, counted([np.nan]), None, None) == []
    assert gradient_measurements(ESS, counted([np.nan]), COST._replace(gradients_per_step=None), None) == []


def test_mini_batches_are_named():
    rows = gradient_measurements(ESS, counted([np.nan] * 10), COST, 80)
    assert all("mini-batches of 80 rows" in row.note for row in rows)


def test_effective_draws_per_second_by_hand():
    found = time_measurements(ESS, 20_000.0, COST)
    assert {row.at: row.value for row in found if row.metric == "seconds_phase"} == {"burn-in": 12.5, "sampling": 20.0}
    rows = {row.metric: row for row in found}
    assert (rows["seconds_sampling"].value, rows["seconds_total"].value) == (20.0, 32.5)
    assert rows["gradients_per_second"].value == 1000.0
    assert rows["ess_tail_function_min_per_second"].value == 60.0 / 20
    assert rows["ess_tail_function_min_per_second_total"].value == 60.0 / 32.5
    assert {row.chains for name, row in rows.items() if name.startswith("seconds")} == {10}
    assert time_measurements(ESS, 20_000.0, None) == []


def test_undefined_effective_draws_and_phases_without_time_have_no_rate():
    undefined = [Measurement(name, float("nan")) for name in RATED]
    assert {row.metric for row in gradient_measurements(undefined, counted([5.0]), COST, None)} == {
        "gradients_sampling", "gradients_total"
    }  # fmt: skip
    instant = COST._replace(phases=(COST.phases[0], Phase("sampling", 1, 0.0)))
    metrics = {row.metric for row in time_measurements(ESS, 10.0, instant)}
    assert not any(metric.endswith("per_second") for metric in metrics)
    assert "ess_bulk_weight_min_per_second_total" in metrics


def write_stopped(path, chains, **sampling):
    phases = [{"name": "burn-in", "steps": 50, "seconds": 1.0}, {"name": "sampling", "seconds": 2.0} | sampling]
    content = {"phases": phases, "device": "cpu", "chains": chains, "gradients_per_step": 2.0}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_blocks_that_a_rule_ended_count_the_steps_that_they_took(tmp_path):
    paths = [
        write_stopped(tmp_path / "a.json", 2, steps=40, planned=100),
        write_stopped(tmp_path / "b.json", 3, steps=70, planned=100),
        write_stopped(tmp_path / "c.json", 1, steps=100),
    ]
    cost = read_cost(paths)
    assert (cost.sampling.steps, cost.sampling.further, cost.sampling.seconds) == (40, 3 * 30 + 60, 6.0)
    assert cost.gradients([cost.sampling]) == 2.0 * (2 * 40 + 3 * 70 + 100)
    assert cost.gradients(cost.phases) == 2.0 * (2 * 40 + 3 * 70 + 100 + 6 * 50)


def test_blocks_that_no_rule_ended_must_agree(tmp_path):
    paths = [write_stopped(tmp_path / "a.json", 2, steps=40), write_stopped(tmp_path / "b.json", 2, steps=70)]
    with pytest.raises(TimingError, match="delete the folders"):
        read_cost(paths)
    paths[0] = write_stopped(tmp_path / "a.json", 2, steps=40, planned=90)
    with pytest.raises(TimingError, match="delete the folders"):
        read_cost(paths)
