"""The paths of a scale's files, defined once for rules and input functions."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bnn_atlas.config.runs.shared import SharedSplit, SharedStart
from bnn_atlas.config.runs.studies import Run


def in_metadata(path: str, results: str, *, back: bool = False) -> str:
    """Name of a file in Snakemake's metadata: the same whatever the folder of all results is called and wherever it is.

    With `back`, the path of the file with this name. Paths outside the results of the scale stay as they are.
    """
    here = os.path.normpath(results)
    usual = f"results/{Path(here).name}"
    old, new = (usual, results) if back else (here, usual)
    inside = os.path.normpath(path).startswith(f"{old}/")
    return f"{new}/{os.path.normpath(path).removeprefix(f'{old}/')}" if inside else path


class Paths(NamedTuple):
    """Paths below the results of one scale; patterns hold Snakemake's wildcards."""

    results: str
    """Folder of the scale, such as `results/demo`."""

    @property
    def run(self) -> str:
        """Pattern of the folder of a run and split, with the wildcards study, run and split."""
        return f"{self.results}/{{study}}/{{run}}/split{{split}}"

    @property
    def archive(self) -> str:
        """Pattern of the archive of a run and split, with the same wildcards."""
        return f"{self.results}/export/{{study}}/{{run}}-split{{split}}.zip"

    def results_of(self, target: str) -> str:
        """The archive of all that a target was made from; `target` may be a wildcard."""
        return f"{self.results}/export/{target}.zip"

    def archives_of(self, run: Run) -> list[str]:
        """The archives of all splits of a run."""
        splits = range(run.config.split.count)
        return [self.archive.format(study=run.study, run=run.name, split=split) for split in splits]

    def of(self, run: Run, split: int, file: str = "") -> str:
        """Folder of a run and split, or a file in it."""
        folder = self.run.format(study=run.study, run=run.name, split=split)
        return f"{folder}/{file}" if file else folder

    def per_split(self, runs: Iterable[Run], file: str) -> list[str]:
        """One file for each split of each run."""
        return [self.of(run, split, file) for run in runs for split in range(run.config.split.count)]

    def dataset(self, name: str) -> str:
        """A prepared data set."""
        return f"{self.results}/data/{name}/prepared.npz"

    def split(self, split: SharedSplit, number: int) -> str:
        """A split; all runs with the same data and settings share it."""
        return f"{self.results}/splits/{split.name(number)}.npz"

    def start(self, start: SharedStart) -> str:
        """Warm starts of a block of chains; all runs that train the same networks share them."""
        return f"{self.results}/warmstarts/{start.name}.npz"

    def overviews(self, study: str) -> list[str]:
        """Tables that pool and list the runs of a study."""
        return [f"{self.results}/tables/{study}-{file}" for file in ("summary.parquet", "summary.csv", "runs.csv")]

    def log(self, name: str) -> str:
        """Log of a job; `name` may hold wildcards."""
        return f"{self.results}/logs/{name}.log"

    def benchmark(self, name: str) -> str:
        """File with the time that a job took; `name` may hold wildcards."""
        return f"{self.results}/benchmarks/{name}.tsv"
