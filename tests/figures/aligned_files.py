"""Files of an alignment for tests of figures."""

from pathlib import Path

import numpy as np

from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.aligned_draws import AlignedDraws, save_aligned_draws
from bnn_atlas.symmetry.frame import MOMENTS, VARIANTS, Frame, save_frame

from .shown import shown

NAMES = ("layer0.bias[0]", "layer0.weight[0,0]", "layer0.weight[1,2]", "layer1.weight[0,1]", "layer1.weight[2,0]")


def aligned_draws(file: Path, chains: int = 3, draws: int = 30, apart: float = 2.0, seed: int = 0) -> AlignedDraws:
    """Chains around different points as sampled, together when aligned; NoT of 1 within and 4 across chains, of 5."""
    generator = np.random.default_rng(seed)
    noise = {variant: generator.normal(size=(chains, draws, len(NAMES))).astype(np.float32) for variant in VARIANTS}
    noise["sampled"] += apart * np.arange(chains)[:, None, None]
    ids = np.array([[0, 0], [1, 1], [0, 1], [1, 2]]) % chains
    found = AlignedDraws(
        names=np.array(NAMES), columns=np.arange(len(NAMES)), finite=np.ones((chains, draws), bool), values=noise,
        groups=np.array(["layer0"]), sizes=np.array([5]),
        units=np.tile(np.arange(5, dtype=np.int16), (chains, draws, 1)), fixed=True,
        variances=np.array([[4.0, 1.0], [1.5, 1.0], [2.0, 2.0], [1.7, 1.0]]),
        pair_chains=ids, pair_draws=np.array([[0, 1]] * 4),
        transpositions=np.where(ids[:, :1] == ids[:, 1:], 1, 4), consistency=np.array([[0.8], [0.6]]), gain=0.0,
    )  # fmt: skip
    save_aligned_draws(file, found)
    return found


def frame(file: Path, size: int = 400, sd: float = 1.0, fitted: bool = False, shift: float = 0.0) -> Frame:
    """Moments of `size` parameters: sds around `sd`, wider as sampled."""
    generator = np.random.default_rng(3)
    moments = {}
    for variant in VARIANTS:
        wider = 1.2 if variant == "sampled" else 1.0
        for moment in MOMENTS:
            values = generator.normal(size=size) if moment == "mean" else generator.uniform(0.9, 1.1, size) * sd * wider
            moments[f"{variant}_{moment}"] = values + (shift if moment == "mean" else 0)
    units = np.tile(np.arange(5, dtype=np.int16), (2, 25, 1))
    fits = {"fit_mean": np.ones((2, size)) * np.arange(size), "fit_sd": np.full((2, size), sd / 2)} if fitted else {}
    found = Frame(
        np.arange(2), np.arange(25), np.ones((2, 25), bool), units, np.ones_like(units, np.int8), units[:, 0],
        np.ones_like(units[:, 0], np.int8), moments, np.zeros(size), np.zeros((1, size), np.float32),
        np.array([1.0]), True, **fits,
    )  # fmt: skip
    save_frame(file, found)
    return found


def of_alignments(name: str, files: dict[str, Path], run: str = "mile") -> Shown:
    return shown(run, parts={name: files})
