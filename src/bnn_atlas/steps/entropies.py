"""The forms of the entropy at a fit of implicit variational inference."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.config.methods.registry import MethodConfig
from bnn_atlas.inference.problem import load_problem
from bnn_atlas.methods.implicit.compare import compared
from bnn_atlas.methods.implicit.fitted import fitted
from bnn_atlas.metrics.tables.files import ENTROPY_SCHEMA, write_frame


class EntropyError(ValueError):
    """A run that has no generator."""


def entropies(
    dataset: str | Path,
    split: str | Path,
    fit: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    method: Mapping[str, Any],
    seed: int,
) -> None:
    """Compare the forms at the fit of the first chain of a block (Parquet, `ENTROPY_SCHEMA`).

    Raises:
        EntropyError: the method is another one.
    """
    config: MethodConfig = TypeAdapter(MethodConfig).validate_python(method)
    if not isinstance(config, ImplicitConfig):
        raise EntropyError(
            f"{fit}: the entropies of a generator are compared, and the method is '{config.kind}': show runs of kind "
            "'implicit' only"
        )
    problem = load_problem(dataset, split, {**posterior, "data_shards": 1})
    with np.load(fit, allow_pickle=False) as arrays:
        one = fitted(config, problem.posterior, dict(arrays))
    frame = pd.DataFrame(compared(one, seed)).assign(noise=one.family.noise, weights=one.family.generator.size)
    write_frame(destination, frame[ENTROPY_SCHEMA.names], ENTROPY_SCHEMA)
