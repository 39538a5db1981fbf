"""What every table and figure has to say of a run's results, whatever they are."""

from collections.abc import Mapping

from bnn_atlas.config.datasets import DatasetEntry
from bnn_atlas.config.studies import Run

DEPENDENT = "rows are dependent"
"""Begins the mark of a data set whose rows are not independent."""


def marks(run: Run, datasets: Mapping[str, DatasetEntry]) -> list[str]:
    """Marks of the run's split, and that errors over the rows of its data set are too small, where they are."""
    found = list(run.config.split.marks)
    if why := datasets[run.config.dataset].dependent_rows:
        found.append(f"{DEPENDENT} ({why}): errors over rows are too small")
    return found
