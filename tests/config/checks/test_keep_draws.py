"""Runs that keep no draws, and what needs their draws."""

from pathlib import Path
from typing import Any

import pytest

from tests.config.folders import HMC, RUN, refused, studies

NONE = {"keep_draws": "none"}
REDUCED = RUN | NONE
VALIDATED = {"split": {"test": 0.2, "validation": 0.1, "validation_in_likelihood": False}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": {"kind": "deep_ensemble"}}, "method.kind 'deep_ensemble' runs no Markov chains: choose another"),
        ({"chains": 1}, "one chain: set chains to at least 2, or keep_draws: all"),
        ({"stopping": {}} | VALIDATED, "a stopping rule reads all draws: leave stopping out, or keep_draws: all"),
        ({"referee": HMC}, "a referee continues from the last draws"),
        ({"evaluate": {"barriers": {}}}, "evaluate.barriers are between draws"),
        ({"data_shards": 2}, "its data are shared by several devices"),
        ({"keep_draws": {"every": 0}}, "keep_draws"),
        ({"keep_draws": "some"}, "keep_draws"),
    ],
    ids=str,
)
def test_a_run_that_needs_its_draws(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with refused(message):
        studies(tmp_path, {"one": REDUCED | changes})


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ({"draw": "fireball", "grid": {"bins": 50}}, "before its quantiles are known; give a limit"),
        ({"draw": "fireball", "grid": {"bins": 50, "limit": 4}}, None),
        ({"draw": "marginal_densities", "subset": {"roles": ["weight"]}}, None),
        (
            {"draw": "wasserstein", "functions": {"inputs": "test", "chains": 1, "draws": 5}},
            "'one' keeps no draws for functions; set its keep_draws: all, or leave the run out",
        ),
    ],
    ids=str,
)
def test_figures_of_such_a_run(figure: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    figures = {"shown": figure | {"runs": ["one"]}}
    if message is None:
        assert studies(tmp_path, {"one": REDUCED}, figures=figures)["small"].runs["one"].config.reduces_draws
        return
    with refused("figures.shown", message):
        studies(tmp_path, {"one": REDUCED}, figures=figures)


def test_a_run_that_starts_from_its_draws(tmp_path: Path) -> None:
    after = RUN | {"start": {"run": "one"}, "warmstart": None}
    with refused("runs.after.start.run = 'one'", "it keeps no draws to start from; set its keep_draws: all"):
        studies(tmp_path, {"one": REDUCED, "after": after})
    studies(tmp_path, {"one": REDUCED, "after": after | {"start": {"run": "one", "draw": "start"}}})


def test_what_stays_on_disk_is_no_reduction_of_the_paper_s_setting(tmp_path: Path) -> None:
    laptop = {"laptop": {"keep_draws": "all", "chains": 2}}
    run = studies(tmp_path, {"one": REDUCED | {"scales": laptop}}, "laptop")["small"].runs["one"]
    assert run.reductions == ("chains: 4 -> 2",)
    assert "keep_draws" not in run.config.model_dump()
