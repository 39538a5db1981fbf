"""Accuracies of pruned networks as metrics."""

import numpy as np
import pandas as pd

from bnn_atlas.metrics.tables.measurement import Measurement

HEADLINE = (50.0, 20.0, 10.0)
"""Percentages of kept parameters that are in the metric table; the others are in the table of the curves."""


def pruning_measurements(curves: pd.DataFrame) -> list[Measurement]:
    """Accuracy at the headline percentages, mean over repeated orders, with its standard error.

    Of n random orders with accuracies of sd s, and mean squared errors e^2 over the same rows, it is
    sqrt(e^2 + s^2 / n). `curves` is `files.PRUNING_SCHEMA`. `at` is `<network> <of> by <rank>, <kept> % kept`, and
    `, dead inputs removed`.
    """
    found = []
    shown = curves[curves["kept"].isin(HEADLINE)]
    for (network, of, rank, dead, kept), part in shown.groupby(
        ["network", "of", "rank", "dead_inputs", "kept"], sort=False
    ):
        at = f"{network} {of} by {rank}, {kept:g} % kept" + (", dead inputs removed" if dead == "removed" else "")
        note = f"mean of {len(part)} orders" if len(part) > 1 else ""
        value, of_rows = float(part["accuracy"].mean()), float((part["standard_error"] ** 2).mean())
        of_orders = float(part["accuracy"].var(ddof=1)) / len(part) if len(part) > 1 else 0.0
        error = float(np.sqrt(of_rows + of_orders))
        found.append(Measurement("accuracy_pruned", value, error, note, at=at, over="rows"))
    return found
