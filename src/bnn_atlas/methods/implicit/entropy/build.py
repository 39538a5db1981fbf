"""The form of the entropy of given settings."""

from math import prod

import numpy as np

from bnn_atlas.config.methods.implicit import (
    EntropyConfig,
    ExactEntropy,
    ImplicitConfig,
    LanczosEntropy,
    PublishedEntropy,
    SmallestEntropy,
)
from bnn_atlas.methods.implicit.entropy.base import Form
from bnn_atlas.methods.implicit.entropy.exact import Exact, memory_of
from bnn_atlas.methods.implicit.entropy.lanczos import Lanczos
from bnn_atlas.methods.implicit.entropy.published import Published
from bnn_atlas.methods.implicit.entropy.smallest import Smallest
from bnn_atlas.methods.implicit.generators.base import Generator

DIRECTIONS = 3


def build_form(config: EntropyConfig, generator: Generator, dtype: np.dtype, key: str = "entropy") -> Form:
    """Form of the settings under `key` for a generator.

    Raises:
        ValueError: it needs more memory than it may take, or more directions than the noise has.
    """
    match config:
        case ExactEntropy():
            _check_memory(generator, dtype, config.memory_mb, key)
            return Exact()
        case LanczosEntropy():
            if config.steps > prod(generator.shape):
                raise ValueError(
                    f"{config.steps} Lanczos steps for {prod(generator.shape)} noise numbers: there are no more "
                    f"directions than these; lower {key}.steps"
                )
            return Lanczos(config.steps, config.probes)
        case SmallestEntropy():
            return Smallest(config.iterations, config.tolerance)
        case PublishedEntropy():
            if generator.shape[-1] < DIRECTIONS:
                raise ValueError(
                    f"the published entropy for noise of {generator.shape[-1]} columns: its search has {DIRECTIONS} "
                    "directions in each row; use more columns, or another entropy"
                )
            return Published(config.iterations)


def scoring_form(config: ImplicitConfig, form: Form, generator: Generator, dtype: np.dtype) -> Form:
    """Form with which draws are scored, `form` itself where both are exact. Raises ValueError as `build_form`."""
    key = "entropy" if config.scored_by is None else "scored_by"
    found = build_form(config.scoring(prod(generator.shape)), generator, dtype, key)
    return form if isinstance(form, Exact) and isinstance(found, Exact) else found


def _check_memory(generator: Generator, dtype: np.dtype, memory_mb: int, key: str) -> None:
    """Refuse an exact form whose tangents and J'J take more memory than is allowed."""
    needed = memory_of(generator, dtype)
    if needed > memory_mb:
        raise ValueError(
            f"the exact entropy of a generator with {prod(generator.shape):,} noise numbers needs about "
            f"{needed:,.0f} MB, more than {key}.memory_mb ({memory_mb:,}): raise it, or choose {key}: "
            "{ kind: lanczos }"
        )
