"""Predict the test rows, and the rows of further sets, with a pool of draws."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from bnn_atlas.config.parts.evaluation import INTERVAL, OUTSIDE
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data.evaluation_sets import Rows, corrupted_rows, interval_rows, outside_rows, shifted_rows
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.inference.exchange import by_few_draws
from bnn_atlas.inference.fingerprint import code_of_predictions, fingerprint_of
from bnn_atlas.inference.optimum import gradients_of
from bnn_atlas.inference.problem import Predictor, Problem, load_problem, load_without_rows
from bnn_atlas.inference.virial import TOGETHER
from bnn_atlas.metrics.gathering.blocks import merged_exchange, merged_summary, merged_virial
from bnn_atlas.metrics.gathering.exchange import save_exchange
from bnn_atlas.metrics.gathering.streaming import summarise
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, save
from bnn_atlas.metrics.gathering.virial import save_virial
from bnn_atlas.pipeline.steps.reduce import EXCHANGE, SUMMARY, VIRIAL, parts, predicted_by_earlier_code
from bnn_atlas.records import making
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.pool import Block, Pool, open_pool

log = logging.getLogger(__name__)


def predict(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    destination: str | Path,
    virial: str | Path,
    exchange: str | Path,
    *,
    posterior: Mapping[str, Any],
    last: bool = False,
) -> None:
    """Predict the test rows of a split with a pooled trace and write the summary (.npz).

    All draws count or, with `last`, only the last draw of each chain. A file that was made from the same draws, rows,
    settings and code is kept. `virial` is the file of what gradients at the draws tell (`inference.virial`,
    `inference.optimum`), `exchange` that of the densities after exchanging layers and, if the posterior is not
    conditioned on them, of validation rows (`inference.exchange`); these two are always made again. For reduced blocks,
    all three are merged from theirs.
    """
    problem, trace = load_without_rows(dataset, split, posterior), open_pool(pool)
    if trace.reduced:
        if predicted_by_earlier_code(trace, problem.config):
            log.warning("%s: its blocks were predicted by earlier code; to sample them again, delete them", trace.path)
        save(destination, merged_summary(parts(trace, SUMMARY)))
        save_exchange(exchange, merged_exchange(parts(trace, EXCHANGE)))
        save_virial(virial, merged_virial(parts(trace, VIRIAL), trace.chain_ids))
        return
    draws, settings = _counted(trace, last), _settings(problem, trace, posterior, last)
    rows = Rows(problem.split.x_test, problem.split.y_test)
    predictor = _predictor(problem)
    _write(Path(destination), partial(_summary, problem, draws, predictor, rows), problem.config, settings, rows)
    save_exchange(exchange, by_few_draws(draws, predictor, problem.split))
    load = partial(load_problem, dataset, split, {**posterior, "data_shards": 1}, TOGETHER)
    save_virial(virial, gradients_of(draws, problem, load))


def predict_sets(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    destination: str | Path,
    *,
    posterior: Mapping[str, Any],
    sets: Sequence[str],
    elsewhere: Sequence[str] = (),
    others: Sequence[str | Path] = (),
    intervals: Mapping[str, tuple[float, float]] = {},
    limit: int | None = None,
    last: bool = False,
) -> None:
    """Predict further sets of rows with a pooled trace, each into `<set>.npz` in the folder `destination`.

    Sets are computed and written one after another, so memory does not grow with their number, and an interrupted call
    continues with the first missing set. A file that was made from the same draws, rows, settings and code is kept, and
    files of sets that are not among `sets` are removed.

    Args:
        dataset: the prepared data of the run (.npz).
        split: its split (.npz).
        pool: its draws.
        destination: a folder, created if missing.
        posterior: settings of the run's posterior.
        sets: names of the sets: shifts of the test images, `ood-<data set>` for the rows of other data, and
            `interval-<name>` for a grid on an interval of the only input.
        elsewhere: the sets that have their own file.
        others: this file for each of them: another prepared data set, or the published CIFAR-10-C.
        intervals: name of each interval -> its two ends.
        limit: number of rows taken from the beginning of another data set; None for all.
        last: use only the last draw of each chain.
    """
    problem, trace, folder = load_without_rows(dataset, split, posterior), open_pool(pool), Path(destination)
    draws, settings = _counted(trace, last), _settings(problem, trace, posterior, last)
    predictor = _predictor(problem)
    files = dict(zip(elsewhere, others, strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    for name in sets:
        if name.startswith(INTERVAL):
            rows = interval_rows(problem.split, intervals[name.removeprefix(INTERVAL)])
        else:
            rows = _rows_of(name, problem.split, files.get(name), limit)
        summary = partial(_of_set, problem, draws, predictor, rows)
        _write(folder / f"{name}.npz", summary, problem.config, settings, rows)
    for file in folder.glob("[!.]*.npz"):
        if file.stem not in sets:
            file.unlink()


def _rows_of(name: str, split: SplitData, file: str | Path | None, limit: int | None) -> Rows:
    """Rows of the set with this name; `file` is their source, None for the split."""
    if file is None:
        return shifted_rows(split, name)
    return outside_rows(split, file, limit) if name.startswith(OUTSIDE) else corrupted_rows(split, name, file)


def _write(
    destination: Path,
    summary: Callable[[], PredictiveSummary],
    posterior: PosteriorConfig,
    settings: Mapping[str, Any],
    rows: Rows,
) -> None:
    """Write the summary of these rows, unless the file was made from the same inputs, settings and code."""
    inputs = [array for array in rows if array is not None]
    with making(destination, fingerprint_of(settings, inputs, code_of_predictions(posterior))) as needed:
        if needed:
            save(destination, summary())


def _counted(trace: Pool, last: bool) -> Draws:
    return trace.select(draws=slice(-1, None)) if last else trace


def _settings(problem: Problem, trace: Pool, posterior: Mapping[str, Any], last: bool) -> dict[str, Any]:
    """Settings that predictions depend on, apart from rows and code."""
    rows = problem.split
    facts = {"shape": rows.shape, "classes": len(rows.classes), "vocabulary": rows.vocabulary}
    draws = [_origin(block) for block in trace.blocks]
    return {"posterior": posterior, "rows": facts, "draws": draws, **({"last": True} if last else {})}


def _origin(block: Block) -> dict[str, Any]:
    """What identifies the draws of a block; a trace without a fingerprint counts as new every time."""
    origin = block.attributes.get("fingerprint", uuid4().hex)
    return {"chains": block.chain_ids.tolist(), "draws": block.draws, "fingerprint": origin}


def _predictor(problem: Problem) -> Predictor:
    return Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)


def _summary(problem: Problem, draws: Draws, predictor: Predictor, rows: Rows) -> PredictiveSummary:
    return summarise(draws, predictor, *rows, classes=len(problem.split.classes))


def _of_set(problem: Problem, draws: Draws, predictor: Predictor, rows: Rows) -> PredictiveSummary:
    """The summary as far as scores of further sets need it: class probabilities of several chains in a few batches.

    That is a fifth of the whole: with several chains, Monte Carlo errors are over chains, and batches of draws are
    needed only for the accuracy by number of draws.
    """
    whole = _summary(problem, draws, predictor, rows)
    if whole.task == "regression" or len(whole.kept) < 2:
        return whole
    nothing = np.empty(0, dtype=np.int64)
    by_batch, stops = _in_batches(whole)
    return whole._replace(
        function_draws=np.empty((*whole.function_draws.shape[:2], 0)),
        function_rows=nothing,
        function_classes=nothing,
        log_density_by_draw=None,
        probabilities_by_batch=by_batch,
        batch_stops=stops,
    )


BATCHES_OF_SETS = 4
"""Batches of draws of several chains that predictions of further sets keep."""


def _in_batches(summary: PredictiveSummary) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities [C, B, n, k] in at most `BATCHES_OF_SETS` unions of batches, and the ends of these [B]."""
    by_batch, stops = summary.probabilities_by_batch, summary.batch_stops
    assert by_batch is not None
    assert stops is not None
    most = min(BATCHES_OF_SETS, len(stops))
    last = np.arange(1, most + 1) * len(stops) // most - 1
    first = np.concatenate([[0], last[:-1] + 1])
    counts = np.diff(stops, prepend=0)
    sums = np.add.reduceat(by_batch * counts[:, None, None], first, axis=1)
    joint = sums / np.add.reduceat(counts, first)[:, None, None]
    return joint.astype(by_batch.dtype), stops[last]
