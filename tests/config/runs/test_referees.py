"""Runs with a referee: which further run they make, and which are refused."""

from pathlib import Path
from typing import Any, get_args

import pytest

from bnn_atlas.config.checks.runs import Sources
from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.registry import METHODS, RefereeMethod
from bnn_atlas.config.parts.evaluation import EvaluationConfig
from bnn_atlas.config.runs.studies import Run, Scale, by_name
from tests.config.folders import HMC, RUN, refused, studies

SPLIT = RUN["split"] | {"validation_in_likelihood": False}
WITH = RUN | {"referee": HMC, "seed": 5}


def runs_of(folder: Path, run: dict[str, Any], scale: Scale = "paper") -> dict[str, Run]:
    return studies(folder, {"one": run}, scale)["small"].runs


def test_a_referee_is_a_run_of_its_own_from_the_last_draws(tmp_path: Path) -> None:
    changes = {"prior": {"kind": "normal", "scale": 2}, "stopping": {}, "split": SPLIT}
    loaded = studies(tmp_path, {"one": WITH | changes})
    run, referee = loaded["small"].runs.values()
    assert (run.name, run.referee, referee.name, referee.entry, referee.referee) == (
        "one", "one-referee", "one-referee", "one-referee", None,
    )  # fmt: skip
    assert Sources(loaded).of(referee) == run
    ours, theirs = run.config, referee.config
    assert theirs.start
    assert (theirs.start.run, theirs.start.draw) == ("one", "last")
    assert theirs.method == ours.referee
    assert theirs.method.kind == "hmc"
    assert theirs.posterior == ours.posterior
    assert (theirs.chains, theirs.split, theirs.dataset) == (ours.chains, ours.split, ours.dataset)
    assert theirs.warmstart is theirs.stopping is theirs.referee is None
    assert theirs.evaluate == EvaluationConfig()


def test_random_keys_of_a_run_and_its_referee_differ_on_every_split(tmp_path: Path) -> None:
    first, second = (runs_of(tmp_path, WITH | {"seed": seed}) for seed in (5, 6))
    seeds = [run.config.seed_of(split) for runs in (first, second) for run in runs.values() for split in (0, 1)]
    assert len(set(seeds)) == 8
    assert runs_of(tmp_path, WITH)["one-referee"].config.seed == first["one-referee"].config.seed


def test_each_run_of_a_grid_over_the_method_has_its_own(tmp_path: Path) -> None:
    grid = {"method": [{"energy_variance_end": 0.1}, {"energy_variance_end": 0.02}], "seed": [1, 2]}
    runs = runs_of(tmp_path, WITH | {"grid": grid})
    assert len(runs) == 8
    for run in runs.values():
        if run.referee:
            referee = runs[run.referee]
            assert (referee.point, referee.config.start and referee.config.start.run) == (run.point, run.name)
    assert [run.name for run in by_name(runs)["one-referee"]] == [name for name in runs if name.endswith("-referee")]


def test_a_scale_reduces_the_referee_and_says_so_of_it_alone(tmp_path: Path) -> None:
    scales = {"laptop": {"referee": {"steps": 7, "checkpoint_every": 1}, "chains": 2}}
    run, referee = runs_of(tmp_path, WITH | {"scales": scales}, "laptop").values()
    assert run.reductions == ("chains: 4 -> 2",)
    assert referee.reductions == ("method.steps: 100 -> 7", "one: chains: 4 -> 2")
    assert (referee.config.method.kind, referee.config.chains) == ("hmc", 2)


def test_referees_are_the_methods_with_a_metropolis_test() -> None:
    exact = {record for record in METHODS.values() if record.kind_of_draws is KindOfDraws.EXACT_CHAIN}
    assert set(get_args(get_args(RefereeMethod)[0])) == exact


def test_chains_of_mini_batches_have_a_referee_with_all_rows(tmp_path: Path) -> None:
    changes = {"method": {"kind": "smile", "batch_size": 50}, "referee": {"kind": "adjusted_mclmc", "step_size": 0.1}}
    run, referee = runs_of(tmp_path, RUN | changes).values()
    assert (run.config.method.kind, run.referee) == ("smile", referee.name)
    assert (referee.config.method.kind, referee.config.start and referee.config.start.run) == ("adjusted_mclmc", "one")
    assert not hasattr(referee.config.method, "batch_size")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"referee": {"kind": "sgld"}}, "referee.kind = 'sgld': allowed are 'adjusted_mclmc', 'hmc', 'nuts'"),
        ({"method": {"kind": "deep_ensemble"}}, "a chain of method.kind 'deep_ensemble' is one point: leave referee"),
        ({"referee": HMC | {"step_size": 2.0}}, "step_size (2.0) must not exceed trajectory_length"),
    ],
)
def test_what_is_no_referee_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with refused(message):
        runs_of(tmp_path, WITH | changes)


def test_a_figure_of_referees_needs_runs_that_have_one(tmp_path: Path) -> None:
    figure = {"draw": "step_size_bias", "runs": ["one"]}
    assert studies(tmp_path, {"one": WITH}, figures={"bias": figure})["small"].figures["bias"].runs == ("one",)
    with refused("'one' has no referee; give the run the section referee, or leave it out"):
        studies(tmp_path, {"one": RUN}, figures={"bias": figure})
    with refused("'one-referee' has no referee"):
        studies(tmp_path, {"one": WITH}, figures={"bias": figure | {"runs": ["one-referee"]}})
