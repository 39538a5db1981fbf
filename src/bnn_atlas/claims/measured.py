"""The measurements of a study for its claims: the metric table, and everything that claims derive from the table."""

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from bnn_atlas.claims.plan import OF_ROWS, SIGN
from bnn_atlas.claims.sides import Repetition
from bnn_atlas.files import load_chosen
from bnn_atlas.metrics.formulas.averages import density_over_chains
from bnn_atlas.metrics.formulas.repetitions import overlaps
from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.judgement.checks import (
    Status,
    Values,
    diverged,
    divergences,
    exploded,
    metric_rows,
    noise_check,
)
from bnn_atlas.metrics.judgement.measure import ORDERING_SEED, ORDERINGS, correct_rows
from bnn_atlas.metrics.judgement.referee import MIXED, NOT_MIXED
from bnn_atlas.metrics.judgement.trust import FIT, Trust, trusts
from bnn_atlas.metrics.tables.measurement import PredictionError
from bnn_atlas.metrics.tables.parquet import read_table

SAME_DIFFERENCE = 1e-5
"""Two differences of a score count as the same up to this rounding."""


class Measured:
    """The metric table of a study, with its figures and predictions."""

    def __init__(
        self,
        table: pd.DataFrame | None,
        figures: Mapping[str, str | Path] | None = None,
        predictions: Mapping[str, str | Path] | None = None,
        kept: Mapping[tuple[str, int, str, int], np.ndarray] | None = None,
    ) -> None:
        """Keep the arguments.

        Args:
            table: the metric table, if there is one.
            figures: name -> PNG of a figure, with its CSV next to it.
            predictions: `run/split<n>` -> predictions of the test rows, to pair differences by row.
            kept: (run, split, metric, number of chains) -> `row_values` of runs without predictions.
        """
        self.table, self.figures, self._predictions = table, dict(figures or {}), dict(predictions or {})
        self._kept = dict(kept or {})

    @classmethod
    def read(cls, path: str | Path | None, runs: object, **files: Any) -> Self:
        """The measurements of some runs in a study's table; there is no table if the file does not exist."""
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
        """Run and split -> number of test rows divided by number of training rows."""
        return {} if self.table is None else overlaps(self.table)

    def test_rows(self, run: str, split: int) -> int:
        """Number of test rows of a run and split; 0 if the table does not give this number."""
        return int(self.metric(run, split, "rows_test") or 0)

    def metric(self, run: str, split: int, name: str) -> float | None:
        """A metric without a parameter, for all chains of a run and split; None if the table lacks the metric."""
        rows = self._of_runs.get((run, split))
        return rows[name].value if rows is not None and name in rows else None

    @cached_property
    def _of_runs(self) -> dict[tuple[str, int], Values]:
        """Run and split -> the metrics without a parameter on its own test rows."""
        if self.table is None:
            return {}
        own = self.table[~self.table["dataset"].str.contains("/")].sort_values("chains", kind="stable")
        groups = (rows for _, rows in own.groupby(["run", "split"], sort=False))
        return {(str(rows["run"].iloc[0]), int(rows["split"].iloc[0])): metric_rows(rows) for rows in groups}

    @cached_property
    def diverged(self) -> dict[tuple[str, int], str]:
        """Run and split of a fit or chains that diverged -> why (`judgement.checks.diverged`)."""
        return {place: why for place, rows in self._of_runs.items() if (why := diverged(rows))}

    @cached_property
    def exploded(self) -> dict[tuple[str, int], str]:
        """Run and split of a fit or chains whose values are meaningless -> why (`judgement.checks.exploded`)."""
        return {place: why for place, rows in self._of_runs.items() if (why := exploded(rows))}

    @cached_property
    def divergent(self) -> dict[tuple[str, int], str]:
        """Run and split with too many divergent steps -> the check."""
        found = {place: divergences(rows) for place, rows in self._of_runs.items()}
        return {place: check.short for place, check in found.items() if check and check.status is Status.DISTRUST}

    @cached_property
    def unmixed_referees(self) -> dict[tuple[str, int], str]:
        """Run and split whose referee did not mix -> the reason that the table gives."""
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
        """Run and split of a fit whose single noise parameter has not converged -> the noise's value and optimum."""
        if self.table is None:
            return {}
        found = {}
        for place, rows in self._of_runs.items():
            check = noise_check(rows)
            if check is not None and check.status is Status.DISTRUST:
                found[place] = check.short
        return found

    @cached_property
    def unfit_references(self) -> dict[tuple[str, int], str]:
        """Run and split with draws that may not serve as a reference -> why, according to the table."""
        if self.table is None:
            return {}
        rows = self.table[(self.table["metric"] == FIT) & (self.table["value"] != 1)]
        found = zip(rows["run"], rows["split"], rows["note"], strict=True)
        return {(str(run), int(split)): note.split("; ")[0] for run, split, note in found}

    def row_values(self, run: str, split: int, metric: str, chains: int) -> np.ndarray | None:
        """Values [n] at single test rows whose mean is the metric of this number of chains; None if unknown.

        For fewer than all chains, the values are means over the same random orders as in the table.
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

    def elpd_error(self, own: Repetition, other: Repetition) -> tuple[float, int] | None:
        """Error of a difference in LPPD, paired by row, and the number of rows; None if the table lacks it.

        The table has it (`elpd_diff`) for a run and its reference, whichever of the two is `own`, with all chains and
        draws: a row counts only if its difference is that of the two values.
        """
        if self.table is None or own.metric != other.metric or own.metric not in ("lppd", "nll"):
            return None
        if (own.split, own.dataset) != (other.split, other.dataset):
            return None
        rows = self.table[(self.table["metric"] == "elpd_diff") & (self.table["split"] == own.split)]
        rows = rows[(rows["dataset"] == own.dataset) & rows["standard_error"].notna()]
        sides = {(own.run, other.run): SIGN[own.metric], (other.run, own.run): -SIGN[own.metric]}
        for run, at, value, error in zip(*(rows[n] for n in ("run", "at", "value", "standard_error")), strict=True):
            sign = sides.get((run, at))
            if sign and math.isclose(sign * value, own.value - other.value, abs_tol=SAME_DIFFERENCE):
                return float(error), self.test_rows(own.run, own.split)
        return None


Rows = Callable[[str, int, str, int], np.ndarray | None]
"""`Measured.row_values`."""
