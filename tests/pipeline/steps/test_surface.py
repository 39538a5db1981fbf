"""Surfaces of a small classifier, from files to a file, against NumPy in double precision."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.special
import scipy.stats

from bnn_atlas.config.parts.figures import SurfaceConfig
from bnn_atlas.metrics.tables.arrays import SurfaceError, Surfaces, load_surfaces
from bnn_atlas.models.layout import Layout
from bnn_atlas.pipeline.steps.evaluations import surface
from bnn_atlas.traces.pool import pool_traces
from tests.traces.making import write_trace

from .making import CLASSES, LAYOUT, POSTERIOR, Run, make_run

TEMPERATURE = 0.5
TITLE = "a plane"


class Fitted(NamedTuple):
    """A run whose draws have their own densities, another run of one draw per chain, and the rows of both."""

    run: Run
    own: Path
    other: Path
    draws: np.ndarray
    """[chain, draw, P] of the first."""
    optima: np.ndarray
    """[chain, P] of the second."""

    def densities(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-likelihood [...] of the training rows and log-prior [...] at theta [..., P]."""
        rows = np.setdiff1d(np.arange(len(self.run.images.x)), self.run.rows)
        pixels = ((self.run.images.x[rows] - self.run.mean) / self.run.scale).reshape(len(rows), -1)
        biases, weights = np.split(theta.astype(np.float64), [CLASSES], axis=-1)
        logits = np.einsum("...ji,ni->...nj", weights.reshape(*theta.shape[:-1], CLASSES, -1), pixels)
        log_probs = scipy.special.log_softmax(logits + biases[..., None, :], axis=-1)
        likelihood = log_probs[..., np.arange(len(rows)), self.run.images.y[rows]].sum(axis=-1)
        return likelihood, scipy.stats.norm.logpdf(theta.astype(np.float64)).sum(axis=-1)


def write_pool(path: Path, draws: np.ndarray, densities: tuple[np.ndarray, ...], layout: Layout = LAYOUT) -> Path:
    names = ("log_likelihood", "log_prior")
    statistics = {name: values.astype(np.float32) for name, values in zip(names, densities, strict=True)}
    write_trace(path / "trace.zarr", draws, statistics, layout=layout)
    pool_traces([path / "trace.zarr"], path / "pool.json")
    return path / "pool.json"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    folder, numbers = tmp_path_factory.mktemp("surfaces"), np.random.default_rng(4)
    draws = (0.3 * numbers.standard_normal((3, 6, LAYOUT.size))).astype(np.float32)
    draws[1, 4] = draws[1, 3]  # a rejected proposal
    optima = (0.1 * numbers.standard_normal((2, 1, LAYOUT.size))).astype(np.float32)
    found = Fitted(make_run(folder), folder / "own/pool.json", folder / "other/pool.json", draws, optima[:, 0])
    write_pool(folder / "own", draws, found.densities(draws))
    write_pool(folder / "other", optima, found.densities(optima))
    return found


def made(fitted: Fitted, folder: Path, *points: dict[str, Any], pool: Path | None = None, **settings: Any) -> Surfaces:
    given = {"planes": [{"title": TITLE, "points": list(points)}], "resolution": 6, **settings}
    surface(
        fitted.run.dataset,
        fitted.run.split,
        pool or fitted.own,
        folder / "s.npz",
        posterior=POSTERIOR | {"temperature": TEMPERATURE},
        settings=SurfaceConfig.model_validate(given).model_dump(mode="json"),
        others=["sgd"],
        pools=[fitted.other],
    )
    return load_surfaces(folder / "s.npz")


def test_grids_and_points_are_those_of_double_precision(fitted: Fitted, tmp_path: Path) -> None:
    found = made(
        fitted, tmp_path, {"draw": 1}, {"chain": 2, "draw": "first"}, {"chain": 1, "draw": "middle"}, margin=0.5
    )
    w = np.stack([fitted.draws[0, 1], fitted.draws[2, 0], fitted.draws[1, 3]]).astype(np.float64)
    assert found.titles.tolist() == [TITLE]
    assert found.labels.tolist() == [["chain 0, draw 1", "chain 2, draw 0", "chain 1, draw 3"]]
    assert found.temperature == TEMPERATURE
    u = (w[1] - w[0]) / np.linalg.norm(w[1] - w[0])
    rest = w[2] - w[0] - ((w[2] - w[0]) @ u) * u
    v = rest / np.linalg.norm(rest)
    expected = [[0, 0], [np.linalg.norm(w[1] - w[0]), 0], [(w[2] - w[0]) @ u, np.linalg.norm(rest)]]
    np.testing.assert_allclose(found.points[0], expected, atol=1e-6)
    theta = w[0] + found.x[0][None, :, None] * u + found.y[0][:, None, None] * v
    likelihood, prior = fitted.densities(theta)
    np.testing.assert_allclose(found.log_likelihood[0], likelihood, rtol=1e-5)
    np.testing.assert_allclose(found.log_prior[0], prior, rtol=1e-5)
    stored = fitted.densities(w)
    np.testing.assert_allclose(found.point_log_likelihood[0], stored[0], rtol=1e-5)
    np.testing.assert_allclose(found.point_log_prior[0], stored[1], rtol=1e-5)
    assert found.y[0][0] == pytest.approx(-0.5 * expected[2][1])


def test_points_of_another_run_and_the_best_draw(fitted: Fitted, tmp_path: Path) -> None:
    points = ({"chain": 1, "draw": "best", "label": "best"}, {"run": "sgd"}, {"run": "sgd", "chain": 1})
    found = made(fitted, tmp_path, *points)
    best = fitted.draws[1][np.argmax(sum(fitted.densities(fitted.draws[1])))]
    w = np.stack([best, *fitted.optima])
    assert found.labels.tolist() == [["best", "sgd, chain 0", "sgd, chain 1"]]
    np.testing.assert_allclose(found.point_log_prior[0], fitted.densities(w)[1], rtol=1e-5)
    assert found.points[0][1, 0] == pytest.approx(np.linalg.norm(w[1] - w[0].astype(float)))


def test_several_planes_are_one_file_and_equal_inputs_give_equal_bytes(fitted: Fitted, tmp_path: Path) -> None:
    points = [{"chain": chain} for chain in range(3)]
    planes = [{"title": title, "points": points[::step]} for title, step in (("one", 1), ("two", -1))]
    for name in "ab":
        (tmp_path / name).mkdir()
        found = made(fitted, tmp_path / name, *points, planes=planes)
    assert found.log_likelihood.shape == (2, 6, 6)
    np.testing.assert_allclose(found.point_log_prior[0], found.point_log_prior[1][::-1], rtol=1e-6)
    assert (tmp_path / "a/s.npz").read_bytes() == (tmp_path / "b/s.npz").read_bytes()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            [{"chain": 1, "draw": 3}, {"chain": 1, "draw": 4}, {"chain": 2}],
            r"'a plane': points 1 and 2 are equal.* \(1 is chain 1, draw 3; 2 is chain 1, draw 4; .*rejected proposal",
        ),
        ([{"chain": 7}, {}, {"draw": 1}], r"pool\.json: there is no chain 7; it has 3"),
        ([{"draw": 6}, {}, {"draw": 1}], r"pool\.json: there is no draw 6; each chain has 6"),
        ([{"run": "sgd", "chain": 2}, {}, {"draw": 1}], r"other/pool\.json: there is no chain 2; it has 2"),
    ],
)
def test_points_that_do_not_exist_or_are_equal_are_refused(
    fitted: Fitted, tmp_path: Path, points: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(SurfaceError, match=message):
        made(fitted, tmp_path, *points)
    assert not (tmp_path / "s.npz").exists()


def test_draws_on_one_line_are_refused(fitted: Fitted, tmp_path: Path) -> None:
    draws = fitted.draws[:1].copy()
    draws[0, 2] = 2 * draws[0, 1] - draws[0, 0]
    pool = write_pool(tmp_path, draws, fitted.densities(draws))
    with pytest.raises(SurfaceError, match=r"the three points are on one line"):
        made(fitted, tmp_path, {"draw": 0}, {"draw": 1}, {"draw": 2}, pool=pool)


def test_draws_of_another_network_are_refused(fitted: Fitted, tmp_path: Path) -> None:
    smaller = Layout(LAYOUT.parameters[:1])
    draws = np.ones((1, 3, smaller.size), np.float32)
    pool = write_pool(tmp_path, draws, (np.zeros((1, 3)), np.zeros((1, 3))), smaller)
    with pytest.raises(SurfaceError, match=rf"another network .*{smaller.size} .*{LAYOUT.size}"):
        made(fitted, tmp_path, {"draw": 0}, {"draw": 1}, {"draw": 2}, pool=pool)


@pytest.mark.parametrize(("part", "text"), [(0, "log-likelihood"), (1, "log-prior")])
def test_draws_whose_densities_were_others_are_refused(fitted: Fitted, tmp_path: Path, part: int, text: str) -> None:
    densities = [np.array(values) for values in fitted.densities(fitted.draws)]
    densities[part][2, 5] += 1.0
    pool = write_pool(tmp_path, fitted.draws, tuple(densities))
    with pytest.raises(SurfaceError, match=rf"chain 2, draw 5 was stored with a {text} of .*another posterior"):
        made(fitted, tmp_path, {"chain": 0}, {"chain": 1}, {"chain": 2}, pool=pool)
    made(fitted, tmp_path, {"chain": 0}, {"chain": 1}, {"chain": 2, "draw": 4}, pool=pool)
