"""Draws of a small network in memory: noisy copies of some modes, with their units in random orders."""

from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.groups import Symmetry, symmetry_of
from bnn_atlas.symmetry.permutation import apply, uniform_units
from bnn_atlas.traces.draws import ArrayDraws


def small_symmetry(**settings: Any) -> Symmetry:
    config = MLPConfig(**{"hidden": (6, 5), **settings})
    return symmetry_of(config, build_network(config, (3,), 2).layout)


def copies(symmetry: Symmetry, chains: int, draws: int, noise: float, seed: int = 0, per_chain: bool = False) -> Any:
    """Draws [c, s, P] around one network, permuted draw by draw or chain by chain, and that network [P]."""
    generator = np.random.default_rng(seed)
    theta = generator.normal(size=symmetry.layout.size).astype(np.float32)
    around = theta + noise * generator.normal(size=(chains, draws, theta.size)).astype(np.float32)
    units = np.stack([[uniform_units(symmetry, generator) for _ in range(draws)] for _ in range(chains)])
    units = units[:, :1] if per_chain else units
    return apply(symmetry, around, np.broadcast_to(units, (chains, draws, symmetry.units))), theta


def in_memory(symmetry: Symmetry, draws: np.ndarray) -> ArrayDraws:
    chains, length = draws.shape[:2]
    return ArrayDraws(Path("pool.json"), symmetry.layout, draws, {}, np.arange(chains), np.arange(length), {})
