"""The scores of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.config.evaluation import OUTSIDE
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.predictions import load_predictions
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.data.splits import load_split
from bnn_atlas.metrics import evaluate, predictive, sets
from bnn_atlas.metrics.cost import read_cost
from bnn_atlas.metrics.tables import RunIdentity, write_table
from bnn_atlas.traces.pool import open_pool


class ScoreOutputs(NamedTuple):
    """Files of the metrics rule."""

    table: str
    rates: str
    parameters: str
    functions: str
    chains: str
    samplers: str
    curves: str


def score(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    predictions: str | Path,
    timings: Sequence[str | Path],
    outputs: ScoreOutputs,
    *,
    identity: Mapping[str, Any],
    batch_rows: int | None,
) -> None:
    """Score a pooled trace and its predictions of the test rows, and write the tables of the metrics rule.

    `timings` are the files in which the blocks say what they took; `batch_rows` is the size of a mini-batch, None for
    full-data gradients.
    """
    scored = evaluate.score(
        open_pool(pool),
        predictive.load(predictions),
        load_split(dataset, split),
        RunIdentity(**identity),
        cost=read_cost(timings),
        batch_rows=batch_rows,
    )
    evaluate.write_scored(scored, **outputs._asdict())


def score_set(
    dataset: str | Path,
    split: str | Path,
    predictions: str | Path,
    test: str | Path,
    destination: str | Path,
    *,
    name: str,
    identity: Mapping[str, Any],
) -> None:
    """Score the predictions for a shifted or an out-of-distribution set beside those for the test rows."""
    summary, identified = predictive.load(predictions), RunIdentity(**identity)
    if name.startswith(OUTSIDE):
        rows = sets.outside_rows(identified, name, summary, predictive.load(test))
    else:
        rows = sets.shift_rows(identified, name, summary, load_split(dataset, split).y_test)
    write_table(destination, rows)


def score_against(
    dataset: str | Path,
    split: str | Path,
    test: str | Path,
    reference: str | Path,
    destination: str | Path,
    *,
    name: str,
    published: bool,
    identity: Mapping[str, Any],
) -> None:
    """Compare a run's predictions for its test rows with a reference: published ones, or another run's.

    Raises DataError for published predictions that do not cover the test rows.
    """
    if published:
        probabilities = _published(reference, load_split(dataset, split))
    else:
        probabilities = sets.average(predictive.load(reference))
    write_table(destination, sets.reference_rows(RunIdentity(**identity), name, predictive.load(test), probabilities))


def _published(reference: str | Path, split: SplitData) -> np.ndarray:
    """Published probabilities of the test rows [n, k]."""
    probabilities = load_predictions(reference).probabilities
    first, test = split.dataset.published_train, split.split.test
    if first is None or test.min() < first or test.max() - first >= len(probabilities):
        raise DataError(f"{reference}: {len(probabilities)} published predictions do not cover this run's test rows")
    return probabilities[test - first]
