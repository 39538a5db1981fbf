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
from bnn_atlas.methods.implicit.entropy.exact import Exact, check_memory
from bnn_atlas.methods.implicit.entropy.lanczos import Lanczos
from bnn_atlas.methods.implicit.entropy.published import Published
from bnn_atlas.methods.implicit.entropy.smallest import Smallest
from bnn_atlas.methods.implicit.generators.base import Generator

STEPS_OF_SCORES = 20
DIRECTIONS = 3


def build_form(config: EntropyConfig, generator: Generator, dtype: np.dtype) -> Form:
    """Form of the settings for a generator.

    Raises:
        ValueError: it needs more memory than it may take, or more directions than the noise has.
    """
    match config:
        case ExactEntropy():
            check_memory(generator, dtype, config.memory_mb)
            return Exact()
        case LanczosEntropy():
            if config.steps > prod(generator.shape):
                raise ValueError(
                    f"{config.steps} Lanczos steps for {prod(generator.shape)} noise numbers: there are no more "
                    "directions than these; lower entropy.steps"
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
    """Form with which draws are scored, `form` itself where that is exact. Raises ValueError as `build_form`."""
    chosen = config.scored_by
    if chosen is None and isinstance(form, Exact):
        return form
    return build_form(chosen or LanczosEntropy(steps=min(STEPS_OF_SCORES, prod(generator.shape))), generator, dtype)
