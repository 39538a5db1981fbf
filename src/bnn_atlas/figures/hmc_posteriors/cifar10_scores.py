"""What Izmailov et al. 2021 print for CIFAR-10: accuracy, and agreement and total variation with HMC (section 9.1)."""

from typing import NamedTuple

from bnn_atlas.figures.shown import Shown
from bnn_atlas.published import published_numbers


class Printed(NamedTuple):
    """A printed number with its standard deviation."""

    value: float
    sd: float


SHIFTED = "shifted"
"""Rows of CIFAR-10-C; `test` are those of CIFAR-10."""
METRICS = ("accuracy", "agreement", "total_variation")
CEILING, SGD, ENSEMBLE = "ceiling", "sgd", "deep_ensemble"
"""Their columns `HMC (reference)`, whose agreement is that of one chain with the others, `SGD` and `Deep Ens`."""


def printed(column: str, rows: str, metric: str) -> Printed | None:
    """The number in a column of the table, of `test` or `shifted`; None for a method that it does not have."""
    for one in published_numbers("hmc_posteriors", f"CIFAR-10, {rows}"):
        if (one.label, one.metric) == (column, metric):
            return Printed(float(one.value), float(one.error or 0))
    return None


def column_of(one: Shown) -> str:
    """Name of the column that a run would stand in: its method, where an optimum is SGD and several are an ensemble."""
    if one.method == "map":
        return SGD if one.chains == 1 else ENSEMBLE
    return one.method
