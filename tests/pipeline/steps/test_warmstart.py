"""Warm starts from permuted copies of one member, written as the rule writes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.inference.problem import load_problem
from bnn_atlas.pipeline.steps.starts import warm_start

from .making import POSTERIOR, Run, make_run

pytestmark = pytest.mark.bits

NETWORK: dict[str, Any] = PosteriorConfig.model_validate(
    {**POSTERIOR, "model": {"kind": "mlp", "hidden": [6]}}
).model_dump(mode="json")
TRAINING = {"max_epochs": 3, "batch_size": 4, "patience": None}
MEMBER, SEED = 2, 7


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


def started(run: Run, path: Path, chains: list[int], **training: Any) -> dict[str, np.ndarray]:
    settings = {"posterior": NETWORK, "training": TRAINING | training, "members": chains, "seed": SEED}
    warm_start(run.dataset, run.split, path, **settings)
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def whole(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Four chains in one block."""
    return started(run, tmp_path_factory.mktemp("whole") / "block0.npz", [0, 1, 2, 3], permuted=MEMBER)


def test_every_chain_starts_from_a_copy_of_the_member(run: Run, whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    own = started(run, tmp_path / "own.npz", [MEMBER])
    assert whole["members"].tolist() == [0, 1, 2, 3], "chains keep their numbers"
    assert len(np.unique(whole["parameters"], axis=0)) == 4
    (member,) = own["parameters"]
    assert not np.any(np.all(whole["parameters"] == member, axis=1)), "the chain of the member's number is permuted too"
    problem = load_problem(run.dataset, run.split, NETWORK)
    expected = problem.posterior.predict(member[None], problem.split.x_test).log_probs
    found = problem.posterior.predict(whole["parameters"], problem.split.x_test).log_probs
    np.testing.assert_allclose(found, np.repeat(expected, 4, axis=0), rtol=0, atol=1e-5)
    for name in ("train_loss", "validation_loss", "best_epoch"):
        np.testing.assert_array_equal(whole[name], np.repeat(own[name], 4, axis=0))


def test_blocks_change_no_bit(run: Run, whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    part = started(run, tmp_path / "part.npz", [3, 1], permuted=MEMBER)
    assert part["parameters"].tobytes() == whole["parameters"][[3, 1]].tobytes()


def test_networks_are_trained_again_only_from_something_else(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "start.npz"
    started(run, path, [0, 1])
    first = path.stat().st_ino
    started(run, path, [0, 1])
    assert path.stat().st_ino == first
    started(run, path, [0, 1], max_epochs=4)
    assert path.stat().st_ino != first


def test_networks_are_drawn_as_the_run_says(run: Run, tmp_path: Path) -> None:
    """In a file of the same form, and again for another scale."""
    settings = {"posterior": NETWORK, "training": None, "members": [3, 5], "seed": SEED}
    path, found = tmp_path / "start.npz", []
    for scale in (0.1, 0.2):
        warm_start(run.dataset, run.split, path, initial={"distribution": "normal", "scale": scale}, **settings)
        with np.load(path, allow_pickle=False) as arrays:
            assert arrays["members"].tolist() == [3, 5]
            found.append(arrays["parameters"])
    assert found[0].std() == pytest.approx(0.1, rel=0.1)
    np.testing.assert_allclose(found[1], 2 * found[0], rtol=1e-6)
