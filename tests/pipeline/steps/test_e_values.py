"""E-values of runs against NumPy, looked at afterwards and while sampling."""

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import Dataset, save
from bnn_atlas.data.splitting import Split, load_split, save_split
from bnn_atlas.inference import fingerprint, pointwise, problem
from bnn_atlas.inference.pointwise import ValidationDensity
from bnn_atlas.inference.problem import load_problem
from bnn_atlas.metrics.tables.parquet import read_e_values
from bnn_atlas.pipeline.steps.comparisons import e_values
from bnn_atlas.pipeline.steps.sample import sample
from bnn_atlas.placement import Placement
from bnn_atlas.runner.stopping import crossings
from bnn_atlas.traces.store import open_trace
from tests.traces.making import make_statistics, write_trace

pytestmark = pytest.mark.bits

SIGMA = 0.5
POSTERIOR: dict[str, Any] = PosteriorConfig.model_validate(
    {"model": {"kind": "mlp", "hidden": []}, "likelihood": {"kind": "gaussian", "sigma": SIGMA}}
).model_dump(mode="json")
CLASSES: dict[str, Any] = {**POSTERIOR, "likelihood": {"kind": "categorical"}}
TRAIN, VALIDATION = np.arange(20), np.arange(20, 29)


class Files(NamedTuple):
    dataset: Path
    split: Path


def write_data(
    folder: Path, classes: int = 0, validation: np.ndarray = VALIDATION, conditioned: bool = False, change: float = 0
) -> Files:
    """Rows of two inputs with a linear target, or with classes; `change` is added to the last validation target."""
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, size=(36, 2))
    y = x @ [1.0, -0.5] + 0.4 * rng.normal(size=36)
    y[28] += change
    names = tuple("abc"[:classes])
    task = "classification" if classes else "regression"
    dataset = Dataset(x, rng.integers(0, classes, 36) if classes else y, ("u", "v"), "y", task, names)
    files = Files(folder / "prepared.npz", folder / "split.npz")
    save(files.dataset, dataset)
    save_split(files.split, dataset, Split(TRAIN, validation, np.arange(29, 36)), conditioned)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


def by_hand(files: Files, theta: np.ndarray) -> np.ndarray:
    """Log density of the validation rows for theta [..., 3] = bias and weights."""
    return by_row(files, theta).sum(axis=-1)


def by_row(files: Files, theta: np.ndarray) -> np.ndarray:
    """Log density of each validation row."""
    split = load_split(*files)
    x, y = split.x_validation, split.y_validation
    assert (len(x), len(y)) == (9, 9)
    wide = theta.astype(np.float64)
    return norm.logpdf(y, wide[..., :1] + wide[..., 1:] @ x.T, SIGMA)


@pytest.fixture(scope="module")
def theta():
    return np.random.default_rng(2).normal(size=(3, 7, 3)).astype("float32")


@pytest.fixture(scope="module")
def density(files):
    return ValidationDensity(load_problem(*files, POSTERIOR))


@pytest.fixture(scope="module")
def values(density, theta):
    return density(theta)


def test_density_of_the_validation_rows(files, theta, values):
    np.testing.assert_allclose(values, by_hand(files, theta), rtol=1e-5)
    assert (values.dtype, values.shape) == (np.float64, (3, 7))


def test_a_draw_that_is_not_finite_has_no_density_and_spoils_no_other(density, theta, values):
    spoilt = theta.copy()
    spoilt[1, 3, 0], spoilt[2, 6, 2] = np.nan, np.inf
    found = density(spoilt)
    assert np.argwhere(np.isnan(found)).tolist() == [[1, 3], [2, 6]]
    np.testing.assert_array_equal(found[~np.isnan(found)], values[~np.isnan(found)])


def test_a_class_without_probability_is_minus_infinity(tmp_path):
    files = write_data(tmp_path, classes=3)
    density = ValidationDensity(load_problem(*files, CLASSES))
    theta = np.zeros((2, 9), "float32")
    theta[1, :3] = [3e38, -3e38, -3e38]
    found = density(theta)
    assert found[0] == pytest.approx(9 * np.log(1 / 3), rel=1e-6)
    assert found[1] == -np.inf


def use_devices(monkeypatch, count):
    """Give this process the number of devices that the test asks for."""
    devices = jax.local_devices()[:count]
    monkeypatch.setattr(problem, "Placement", partial(Placement, devices=devices))


@pytest.mark.parametrize("case", ["one by one", "in lots", "one device", "rows in pieces"])
def test_the_value_of_a_draw_depends_on_nothing_else(files, theta, values, monkeypatch, case):
    if case == "in lots":
        monkeypatch.setattr(pointwise, "LOT_BYTES", 4 * 9 * pointwise.REGRESSION_BYTES)
    if case == "one device":
        use_devices(monkeypatch, 1)
    if case == "rows in pieces":
        monkeypatch.setattr(problem, "PIECE_BYTES", 1.0)
    again = ValidationDensity(load_problem(*files, POSTERIOR))
    if case == "one by one":
        found = np.array([[again(theta[chain, draw]) for draw in range(3)] for chain in range(3)])
        np.testing.assert_array_equal(found, values[:, :3])
    elif case == "rows in pieces":
        np.testing.assert_allclose(again(theta), values, rtol=1e-6)
    else:
        np.testing.assert_array_equal(again(theta), values)


@pytest.mark.parametrize("devices", [1, 4])
def test_rows_are_cut_alike_on_any_machine(files, density, theta, monkeypatch, devices):
    seen, share = [], Placement.share
    use_devices(monkeypatch, devices)
    monkeypatch.setattr(problem, "PIECE_BYTES", 3 * density._predictor._row_bytes)
    monkeypatch.setattr(Placement, "share", lambda self, tree: seen.append(len(tree)) or share(self, tree))
    ValidationDensity(load_problem(*files, POSTERIOR))(theta[0, :2])
    assert seen == [3, 3, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation": VALIDATION[:0]}, "E-values need validation rows: set split.validation above 0"),
        ({"conditioned": True}, "not conditioned on: set split.validation_in_likelihood: false"),
    ],
)
def test_rows_that_are_not_held_out_are_refused(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        ValidationDensity(load_problem(*write_data(tmp_path, **changes), POSTERIOR))


@pytest.fixture
def blocks(density, tmp_path):
    """Two blocks of different lengths whose chains interleave, and their warm starts in an order of their own."""
    layout = density._predictor._posterior.layout
    rng, traces, starts = np.random.default_rng(4), [], []
    for number, (ids, draws) in enumerate((([5, 0], 6), ([2, 3, 1], 9))):
        values = (0.3 * rng.normal(size=(len(ids), draws, 3)) + [0, 1, -0.5]).astype("float32")
        traces.append(tmp_path / f"block{number}" / "trace.zarr")
        write_trace(traces[-1], values, make_statistics(len(ids), draws), chain_ids=ids, layout=layout)
        starts.append(tmp_path / f"block{number}.npz")
        np.savez(starts[-1], members=np.sort(ids), parameters=rng.normal(size=(len(ids), 3)).astype("float32"))
    return traces, starts


def test_every_chain_against_its_own_warm_start_and_against_all(files, blocks, tmp_path):
    traces, starts = blocks
    e_values(*files, traces, starts, tmp_path / "e.parquet", posterior=POSTERIOR, alpha=0.05)
    frame, alpha = read_e_values(tmp_path / "e.parquet")
    assert alpha == 0.05
    members = np.concatenate([np.load(start)["parameters"] for start in starts])
    ensemble = (logsumexp(by_row(files, members), axis=0) - np.log(len(members))).sum()
    assert frame.groupby("chain", sort=False).size().to_dict() == {0: 6, 1: 9, 2: 9, 3: 9, 5: 6}
    for path, start in zip(traces, starts, strict=True):
        trace, stored = open_trace(path), np.load(start)
        for row, chain in enumerate(trace.chain_ids):
            own = by_hand(files, stored["parameters"][stored["members"].tolist().index(chain)])
            expected = np.cumsum(by_hand(files, trace.read()[row]) - own)
            part = frame[frame.chain == chain]
            assert part.draw.tolist() == list(range(1, trace.draws + 1))
            np.testing.assert_allclose(part.log_e, expected, rtol=1e-4, atol=1e-3)
            shared = np.cumsum(by_hand(files, trace.read()[row]) - ensemble)
            np.testing.assert_allclose(part.log_e_ensemble, shared, rtol=1e-4, atol=1e-3)


def test_warm_starts_of_other_chains_are_refused(files, blocks, tmp_path):
    traces, starts = blocks
    with pytest.raises(DataError, match=r"block1\.npz holds warm starts of chains \[1, 2, 3\], but .* \[0, 5\]"):
        e_values(*files, traces, starts[::-1], tmp_path / "e.parquet", posterior=POSTERIOR, alpha=0.05)


METHOD = HMCConfig(burn_in=5, steps=30, step_size=0.05, trajectory_length=0.3, checkpoint_every=8).model_dump(
    mode="json"
)


def run(files: Files, folder: Path, stopping: dict[str, float] | None) -> Any:
    """Sample two chains from beside the least-squares fit and give their trace."""
    split = load_split(*files)
    fit = np.linalg.lstsq(np.column_stack([np.ones(20), split.x_fit]), split.y_fit)[0]
    starts = fit + np.array([[0.35], [0.45]]) * np.array([1, 0, 0])
    np.savez(folder / "start.npz", members=np.array([4, 6]), parameters=starts.astype("float32"))
    sample(
        *files, folder / "start.npz", folder / "block" / "trace.zarr",
        posterior=POSTERIOR, method=METHOD, seed=1, root=folder, stopping=stopping,
    )  # fmt: skip
    return open_trace(folder / "block" / "trace.zarr")


@pytest.mark.slow
def test_a_run_ends_where_its_e_values_say(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "code_of_draws", lambda method, posterior, *, stopped: f"code, stopped: {stopped}")
    files = write_data(tmp_path)
    whole = run(files, tmp_path, None)
    draws = whole.read()
    e_values(*files, [whole.path], [tmp_path / "start.npz"], tmp_path / "e.parquet", posterior=POSTERIOR, alpha=0.01)
    log_e = read_e_values(tmp_path / "e.parquet").frame.log_e.to_numpy().reshape(2, 30)
    alpha = float(np.exp(-0.5 * log_e.max(axis=1).min()))
    crossed = crossings(log_e, alpha)
    assert 2 < crossed.max() < 25
    stopped = run(files, tmp_path, {"alpha": alpha})
    np.testing.assert_array_equal(stopped.read(), draws[:, : crossed.max()])
    assert stopped.attributes["stopping"]["crossed"] == {"4": crossed[0], "6": crossed[1]}
    assert stopped.attributes["fingerprint"] != whole.attributes["fingerprint"]
    timing = json.loads((tmp_path / "block" / "timing.json").read_text())
    assert timing["phases"][-1]["steps"] == crossed.max()
    again = run(files, tmp_path, {"alpha": alpha})
    assert again.attributes == stopped.attributes
    stricter = run(files, tmp_path, {"alpha": alpha**2})
    assert stricter.draws > stopped.draws
    assert stricter.attributes["fingerprint"] != stopped.attributes["fingerprint"]
    (tmp_path / "other").mkdir()
    other = write_data(tmp_path / "other", change=0.5)
    np.testing.assert_array_equal(load_split(*other).y_fit, load_split(*files).y_fit)
    changed = run(other, tmp_path, {"alpha": alpha})
    assert changed.attributes["fingerprint"] != stopped.attributes["fingerprint"], "its length depends on these rows"
    assert run(other, tmp_path, None).attributes["fingerprint"] == whole.attributes["fingerprint"], "draws do not"


def test_code_that_a_length_depends_on_is_part_of_its_fingerprint():
    method = HMCConfig(step_size=0.1, trajectory_length=1.0)
    posterior = PosteriorConfig.model_validate(POSTERIOR)
    whole, stopped = (fingerprint.code_of_draws(method, posterior, stopped=stopped) for stopped in (False, True))
    assert whole != stopped
