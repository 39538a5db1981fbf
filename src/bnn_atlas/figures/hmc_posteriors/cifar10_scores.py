"""What Izmailov et al. 2021 print for CIFAR-10: accuracy, and agreement and total variation with HMC (section 9.1)."""

from typing import NamedTuple

from bnn_atlas.config.parts.evaluation import TEST
from bnn_atlas.figures.shown import Shown


class Printed(NamedTuple):
    """A printed number with its standard deviation."""

    value: float
    sd: float


SHIFTED = "shifted"
"""Rows of CIFAR-10-C; `test` are those of CIFAR-10."""
METRICS = ("accuracy", "agreement", "total_variation")
CEILING, SGD, ENSEMBLE = "ceiling", "sgd", "deep_ensemble"
"""Their columns `HMC (reference)`, whose agreement is that of one chain with the others, `SGD` and `Deep Ens`."""
_COLUMNS = (CEILING, SGD, ENSEMBLE, "mean_field", "sgld", "sghmc", "sghmc_clr", "sghmc_clr_prec")
_PRINTED = {
    (TEST, "accuracy"): (
        (0.8964, 0.0025), (0.8344, 0.0114), (0.8849, 0.0010), (0.8645, 0.0027), (0.8932, 0.0023), (0.8938, 0.0032),
        (0.8963, 0.0037), (0.8746, 0.0021),
    ),
    (TEST, "agreement"): (
        (0.9401, 0.0025), (0.8548, 0.0100), (0.9152, 0.0006), (0.8875, 0.0024), (0.9154, 0.0015), (0.9198, 0.0035),
        (0.9267, 0.0052), (0.9096, 0.0024),
    ),
    (TEST, "total_variation"): (
        (0.074, 0.003), (0.190, 0.005), (0.115, 0.000), (0.136, 0.000), (0.110, 0.001), (0.109, 0.001), (0.099, 0.006),
        (0.111, 0.002),
    ),
    (SHIFTED, "accuracy"): (
        (0.7091, 0.0093), (0.7104, 0.0180), (0.7699, 0.0039), (0.7540, 0.0034), (0.7880, 0.0017), (0.7820, 0.0025),
        (0.7643, 0.0039), (0.7342, 0.0039),
    ),
    (SHIFTED, "agreement"): (
        (0.8600, 0.0044), (0.7201, 0.0082), (0.7929, 0.0018), (0.7547, 0.0027), (0.7799, 0.0022), (0.7898, 0.0022),
        (0.8093, 0.0073), (0.7965, 0.0035),
    ),
    (SHIFTED, "total_variation"): (
        (0.133, 0.004), (0.334, 0.007), (0.220, 0.003), (0.245, 0.002), (0.214, 0.002), (0.203, 0.002), (0.194, 0.010),
        (0.205, 0.005),
    ),
}  # fmt: skip


def printed(column: str, rows: str, metric: str) -> Printed | None:
    """The number in a column of the table, of `test` or `shifted`; None for a method that it does not have."""
    if column not in _COLUMNS:
        return None
    return Printed(*_PRINTED[rows, metric][_COLUMNS.index(column)])


def column_of(one: Shown) -> str:
    """Name of the column that a run would stand in: its method, where an optimum is SGD and several are an ensemble."""
    if one.method == "map":
        return SGD if one.chains == 1 else ENSEMBLE
    return one.method
