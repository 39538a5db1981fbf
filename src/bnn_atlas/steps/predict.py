"""Predictive distributions of a pool at the rows of one set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from bnn_atlas.data.evaluation import Rows, corrupted_rows, interval_rows, outside_rows, shifted_rows
from bnn_atlas.inference.code import code_of_predictions
from bnn_atlas.inference.fingerprint import fingerprint_of
from bnn_atlas.inference.predictor import Predictor
from bnn_atlas.inference.problem import Problem, load_without_rows
from bnn_atlas.kept import making
from bnn_atlas.metrics.gathering.predictive import summarise
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, save
from bnn_atlas.traces.pool import Pool, open_pool
from bnn_atlas.traces.store import Trace


def predict(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    shift: str | None = None,
    other: str | Path | None = None,
    limit: int | None = None,
    interval: tuple[float, float] | None = None,
) -> None:
    """Predict rows with every draw of a pooled trace and write the summary (.npz).

    The rows are the test rows of the split; with `shift` their shifted images, computed or, with `other`, taken from
    CIFAR-10-C; with `other` alone the first `limit` rows of that prepared data set; with `interval` a grid of the only
    input between its ends. A file that was made of the same draws, rows, settings and code is left alone.
    """
    problem = load_without_rows(dataset, split, posterior)
    if interval is not None:
        rows = interval_rows(problem.split, interval)
    elif shift is not None:
        rows = corrupted_rows(problem.split, shift, other) if other else shifted_rows(problem.split, shift)
    elif other is not None:
        rows = outside_rows(problem.split, other, limit)
    else:
        rows = Rows(problem.split.x_test, problem.split.y_test)
    draws = open_pool(pool)
    split_rows = problem.split
    facts = {"shape": split_rows.shape, "classes": len(split_rows.classes), "vocabulary": split_rows.vocabulary}
    settings = {"posterior": posterior, "rows": facts, "draws": [_origin(block) for block in draws.blocks]}
    inputs = [array for array in rows if array is not None]
    with making(destination, fingerprint_of(settings, inputs, code_of_predictions())) as needed:
        if needed:
            save(destination, _summary(problem, draws, rows))


def _origin(block: Trace) -> dict[str, Any]:
    """What tells the draws of a block from all others; of a trace without a fingerprint nothing does."""
    origin = block.attributes.get("fingerprint", uuid4().hex)
    return {"chains": block.chain_ids.tolist(), "draws": block.draws, "fingerprint": origin}


def _summary(problem: Problem, draws: Pool, rows: Rows) -> PredictiveSummary:
    predictor = Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)
    return summarise(draws, predictor, *rows, classes=len(problem.split.classes))
