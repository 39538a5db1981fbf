"""Tables over all runs of a study, and the papers' claims judged by them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.table import write_claims
from bnn_atlas.claims.verdict import judge_all
from bnn_atlas.metrics.judgement.pooled import GridPoint, write_runs, write_summary
from bnn_atlas.metrics.tables.parquet import concat_tables, read_table


def table(tables: Sequence[str | Path], destination: str | Path) -> None:
    """Join the metric tables of all runs."""
    concat_tables(tables, destination)


def summary(table: str | Path, parquet: str | Path, csv: str | Path, *, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Pool a study's table over seeds and splits; `runs` has the entry and grid point of each run."""
    write_summary(table, {name: GridPoint(**run) for name, run in runs.items()}, parquet, csv)


def runs_table(csv: str | Path, *, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the table of a study's runs and their settings."""
    write_runs(rows, csv)


def claims(
    tables: Sequence[str | Path],
    pictures: Sequence[str | Path],
    table: str | Path,
    *,
    studies: Sequence[Mapping[str, Any]],
    figures: Sequence[str],
    densities: Sequence[str | Path] = (),
    compared: Sequence[str] = (),
) -> None:
    """Judge the claims of all studies from their metric tables, and write the verdicts as a table.

    `studies` are `claims.plan.ClaimedStudy` as plain data, `pictures` the PNGs of the `figures` (`study/figure`), and
    `densities` the predictions of the runs in `compared` (`study/run/split<n>`).
    """
    shown, predictions = (dict(zip(*pair, strict=True)) for pair in ((figures, pictures), (compared, densities)))
    claimed = [ClaimedStudy.model_validate(study) for study in studies]
    of = dict(zip((study.name for study in claimed), tables, strict=True))
    judgements = judge_all(claimed, of, shown, predictions)
    write_claims(table, judgements, {name: read_table(file) for name, file in of.items() if Path(file).is_file()})
