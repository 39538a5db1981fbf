"""The scores of a run: on test rows and further sets, and against references and its referee."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from bnn_atlas.config.parts.evaluation import INTERVAL, OUTSIDE
from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.data import DataError
from bnn_atlas.data.pixels import dead_inputs
from bnn_atlas.data.published_predictions import load_predictions
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.data.splitting import load_split
from bnn_atlas.metrics.gathering.blocks import merged_tallies
from bnn_atlas.metrics.gathering.cost import read_cost
from bnn_atlas.metrics.gathering.exchange import load_exchange
from bnn_atlas.metrics.gathering.summary import load
from bnn_atlas.metrics.gathering.virial import load_virial
from bnn_atlas.metrics.judgement import evaluate
from bnn_atlas.metrics.judgement import sets as scored_sets
from bnn_atlas.metrics.judgement.referee import judge
from bnn_atlas.metrics.judgement.rows import as_rows, marked
from bnn_atlas.metrics.judgement.trust import FIT, source_measurement
from bnn_atlas.metrics.tables.measurement import Row, RunIdentity
from bnn_atlas.metrics.tables.parquet import REFEREE_SCHEMA, RunFiles, read_table, write_frame, write_table
from bnn_atlas.pipeline.steps.reduce import TALLIES, moments_of_inputs, parts
from bnn_atlas.symmetry.permutation import rescalings
from bnn_atlas.traces.pool import open_pool


def score(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    predictions: str | Path,
    virial: str | Path,
    exchange: str | Path,
    timings: Sequence[str | Path],
    source: str | Path | Sequence[str] = (),
    *,
    model: Mapping[str, Any],
    identity: Mapping[str, Any],
    marks: Sequence[str] = (),
    last: bool = False,
    **given: Any,
) -> None:
    """Score a pooled trace and its predictions of the test rows, and write the tables of the rule `metrics`.

    `virial` is the file that the temperature of the draws is computed from, `exchange` the file of their densities with
    exchanged layers; `timings` are the `timing.json` files of the blocks; `model` are the settings of the network;
    `marks` are added to the note of every row; with `last` only the last draws of the chains are scored. If the draws
    have the moments of another run's draws, `source` is the metric table of that run. `given` are the fields of
    `RunFiles`, and those of `evaluate.RunFacts` that follow from the settings.
    """
    files = RunFiles(*(given.pop(name) for name in RunFiles._fields))
    draws = open_pool(pool)
    summary, data, whose = load(predictions), load_split(dataset, split), RunIdentity(**identity)
    run = evaluate.RunFacts(
        whose,
        read_cost(timings),
        dead_inputs=None if data.kind == "tokens" else dead_inputs(data),
        second_moments=moments_of_inputs(data, draws.layout) if given.get("prior_sd") else None,
        fit_rows=len(data.y_fit),
        rescalings=rescalings(TypeAdapter(ModelConfig).validate_python(model), draws.layout),
        virial=load_virial(virial),
        exchange=load_exchange(exchange),
        tallies=merged_tallies(parts(draws, TALLIES)) if draws.reduced else None,
        **given,
    )
    scored = evaluate.score(draws.select(draws=slice(-1, None)) if last else draws, summary, data, run)
    further = [*evaluate.split_measurements(data), *([source_measurement(read_table(str(source)))] if source else [])]
    rows = [*scored.rows, *as_rows(whose, further, summary)]
    evaluate.write_scored(scored._replace(rows=marked(rows, marks)), files)


def score_sets(
    dataset: str | Path,
    split: str | Path,
    predictions: str | Path,
    test: str | Path,
    destination: str | Path,
    *,
    sets: Sequence[str],
    identity: Mapping[str, Any],
    published: Collection[str],
    marks: Sequence[str] = (),
) -> None:
    """Score a run's predictions for shifted and out-of-distribution sets and on intervals, and write one table.

    `predictions` is the folder with the `<set>.npz` of each of the `sets`; one at a time is in memory. `test` are the
    predictions of the test rows, to compare with those of other data.
    """
    rows: list[Row] = []
    whose = RunIdentity(**identity)
    inside, labels = load(test), load_split(dataset, split).y_test
    for name in sets:
        summary = load(Path(predictions) / f"{name}.npz")
        if name.startswith(INTERVAL):
            rows += scored_sets.interval_rows(whose, name, summary)
        elif name.startswith(OUTSIDE):
            rows += scored_sets.outside_rows(whose, name, summary, inside, published)
        else:
            rows += scored_sets.shift_rows(whose, name, summary, labels, published)
    write_table(destination, marked(rows, marks))


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
    shifts: Sequence[str] = (),
    shifted: Sequence[str | Path] = (),
    judged: str | Path | None = None,
    remark: str = "",
    marks: Sequence[str] = (),
) -> None:
    """Compare a run's predictions of its test rows with a reference: published predictions, or another run's.

    `shifts` are the names of shifted test rows for which both have predictions, and `shifted` the two folders with
    `<shift>.npz`, of the run and of the reference; their data set is called `<data set>/<shift>`. Every note says
    whether the chains of the reference have converged, according to its metric table `judged`, followed by `remark`.
    Raises DataError for published predictions that do not cover the test rows.
    """
    whose = RunIdentity(**identity)
    said = [_convergence(judged) if judged else "", remark]
    compared = _published(reference, load_split(dataset, split)) if published else load(reference)
    rows = scored_sets.reference_rows(whose, name, load(test), compared, said)
    for shift in shifts:
        own, theirs = (load(Path(folder) / f"{shift}.npz") for folder in shifted)
        of_set = whose._replace(dataset=f"{whose.dataset}/{shift}")
        rows += scored_sets.reference_rows(of_set, name, own, theirs, said)
    write_table(destination, marked(rows, marks))


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
    """Compare a run with its referee (`metrics.judgement.referee`); write metric rows, and a table by chain."""
    summary, refereed = load(predictions), load(referee_predictions)
    judged = judge(open_pool(pool), open_pool(referee_pool), summary, refereed)
    write_table(table, marked(as_rows(RunIdentity(**identity), judged.measurements, summary), marks))
    write_frame(chains, judged.chains, REFEREE_SCHEMA)


def _convergence(table: str | Path) -> str:
    """Remark on a run as a reference, from its metric table; empty for a run without Markov chains."""
    rows = read_table(table)
    return next((note.split("; ")[0] for note in rows.loc[rows["metric"] == FIT, "note"]), "")


def _published(reference: str | Path, split: SplitData) -> np.ndarray:
    """Published probabilities of the test rows [n, k]."""
    probabilities = load_predictions(reference).probabilities
    first, test = split.dataset.published_train, split.split.test
    if first is None or test.min() < first or test.max() - first >= len(probabilities):
        raise DataError(
            f"{reference}: {len(probabilities)} published predictions do not cover this run's test rows; take the "
            "published split"
        )
    return probabilities[test - first]
