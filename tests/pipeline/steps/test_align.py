"""Aligning the draws of a run, from its files to the table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bnn_atlas
from bnn_atlas.config.parts.evaluation import AlignmentConfig
from bnn_atlas.config.parts.posterior import MLPConfig, PosteriorConfig
from bnn_atlas.inference.problem import load_without_rows
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.models.networks import build_network
from bnn_atlas.pipeline.steps.starts import compact_starts
from bnn_atlas.pipeline.steps.symmetry import align, score_alignment
from bnn_atlas.symmetry.aligned_draws import load_aligned_draws
from bnn_atlas.symmetry.frame import load_frame
from bnn_atlas.symmetry.groups import SymmetryError, symmetry_of
from bnn_atlas.symmetry.permutation import apply
from bnn_atlas.traces.pool import open_pool, pool_traces
from tests.pipeline.steps.making import CLASSES, IDENTITY, SHAPE, TRAIN, make_run
from tests.symmetry.draws import copies
from tests.traces.making import make_statistics, write_trace

MODEL = MLPConfig(hidden=(6,))
POSTERIOR: dict[str, Any] = PosteriorConfig.model_validate(
    {"model": MODEL.model_dump(), "likelihood": {"kind": "categorical"}}
).model_dump(mode="json")
SYMMETRY = symmetry_of(MODEL, build_network(MODEL, SHAPE, CLASSES).layout)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a split and a pool of noisy copies of one network, permuted draw by draw."""
    folder = tmp_path_factory.mktemp("run")
    make_run(folder)
    draws, _ = copies(SYMMETRY, 3, 8, 0.02)
    write_trace(folder / "hidden", draws, make_statistics(3, 8), layout=SYMMETRY.layout)
    pool_traces([folder / "hidden"], folder / "hidden.json")
    np.savez(folder / "fit.npz", mean=draws[:, 0], sd=np.full_like(draws[:, 0], 0.5))
    return folder


def aligned(run: Path, folder: Path, **changes: Any) -> Path:
    settings = AlignmentConfig(**{"run": "r", "pairs": 6, **changes}).model_dump(mode="json")
    folder.mkdir()
    frame, draws = folder / "frame.npz", folder / "draws.npz"
    files = (run / "prepared.npz", run / "split.npz", run / "hidden.json")
    align(*files, frame, draws, posterior=POSTERIOR, alignment=settings)
    assert sorted(path.name for path in folder.iterdir()) == ["draws.npz", "frame.npz"], "no checkpoint is left"
    return folder


@pytest.mark.parametrize("criterion", ["weights", "cosine", "activations", "centred", "correlation"])
def test_every_criterion_brings_copies_together(run: Path, tmp_path: Path, criterion: str) -> None:
    folder = aligned(
        run, tmp_path / "a", criterion=criterion, dead_inputs="masked" if criterion == "cosine" else "kept"
    )
    frame = load_frame(folder / "frame.npz", SYMMETRY)
    assert np.median(frame.moment("aligned", "sd")) < 0.05 < 0.2 < np.median(frame.moment("sampled", "sd"))
    score_alignment(folder / "draws.npz", folder / "table.parquet", name=criterion, identity=IDENTITY, marks=["marked"])
    table = read_table(folder / "table.parquet").set_index(["metric", "at"])["value"]
    assert table["aligned_variance", f"{criterion}/aligned"] < 0.1 * table["aligned_variance", f"{criterion}/sampled"]
    assert table["aligned_rhat_median", f"{criterion}/scrambled"] < 1.5
    assert table["cycle_consistency", criterion] == pytest.approx(1.0)
    assert read_table(folder / "table.parquet")["note"].str.endswith("marked").all()


@pytest.mark.parametrize("criterion", ["weights", "activations", "correlation"])
@pytest.mark.parametrize("changes", [{}, {"reference": "first"}, {"unit": "chain", "unit_scales": True}])
def test_the_library_finds_the_same_frame(run: Path, tmp_path: Path, criterion: Any, changes: dict[str, Any]) -> None:
    """To the last bit, and with the same table."""
    folder = aligned(run, tmp_path / "a", criterion=criterion, **changes)
    score_alignment(folder / "draws.npz", folder / "table.parquet", name="a", identity=IDENTITY)
    rows = load_without_rows(run / "prepared.npz", run / "split.npz", POSTERIOR).split.x_fit
    settings = {"scales" if name == "unit_scales" else name: value for name, value in changes.items()}
    symmetry = bnn_atlas.Symmetry.of(POSTERIOR, rows, classes=CLASSES)
    settings |= {"by": criterion, "x": None if criterion == "weights" else rows, "pairs": 6}
    found = bnn_atlas.align(open_pool(run / "hidden.json"), symmetry, **settings)
    frame = load_frame(folder / "frame.npz", SYMMETRY)
    for name in ("units", "chain_units", "target", "objective", "mean"):
        np.testing.assert_array_equal(getattr(found.frame, name), getattr(frame, name))
    np.testing.assert_array_equal(
        np.concatenate([found.sd[p.name].ravel() for p in SYMMETRY.layout.parameters]), frame.moment("aligned", "sd")
    )
    ours = found.report().table.set_index(["metric", "at"])["value"].drop("aligned_noise", level="at")
    theirs = read_table(folder / "table.parquet")
    theirs["at"] = theirs["at"].str.removeprefix("a").str.removeprefix("/")
    pd.testing.assert_series_equal(ours, theirs.set_index(["metric", "at"])["value"])


def test_the_same_files_come_out_again_and_fewer_draws_are_taken(run: Path, tmp_path: Path) -> None:
    first, second = (aligned(run, tmp_path / name, draws=4) for name in "ab")
    for name in ("frame.npz", "draws.npz"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert load_aligned_draws(first / "draws.npz").finite.shape == (3, 4)
    assert load_frame(first / "frame.npz").draw_ids.tolist() == [0, 2, 5, 7]


@pytest.mark.parametrize("balance", [False, True])
def test_directions_of_aligned_draws_need_no_factor(run: Path, tmp_path: Path, balance: bool) -> None:
    """Of two of three chains: draws with all directions have the covariance that a full factor has."""
    folder = aligned(run, tmp_path / "a", chains=2, rank=15, unit_scales=balance)
    frame = load_frame(folder / "frame.npz", SYMMETRY)
    assert frame.finite.shape == (2, 8)
    given = {
        "form": "low_rank",
        "members": list(range(4000)),
        "seed": 1,
        "model": MODEL.model_dump(),
        "balance": balance,
    }
    drawn = []
    for rank in (15, None):
        compact_starts(run / "hidden.json", folder / "frame.npz", folder / "starts.npz", rank=rank, **given)
        with np.load(folder / "starts.npz") as arrays:
            drawn.append(arrays["parameters"].astype(float))
    for found in drawn:
        np.testing.assert_allclose(found.mean(axis=0), frame.mean, atol=0.003)
        np.testing.assert_allclose(found.std(axis=0), frame.moment("aligned", "sd"), rtol=0.08)
    full, factored = (np.cov(found.T) for found in reversed(drawn))
    assert np.linalg.norm(full - factored) < 0.2 * np.linalg.norm(factored)


def test_aligned_draws_enter_the_frame_of_another_alignment(run: Path, tmp_path: Path) -> None:
    first = aligned(run, tmp_path / "a", reference="first")
    entered = load_frame(aligned_to(run, tmp_path / "b", first / "frame.npz", frame="a") / "frame.npz", SYMMETRY)
    target = load_frame(first / "frame.npz").target
    np.testing.assert_allclose(entered.target, target, rtol=1e-6)
    assert np.abs(entered.mean - target).max() < 0.2


@pytest.mark.parametrize("criterion", ["activations", "centred"])
def test_means_of_chains_take_memory_for_a_barycentre_only(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, criterion: str
) -> None:
    whole = load_frame(aligned(run, tmp_path / "a", criterion=criterion, reference="first") / "frame.npz")
    monkeypatch.setattr("bnn_atlas.symmetry.alignment.CHAIN_BYTES", 8 * 3 * 6 * (TRAIN - 3))
    some = load_frame(aligned(run, tmp_path / "b", criterion=criterion, reference="first") / "frame.npz")
    np.testing.assert_array_equal(some.units, whole.units)
    with pytest.raises(SymmetryError, match=r"3 chains .*: lower the number of rows, or match to the first draw"):
        aligned(run, tmp_path / "c", criterion=criterion)


def test_fits_are_carried_into_the_frame_of_another_alignment(run: Path, tmp_path: Path) -> None:
    first = aligned(run, tmp_path / "a", reference="first")
    settings = {"reference": "other", "unit": "chain"}
    fits = aligned_to(run, tmp_path / "b", first / "frame.npz", **settings)
    frame = load_frame(fits / "frame.npz", SYMMETRY)
    assert frame.fit_mean is not None
    mean = load_frame(first / "frame.npz").target
    assert np.abs(frame.fit_mean - mean).max() < 0.2
    np.testing.assert_array_equal(frame.fit_sd, np.float32(0.5))
    with np.load(run / "fit.npz") as fit:
        np.testing.assert_array_equal(frame.fit_mean, apply(SYMMETRY, fit["mean"], frame.units[:, 0]))


def aligned_to(run: Path, folder: Path, other: Path, **changes: Any) -> Path:
    """Align in another frame by the means of fits."""
    settings = AlignmentConfig(**{"run": "r", "pairs": 2, **changes}).model_dump(mode="json")
    folder.mkdir()
    files = (run / "prepared.npz", run / "split.npz", run / "hidden.json", folder / "frame.npz", folder / "draws.npz")
    align(*files, posterior=POSTERIOR, alignment=settings, reference=other, fits=[run / "fit.npz"], centre="mean")
    return folder


def test_balanced_draws_are_the_same_functions(run: Path, tmp_path: Path) -> None:
    frame = load_frame(aligned(run, tmp_path / "a", unit_scales=True) / "frame.npz")
    assert np.median(frame.moment("aligned", "sd")) < 0.05
    assert not np.allclose(frame.mean, load_frame(aligned(run, tmp_path / "b") / "frame.npz").mean)
