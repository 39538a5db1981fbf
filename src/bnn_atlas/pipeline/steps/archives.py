"""Pack runs, figures and studies into archives for other clones."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.data.splitting import load_split
from bnn_atlas.export.reference_posterior import Exported, save_reference
from bnn_atlas.export.results import save_results
from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.provenance import collect
from bnn_atlas.traces.pool import open_pool

log = logging.getLogger(__name__)


def pack(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    predictions: str | Path,
    metrics: str | Path,
    destination: str | Path,
    *,
    settings: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Pack a run's draws, test predictions, labels, row numbers, settings and scores into one archive.

    `settings` are the run's settings in plain values, with the posterior under `posterior`; `about` describes the run
    (the keys of `Exported.run`). `bnn_atlas.open_reference` reads the archive.
    """
    rows = load_split(dataset, split)
    given = Exported(open_pool(pool), rows, load(predictions), read_table(metrics), settings, about)
    save_reference(destination, given)
    log.info("%s: %.1f MB", destination, Path(destination).stat().st_size / 1e6)


def publish(
    made: Sequence[str | Path], destination: str | Path, *, results: str | Path, about: Mapping[str, Any]
) -> None:
    """Pack all that a figure or a study (its files, `made`) was made from into one archive, for other clones.

    `results` is the folder of the scale; `about` is what `pipeline.inputs.Inputs.published` says.
    """
    save_results(destination, made, results, {**about, "version": collect({}, root=Path()).version})
    log.info("%s: %.1f MB", destination, Path(destination).stat().st_size / 1e6)
