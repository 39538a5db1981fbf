from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures.kinds.posterior_surface import floor_below, posterior_surface
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.arrays import SurfaceError, Surfaces, load_surfaces, save_surfaces
from tests.figures.shown import shown

TEMPERATURE = 0.5
LABELS = ["chain 0, draw 0", "chain 1, draw 9", "sgd, chain 0"]


def surfaces(planes: int = 2, n: int = 9) -> Surfaces:
    """A likelihood with a ridge through the points, and a prior around the origin of the plane."""
    points = np.array([[[0.0, 0.0], [4.0, 0.0], [1.0 + i, 3.0]] for i in range(planes)])
    x, y = (np.tile(np.linspace(low, high, n), (planes, 1)) for low, high in ((-1, 5), (-0.75, 3.75)))

    def likelihood(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(-100 - 40 * (x + y - 2) ** 2)

    def prior(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(-300 - 3 * (x - 2) ** 2 - 3 * y**2)

    grid = x[:, None, :], y[:, :, None]
    return Surfaces(
        np.array([f"plane {i}" for i in range(planes)]), x, y, likelihood(*grid), prior(*grid),
        np.array([LABELS] * planes), points, likelihood(*points.T).T, prior(*points.T).T, np.array(TEMPERATURE),
    )  # fmt: skip


def runs(path: Path, made: Surfaces, splits: int = 1) -> list[Shown]:
    save_surfaces(path / "s.npz", made)
    return [shown("hmc", {"surface": path / "s.npz"}, split=split) for split in range(splits)]


def test_the_table_has_what_is_drawn(tmp_path: Path) -> None:
    made = surfaces()
    table = posterior_surface(runs(tmp_path, made)).numbers.fillna("")
    assert table.groupby(["plane", "kind"]).size().to_dict() == {
        (f"plane {i}", kind): rows for i in range(2) for kind, rows in (("grid", 81), ("point", 3))
    }
    second = table[table["plane"] == "plane 1"]
    grid = second[second["kind"] == "grid"]
    np.testing.assert_allclose(grid["log_likelihood"], made.log_likelihood[1].ravel() / TEMPERATURE, rtol=1e-5)
    np.testing.assert_allclose(grid["log_posterior"], grid["log_likelihood"] + grid["log_prior"], rtol=1e-5)
    np.testing.assert_allclose(grid["x"].to_numpy().reshape(9, 9)[3], made.x[1], rtol=1e-5)
    np.testing.assert_allclose(grid["y"].to_numpy().reshape(9, 9)[:, 3], made.y[1], rtol=1e-5)
    points = second[second["kind"] == "point"]
    assert points["label"].tolist() == LABELS
    np.testing.assert_allclose(points[["x", "y"]], made.points[1])
    np.testing.assert_allclose(points["log_prior"], made.point_log_prior[1] / TEMPERATURE)


def test_colours_end_at_twice_the_lowest_point_or_the_median() -> None:
    values = -np.arange(101.0).reshape(1, -1)
    assert floor_below(values, np.array([0, -30, -10])) == 60
    assert floor_below(values, np.array([0, -10, -10])) == 50, "half of the plane has colours"
    assert floor_below(values, np.array([0, -80, -10])) == 100, "not below the lowest value"
    assert floor_below(values, np.array([20, 0, 0])) == 70, "a point may be higher than the grid"
    assert floor_below(np.full((2, 2), 3.0), np.full(3, 3.0)) == 1, "a flat density has a scale, too"


def test_densities_that_are_not_finite_are_drawn_as_lowest(tmp_path: Path) -> None:
    made = surfaces(1)
    made.log_likelihood[0, 0, :3] = [-np.inf, np.nan, np.inf]
    made.point_log_prior[0, 1] = -np.inf
    assert floor_below(made.log_likelihood[0], made.point_log_likelihood[0]) > 0
    posterior_surface(runs(tmp_path, made))
    nowhere = made._replace(log_likelihood=np.full_like(made.log_likelihood, -np.inf))
    with pytest.raises(ValueError, match="finite nowhere on a plane"):
        posterior_surface(runs(tmp_path, nowhere._replace(point_log_likelihood=np.full((1, 3), np.nan))))


def test_splits_are_rows_and_more_than_four_are_refused(tmp_path: Path) -> None:
    made = surfaces(1)
    planes = posterior_surface(runs(tmp_path, made, splits=2)).numbers["plane"].unique().tolist()
    assert planes == ["plane 0, split 0", "plane 0, split 1"]
    with pytest.raises(ValueError, match="5 planes: at most 4 fit in one figure"):
        posterior_surface(runs(tmp_path, made, splits=5))


def test_another_file_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.ones(3))
    with pytest.raises(SurfaceError, match=r"s\.npz: not surfaces \(missing: labels"):
        load_surfaces(tmp_path / "s.npz")
