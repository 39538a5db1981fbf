"""Symmetries of a run's networks: alignment of its draws, barriers between its chains, and pruned networks."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.config.parts.evaluation import AlignmentConfig, BarrierConfig, PruningConfig
from bnn_atlas.config.parts.starts import InitialConfig
from bnn_atlas.data.pixels import dead_inputs
from bnn_atlas.inference.problem import Predictor, Problem, load_problem, load_without_rows
from bnn_atlas.metrics.judgement.rows import listed, marked
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.metrics.tables.parquet import (
    LINE_SCHEMA,
    MATCH_SCHEMA,
    PRUNING_SCHEMA,
    write_frame,
    write_table,
)
from bnn_atlas.provenance import fingerprint
from bnn_atlas.sources import code_digest
from bnn_atlas.symmetry.aligned_draws import alignment_rows, load_aligned_draws, save_aligned_draws
from bnn_atlas.symmetry.alignment import Aligner, Checkpoint, Plan, kept_draws, load_fit
from bnn_atlas.symmetry.barriers import PairError, PairsOfChains, Repair, ScoredRows, pair_measurements
from bnn_atlas.symmetry.features import balanced_features, features_of, live_parameters, output_width
from bnn_atlas.symmetry.frame import load_frame, save_frame
from bnn_atlas.symmetry.groups import symmetry_of
from bnn_atlas.symmetry.layers import free_symmetry
from bnn_atlas.symmetry.matching import match_pairs
from bnn_atlas.symmetry.pruning import accuracies, pruning_curves, pruning_measurements, read_source
from bnn_atlas.traces.draws import Selection, evenly
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.warmstart.initial import copy_permutation

log = logging.getLogger(__name__)


def align(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    frame: str | Path,
    draws: str | Path,
    *,
    posterior: Mapping[str, Any],
    alignment: Mapping[str, Any],
    reference: str | Path | None = None,
    fits: Sequence[str | Path] = (),
    centre: str | None = None,
) -> None:
    """Align a pooled trace according to `alignment` (an `AlignmentConfig` in plain values).

    Writes the common frame to `frame` (`symmetry.frame`), and to `draws` (`symmetry.aligned_draws`) pairs of draws and
    some parameters of each aligned draw, both .npz. An interrupted process continues from its last checkpoint, next to
    `frame`, with the same result.

    Args:
        dataset: prepared data, for activations and dead inputs.
        split: the split of the run.
        pool: its draws.
        frame: the file for the frame.
        draws: the file for the draws.
        posterior: the run's posterior in plain values.
        alignment: the settings.
        reference: file of another alignment's frame, which is adopted or which the draws enter.
        fits: fits of the run's blocks, in order; their means then represent the chains.
        centre: name of the mean in a fit.

    Raises:
        SymmetryError: the alignment does not fit this network, or there are too few finite draws.
    """
    config = AlignmentConfig.model_validate(alignment)
    problem = load_without_rows(dataset, split, posterior)
    whole = open_pool(pool)
    symmetry = free_symmetry(problem.config.model, whole.layout)
    chosen = evenly(whole.draws, config.draws or whole.draws)
    chains = np.arange(min(config.chains or whole.chains, whole.chains))
    part = Selection(whole, chains, chosen, np.arange(whole.size))
    matched_by = problem.config.model, problem.split, config.criterion, problem.data.x.dtype
    masked = config.dead_inputs == "masked"
    features = features_of(symmetry, *matched_by, rows=config.rows, masked=masked)
    target = load_frame(reference, symmetry).target if reference is not None else None
    plan = Plan(
        reference=config.reference if config.own_reference else target,  # type: ignore[arg-type]
        unit=config.unit,
        passes=config.passes,
        frame=target if config.own_reference else None,
        signs=config.signs,
        scales=config.unit_scales,
        rank=config.rank,
        seed=config.seed,
        orders=config.orders,
        gain=config.gain,
    )
    fit = load_fit(fits, centre, chains) if fits and centre else None
    basis = _fingerprint(config, posterior, Path(split))
    checkpoint = Checkpoint(Path(frame).with_name("frame.partial.npz"), basis)
    found = Aligner(part, symmetry, features, plan, checkpoint, fit).run()
    paired = balanced_features(features, symmetry) if config.unit_scales else features
    pairs = match_pairs(part, paired, found.frame.finite, config.pairs, config.seed, signed=config.signs)
    save_frame(frame, found.frame)
    save_aligned_draws(draws, kept_draws(found, pairs, symmetry))
    checkpoint.remove()


def score_alignment(
    draws: str | Path, destination: str | Path, *, name: str, identity: Mapping[str, Any], marks: Sequence[str] = ()
) -> None:
    """Write the metric table of the alignment `name` from the draws that `align` wrote."""
    rows = alignment_rows(RunIdentity(**identity), name, load_aligned_draws(draws))
    write_table(destination, marked(rows, marks))


def barriers(
    dataset: str | Path,
    split: str | Path,
    pool: str | Path,
    *,
    table: str | Path,
    lines: str | Path,
    matches: str | Path,
    posterior: Mapping[str, Any],
    settings: Mapping[str, Any],
    initial: Mapping[str, Any] | None,
    seed: int,
    identity: Mapping[str, Any],
    marks: Sequence[str] = (),
) -> None:
    """Compare pairs of chains according to `settings` (a `BarrierConfig` in plain values); write metrics and tables.

    `initial` (an `InitialConfig` in plain values, or None) and `seed` determine the permutation with which a copy
    started. One pair of networks is in memory at a time.

    Raises:
        PairError: the draws belong to another network than the run's, or a network is not finite.
        SymmetryError: the network cannot be matched or repaired as the settings say.
    """
    problem, config = load_problem(dataset, split, posterior), BarrierConfig.model_validate(settings)
    draws = open_pool(pool)
    if draws.layout != problem.posterior.layout:
        raise PairError(
            f"{pool}: its draws have {draws.layout.size:,} parameters of another network than the run's; sample the "
            "run again"
        )
    symmetry = symmetry_of(problem.config.model, draws.layout)
    matched_by = problem.config.model, problem.split, config.criterion, problem.data.x.dtype
    features = features_of(symmetry, *matched_by, rows=config.matching_rows)
    split_rows, count = problem.split, config.training_rows
    rows = [ScoredRows("train", split_rows.x_fit[:count], split_rows.y_fit[:count])]
    if len(split_rows.split.test):
        rows.append(ScoredRows("test", split_rows.x_test, split_rows.y_test))
    planted = None
    if initial and (drawn := InitialConfig.model_validate(initial)).transpositions is not None:
        planted = partial(copy_permutation, symmetry, drawn, seed)
    repair = None
    if config.repair:
        chosen = evenly(len(split_rows.x_fit), config.matching_rows or len(split_rows.x_fit))
        x = np.asarray(split_rows.x_fit[chosen], problem.data.x.dtype)
        sizes = {"outputs": output_width(symmetry), "vocabulary": split_rows.vocabulary}
        repair = Repair(problem.config.model, symmetry, split_rows.shape, x, **sizes)
    pairs = PairsOfChains(draws, config, features, _predictor(problem), rows, symmetry, planted, repair)
    of_lines, of_matches = pairs.frames()
    write_frame(lines, of_lines, LINE_SCHEMA)
    write_frame(matches, of_matches.astype({"planted": "Int64"}), MATCH_SCHEMA)
    measured = pair_measurements(of_lines, of_matches)
    write_table(table, marked(listed(RunIdentity(**identity), measured, draws.chains, 1), marks))


def pruning(
    dataset: str | Path,
    split: str | Path,
    frames: Sequence[str | Path],
    pools: Sequence[str | Path],
    *,
    table: str | Path,
    curves: str | Path,
    posterior: Mapping[str, Any],
    settings: Mapping[str, Any],
    seed: int,
    identity: Mapping[str, Any],
    chains: int,
    marks: Sequence[str] = (),
) -> None:
    """Prune networks according to `settings` (a `PruningConfig` in plain values), and write metrics and curves.

    `frames` and `pools` are the files of the alignments in `networks` and of their runs, in the same order. Every
    pruned network starts from the whole one. With dead inputs removed, the weights of inputs that never vary in the
    rows of the likelihood are 0 from the start, and percentages refer to the other parameters.
    `chains` is the number of chains of the run, for the rows.

    Raises:
        DataError: a frame belongs to another network, or a run has no finite draw.
    """
    problem, config = load_without_rows(dataset, split, posterior), PruningConfig.model_validate(settings)
    symmetry = symmetry_of(problem.config.model, problem.posterior.layout)
    files = zip(config.networks, frames, pools, strict=True)
    sources = [read_source(name, frame, pool, symmetry) for name, frame, pool in files]
    rows, predict = problem.split, _predictor(problem)
    x, y = rows.x_test[: config.test_rows], rows.y_test[: config.test_rows]

    def score(networks: np.ndarray) -> list[tuple[float, float, float]]:
        log_probs = predict(networks, x).log_probs
        assert log_probs is not None, "pruning is for classification"
        return accuracies(np.asarray(log_probs), y)

    dead = dead_inputs(rows)
    live = live_parameters(problem.posterior.layout, dead) if dead.any() else None
    found = pruning_curves(sources, config, live, score, seed)
    write_frame(curves, found, PRUNING_SCHEMA)
    measured = listed(RunIdentity(**identity), pruning_measurements(found), chains, 1)
    write_table(table, marked(measured, marks))


def _predictor(problem: Problem) -> Predictor:
    return Predictor(problem.posterior, problem.data, 1e6 * problem.config.gradient_memory_mb)


def _fingerprint(config: AlignmentConfig, posterior: Mapping[str, Any], split: Path) -> str:
    """Hash of everything on which a checkpoint depends, besides what `Aligner` compares itself."""
    return fingerprint(
        {
            "settings": config.model_dump(mode="json"),
            "posterior": dict(posterior),
            "split": sha256(split.read_bytes()).hexdigest(),
            "code": code_digest("bnn_atlas.symmetry.alignment:Aligner", "bnn_atlas.symmetry.features:features_of"),
        }
    )
