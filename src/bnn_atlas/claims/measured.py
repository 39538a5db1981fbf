"""What a study measured, as its claims need it: its metric table, and what follows from it once for all claims."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from bnn_atlas.claims.plan import OF_ROWS, SIGN
from bnn_atlas.files import load_chosen
from bnn_atlas.metrics.formulas.repetitions import overlaps
from bnn_atlas.metrics.formulas.scores import density_over_chains
from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.judgement.checks import NOISES, Status, metric_rows, noise_check
from bnn_atlas.metrics.judgement.measure import ORDERING_SEED, ORDERINGS, correct_rows
from bnn_atlas.metrics.judgement.referee import MIXED, NOT_MIXED
from bnn_atlas.metrics.judgement.trust import FIT, Trust, trusts
from bnn_atlas.metrics.tables.files import read_table
from bnn_atlas.metrics.tables.measurement import PredictionError


class Measured:
    """The metric table of a study with the files beside it."""

    def __init__(
        self,
        table: pd.DataFrame | None,
        figures: Mapping[str, str | Path] | None = None,
        predictions: Mapping[str, str | Path] | None = None,
        kept: Mapping[tuple[str, int, str, int], np.ndarray] | None = None,
    ) -> None:
        """`table` is None where there is none.

        `figures` has the PNG of a figure by its name, beside which its CSV is, `predictions` those for the test rows by
        `run/split<n>`, by whose values at single rows differences on the same rows are paired. `kept` are these values
        of runs without predictions, by run, split, metric and number of chains, as `row_values` gives them.
        """
        self.table, self.figures, self._predictions = table, dict(figures or {}), dict(predictions or {})
        self._kept = dict(kept or {})

    @classmethod
    def read(cls, path: str | Path | None, runs: object, **files: Any) -> Self:
        """What is in a study's table of some runs; without a table where there is no such file."""
        table = None
        if path is not None and Path(path).is_file():
            table = read_table(path)
            table = table[table["run"].isin(list(runs))]  # type: ignore[call-overload]
        return cls(table, **files)

    @cached_property
    def trusts(self) -> dict[tuple[str, int], Trust]:
        """Run and split -> whether its draws can be trusted."""
        return {} if self.table is None else trusts(self.table)

    @cached_property
    def overlaps(self) -> dict[tuple[str, int], float]:
        """Run and split -> test rows over training rows."""
        return {} if self.table is None else overlaps(self.table)

    @cached_property
    def unmixed_referees(self) -> dict[tuple[str, int], str]:
        """Run and split whose referee has not mixed -> why, as the table says it."""
        if self.table is None:
            return {}
        rows = self.table[(self.table["metric"] == MIXED) & (self.table["value"] != 1)]
        found = {}
        for run, split, note in zip(rows["run"], rows["split"], rows["note"], strict=True):
            said = [part for part in note.split("; ") if part.startswith(NOT_MIXED)]
            found[str(run), int(split)] = said[0] if said else f"{NOT_MIXED}: {note}"
        return found

    @cached_property
    def unsettled_noises(self) -> dict[tuple[str, int], str]:
        """Run and split of a fit whose noise, one number, has not converged -> where it is and where it would be."""
        if self.table is None:
            return {}
        of_rows = self.table["metric"].isin(NOISES) & ~self.table["dataset"].str.contains("/")
        found = {}
        for _, rows in self.table[of_rows].groupby(["run", "split"], sort=False):
            check = noise_check(metric_rows(rows))
            if check is not None and check.status is Status.DISTRUST:
                found[str(rows["run"].iloc[0]), int(rows["split"].iloc[0])] = check.short
        return found

    @cached_property
    def unfit_references(self) -> dict[tuple[str, int], str]:
        """Run and split whose draws may not serve as a reference -> why, as the table says it."""
        if self.table is None:
            return {}
        rows = self.table[(self.table["metric"] == FIT) & (self.table["value"] != 1)]
        found = zip(rows["run"], rows["split"], rows["note"], strict=True)
        return {(str(run), int(split)): note.split("; ")[0] for run, split, note in found}

    def row_values(self, run: str, split: int, metric: str, chains: int) -> np.ndarray | None:
        """The values [n] of the test rows whose mean is a metric, of a number of chains; None where they are not known.

        Of fewer chains than there are it is the mean over the same random orders as in the table.
        """
        path = self._predictions.get(f"{run}/split{split}")
        if metric not in OF_ROWS or path is None or not Path(path).is_file():
            return self._kept.get((run, split, metric, chains))
        if metric not in SIGN:
            summary = load(path)
            return correct_rows(summary).astype(float) if chains == len(summary.kept) else None
        names = {"log_density_by_chain", "divergent"}
        found = load_chosen(path, names, PredictionError, "a predictive summary")
        kept = found["log_density_by_chain"][~found["divergent"]]
        if not 0 < chains <= len(kept):
            return None
        rows = density_over_chains(kept, np.array([chains]), ORDERINGS, ORDERING_SEED)[1][0]
        return np.asarray(SIGN[metric] * rows)


Rows = Callable[[str, int, str, int], np.ndarray | None]
"""`Measured.row_values`."""
