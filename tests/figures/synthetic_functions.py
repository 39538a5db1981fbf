"""Functions and running predictions made from random numbers, in the files that figures read."""

from pathlib import Path

import numpy as np

from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, running_counts, save
from bnn_atlas.metrics.tables.arrays import FunctionDraws, load_functions, save_functions

from .shown import shown


def functions_on_rows(
    path: Path, chains: int = 4, draws: int = 50, rows: int = 30, between: float = 1.0, seed: int = 0
) -> Path:
    """Draws that wander around a function of their chain; chains are `between` apart."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=rows), between * rng.normal(size=(chains, 1, rows))
    steps = 0.03 * rng.normal(size=(chains, draws, rows))
    mean = shared + 0.2 * own + np.cumsum(steps, axis=1)
    scale = np.exp(-1 + 0.1 * rng.normal(size=(chains, draws, 1))) * np.ones(rows)
    return _saved(path, rng.normal(size=(rows, 2)), mean, scale, shared, rng)


def functions_on_line(
    path: Path, chains: int = 4, draws: int = 50, points: int = 60, rough: float = 1.0, seed: int = 0, train: int = 40
) -> Path:
    """Draws of smooth functions that agree near the training rows and part beyond; more `rough` ones more so."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-3, 3, points)
    frequency = np.arange(1, 4) * 0.8
    weights = 0.12 * rough * rng.normal(size=(chains, draws, 3)) * (1 + rng.normal(size=(chains, 1, 3)) ** 2)
    phase = rng.uniform(0, 6, size=3)
    spread = 0.3 + np.maximum(np.abs(x) - 1.2, 0)
    mean = np.sin(x) + np.einsum("csk,kn->csn", weights, np.sin(frequency[:, None] * x + phase[:, None])) * spread
    scale = np.full(mean.shape, 0.2)
    train_x = np.random.default_rng(99).uniform(-1.4, 1.4, size=(train, 1))
    target = np.sin(train_x[:, 0]) + 0.2 * np.random.default_rng(98).normal(size=train)
    return _saved(path, x[:, None], mean, scale, None, rng, (train_x, target))


def running_predictions(path: Path, chains: int = 12, draws: int = 300, rows: int = 40, seed: int = 0) -> Path:
    """Densities of predictions whose error shrinks along the chain, summed up as the metrics rule does."""
    rng = np.random.default_rng(seed)
    quality = 0.25 + 0.05 * rng.normal(size=(chains, 1, 1))
    noise = rng.normal(size=(chains, draws, rows)) * np.geomspace(1.2, 0.4, draws)[:, None]
    log_density = quality - 0.5 * noise**2
    return save_running(path, log_density)


def save_running(path: Path, log_density: np.ndarray, divergent: tuple[int, ...] = ()) -> Path:
    """A summary of log densities [C, S, n]."""
    chains, draws, _ = log_density.shape
    left_out = np.isin(np.arange(chains), divergent)
    counts = running_counts(draws, 50)
    with np.errstate(divide="ignore"):
        running = np.log(np.cumsum(np.exp(log_density), axis=1) / np.arange(1, draws + 1)[:, None]).mean(axis=2)
        kept = log_density[~left_out]
        by_draw = np.log(np.exp(kept).mean(axis=0)) if len(kept) else np.full_like(log_density[0], np.nan)
    running[left_out] = np.nan
    nothing = np.empty(0, dtype=np.int64)
    summary = PredictiveSummary(
        draws, left_out, np.zeros(chains, dtype=bool), counts, np.empty((chains, draws, 0)), nothing, nothing,
        log_density_by_draw=by_draw, running_lppd=running[:, counts - 1],
    )  # fmt: skip
    save(path, summary)
    return path


def _saved(
    path: Path, x: np.ndarray, mean: np.ndarray, scale: np.ndarray, y: np.ndarray | None, rng: np.random.Generator,
    train: tuple[np.ndarray, np.ndarray] | None = None,
) -> Path:  # fmt: skip
    chains, draws, _ = mean.shape
    train_x, train_y = train or (rng.normal(size=(20, x.shape[1])), rng.normal(size=20))
    save_functions(
        path,
        FunctionDraws(
            x, np.arange(chains), np.arange(draws) * 10, np.zeros((chains, draws), dtype=bool),
            mean.astype(np.float32), scale.astype(np.float32), None, y, train_x, train_y,
        ),
    )  # fmt: skip
    return path


def two_runs(folder: Path, **sizes: int) -> list[Shown]:
    runs = []
    for seed, run in enumerate(("Permuted", "Regular")):
        functions = functions_on_rows(folder / f"{run}-functions.npz", between=seed, seed=seed, **sizes)
        predictive = running_predictions(folder / f"{run}-predictive.npz", chains=3, draws=60, seed=seed)
        runs.append(shown(run, {"functions": functions, "predictive": predictive}))
    return runs


def networks(folder: Path, count: int = 3, **changes: int) -> list[Shown]:
    return [
        shown(f"{i + 1}x8", {"functions": functions_on_line(folder / f"{i}.npz", rough=i + 1, seed=i, **changes)})
        for i in range(count)
    ]


def changed(run: Shown, **changes: np.ndarray | None) -> Shown:
    path = run.files["functions"]
    save_functions(path, load_functions(path)._replace(**changes))
    return run
