"""A run beside its referee, from files to tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.judgement.referee import judge
from bnn_atlas.metrics.judgement.rows import as_rows
from bnn_atlas.metrics.tables.files import REFEREE_SCHEMA, write_frame, write_table
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.steps.score import marked
from bnn_atlas.traces.pool import open_pool


def score_referee(
    pool: str | Path,
    predictions: str | Path,
    referee_pool: str | Path,
    referee_predictions: str | Path,
    *,
    table: str | Path,
    chains: str | Path,
    identity: Mapping[str, Any],
    marks: Sequence[str] = (),
) -> None:
    """Compare a run with its referee (`metrics.judgement.referee`): rows of the metric table, and a file by chain."""
    summary, refereed = load(predictions), load(referee_predictions)
    judged = judge(open_pool(pool), open_pool(referee_pool), summary, refereed)
    write_table(table, marked(as_rows(RunIdentity(**identity), judged.measurements, summary), marks))
    write_frame(chains, judged.chains, REFEREE_SCHEMA)
