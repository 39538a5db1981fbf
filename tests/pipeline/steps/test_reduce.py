"""Runs that are reduced while they are sampled, against the same draws kept whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.config.parts.figures import GridConfig, SubsetConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data import DataError
from bnn_atlas.files import save_arrays
from bnn_atlas.metrics.gathering import blocks
from bnn_atlas.metrics.gathering.marginals import OF_MARGINALS
from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.tables.parquet import RunFiles
from bnn_atlas.models.networks import build_network
from bnn_atlas.pipeline.steps import sample as module
from bnn_atlas.pipeline.steps.predict import predict
from bnn_atlas.pipeline.steps.reduce import THINNED, reduce_block
from bnn_atlas.pipeline.steps.sample import sample
from bnn_atlas.pipeline.steps.score import score
from bnn_atlas.pipeline.steps.traces import density_grid, pool, subset
from bnn_atlas.records import record_of
from bnn_atlas.traces.grids import BivariateGrids
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.traces.reduced import ReducedBlock
from bnn_atlas.traces.store import open_trace
from tests.traces.making import write_trace

from .test_e_values import Files, write_data

pytestmark = pytest.mark.bits

CHAINS, DRAWS, SIZES = 7, 60, (3, 2, 2)
NOISY = {"kind": "heteroscedastic"}
CLASSES = {"kind": "categorical"}
SUBSET = SubsetConfig(parameters=("layer0.weight",), chains=4, draws=(10, 20), thinning=2).model_dump(mode="json")
GRID = GridConfig(bins=10, limit=4).model_dump(mode="json")
SECTIONS = {"prior_sd": 1.0, "subset": {"s": SUBSET}, "grid": {"g": GRID}}
TIMING = '{"chains": 1, "device": "cpu", "phases": []}'


def posterior(likelihood: dict[str, Any]) -> dict[str, Any]:
    settings = {"model": {"kind": "mlp", "hidden": [3]}, "likelihood": likelihood}
    return PosteriorConfig.model_validate(settings).model_dump(mode="json")


def write_blocks(folder: Path, of: dict[str, Any], classes: int, lost: dict[str, int]) -> list[Path]:
    """Traces of random walks; of `lost`, one chain has a value that is not finite, one never moves."""
    layout = build_network(PosteriorConfig.model_validate(of).model, (2,), classes or 2).layout
    rng, paths, first = np.random.default_rng(3), [], 0
    walks = rng.standard_normal((CHAINS, DRAWS, layout.size)).cumsum(axis=1).astype("float32") / 5
    if "divergent" in lost:
        walks[lost["divergent"], 7, 0] = np.nan
    log_likelihood = rng.standard_normal((CHAINS, DRAWS)).astype("float32")
    if "stuck" in lost:
        walks[lost["stuck"]], log_likelihood[lost["stuck"]] = walks[lost["stuck"], :1], 0.0
    statistics = {
        "log_likelihood": log_likelihood,
        "log_prior": rng.standard_normal((CHAINS, DRAWS)).astype("float32"),
        "energy_change": rng.standard_normal((CHAINS, DRAWS)).astype("float32"),
        "divergent": np.zeros((CHAINS, DRAWS), dtype="int32"),
    }
    for size in SIZES:
        part = slice(first, first + size)
        path = folder / f"block{len(paths)}" / "trace.zarr"
        rows = {name: array[part] for name, array in statistics.items()}
        write_trace(path, walks[part], rows, chain_ids=range(first, first + size), layout=layout, segment=20)
        paths.append(path)
        first += size
    return paths


def made(folder: Path, files: Files, traces: list[Path], of: dict[str, Any]) -> dict[str, Any]:
    """Everything that the later steps make of a pool of traces."""
    folder.mkdir()
    pool(traces, folder / "pool.json")
    predicted = [folder / f"{name}.npz" for name in ("test", "virial", "exchange")]
    predict(*files, folder / "pool.json", *predicted, posterior=of)
    tables = RunFiles(*(folder / f"{name}.parquet" for name in RunFiles._fields))
    identity = {"study": "s", "run": "r", "scale": "demo", "split": 0, "dataset": "d", "model": "m", "method": "mclmc"}
    about = {"identity": identity, "model": of["model"], "published": (), "prior_sd": 1.0}
    score(*files, folder / "pool.json", *predicted, [], **about, **tables._asdict())
    subset(folder / "pool.json", folder / "s.parquet", subset=SUBSET)
    density_grid(folder / "pool.json", folder / "g.npz", grid=GRID)
    frames = {name: pd.read_parquet(path) for name, path in tables._asdict().items()}
    frames["subset"] = pd.read_parquet(folder / "s.parquet")
    return {"frames": frames, "grid": BivariateGrids.load(folder / "g.npz"), "summary": load(predicted[0])}


@pytest.mark.parametrize(
    ("likelihood", "lost"),
    [(NOISY, {}), (CLASSES, {}), (NOISY, {"divergent": 1, "stuck": 6}), (CLASSES, {"divergent": 5, "stuck": 6})],
    ids=["regression", "classes", "regression, chains left out", "classes, a block left out"],
)
def test_scores_and_figures_are_those_of_the_whole_traces(
    tmp_path: Path, likelihood: dict[str, Any], lost: dict[str, int]
) -> None:
    of, classes = posterior(likelihood), 2 if likelihood is CLASSES else 0
    files, whole = write_data(tmp_path, classes), write_blocks(tmp_path, of, classes, lost)
    reduced = [tmp_path / f"reduced{number}" for number in range(len(whole))]
    for trace, destination in zip(whole, reduced, strict=True):
        reduce_block(trace, destination, {}, *files, posterior=of, keep_draws="none", chains=CHAINS, **SECTIONS)
    expected, found = (made(tmp_path / n, files, t, of) for n, t in (("whole", whole), ("merged", reduced)))
    for name, frame in expected["frames"].items():
        if lost and name == "table":  # the errors of marginals are over groups of all chains, also of those left out
            of_marginals = frame["metric"].isin(OF_MARGINALS)
            frame.loc[of_marginals, "monte_carlo_error"] = np.nan
            found["frames"][name].loc[of_marginals, "monte_carlo_error"] = np.nan
        pd.testing.assert_frame_equal(found["frames"][name], frame, rtol=1e-9, atol=1e-12)
    assert len(expected["frames"]["table"]) > 60
    np.testing.assert_array_equal(found["grid"].counts, expected["grid"].counts)
    assert found["grid"].draws == expected["grid"].draws == CHAINS * DRAWS
    assert found["grid"].nonfinite.sum() == expected["grid"].nonfinite.sum()
    for name, array in expected["summary"]._asdict().items():
        if name != "log_density_by_draw" and array is not None:
            np.testing.assert_allclose(getattr(found["summary"], name), array, rtol=1e-12, err_msg=name)


def test_a_large_run_keeps_fewer_rows_and_parameters() -> None:
    """10 million draws: two rows of function values, one of noise, one parameter."""
    limits = blocks.limits_of_block(100, 10_000, 1000, 301, 0, 4)
    assert (limits.function_rows, limits.noise_rows, limits.mixture_draws) == (2, 1, 100)
    assert blocks.scalars_of_run(946, 10_000, 1000, 4).tolist() == [0]
    assert blocks.scalars_of_run(946, 1000, 100, 4).tolist() == list(range(0, 946, 6))


def sampled(folder: Path, **settings: Any) -> dict[str, Any]:
    """Sample a block of two chains of a run of four."""
    of, folder = posterior(NOISY), folder / "run"
    folder.mkdir(parents=True, exist_ok=True)
    files, start = write_data(folder), folder / "start.npz"
    size = build_network(PosteriorConfig.model_validate(of).model, (2,), 2).layout.size
    save_arrays(start, {"parameters": np.full((2, size), 0.1, np.float32), "members": np.array([2, 3])})
    method = HMCConfig(burn_in=2, steps=20, step_size=0.01, trajectory_length=0.05).model_dump(mode="json")
    return sample(*files, start, folder / "trace.zarr", posterior=of, method=method, seed=1, **settings)


REDUCED = {"reduced": {"keep_draws": {"every": 6}, "chains": 4}, "sections": SECTIONS}


def test_the_draws_are_reduced_and_deleted(tmp_path: Path) -> None:
    recorded = sampled(tmp_path / "whole")
    assert sampled(tmp_path / "reduced", **REDUCED) == recorded
    whole = open_trace(tmp_path / "whole" / "run" / "trace.zarr")
    block = ReducedBlock(tmp_path / "reduced" / "run" / "trace.zarr")
    assert block.shape == whole.shape
    for name in whole.statistics:
        np.testing.assert_array_equal(block.statistic(name), whole.statistic(name))
    np.testing.assert_array_equal(block.read([1], slice(2, 5), [3, 7]), whole.read([1], slice(2, 5), [3, 7]))
    thinned = open_trace(block.path / THINNED)
    np.testing.assert_array_equal(thinned.read(), whole.read(draws=slice(0, 20, 6)))
    left = {path.name for path in block.path.parent.iterdir()}
    assert left == {"prepared.npz", "split.npz", "start.npz", "trace.zarr", "timing.json", "fit.npz"}


def test_an_attempt_that_ended_before_it_was_reduced_samples_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "reduce_block", killed)
        with pytest.raises(KeyboardInterrupt):
            sampled(tmp_path, **REDUCED)
    whole = tmp_path / "run" / module.WHOLE
    assert whole.exists()
    monkeypatch.setattr("bnn_atlas.runner.segments._Run.run", killed)
    first = sampled(tmp_path, **REDUCED)
    assert not whole.exists()
    assert not record_of(whole).exists()
    assert sampled(tmp_path, **REDUCED) == first
    with pytest.raises(KeyboardInterrupt):
        sampled(tmp_path, reduced={"keep_draws": "none", "chains": 4}, sections=SECTIONS)


def test_a_figure_that_was_added_later_is_refused(tmp_path: Path) -> None:
    of = posterior(NOISY)
    files, whole = write_data(tmp_path), write_blocks(tmp_path, of, 0, {})
    arguments = {"posterior": of, "keep_draws": "none", "chains": CHAINS, **SECTIONS}
    reduced = [tmp_path / f"reduced{number}" for number in range(len(whole))]
    for trace, destination in zip(whole, reduced, strict=True):
        reduce_block(trace, destination, {}, *files, **arguments)
    pool(reduced, tmp_path / "pool.json")
    assert open_pool(tmp_path / "pool.json").reduced == tuple(reduced)
    with pytest.raises(DataError, match=r"other\.npz is missing: the figure was added or changed"):
        density_grid(tmp_path / "pool.json", tmp_path / "other.npz", grid=GRID)
