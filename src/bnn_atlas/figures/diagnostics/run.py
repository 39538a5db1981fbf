"""The contents of the page: the tables of one run and split, and the plotted numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from bnn_atlas.files import read_parquet
from bnn_atlas.metrics.gathering.chain_statistics import LINES
from bnn_atlas.metrics.judgement.checks import Check, checks
from bnn_atlas.metrics.tables.parquet import RunFiles, read_table

IDENTITY = ("study", "run", "scale", "split", "dataset", "model", "method")


@dataclass(frozen=True)
class Run:
    """The contents of `RunFiles`."""

    identity: dict[str, str]
    draws: int
    """Draws per chain."""
    table: pd.DataFrame
    """Rows of the metric table and of the rates, as one."""
    parameters: pd.DataFrame
    functions: pd.DataFrame
    chains: pd.DataFrame
    samplers: pd.DataFrame
    curves: pd.DataFrame
    checks: list[Check]

    @classmethod
    def read(cls, files: RunFiles) -> Self:
        """Read the files; ValueError if the metric table does not belong to exactly one run and split."""
        metrics, rates = read_table(files.table), read_table(files.rates)
        if len(metrics[list(IDENTITY)].drop_duplicates()) != 1:
            raise ValueError(f"{files.table}: a page shows one run and split; give the table of one")
        parameters, functions, chains, samplers, curves = (read_parquet(path) for path in files[2:])
        identity = {name: str(metrics[name].iloc[0]) for name in IDENTITY}
        draws = int(metrics.loc[metrics["metric"] == "chains_excluded", "draws"].iloc[0])
        table = pd.concat([metrics, rates], ignore_index=True)
        return cls(identity, draws, table, parameters, functions, chains, samplers, curves, checks(metrics))

    @property
    def count(self) -> int:
        """Number of chains."""
        return len(self.samplers)

    @property
    def kept(self) -> np.ndarray:
        """Numbers of the chains that are not excluded."""
        return np.flatnonzero((self.samplers["excluded"] == "").to_numpy())

    @property
    def lines(self) -> bool:
        """Whether chains are drawn one by one."""
        return self.count <= LINES

    def value(self, metric: str, at: str = "") -> float:
        """Value of a metric with a single row in the table; NaN otherwise."""
        found = self.table.loc[(self.table["metric"] == metric) & (self.table["at"] == at), "value"]
        return float(found.iloc[0]) if len(found) else float("nan")

    def reason(self, metric: str) -> str:
        """The first part of a metric's note: why it is undefined."""
        return str(self.table.loc[self.table["metric"] == metric, "note"].iloc[0]).split(";")[0]

    def curve(self, name: str) -> pd.DataFrame:
        """Points of one kind of curve."""
        return self.curves[self.curves["curve"] == name]

    def column(self, name: str) -> np.ndarray:
        """A column of the chains' summaries; all NaN if the sampler does not report it."""
        return self.samplers[name].to_numpy(dtype=np.float64)


def by_chain(frame: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each chain, by its number."""
    for chain in sorted(frame["chain"].dropna().unique()):
        yield int(chain), frame[frame["chain"] == chain]


def plotted(
    panel: str,
    series: str | np.ndarray | pd.Series,
    x: np.ndarray | pd.Series,
    value: np.ndarray | pd.Series,
    *,
    chain: np.ndarray | pd.Series | None = None,
    low: np.ndarray | pd.Series | None = None,
    high: np.ndarray | pd.Series | None = None,
) -> pd.DataFrame:
    """Rows of the CSV: panel, series, chain, x, value, low, high."""
    empty = np.full(len(x), np.nan)
    columns = {
        "panel": panel,
        "series": series,
        "chain": empty if chain is None else chain,
        "x": x,
        "value": value,
        "low": empty if low is None else low,
        "high": empty if high is None else high,
    }
    frame = pd.DataFrame({name: np.asarray(values) if np.ndim(values) else values for name, values in columns.items()})
    return frame.astype({"chain": "Int64"})
