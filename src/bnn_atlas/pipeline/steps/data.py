"""From registered data sets to scaled splits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.data.download import download as get
from bnn_atlas.data.prepare import prepare_file
from bnn_atlas.data.splitting import split_file


def download(
    file: str, destination: str | Path, root: str, *, entry: Mapping[str, Any], mirror: str | None, cache: str | None
) -> None:
    """Download one registered file of a data set (`DatasetEntry` in plain values); see `data.download.download`.

    root: the repository, where the relative path of a local file starts, wherever Snakemake works.
    """
    wanted = DatasetEntry.model_validate(entry).file(file)
    if wanted.path is not None:
        wanted = wanted.model_copy(update={"path": str(Path(root) / Path(wanted.path).expanduser())})
    get(wanted, destination, mirror=mirror, cache=cache)


def prepare(dataset: str, files: Sequence[str | Path], destination: str | Path, *, entry: Mapping[str, Any]) -> None:
    """Turn the raw files of a data set into named arrays; see `data.prepare.prepare_file`."""
    prepare_file(dataset, DatasetEntry.model_validate(entry), files, destination)


def split(dataset: str | Path, destination: str | Path, number: int, *, split: Mapping[str, Any]) -> None:
    """Divide the rows of a prepared data set by a `SplitConfig` in plain values; see `data.splitting.split_file`."""
    split_file(dataset, destination, SplitConfig.model_validate(split), number)
