"""Densities by a few draws of each chain: after layers are exchanged between draws, and of validation rows."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.metrics.formulas.averages import error_of_mean, mixture_log_density
from bnn_atlas.metrics.formulas.repetitions import GROUPS, jackknife
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError

DRAWS_OF_VALIDATION = 20
"""Most draws of each chain that predict validation rows."""


class Exchange(NamedTuple):
    """Log of the mean density of n test rows over the same draws of each of C chains; no chains if not computed."""

    draws: np.ndarray
    """[] number of draws of each chain."""
    as_drawn: np.ndarray
    """[C, n] of the draws as they are; NaN for a chain that is not finite."""
    exchanged: np.ndarray
    """[C, n] of the draws with their layers exchanged."""
    validation: np.ndarray = np.empty((0, 0))
    """[C, m] of validation rows, by draws as they are, for weights of the chains; empty if not computed."""


def save_exchange(path: str | Path, exchange: Exchange) -> None:
    """Write as .npz."""
    save_arrays(path, exchange._asdict())


def load_exchange(path: str | Path) -> Exchange:
    """Read what `save_exchange` wrote; PredictionError if the file is damaged or holds something else."""
    *required, optional = Exchange._fields
    what = "densities after exchanging layers"
    return Exchange(**load_arrays(path, required, PredictionError, what, optional=[optional]))


def exchange_measurements(exchange: Exchange, kept: np.ndarray) -> list[Measurement]:
    """LPPD of the draws of the chains `kept`, minus their LPPD after layers are exchanged between draws of a chain.

    Exchanging keeps the distribution of each layer and removes the dependence between layers, without choosing an
    alignment or a chance level: the difference is 0 on average for independent layers, as in a mean-field
    approximation. The standard error is paired by row; the Monte Carlo error is a jackknife over chains. Empty without
    chains.
    """
    if not exchange.as_drawn.size or not len(kept):
        return []

    def rows(chains: np.ndarray) -> np.ndarray:
        return mixture_log_density(exchange.as_drawn[chains]) - mixture_log_density(exchange.exchanged[chains])

    difference, error = rows(kept), None
    if len(kept) > 1:
        groups = np.array_split(kept, min(GROUPS, len(kept)))
        error = jackknife(np.array([rows(np.setdiff1d(kept, group)).mean() for group in groups]))
    note = f"{int(exchange.draws):,} draws of each chain; positive where dependence helps"
    value = float(difference.mean())
    return [Measurement("layer_dependence", value, error_of_mean(difference), note, monte_carlo_error=error)]
