"""Pruned networks of two aligned runs, from files to tables: counts, accuracies, orders, dead inputs, refusals."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.config.parts.evaluation import PruningConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data import DataError
from bnn_atlas.data.dataset import save
from bnn_atlas.data.splitting import Split, save_split
from bnn_atlas.inference.problem import load_without_rows
from bnn_atlas.metrics.tables.parquet import PRUNING_SCHEMA, read_frame, read_table
from bnn_atlas.models.layout import Layout
from bnn_atlas.pipeline.steps.symmetry import pruning
from bnn_atlas.symmetry.frame import MOMENTS, VARIANTS, Frame, save_frame
from bnn_atlas.traces.pool import pool_traces
from tests.traces.making import make_statistics, write_trace

from .making import IDENTITY, POSTERIOR, SHAPE, TEST, TRAIN, make_images

HIDDEN, DEAD = 5, 6
NETWORK: dict[str, Any] = PosteriorConfig.model_validate(
    {**POSTERIOR, "model": {"kind": "mlp", "hidden": [HIDDEN]}}
).model_dump(mode="json")
KEPT = (100, 50, 20)


class Files(NamedTuple):
    dataset: Path
    split: Path
    layout: Layout
    sources: dict[str, tuple[Path, Path]]
    """Name -> frame and pool."""
    arrays: dict[str, dict[str, np.ndarray]]
    """Name -> mean, sd and last draw, aligned."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Two runs of two draws each; six values of each image never vary in the training rows."""
    folder, generator = tmp_path_factory.mktemp("files"), np.random.default_rng(2)
    x = generator.integers(0, 256, (TRAIN + TEST, *SHAPE), dtype=np.uint8)
    x.reshape(len(x), -1)[:TRAIN, :DEAD] = 7
    images = make_images(0, x=x)
    dataset, split = folder / "prepared.npz", folder / "split.npz"
    save(dataset, images)
    save_split(split, images, Split(np.arange(TRAIN), np.arange(0), np.arange(TRAIN, TRAIN + TEST)))
    layout = load_without_rows(dataset, split, NETWORK).posterior.layout
    sources, arrays = {}, {}
    for name in ("HMC", "ensemble"):
        draws = generator.normal(size=(2, 1, layout.size)).astype(np.float32)
        order = np.array([2, 0, 1, 4, 3], np.int16)
        found = {"mean": generator.normal(size=layout.size), "sd": generator.random(layout.size).astype(np.float32)}
        moments = {
            f"{variant}_{moment}": np.ones(layout.size, np.float32) for variant in VARIANTS for moment in MOMENTS
        }
        moments |= {"aligned_mean": found["mean"], "aligned_sd": found["sd"]}
        units = np.tile(order, (2, 1, 1))
        frame = Frame(
            np.arange(2), np.arange(1), np.ones((2, 1), bool), units, np.ones_like(units, np.int8), units[:, 0],
            np.ones((2, HIDDEN), np.int8), moments, np.zeros(layout.size),
            np.zeros((1, layout.size), np.float32), np.zeros(1), True,
        )  # fmt: skip
        save_frame(folder / f"{name}.npz", frame)
        write_trace(folder / name, draws, make_statistics(2, 1), layout=layout)
        pool_traces([folder / name], folder / f"{name}.json")
        parts = layout.unflatten(draws[1, 0])
        moved = {
            "layer0.bias": parts["layer0.bias"][order], "layer0.weight": parts["layer0.weight"][order],
            "layer1.bias": parts["layer1.bias"], "layer1.weight": parts["layer1.weight"][:, order],
        }  # fmt: skip
        found["draw"] = np.concatenate([moved[p.name].ravel() for p in layout.parameters])
        sources[name], arrays[name] = (folder / f"{name}.npz", folder / f"{name}.json"), found
    return Files(dataset, split, layout, sources, arrays)


def pruned(files: Files, folder: Path, sources: dict[str, tuple[Path, Path]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    config = PruningConfig(networks=dict.fromkeys(sources, "an alignment"), kept=KEPT, repeats=2)
    frames, pools = zip(*sources.values(), strict=True)
    pruning(
        files.dataset, files.split, frames, pools, table=folder / "t.parquet", curves=folder / "c.parquet",
        posterior=NETWORK, settings=config.model_dump(mode="json"), seed=1, identity=IDENTITY, chains=2,
    )  # fmt: skip
    return read_frame(folder / "c.parquet", PRUNING_SCHEMA), read_table(folder / "t.parquet")


@pytest.fixture(scope="module")
def curves(files: Files, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pruned(files, tmp_path_factory.mktemp("pruned"), files.sources)


def accuracy(files: Files, theta: np.ndarray) -> float:
    problem = load_without_rows(files.dataset, files.split, NETWORK)
    log_probs = problem.posterior.predict(theta[None].astype(np.float32), problem.split.x_test).log_probs[0]
    return float(np.mean(np.asarray(log_probs).argmax(axis=1) == problem.split.y_test))


def test_every_network_is_pruned_in_every_order(curves: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    frame, _ = curves
    orders = {"sd of HMC": 1, "sd of ensemble": 1, "magnitude": 1}
    means = {**orders, "signal to noise": 1, "random": 2, "sd of prior draws": 2}
    wanted = {("mean", rank): n for rank, n in means.items()} | {("draw", rank): n for rank, n in orders.items()}
    wanted["mean as sampled", "its own sd"] = 1
    for (_, dead), part in frame.groupby(["network", "dead_inputs"]):
        found = (part.groupby(["of", "rank"]).size() // len(KEPT)).to_dict()
        assert found == wanted, dead
    assert set(frame["dead_inputs"]) == {"kept", "removed"}


def test_counts_and_accuracies_are_those_of_networks_pruned_by_hand(
    files: Files, curves: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    frame, _ = curves
    size = files.layout.size
    for of, name, by in (("mean", "ensemble", "HMC"), ("draw", "HMC", "HMC")):
        rows = frame[
            (frame["network"] == name) & (frame["of"] == of) & (frame["rank"] == f"sd of {by}")
            & (frame["dead_inputs"] == "kept")
        ].set_index("kept")  # fmt: skip
        for kept in KEPT:
            theta = files.arrays[name][of].copy()
            theta[np.argsort(files.arrays[by]["sd"], kind="stable")[int(size * kept / 100) :]] = 0
            assert rows.loc[kept, "parameters"] == int(size * kept / 100)
            assert rows.loc[kept, "accuracy"] == pytest.approx(accuracy(files, theta))


def test_weights_of_dead_inputs_are_gone_from_the_start(
    files: Files, curves: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    frame, _ = curves
    live = files.layout.size - DEAD * HIDDEN
    removed = frame[frame["dead_inputs"] == "removed"].groupby("kept")["parameters"].unique()
    assert {kept: counts.tolist() for kept, counts in removed.items()} == {
        float(kept): [int(live * kept / 100)] for kept in KEPT
    }


def test_headlines_are_metrics(curves: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    frame, table = curves
    assert set(table["metric"]) == {"accuracy_pruned"}
    row = table[table["at"] == "ensemble mean by sd of HMC, 20 % kept"]
    same = frame[
        (frame["network"] == "ensemble") & (frame["of"] == "mean") & (frame["rank"] == "sd of HMC")
        & (frame["kept"] == 20) & (frame["dead_inputs"] == "kept")
    ]  # fmt: skip
    assert row["value"].tolist() == same["accuracy"].tolist()
    assert set(table["chains"]) == {2}, "no chain counts as excluded"
    assert "HMC mean by random, 50 % kept, dead inputs removed" in set(table["at"])


def test_draws_of_another_run_are_refused(files: Files, tmp_path: Path) -> None:
    draws = np.zeros((1, 1, files.layout.size), np.float32)
    write_trace(tmp_path / "t", draws, make_statistics(1, 1), chain_ids=range(7, 8), layout=files.layout)
    pool_traces([tmp_path / "t"], tmp_path / "pool.json")
    frame = files.sources["HMC"][0]
    with pytest.raises(DataError, match="does not belong to the draws of"):
        pruned(files, tmp_path, {"HMC": (frame, tmp_path / "pool.json")})
