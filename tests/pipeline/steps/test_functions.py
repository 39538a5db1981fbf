"""Function draws against direct evaluation of the same networks in NumPy."""

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import softmax

from bnn_atlas.config.parts.figures import FunctionsConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data.dataset import Dataset, save
from bnn_atlas.data.splitting import Split, save_split
from bnn_atlas.inference import network_functions as module
from bnn_atlas.metrics.tables.arrays import FunctionDraws, FunctionsError, load_functions, save_functions
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.networks import build_network
from bnn_atlas.pipeline.steps.evaluations import functions
from bnn_atlas.posterior.likelihoods import LOG_SIGMA
from bnn_atlas.traces.pool import pool_traces
from tests.traces.making import make_statistics, write_trace

from .making import CLASSES, make_run
from .making import POSTERIOR as IMAGES

CHAINS, DRAWS, HIDDEN = 5, 11, 4
CONFIG = PosteriorConfig.model_validate(
    {"model": {"hidden": [HIDDEN], "activation": "tanh"}, "likelihood": {"kind": "learned_noise"}}
)
LAYOUT = Layout((*build_network(CONFIG.model, (1,), 1).layout.parameters, LOG_SIGMA))
IDS = np.array([0, 1, 2, 3, 4]) + 10


class Wave(NamedTuple):
    """The files of a regression on one input, and its draws [chain, draw, parameter]."""

    files: tuple[Path, Path, Path]
    draws: np.ndarray
    fit: np.ndarray
    test: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def scaled(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return (values[rows] - values[self.fit].mean()) / values[self.fit].std()


@pytest.fixture(scope="module")
def wave(tmp_path_factory: pytest.TempPathFactory) -> Wave:
    """Rows 0 to 19 are fitted; draw 3 of chain 1 holds a NaN, draw 5 of chain 2 numbers whose outputs overflow."""
    folder, numbers = tmp_path_factory.mktemp("wave"), np.random.default_rng(0)
    x = numbers.uniform(-4, 6, 40)
    dataset = Dataset(x[:, None], np.sin(x) + 2, ("x",), "y", "regression", ())
    fit, test = np.arange(20), np.arange(20, 40)
    files = folder / "prepared.npz", folder / "split.npz", folder / "pool.json"
    save(files[0], dataset)
    save_split(files[1], dataset, Split(fit[:15], fit[15:], test))
    draws = numbers.standard_normal((CHAINS, DRAWS, LAYOUT.size)).astype("float32")
    draws[1, 3, 2] = np.nan
    draws[2, 5, :-1] = 3e38
    statistics = make_statistics(CHAINS, DRAWS)
    for name, part in (("a", slice(2, 5)), ("b", slice(0, 2))):
        taken = {key: array[part] for key, array in statistics.items()}
        write_trace(folder / name, draws[part], taken, chain_ids=IDS[part], layout=LAYOUT)
    pool_traces([folder / "a", folder / "b"], files[2])
    return Wave(files, draws, fit, test, dataset.x[:, 0], dataset.y)


def made(wave: Wave, path: Path, **settings: Any) -> FunctionDraws:
    section = FunctionsConfig(**{"inputs": "line", "points": 7, **settings}).model_dump(mode="json")
    functions(*wave.files, path / "f.npz", posterior=CONFIG.model_dump(mode="json"), settings=section)
    return load_functions(path / "f.npz")


def direct(draws: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean function [..., n] and noise [...] of draws [..., P] at x [n], in float64."""
    arrays = LAYOUT.unflatten(draws.astype(np.float64))
    hidden = np.tanh(arrays["layer0.weight"] * x + arrays["layer0.bias"][..., None])
    mean = arrays["layer1.weight"][..., 0, :, None] * hidden
    return mean.sum(axis=-2) + arrays["layer1.bias"], np.exp(arrays["log_sigma"])


def assert_direct(found: FunctionDraws, draws: np.ndarray, x: np.ndarray) -> None:
    """Finite draws agree, the others are NaN and marked."""
    assert found.mean is not None
    assert found.scale is not None
    assert found.mean.dtype == found.scale.dtype == np.float32
    assert found.mean.shape == found.scale.shape == (*draws.shape[:2], len(x))
    bad = np.isnan(draws).any(axis=2) | (np.abs(draws) > 1e30).any(axis=2)
    np.testing.assert_array_equal(found.divergent, bad)
    assert np.isnan(found.mean[bad]).all()
    assert np.isnan(found.scale[bad]).all()
    mean, scale = direct(draws[~bad], x)
    np.testing.assert_allclose(found.mean[~bad], mean, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found.scale[~bad], np.repeat(scale[:, None], len(x), axis=1), rtol=2e-5)


def test_a_line(wave: Wave, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = made(wave, tmp_path, low=-2.0, high=1.0, chains=None, draws=None)
    x = np.linspace(-2, 1, 7)
    np.testing.assert_array_equal(found.x, x[:, None])
    assert found.x.dtype == np.float64
    assert found.chains.tolist() == IDS.tolist()
    assert found.draws.tolist() == list(range(DRAWS))
    assert found.y is None
    assert found.task == "regression"
    assert_direct(found, wave.draws, x)
    assert found.divergent.sum() == 2
    assert "2 of 55 draws are not finite" in caplog.text
    assert found.train_x is not None
    assert found.train_y is not None
    np.testing.assert_allclose(found.train_x[:, 0], wave.scaled(wave.x, wave.fit), rtol=1e-12)
    np.testing.assert_allclose(found.train_y, wave.scaled(wave.y, wave.fit), rtol=1e-12)


def test_test_rows_and_draws_are_chosen_evenly(wave: Wave, tmp_path: Path) -> None:
    found = made(wave, tmp_path, inputs="test", rows=4, chains=3, draws=3)
    rows = wave.test[[0, 6, 13, 19]]
    assert found.draws.tolist() == [0, 5, 10]
    assert found.chains.tolist() == [10, 11, 12]
    np.testing.assert_allclose(found.x[:, 0], wave.scaled(wave.x, rows), rtol=1e-12)
    assert found.y is not None
    np.testing.assert_allclose(found.y, wave.scaled(wave.y, rows), rtol=1e-12)
    assert_direct(found, wave.draws[:3, [0, 5, 10]], found.x[:, 0])


def test_all_there_is_where_more_is_asked_for(wave: Wave, tmp_path: Path) -> None:
    found = made(wave, tmp_path, inputs="test", rows=1000, chains=1000, draws=1000)
    assert found.mean is not None
    assert found.mean.shape == (CHAINS, DRAWS, 20)


@pytest.mark.parametrize("lot", [1, 4, 13, 30])
def test_small_lots_change_nothing(wave: Wave, tmp_path: Path, lot: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lots of one draw, of a part of a chain, and of whole chains with a rest; all of one lot go at once."""
    each = 3 * LAYOUT.size * 4 + 7 * module.REGRESSION_BYTES
    monkeypatch.setattr(module, "LOT_BYTES", lot * each)
    sizes = []
    call = module.Predictor.__call__
    monkeypatch.setattr(
        module.Predictor, "__call__", lambda self, theta, x: sizes.append(len(theta)) or call(self, theta, x)
    )
    found = made(wave, tmp_path, low=-2.0, high=1.0, chains=None, draws=None)
    assert_direct(found, wave.draws, np.linspace(-2, 1, 7))
    assert len(set(sizes)) == 1, "one shape, which compiles once"
    assert sizes[0] <= lot
    assert sum(sizes) >= CHAINS * DRAWS


def test_too_many_values_are_refused_before_anything_is_computed(
    wave: Wave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_BYTES", 5 * 11 * 7 * 8 - 1)
    monkeypatch.setattr(module.Predictor, "__call__", None)
    with pytest.raises(FunctionsError, match=r"5 chains x 11 draws at 7 inputs take .* lower chains, draws"):
        made(wave, tmp_path, chains=None, draws=None)


def test_class_probabilities(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    settings = FunctionsConfig(inputs="test", rows=None, chains=2, draws=None).model_dump(mode="json")
    functions(run.dataset, run.split, run.pool, tmp_path / "f.npz", posterior=IMAGES, settings=settings)
    found = load_functions(tmp_path / "f.npz")
    pixels = ((run.images.x[run.rows] - run.mean) / run.scale).reshape(len(run.rows), -1)
    biases, weights = np.split(run.draws[:2], [CLASSES], axis=-1)
    logits = np.einsum("csji,ni->csnj", weights.reshape(2, -1, CLASSES, pixels.shape[1]), pixels)
    expected = softmax(logits + biases[:, :, None], axis=-1)
    assert found.probabilities is not None
    assert found.probabilities.dtype == np.float32
    np.testing.assert_allclose(found.probabilities, expected, rtol=0, atol=5e-6)
    np.testing.assert_array_equal(found.y, run.images.y[run.rows])
    assert (found.task, found.mean, found.train_x) == ("classification", None, None)
    assert found.x.shape == (len(run.rows), *run.images.x.shape[1:])
    section = {**settings, "inputs": "line"}
    with pytest.raises(FunctionsError, match=r"inputs 'line' .*shape \[4, 4, 3\]"):
        functions(run.dataset, run.split, run.pool, tmp_path / "f.npz", posterior=IMAGES, settings=section)


def test_low_must_be_below_high() -> None:
    with pytest.raises(ValidationError, match=r"low \(1\.0\) must be below high \(1\.0\)"):
        FunctionsConfig(inputs="line", low=1.0, high=1.0)


def test_files_that_hold_no_functions_are_named(wave: Wave, tmp_path: Path) -> None:
    found = made(wave, tmp_path)
    save_functions(tmp_path / "half.npz", found._replace(scale=None))
    with pytest.raises(FunctionsError, match=r"half\.npz: .*mean and scale, or probabilities"):
        load_functions(tmp_path / "half.npz")
    np.savez(tmp_path / "other.npz", x=found.x, z=found.x)
    with pytest.raises(FunctionsError, match=r"missing: chains, divergent, draws; unknown: z"):
        load_functions(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(FunctionsError, match=r"text\.npz: not function draws"):
        load_functions(tmp_path / "text.npz")


def test_reading_needs_no_jax() -> None:
    """Figures read these files without its start-up time."""
    code = "import sys, bnn_atlas.metrics.tables.arrays; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
