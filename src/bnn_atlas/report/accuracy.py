"""docs/accuracy.md: how right and how fast, with measured numbers taken from the tables behind the pages of results.

`python -m bnn_atlas.report.accuracy` writes it.
"""

from pathlib import Path

import pandas as pd

from bnn_atlas.kept import FOLDER
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.published import read_published
from bnn_atlas.report.console import read_rows
from bnn_atlas.report.text import signed, write

PAGE = Path("docs", "accuracy.md")
RESULTS = Path("docs", "results")


class Kept:
    """The numbers of one study, as text; each method raises KeyError for a number that no table has."""

    def __init__(self, root: Path, study: str) -> None:
        self.study, self.folder = study, root / RESULTS / study
        self._table = read_table(self.folder / FOLDER / "metrics.parquet")
        self._claims = {row["claim"]: row for row in read_rows(self.folder / "claims.csv")}
        self._published = read_published(root / "config" / "published" / f"{study}.csv")

    def claim(self, name: str) -> str:
        """What was measured for a claim, with its error; the sentence around it says which way a difference goes."""
        if not (here := self._claims.get(name, {}).get("here")):
            raise KeyError(f"{self.study}: nothing was measured for a claim '{name}'")
        return signed(here.removeprefix("+"))

    def sd(self, name: str, digits: int) -> str:
        """The value of a claim and its standard deviation over repetitions."""
        self.claim(name)
        value, sd = (float(self._claims[name][key]) for key in ("value", "sd"))
        return signed(f"{value:.{digits}f} ± {sd:.{digits}f}")

    def metric(self, runs: str, metric: str, at: str = "", digits: int = 3, scale: float = 1) -> str:
        """A metric of all chains on the test rows, of one or more runs, whose names are separated by blanks."""
        found = []
        for run in runs.split():
            table = self._table
            rows = table[(table["run"] == run) & (table["metric"] == metric) & (table["at"] == at)]
            rows = rows[~rows["dataset"].str.contains("/")].sort_values(["chains", "draws"]).groupby("split").tail(1)
            if rows.empty:
                raise KeyError(f"{self.study}: run '{run}' has no metric '{metric}' at '{at}'")
            found.append(f"{scale * rows['value'].mean():,.{digits}f}")
        return signed(", ".join(found))

    def counted(self, runs: str, metric: str, above: float) -> str:
        """How many values of a metric exceed a number, in each of several runs, and of how many."""
        exceed, of = [], set[int]()
        for run in runs.split():
            rows = self._table[(self._table["run"] == run) & (self._table["metric"] == metric)]
            if rows.empty:
                raise KeyError(f"{self.study}: run '{run}' has no metric '{metric}'")
            exceed.append(str((rows["value"] > above).sum()))
            of.add(len(rows))
        return f"{', '.join(exceed)} of {', '.join(map(str, sorted(of)))}"

    def figure(self, name: str, wanted: str, digits: int = 3, /, **where: str | float) -> str:
        """A number in the CSV file of a figure: the wanted column of the only row that has these values."""
        rows = pd.read_csv(self.folder / f"{name}.csv")
        for key, value in where.items():
            rows = rows[rows[key] == value]
        if len(rows) != 1:
            raise KeyError(f"{self.study}: {name}.csv has {len(rows)} rows with {where}; one is needed")
        return signed(f"{rows[wanted].iloc[0]:,.{digits}f}")

    def published(self, key: str, digits: int = 3) -> str:
        """A published number."""
        return signed(f"{self._published[key].value:.{digits}f}")

    def published_sd(self, key: str, digits: int) -> str:
        """A published number and its printed error."""
        return f"{self.published(key, digits)} ± {self._published[key].error:.{digits}f}"


def write_accuracy(root: Path, destination: Path) -> None:
    """Write the page."""
    studies = {study.name: Kept(root, study.name) for study in sorted((root / RESULTS).iterdir()) if study.is_dir()}
    write(destination, "accuracy.md.j2", **studies)


if __name__ == "__main__":
    write_accuracy(Path(), PAGE)
