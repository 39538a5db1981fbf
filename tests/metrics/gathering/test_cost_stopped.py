"""What blocks cost that a rule ended at different draws."""

import json

import pytest

from bnn_atlas.metrics.gathering.cost import TimingError, read_cost


def write(path, chains, **sampling):
    phases = [{"name": "burn-in", "steps": 50, "seconds": 1.0}, {"name": "sampling", "seconds": 2.0} | sampling]
    content = {"phases": phases, "device": "cpu", "chains": chains, "gradients_per_step": 2.0}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_blocks_that_a_rule_ended_count_the_steps_that_they_took(tmp_path):
    paths = [
        write(tmp_path / "a.json", 2, steps=40, planned=100),
        write(tmp_path / "b.json", 3, steps=70, planned=100),
        write(tmp_path / "c.json", 1, steps=100),
    ]
    cost = read_cost(paths)
    assert (cost.sampling.steps, cost.sampling.further, cost.sampling.seconds) == (40, 3 * 30 + 60, 6.0)
    assert cost.gradients([cost.sampling]) == 2.0 * (2 * 40 + 3 * 70 + 100)
    assert cost.gradients(cost.phases) == 2.0 * (2 * 40 + 3 * 70 + 100 + 6 * 50)


def test_blocks_that_no_rule_ended_must_agree(tmp_path):
    paths = [write(tmp_path / "a.json", 2, steps=40), write(tmp_path / "b.json", 2, steps=70)]
    with pytest.raises(TimingError, match="delete the two folders"):
        read_cost(paths)
    paths[0] = write(tmp_path / "a.json", 2, steps=40, planned=90)
    with pytest.raises(TimingError, match="delete the two folders"):
        read_cost(paths)
