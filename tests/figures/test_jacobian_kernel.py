from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.sampling_perspective.jacobian_kernel import jacobian, jacobian_kernel, projections
from bnn_atlas.figures.shown import Shown
from tests.figures.conftest import Drawn
from tests.figures.shown import shown
from tests.figures.subset_files import write_subset
from tests.figures.synthetic_functions import changed, functions_on_rows

Outputs = Callable[[str], FigureOutputs]
NAMES = ["layer0.weight[0,0]", "layer0.weight[1,0]", "layer1.weight[0,0]", "layer1.weight[0,1]"]
X = np.linspace(-3, 3, 50)


def network(folder: Path, means: list[list[float]], draws: int = 200) -> Shown:
    """Chains that wander around these means."""
    values = np.array(means)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(len(means), draws, 4))
    files = {
        "subset": write_subset(folder / "draws.parquet", NAMES, values),
        "functions": functions_on_rows(folder / "functions.npz", chains=1, draws=1),
    }
    return changed(shown(files=files, hidden=(2,)), train_x=X[:, None])


def test_jacobian_is_the_slope_of_the_function() -> None:
    theta, step = np.array([1.2, -0.7, 0.4, 2.0]), 1e-6

    def function(theta: np.ndarray) -> np.ndarray:
        return np.maximum(np.outer(X, theta[:2]), 0) @ theta[2:]

    numeric = [(function(theta + e) - function(theta - e)) / (2 * step) for e in step * np.eye(4)]
    np.testing.assert_allclose(jacobian(theta, X), np.transpose(numeric), atol=1e-8)


@pytest.mark.parametrize(("theta", "rank"), [([1.0, 0.5, 0.8, 1.1], 1), ([1.0, -0.5, 0.8, 1.1], 2)])
def test_units_of_one_sign_leave_one_direction_that_changes_the_function(theta: list[float], rank: int) -> None:
    slopes = jacobian(np.array(theta), X)
    draws = np.random.default_rng(1).normal(size=(30, 4))
    image, kernel, found = projections(draws, slopes)
    assert found == rank
    np.testing.assert_allclose(image + kernel, draws - draws.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(slopes @ kernel.T, 0, atol=1e-10)
    np.testing.assert_allclose(np.linalg.matrix_rank(image), rank)


def test_the_second_chain_is_drawn_where_there_is_one(drawn: Drawn, tmp_path: Path) -> None:
    run = network(tmp_path, [[9.0] * 4, [1.0, -0.5, 0.8, 1.1]])
    table = drawn(jacobian_kernel, [run])
    draws, image, kernel = (part[["x", "y"]].to_numpy() for _, part in table.groupby("panel", sort=False))
    assert list(dict.fromkeys(table["panel"]))[1] == "image (rank 2)"
    np.testing.assert_allclose(draws.mean(axis=0), [1.0, 0.8], atol=0.05)
    for part in (image, kernel):
        np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-6)
    assert jacobian_kernel([network(tmp_path, [[9.0] * 4])]).numbers.groupby("panel", sort=False)["x"].mean().iloc[
        0
    ] == pytest.approx(9, abs=0.1)


def test_other_networks_are_refused(tmp_path: Path) -> None:
    run = network(tmp_path, [[1.0] * 4])
    for hidden in ((2, 2), (1,)):
        with pytest.raises(ValueError, match="one of two units"):
            jacobian_kernel([run._replace(hidden=hidden)])
    with pytest.raises(ValueError, match="a table with one input"):
        jacobian_kernel([changed(run, train_x=np.ones((5, 2)))])
