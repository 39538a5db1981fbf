"""Directions that change a relu network and that do not."""

from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.sampling_perspective.relu_units import (
    flat_likelihood,
    jacobian,
    jacobian_kernel,
    projections,
    sensitivities,
)
from bnn_atlas.figures.shown import Shown
from tests.figures.shown import shown
from tests.figures.subset_files import write_subset
from tests.figures.synthetic_functions import changed, functions_on_rows

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


def test_the_second_chain_is_drawn_where_there_is_one(tmp_path: Path) -> None:
    run = network(tmp_path, [[9.0] * 4, [1.0, -0.5, 0.8, 1.1]])
    figure, table, *_ = jacobian_kernel([run])
    assert figure.axes[1].viewLim.bounds == figure.axes[2].viewLim.bounds, "so that their spreads can be compared"
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
    with pytest.raises(ValueError, match="has one hidden unit; the figure needs two or more"):
        jacobian_kernel([run._replace(hidden=(1,))])


ROWS = np.linspace(-2, 2, 400)[:, None]


def units(folder: Path, weights: np.ndarray, biases: np.ndarray, label: str = "1-3-1") -> Shown:
    """A run whose chain 0 has these weights [s, m, 1] and biases [s, m]; chain 1 has others, which are not shown."""
    width = weights.shape[1]
    names = [*(f"layer0.weight[{i},0]" for i in range(width)), *(f"layer0.bias[{i}]" for i in range(width))]
    values = np.concatenate([weights[:, :, 0], biases], axis=1)
    files = {
        "subset": write_subset(folder / f"{label}.parquet", names, np.stack([values, -3 * values])),
        "functions": functions_on_rows(folder / f"{label}.npz", chains=1, draws=1),
    }
    return changed(shown(label, files, hidden=(width,)), train_x=ROWS)


def test_sensitivity_is_the_least_change_of_the_function_within_a_group() -> None:
    """Two units that turn on at nearly the same place, and one for negative inputs."""
    weights, biases = np.array([[2.0], [0.5], [-1.0]]), np.array([1.0, 0.2, -0.5])
    ((size, found),) = sensitivities(ROWS, weights, biases)
    scaled = np.maximum(ROWS * weights[:2, 0] + biases[:2], 0) / np.hypot(weights[:2, 0], biases[:2])
    assert size == 2
    assert found == pytest.approx(np.linalg.norm(scaled @ [1, -1]) / np.sqrt(2))


def test_three_units_against_a_search_over_directions() -> None:
    weights, biases = np.array([[1.0], [1.0], [1.0]]), np.array([0.5, 0.6, 0.8])
    ((size, found),) = sensitivities(ROWS, weights, biases)
    a = np.maximum(ROWS + biases, 0) / np.sqrt(1 + biases**2)
    angles = np.linspace(0, np.pi, 20_000)
    basis = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ basis
    assert size == 3
    assert found == pytest.approx(np.linalg.norm(a @ directions.T, axis=0).min(), rel=1e-4)


def test_scales_of_relu_units_do_not_matter_and_silent_or_unlike_ones_are_in_no_group() -> None:
    weights, biases = np.array([[1.0], [1.0]]), np.array([0.1, 0.4])
    factors = np.array([7.0, 0.01])
    assert sensitivities(ROWS, factors[:, None] * weights, factors * biases)[0][1] == pytest.approx(
        sensitivities(ROWS, weights, biases)[0][1]
    )
    assert sensitivities(ROWS, np.array([[1.0], [-1.0]]), np.zeros(2)) == []
    assert sensitivities(ROWS, np.array([[1.0], [1e-30], [0.0]]), np.array([0.0, -1.0, 2.0])) == []
    assert len(sensitivities(ROWS, np.array([[0.0], [1.0], [1.0]]), np.array([-1.0, 0.1, 0.4]))) == 1


def test_numbers_of_each_draw(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights, biases = random.normal(1, 0.1, (30, 3, 1)), random.normal(0.3, 0.1, (30, 3))
    alike, unlike = units(tmp_path, weights, biases), units(tmp_path, weights * [[1], [-1], [1]], -biases * 9, "b")
    unlike = unlike._replace(hidden=(3,))
    table = flat_likelihood([alike, unlike]).numbers
    first = table[table["run"] == "1-3-1"]
    assert first["draw"].tolist() == list(range(30))
    assert (first["units"] == 3).all()
    expected = [sensitivities(ROWS, w, b)[0][1] for w, b in zip(weights, biases, strict=True)]
    np.testing.assert_allclose(first["sensitivity"], expected)


def test_networks_without_alike_units_are_refused(tmp_path: Path) -> None:
    run = units(tmp_path, np.ones((5, 2, 1)), np.ones((5, 2)))
    with pytest.raises(ValueError, match="hold no training rows"):
        flat_likelihood([changed(run, train_x=None, train_y=None)])
