"""Accuracies of pruned networks as metrics."""

import pandas as pd

from bnn_atlas.metrics.tables.measurement import Measurement

HEADLINE = (50.0, 20.0, 10.0)
"""Percentages of kept parameters that are in the metric table; the others are in the table of the curves."""


def pruning_measurements(curves: pd.DataFrame) -> list[Measurement]:
    """Accuracy at the headline percentages, mean over repeated orders, with its standard error over rows.

    `curves` is `files.PRUNING_SCHEMA`. `at` is `<network> <of> by <rank>, <kept> % kept`, and `, dead inputs removed`.
    """
    found = []
    shown = curves[curves["kept"].isin(HEADLINE)]
    for (network, of, rank, dead, kept), part in shown.groupby(
        ["network", "of", "rank", "dead_inputs", "kept"], sort=False
    ):
        at = f"{network} {of} by {rank}, {kept:g} % kept" + (", dead inputs removed" if dead == "removed" else "")
        note = f"mean of {len(part)} orders" if len(part) > 1 else ""
        value, error = float(part["accuracy"].mean()), float(part["standard_error"].mean())
        found.append(Measurement("accuracy_pruned", value, error, note, at=at, over="rows"))
    return found
