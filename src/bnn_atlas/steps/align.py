"""Aligning the draws of a run, and what the alignment says of them."""

import json
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.config.alignments import AlignmentConfig
from bnn_atlas.files import load_chosen
from bnn_atlas.inference.matching import features_of
from bnn_atlas.inference.problem import load_without_rows
from bnn_atlas.metrics.gathering.alignment import alignment_rows
from bnn_atlas.metrics.judgement.rows import marked
from bnn_atlas.metrics.tables.aligned_draws import AlignedDraws, load_aligned_draws, save_aligned_draws
from bnn_atlas.metrics.tables.files import write_table
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.provenance import fingerprint
from bnn_atlas.sources import code_digest
from bnn_atlas.symmetry.alignment import CHAIN_BYTES, Aligner
from bnn_atlas.symmetry.features import Features
from bnn_atlas.symmetry.frame import VARIANTS, load_frame, save_frame
from bnn_atlas.symmetry.freedoms import balanced
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError, symmetry_of
from bnn_atlas.symmetry.pairs import match_pairs
from bnn_atlas.symmetry.plan import Fit, Plan
from bnn_atlas.symmetry.resuming import Checkpoint
from bnn_atlas.symmetry.variants import touched
from bnn_atlas.traces.draws import Draws, evenly
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.traces.subset import Selection

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
    """Align a pooled trace as `alignment` (an `AlignmentConfig` in plain values) says.

    Writes the common frame to `frame` (`symmetry.frame`), and some parameters of each draw in it and pairs of draws to
    `draws` (`metrics.tables.aligned_draws`), both .npz. A process that was stopped goes on from its last checkpoint,
    beside `frame`, with the same result.

    Args:
        dataset: prepared data, for activations and dead inputs.
        split: of the run.
        pool: its draws.
        frame: where the frame goes.
        draws: where these draws go.
        posterior: the run's posterior in plain values.
        alignment: the settings.
        reference: file of another alignment's frame: the one that is taken over, or that the draws enter.
        fits: fits of the run's blocks, in order, whose means then stand for their chains.
        centre: name of the mean in a fit.

    Raises:
        SymmetryError: the alignment is not for this network, or there are too few finite draws.
    """
    config = AlignmentConfig.model_validate(alignment)
    problem = load_without_rows(dataset, split, posterior)
    whole = open_pool(pool)
    symmetry = symmetry_of(problem.config.model, whole.layout)
    chosen = evenly(whole.draws, config.draws or whole.draws)
    chains = np.arange(min(config.chains or whole.chains, whole.chains))
    part = Selection(whole, chains, chosen, np.arange(whole.size))
    matched_by = {"masked": config.dead_inputs == "masked"}
    features = features_of(symmetry, problem, config.criterion, rows=config.rows, **matched_by)
    target = load_frame(reference, symmetry).target if reference is not None else None
    plan = Plan(
        reference=config.reference if config.own_reference else target,  # type: ignore[arg-type]
        unit=config.unit,
        passes=config.passes,
        frame=target if config.own_reference else None,
        signed=config.signs,
        balance=config.balanced,
        rank=config.rank,
        seed=config.seed,
    )
    fit = _fit(fits, centre, chains) if fits and centre else None
    of_chains = None
    if (rows := rows_of_chains(features, len(chains), len(problem.split.x_fit), config)) is not None:
        of_chains = features_of(symmetry, problem, config.criterion, rows=rows, **matched_by)
        log.info("means of chains are matched by activations of %d rows, as memory has it", rows)
    basis = _fingerprint(config, posterior, Path(split), whole, target, fit)
    checkpoint = Checkpoint(Path(frame).with_name("frame.partial.npz"), basis)
    found = Aligner(part, symmetry, features, plan, checkpoint, fit, of_chains).run()
    paired = _balanced(features, symmetry) if config.balanced else features
    pairs = match_pairs(part, paired, found.frame.finite, config.pairs, config.seed, signed=config.signs)
    names = whole.layout.names()
    moved = touched(symmetry)
    variances = [
        [np.square(found.frame.moment(variant, name)[moved], dtype=np.float64).mean() for name in ("sd", "within_sd")]
        for variant in VARIANTS
    ]
    save_frame(frame, found.frame)
    save_aligned_draws(
        draws,
        AlignedDraws(
            names=np.array([names[column] for column in found.columns]),
            columns=found.columns,
            finite=found.frame.finite,
            values=found.values,
            groups=np.array([group.name for group in symmetry.groups]),
            sizes=np.array([group.size for group in symmetry.groups]),
            units=found.frame.units,
            fixed=found.frame.fixed,
            variances=np.array(variances),
            pair_chains=pairs.chains,
            pair_draws=pairs.draws,
            transpositions=pairs.transpositions,
            consistency=pairs.consistency,
        ),
    )
    checkpoint.remove()


def score_alignment(
    draws: str | Path, destination: str | Path, *, name: str, identity: Mapping[str, Any], marks: Sequence[str] = ()
) -> None:
    """Write the metric table of the alignment `name` from the draws that `align` kept."""
    rows = alignment_rows(RunIdentity(**identity), name, load_aligned_draws(draws))
    write_table(destination, marked(rows, marks))


def rows_of_chains(features: Features, chains: int, rows: int, config: AlignmentConfig) -> int | None:
    """Rows whose activations of all chains' means fit into memory; None where all rows of the alignment do.

    A barycentre needs the same features of chains and of draws, and is refused instead (`Aligner`).
    """
    size = 8 * chains * features.symmetry.layout.size
    if size <= CHAIN_BYTES or config.reference == "barycentre" or config.criterion in ("weights", "cosine"):
        return None
    return max(1, int(min(config.rows or rows, rows) * (CHAIN_BYTES / size)))


def _fit(paths: Sequence[str | Path], centre: str, chains: np.ndarray) -> Fit:
    """Means of the fits of these chains, and their standard deviations if they have some."""
    means = [load_chosen(path, (centre,), SymmetryError, f"a fit with the array '{centre}'")[centre] for path in paths]
    if centre != "mean":
        return Fit(np.concatenate(means)[chains], None)
    spreads = [load_chosen(path, ("sd",), SymmetryError, "a fit with the array 'sd'")["sd"] for path in paths]
    return Fit(np.concatenate(means)[chains], np.concatenate(spreads)[chains])


def _balanced(features: Features, symmetry: Symmetry) -> Features:
    return Features(features.symmetry, lambda draws: features.of(balanced(symmetry, draws)[0].astype(draws.dtype)))


def _fingerprint(
    config: AlignmentConfig,
    posterior: Mapping[str, Any],
    split: Path,
    pool: Draws,
    target: np.ndarray | None,
    fit: Fit | None,
) -> str:
    """Hash of what a checkpoint depends on."""
    arrays = {"target": target, "fit_mean": fit and fit.mean, "fit_sd": fit and fit.sd}
    ends = [pool.read([chain], [draw]).tobytes() for chain, draw in ((0, 0), (pool.chains - 1, pool.draws - 1))]
    return fingerprint(
        {
            "settings": config.model_dump(mode="json"),
            "posterior": dict(posterior),
            "draws": [*pool.shape, json.dumps(pool.attributes, sort_keys=True, default=str)],
            "ends": [sha256(end).hexdigest() for end in ends],
            "split": sha256(split.read_bytes()).hexdigest(),
            **{name: sha256(array.tobytes()).hexdigest() for name, array in arrays.items() if array is not None},
            "code": code_digest("bnn_atlas.symmetry.alignment", "bnn_atlas.inference.matching"),
        }
    )
