"""docs/published_code.md: what differs from the published code, with effects that the kept results measure.

`python -m bnn_atlas.report.published_code` writes it.
"""

from pathlib import Path

import pandas as pd

from bnn_atlas.kept import FOLDER
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.report.text import signed, write

PAGE = Path("docs/published_code.md")
CELL = ["run", "split", "dataset", "at"]
"""Columns that tell apart what a metric was measured on."""


class Effects:
    """Effects by the metric tables that the pages of results keep."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._tables: dict[str, pd.DataFrame] = {}

    def changes(self, study: str, metric: str, other: str, sign: int = 1, on: str = "") -> pd.Series:
        """`sign` times the metric `other` less `metric`, wherever all chains and draws have both.

        `on` is the pattern of the data sets that count; by default all of them.
        """
        table = self._last(study)
        wide = table[table["dataset"].str.contains(on)].pivot(index=CELL, columns="metric", values="value")
        return (sign * wide[other] - wide[metric]).dropna()

    def mean(self, study: str, metric: str, run: str, on: str = "", at: str = "") -> float:
        """Mean of a metric over all splits and repetitions of runs."""
        return float(self._of(study, metric, run, on, at).mean())

    def spread(self, study: str, metric: str, run: str) -> float:
        """Its standard deviation over splits and repetitions."""
        return float(self._of(study, metric, run, "", "").std())

    def largest(self, study: str, metric: str) -> float:
        """Largest value of a metric over all runs, data sets and places."""
        table = self._last(study)
        return float(self._kept(study, metric, table[table["metric"] == metric]).max())

    def _of(self, study: str, metric: str, run: str, on: str, at: str) -> pd.Series:
        table = self._last(study)
        chosen = table["run"].str.fullmatch(run) & (table["metric"] == metric) & table["dataset"].str.contains(on)
        return self._kept(study, f"{metric} for the runs {run}", table[chosen & (table["at"] == at)])

    def _kept(self, study: str, what: str, rows: pd.DataFrame) -> pd.Series:
        """The values of rows; ValueError if there are none."""
        if rows.empty:
            raise ValueError(f"{self._results / study}: no rows of {what} are kept")
        return rows["value"]

    def _last(self, study: str) -> pd.DataFrame:
        """The rows with the largest numbers of chains and draws."""
        if study not in self._tables:
            rows = read_table(self._results / study / FOLDER / "metrics.parquet").sort_values(["chains", "draws"])
            self._tables[study] = rows.drop_duplicates([*CELL, "metric"], keep="last")
        return self._tables[study]


def number(value: float, digits: int) -> str:
    """A number with its sign, if it is negative."""
    return signed(f"{value:.{digits}f}")


def extent(change: float, digits: int) -> str:
    """`0.08 lower`, or `0.08 higher`."""
    return f"{abs(change):.{digits}f} {'lower' if change < 0 else 'higher'}"


def write_published_code(root: Path) -> None:
    """Write the page of a repository, whose docs/results has the effects."""
    effects = Effects(root / "docs" / "results")
    write(root / PAGE, "published_code.md.j2", effects=effects, number=number, extent=extent)


if __name__ == "__main__":
    write_published_code(Path())
