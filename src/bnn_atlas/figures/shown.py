"""What a figure shows: runs, each with the files that were made for the figure."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from bnn_atlas.metrics.tables.parquet import read_table


class Published(NamedTuple):
    """A number that a paper gives for a run, from the claims of its study."""

    metric: str
    value: float
    sd: float | None
    """Standard deviation that the paper gives with it."""
    chains: int | None
    """Chains of the average; None for all."""
    at: str = ""
    """The value of a metric's parameter, if it has one."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Published":
        """A published number from plain data."""
        return cls(**plain)


class Shown(NamedTuple):
    """One run and split of a figure."""

    study: str
    """The run's study, which may differ from the figure's."""
    run: str
    """Name in the figure: the run's name, or `study/run` for a run of another study."""
    entry: str
    """The entry of the study's file from which the run was expanded."""
    label: str
    """Text in the legend."""
    point: dict[str, Any]
    """Field of the entry's grid -> value of this run, such as `prior.scale` -> 0.5."""
    dataset: str
    dataset_title: str
    """Name of the data set in figures."""
    task: str
    """`regression` or `classification`."""
    model: str
    hidden: tuple[int, ...]
    """Widths of the hidden layers; empty for a linear model and for one that is not fully connected."""
    method: str
    likelihood: str
    prior_sd: float | None
    """Standard deviation of a prior N(0, sd^2) that all parameters share; None for any other prior."""
    energy_variance: float | None
    """Desired variance of the energy error per dimension; None for methods that are not tuned to one."""
    split: int
    chains: int
    files: dict[str, Path]
    """Section of the figure, or name in `config.parts.figures.FILES` -> file."""
    parts: dict[str, dict[str, Path]]
    """Name with several files per run, such as `against` -> reference -> file."""
    set_titles: dict[str, str]
    """Name of an out-of-distribution set of the run -> the name of its data set in figures."""
    published: tuple[Published, ...] = ()
    """What the papers give for this run, if it uses the same data set as the papers' run."""
    generator: Mapping[str, Any] | None = None
    """Settings of the generator of its data set, for kinds that draw the function behind its rows."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """Its settings as in the study's file, with trajectory lengths as numbers."""

    @property
    def drawn_as(self) -> str:
        """The method whose look it has: several optima are a deep ensemble."""
        return "deep_ensemble" if self.method == "map" and self.chains > 1 else self.method

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Rows of this run and split in a metric table."""
        name = self.run.rpartition("/")[2]
        return table[(table["study"] == self.study) & (table["run"] == name) & (table["split"] == self.split)]

    def table(self, file: str = "table", part: str = "") -> pd.DataFrame:
        """Rows of this run and split in its metric table `files[file]`, or `parts[file][part]`."""
        path = self.parts[file][part] if part else self.files[file]
        return self.rows(_read(path, path.stat().st_mtime_ns if path.is_file() else 0))


@lru_cache(maxsize=32)
def _read(path: Path, changed: int) -> pd.DataFrame:
    """A metric table, read once; `changed` is when it was written."""
    return read_table(path)


def shown_runs(described: Mapping[str, Any]) -> list[Shown]:
    """The runs of a figure and their splits, each with the settings of its run."""
    return [shown_run({**one, "settings": described["of_runs"][one["run"]]}) for one in described["shown"]]


def shown_run(described: Mapping[str, Any]) -> Shown:
    """A run and split from plain data."""
    files = {name: Path(file) for name, file in described["files"].items()}
    parts = {name: {part: Path(file) for part, file in of.items()} for name, of in described["parts"].items()}
    published = tuple(Published.of(one) for one in described["published"])
    plain = {"hidden": tuple(described["hidden"]), "files": files, "parts": parts, "published": published}
    return Shown(**{**described, **plain})


def panel_title(one: Shown) -> str:
    """Label of a run, and its split unless it is the first."""
    return f"{one.label} (split {one.split})" if one.split else one.label
