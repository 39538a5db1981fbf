import numpy as np
import pytest
from scipy.stats import gaussian_kde

from bnn_atlas.figures.density import Surface, bandwidths, contour_table, mass_levels, smooth, smooth_pair


def test_bandwidths_are_scotts_and_ignore_stragglers() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (1000, 2)) * [1, 10]
    np.testing.assert_allclose(bandwidths(points), points.std(axis=0) * 1000 ** (-1 / 6), rtol=1e-12)
    points[:5] *= 1e4
    np.testing.assert_allclose(bandwidths(points) * 1000 ** (1 / 6), [1 / 1.349, 10 / 1.349], rtol=0.1)
    half_fixed = np.where(np.arange(100) < 80, 2.0, rng.normal(size=100))
    assert bandwidths(half_fixed[:, None])[0] == pytest.approx(half_fixed.std() * 100**-0.2)


def test_smoothing_is_kernel_density_estimation() -> None:
    values = np.random.default_rng(1).uniform(-1, 2, 400)
    exact = gaussian_kde(values, bw_method=0.7 * 400**-0.2 * values.std() / values.std(ddof=1))
    centres = -1.5 + 4 / 512 * (np.arange(512) + 0.5)
    found = smooth(values, (-1.5, 2.5), 512, adjust=0.7)
    np.testing.assert_allclose(found, exact(centres), atol=2e-3 * found.max())


def test_pairs_are_smoothed_along_each_axis_and_beyond_the_limits() -> None:
    points = np.random.default_rng(2).uniform(-1, 1, (300, 2)) * [1, 3]
    limits = np.array([[-0.5, 1.5], [-1.0, 4.0]])
    found = smooth_pair(points, limits, 100)
    h = bandwidths(points)
    place = np.stack(np.meshgrid(found.x, found.y, indexing="ij"), axis=-1)
    z = (place[:, :, None] - points) / h
    exact = np.exp(-0.5 * (z**2).sum(axis=-1)).mean(axis=-1) / (2 * np.pi * h.prod())
    np.testing.assert_allclose(found.density, exact, atol=0.02 * exact.max())


def test_levels_hold_their_share() -> None:
    x = np.linspace(-4.98, 4.98, 250)
    normal = np.exp(-0.5 * (x[:, None] ** 2 + x**2)) / (2 * np.pi)
    surface = Surface(x, x, normal)
    levels = mass_levels(surface, (0.2, 0.5, 0.9))
    assert list(levels) == [0.9, 0.5, 0.2]
    np.testing.assert_allclose(list(levels.values()), np.array([0.1, 0.5, 0.8]) / (2 * np.pi), rtol=0.02)
    lines = contour_table(surface, levels)
    radius = np.hypot(lines["x"], lines["y"]).groupby(lines["share"]).mean()
    np.testing.assert_allclose(radius[[0.2, 0.9]], np.sqrt(-2 * np.log([0.8, 0.1])), rtol=0.01)
    assert list(mass_levels(Surface(x, x, 0.6 * normal), (0.5, 0.9))) == [0.5]


def test_draws_in_one_place_are_one_cell() -> None:
    surface = smooth_pair(np.zeros((20, 2)), np.array([[-1.0, 1.0]] * 2), 64)
    assert surface.density.sum() * surface.cell == pytest.approx(1)
    levels = list(mass_levels(surface, (0.95, 0.94, 0.5, 0.49)).values())
    assert levels == sorted(set(levels))
    assert contour_table(surface, {}).empty
