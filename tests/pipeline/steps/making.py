"""Runs of a linear classifier on a few small images, written as the rules before prediction write them."""

import io
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data.dataset import Dataset, save
from bnn_atlas.data.splitting import Split, save_split
from bnn_atlas.models.networks import build_network
from bnn_atlas.traces.pool import pool_traces
from tests.traces.making import make_statistics, write_trace

SIDE, CHANNELS, CLASSES = 4, 3, 3
TRAIN, TEST = 8, 6
SHAPE = (SIDE, SIDE, CHANNELS)
POSTERIOR: dict[str, Any] = PosteriorConfig.model_validate(
    {"model": {"kind": "mlp", "hidden": []}, "likelihood": {"kind": "categorical"}}
).model_dump(mode="json")
IDENTITY = {
    "study": "s", "run": "r", "scale": "demo", "split": 0, "dataset": "small", "model": "linear", "method": "hmc",
}  # fmt: skip


class Run(NamedTuple):
    """The files of a run before its predictions."""

    dataset: Path
    split: Path
    pool: Path
    images: Dataset
    rows: np.ndarray
    """Test rows, in order."""
    mean: np.ndarray
    scale: np.ndarray
    draws: np.ndarray
    """[chain, draw, parameter]."""

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """[chain, n, k] average over draws of softmax(W x + b) for raw images [n, H, W, C], in float64."""
        x = ((images - self.mean) / self.scale).reshape(len(images), -1)
        inputs = x.shape[1]
        biases, weights = np.split(self.draws, [CLASSES], axis=-1)
        logits = np.einsum("csji,ni->csnj", weights.reshape(*self.draws.shape[:2], CLASSES, inputs), x)
        return softmax(logits + biases[:, :, None], axis=-1).mean(axis=1)


LAYOUT = build_network(PosteriorConfig.model_validate(POSTERIOR).model, SHAPE, CLASSES).layout


def make_images(seed: int, low: int = 0, high: int = 256, **changes: Any) -> Dataset:
    """Random images of levels low to high - 1 whose first rows are published as training rows."""
    numbers = np.random.default_rng(seed)
    fields: dict[str, Any] = {
        "x": numbers.integers(low, high, (TRAIN + TEST, *SHAPE), dtype=np.uint8),
        "y": numbers.integers(0, CLASSES, TRAIN + TEST),
        "published_train": TRAIN,
    }
    fields |= changes
    return Dataset(
        feature_names=(), target_name="label", task="classification", classes=("a", "b", "c"), kind="image", **fields
    )  # fmt: skip


def make_run(folder: Path, test: np.ndarray | None = None, chains: int = 3, draws: int = 8) -> Run:
    """Write a data set, a split with these test rows (the published ones by default), and two blocks' traces."""
    images = make_images(0)
    rows = np.arange(TRAIN, TRAIN + TEST) if test is None else test
    others = np.setdiff1d(np.arange(len(images.x)), rows)
    dataset, split, pool = folder / "prepared.npz", folder / "split.npz", folder / "pool.json"
    save(dataset, images)
    save_split(split, images, Split(others, others[:0], rows))
    values = 0.3 * np.random.default_rng(1).standard_normal((chains, draws, LAYOUT.size)).astype("float32")
    statistics = make_statistics(chains, draws)
    for number, (first, stop) in enumerate(((0, 1), (1, chains))):
        part = {name: array[first:stop] for name, array in statistics.items()}
        write_trace(folder / f"block{number}", values[first:stop], part, chain_ids=range(first, stop), layout=LAYOUT)
    pool_traces([folder / f"block{number}" for number in (0, 1)], pool)
    pixels = images.x[others].astype(np.float64)
    mean, scale = pixels.mean(axis=(0, 1, 2)), pixels.std(axis=(0, 1, 2))
    return Run(dataset, split, pool, images, rows, mean, scale, values.astype(np.float64))


def cifar10c_tar(path: Path, labels: np.ndarray, seed: int = 9) -> np.ndarray:
    """Write a tar of the form of CIFAR-10-C with one corruption, fog, and give its images [5, n, H, W, C]."""
    images = np.random.default_rng(seed).integers(0, 256, (5, len(labels), *SHAPE), dtype=np.uint8)
    with tarfile.open(path, "w") as tar:
        for name, array in (("fog", images.reshape(-1, *SHAPE)), ("labels", np.tile(labels, 5))):
            stream = io.BytesIO()
            np.save(stream, array)
            member = tarfile.TarInfo(f"CIFAR-10-C/{name}.npy")
            member.size = len(stream.getvalue())
            tar.addfile(member, io.BytesIO(stream.getvalue()))
    return images
