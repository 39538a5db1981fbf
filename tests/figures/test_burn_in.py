from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.kinds.burn_in import AFTER, RUNNING, SINGLE, burn_in, burn_in_table
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.arrays import FunctionDraws, load_functions, save_functions
from tests.figures.shown import shown

DRAWS, ROWS, CLASSES = 20, 60, 3


def probabilities(seed: int = 0, learns_at: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities [C, S, n, k] of two chains that know nothing before a draw, and the labels [n]."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, ROWS)
    logits = rng.normal(size=(2, DRAWS, ROWS, CLASSES))
    logits[:, learns_at:, np.arange(ROWS), labels] += 1.5
    exp = np.exp(logits)
    return exp / exp.sum(axis=-1, keepdims=True), labels


def written(folder: Path, p: np.ndarray, labels: np.ndarray | None, **changes: object) -> Shown:
    file = folder / "functions.npz"
    chains, draws = p.shape[:2]
    functions = FunctionDraws(
        np.zeros((p.shape[2], 4)), np.arange(chains), np.arange(draws), np.zeros((chains, draws), bool),
        probabilities=p.astype(np.float32), y=labels,
    )  # fmt: skip
    save_functions(file, functions)
    return shown("hmc", {"functions": file}, task="classification", **changes)


def test_scores_are_those_of_the_averages(tmp_path: Path) -> None:
    p, labels = probabilities()
    table = (
        burn_in([written(tmp_path, p, labels)])
        .numbers.set_index(["average", "metric", "chain", "draw"])["value"]
        .sort_index()
    )
    of_label = np.take_along_axis(p, labels[None, None, :, None], axis=3)[..., 0]
    for average, draw, part in ((SINGLE, 8, slice(7, 8)), (RUNNING, 8, slice(0, 8)), (AFTER, 7, slice(7, 17))):
        accuracy = (p[1, part].mean(axis=0).argmax(axis=1) == labels).mean()
        lppd = np.log(of_label[1, part].mean(axis=0)).mean()
        assert table[average, "accuracy", 1, draw] == pytest.approx(accuracy)
        assert table[average, "lppd", 1, draw] == pytest.approx(lppd, rel=1e-5)
    draws = table[AFTER, "accuracy", 0].index
    assert (draws.min(), draws.max()) == (0, DRAWS // 2)


def test_dropped_transitions_are_counted(tmp_path: Path) -> None:
    p, labels = probabilities()
    table, remark = burn_in_table([written(tmp_path, p, labels, settings={"method": {"burn_in": 50}})])
    assert (table["draw"].min(), table["draw"].max()) == (50, 50 + DRAWS)
    assert remark == ""


def test_probabilities_of_zero_are_finite(tmp_path: Path) -> None:
    p, labels = probabilities()
    p[0, 3, 0] = np.eye(CLASSES)[(labels[0] + 1) % CLASSES]
    table, _ = burn_in_table([written(tmp_path, p, labels)])
    assert np.isfinite(table["value"]).all()


def test_regressions_have_an_error_instead_of_an_accuracy(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=ROWS)
    mean = (y + rng.normal(size=(1, DRAWS, ROWS))).astype(np.float32)
    file = tmp_path / "functions.npz"
    functions = FunctionDraws(
        np.zeros((ROWS, 1)), np.arange(1), np.arange(DRAWS), np.zeros((1, DRAWS), bool), mean=mean,
        scale=np.full_like(mean, 0.5), y=y,
    )  # fmt: skip
    save_functions(file, functions)
    table = (
        burn_in([shown("hmc", {"functions": file})])
        .numbers.set_index(["average", "metric", "draw"])["value"]
        .sort_index()
    )
    rmse = np.sqrt(np.mean((mean[0, :5].mean(axis=0) - y) ** 2))
    assert table[RUNNING, "rmse", 5] == pytest.approx(rmse, rel=1e-5)
    density = np.exp(-0.5 * ((y - mean[0, :5]) / 0.5) ** 2) / (0.5 * np.sqrt(2 * np.pi))
    assert table[RUNNING, "lppd", 5] == pytest.approx(np.log(density.mean(axis=0)).mean(), rel=1e-4)


def test_chains_that_are_not_finite_are_left_out_and_told_of(tmp_path: Path) -> None:
    p, labels = probabilities()
    one = written(tmp_path, p, labels)
    divergent = np.zeros((2, DRAWS), bool)
    divergent[0, 4] = True
    save_functions(one.files["functions"], load_functions(one.files["functions"])._replace(divergent=divergent))
    table, remark = burn_in_table([one])
    assert set(table["chain"]) == {1}
    assert remark == "1 of 2 chains not finite"


def test_what_has_no_course_is_refused(tmp_path: Path) -> None:
    p, labels = probabilities()
    with pytest.raises(ValueError, match="run hmc has 5 draws per chain; a course needs at least 10"):
        burn_in_table([written(tmp_path, p[:, :5], labels)])
