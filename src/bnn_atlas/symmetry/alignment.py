"""Bring all draws of a run into one frame, in passes over the trace whose memory does not grow with the draws.

0. Average the features of each chain. The barycentre of the averages is the chain-wise alignment.
1. Match each draw to the reference, starting with its chain's permutation. For a barycentre, the first pass matches to
   the first draw. Then each pass matches to the mean of the previous pass, until no unit moves. These passes start with
   the resulting mean or the chain-wise mean, whichever has the larger norm (and so less spread around it). A barycentre
   is therefore never worse than the chain-wise alignment.
2. To enter another frame, match the mean of the aligned draws to that frame's target, and also apply the permutation
   found to all draws.
3. Take moments of the draws as sampled, aligned, scrambled and aligned chain by chain; keep some parameters of each
   variant.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from bnn_atlas.config.parts.evaluation import AlignmentConfig
from bnn_atlas.files import load_arrays, load_chosen, save_arrays
from bnn_atlas.symmetry.aligned_draws import AlignedDraws
from bnn_atlas.symmetry.features import Features
from bnn_atlas.symmetry.frame import VARIANTS, Frame
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError
from bnn_atlas.symmetry.matching import Matched, Pairs, barycentre, centre_of, match
from bnn_atlas.symmetry.moments import Variants, touched
from bnn_atlas.symmetry.permutation import balanced, compose_units, require, transform, uniform_units
from bnn_atlas.traces.draws import Draws


class Plan(NamedTuple):
    """Settings of an alignment (explained in `config.parts.evaluation`)."""

    reference: Literal["first", "last", "mean", "barycentre"] | np.ndarray
    """An array is the target [P] of a different frame."""
    unit: Literal["draw", "chain"] = "draw"
    passes: int = 200
    frame: np.ndarray | None = None
    """Target [P] of a frame into which the aligned draws are moved, by one more permutation for all draws."""
    signed: bool = False
    balance: bool = False
    rank: int = 20
    seed: int = 0

    @property
    def to_barycentre(self) -> bool:
        """Whether the reference is the mean of the aligned draws themselves."""
        return isinstance(self.reference, str) and self.reference == "barycentre"


class Fit(NamedTuple):
    """Means and standard deviations [c, P] fitted by the chains of an approximation."""

    mean: np.ndarray
    sd: np.ndarray | None


SECONDS = 30.0
"""Seconds between two checkpoints; results do not depend on this time."""


class Checkpoint:
    """Arrays on disk with a fingerprint; a file that is damaged or has a different fingerprint is not used."""

    def __init__(self, path: Path, fingerprint: str, seconds: float = SECONDS) -> None:
        self._path, self._fingerprint, self._seconds = path, fingerprint, seconds
        self._saved = time.monotonic()

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays that were saved last; None if no usable file exists."""
        if not self._path.exists():
            return None
        try:
            arrays = load_arrays(self._path, ("fingerprint",), SymmetryError, "a checkpoint", optional=None)
        except SymmetryError:
            return None
        return arrays if str(arrays.pop("fingerprint")) == self._fingerprint else None

    def save(self, arrays: Callable[[], dict[str, np.ndarray]], *, now: bool = False) -> None:
        """Save the result of `arrays` if the last checkpoint is old enough."""
        if now or time.monotonic() - self._saved >= self._seconds:
            save_arrays(self._path, {**arrays(), "fingerprint": np.array(self._fingerprint)})
            self._saved = time.monotonic()

    def remove(self) -> None:
        """Remove the file, after the result has been written."""
        self._path.unlink(missing_ok=True)


def load_fit(paths: Sequence[str | Path], centre: str, chains: np.ndarray) -> Fit:
    """Means of these chains' fits, and their standard deviations if `centre`, the name of the array, is `mean`."""
    means = [load_chosen(path, (centre,), SymmetryError, f"a fit with the array '{centre}'")[centre] for path in paths]
    if centre != "mean":
        return Fit(np.concatenate(means)[chains], None)
    spreads = [load_chosen(path, ("sd",), SymmetryError, "a fit with the array 'sd'")["sd"] for path in paths]
    return Fit(np.concatenate(means)[chains], np.concatenate(spreads)[chains])


READ_BYTES = 32 << 20
"""Bytes of draws that are read together, and of features that are matched together."""
CHAIN_BYTES = 512 << 20
"""Largest size, in bytes, that the features of all chains' means may have."""
MEANS, MATCHING, ENTERING, MOMENTS = 0, 1, 2, 3
"""Stages, numbered as above."""
SCRAMBLING = 2
"""Keeps the random numbers of the scrambled control separate from those of the pairs (`matching.PAIRING`)."""


class Aligned(NamedTuple):
    """A frame, and some parameters of every draw."""

    frame: Frame
    columns: np.ndarray
    """Positions [q] of these parameters among all parameters."""
    values: dict[str, np.ndarray]
    """Variant -> values [c, s, q] in float32; NaN for draws that are not finite."""


class Aligner:
    """Aligns the draws of a trace; a later process can continue from the checkpoint."""

    def __init__(
        self,
        draws: Draws,
        symmetry: Symmetry,
        features: Features,
        plan: Plan,
        checkpoint: Checkpoint,
        fit: Fit | None = None,
        of_chains: Features | None = None,
    ) -> None:
        """With a `fit`, the means of the chains come from the fit.

        `of_chains` are smaller features, such as activations of fewer rows, for matching the chains' means. These
        features are used if the reference is not a barycentre, since chain-wise permutations are then only starting
        points for the draws.

        Raises SymmetryError if the plan uses scales or signs and the network has no such symmetry, or if the features
        of all chains need too much memory.
        """
        self._draws, self._symmetry, self._features = draws, symmetry, features
        self._of_chains = features if of_chains is None or plan.to_barycentre else of_chains
        self._plan, self._checkpoint, self._fit = plan, checkpoint, fit
        self._lots = list(_lots(draws))
        if plan.signed:
            require(symmetry, "sign")
        if plan.balance:
            require(symmetry, "scale")
        size = 8 * draws.chains * self._of_chains.symmetry.layout.size
        if size > CHAIN_BYTES:
            raise SymmetryError(
                f"the features of {draws.chains:,} chains need {size / 2**20:,.0f} MiB, more than "
                f"{CHAIN_BYTES / 2**20:.0f}: lower the number of rows, or match by weights"
            )

    def run(self) -> Aligned:
        """Compute the frame; SymmetryError for fewer than two finite draws."""
        self._state: dict[str, Any] = self._checkpoint.load() or {}
        self._stage, self._lot = (int(n) for n in self._state.pop("progress", (MEANS, 0)))
        if self._stage == MEANS:
            self._take_means()
            self._begin_matching()
        while self._stage == MATCHING:
            self._match_draws()
        if self._stage == ENTERING:
            self._enter_frame()
        return self._take_moments()

    def _take_means(self) -> None:
        state, chains_there = self._state, self._draws.chains
        if not state:
            state["sums"] = np.zeros((chains_there, self._of_chains.symmetry.layout.size))
            state["finite"] = np.zeros(self._draws.shape[:2], dtype=bool)
            state["total"] = np.zeros(self._draws.size)
        for chains, draws, theta in self._pass():
            usable = np.isfinite(theta).all(axis=-1)
            state["finite"][chains, draws] = usable
            for chain, rows, kept in zip(range(*chains.indices(chains_there)), theta, usable, strict=True):
                ours = self._prepared(rows[kept])
                state["total"] += ours.sum(axis=0, dtype=np.float64)
                for part in self._in_lots(ours):
                    values = self._of_chains.of(part)
                    if not np.isfinite(values).all():
                        number = int(self._draws.chain_ids[chain])
                        raise SymmetryError(
                            f"{self._draws.path}: draws of chain {number} are finite, but the features that they are "
                            "matched by are not (the chain has diverged): leave it out, or match by weights"
                        )
                    state["sums"][chain] += values.sum(axis=0, dtype=np.float64)
        if (count := int(state["finite"].sum())) < 2:
            raise SymmetryError(
                f"{self._draws.path} has {count} finite draws of {state['finite'].size}; an alignment needs two"
            )

    def _begin_matching(self) -> None:
        """Align the chains, and choose the reference and each draw's initial permutation."""
        state, plan, features = self._state, self._plan, self._of_chains
        weights = state["finite"].sum(axis=1).astype(np.float64)
        rows = (state.pop("sums") / np.maximum(weights, 1)[:, None]).astype(self._draws.dtype)
        if self._fit is not None:
            finite = np.isfinite(self._fit.mean).all(axis=1)
            rows[finite] = features.of(self._prepared(self._fit.mean[finite])).astype(self._draws.dtype)
            weights[~finite] = 0
        with_draws = weights > 0
        if not with_draws.any():
            raise SymmetryError(f"{self._draws.path}: no chain has a finite fit and finite draws")
        chain_wise = barycentre(features, rows[with_draws], weights[with_draws], signed=plan.signed)
        every = Matched.unmoved(features.symmetry, len(rows))
        every.units[with_draws], every.signs[with_draws] = chain_wise.matched.units, chain_wise.matched.signs
        state["chain_units"], state["chain_signs"] = every.units, every.signs
        draw_wise = plan.unit == "draw" and self._draws.draws > 1
        if plan.to_barycentre:
            self._start_at(every, chain_wise.centre)
            objective, fixed = chain_wise.objective[-1:], chain_wise.fixed
        if draw_wise or not plan.to_barycentre:
            reference = self._reference()
            centre = np.asarray(features.of(reference)[0], np.float64)
            found = match(features.symmetry, centre.astype(rows.dtype), rows[with_draws], signed=plan.signed)
            start = Matched.unmoved(features.symmetry, len(rows))
            start.units[with_draws], start.signs[with_draws] = found.units, found.signs
            if plan.to_barycentre:
                state["chain_centre"] = state["centre"]
            else:
                objective, fixed = (float(np.average(found.objective, weights=weights[with_draws])),), True
                state["target"] = reference[0]
            self._start_at(start, np.asarray(self._features.of(reference)[0], np.float64))
        del state["total"]
        state |= {"objective": np.array(objective), "fixed": np.array(fixed)}
        self._next(MATCHING if draw_wise else self._after_matching)

    def _start_at(self, chains: Matched, centre: np.ndarray) -> None:
        """Give every draw the permutation of its chain; the next pass matches to this centre."""
        self._state["centre"] = centre
        for name, neutral in (("units", self._symmetry.identity), ("signs", 1)):
            self._state[name] = np.repeat(getattr(chains, name)[:, None], self._draws.draws, axis=1)
            self._state[name][~self._state["finite"]] = neutral

    @property
    def _after_matching(self) -> int:
        return MOMENTS if self._plan.frame is None else ENTERING

    def _reference(self) -> np.ndarray:
        """Parameters [1, P] of the reference, or of the first draw if the reference is a barycentre."""
        theta = self._plan.reference
        if isinstance(theta, str) and theta == "mean":
            theta = self._state["total"] / self._state["finite"].sum()
        elif isinstance(theta, str):
            usable = np.argwhere(self._state["finite"])
            chain, draw = (int(place) for place in usable[-1 if theta == "last" else 0])
            theta = self._prepared(self._draws.read([chain], [draw])[0])[0]
        return theta[None].astype(self._draws.dtype)

    def _match_draws(self) -> None:
        """One pass: match every draw to the centre."""
        state, features = self._state, self._features
        centre = state["centre"].astype(self._draws.dtype)
        if "sum" not in state:
            state |= {"sum": np.zeros(len(centre)), "moved": np.array(0), "score": np.array(0.0)}
        for chains, draws, theta in self._pass():
            places = np.flatnonzero(state["finite"][chains, draws])
            shape = state["units"][chains, draws].shape
            units, signs = (state[name][chains, draws].reshape(-1, shape[-1]) for name in ("units", "signs"))
            ours = self._prepared(theta.reshape(-1, theta.shape[-1])[places])
            done = 0
            for part in self._in_lots(ours):
                at = places[done : done + len(part)]
                done += len(part)
                values = features.of(part)
                start = Matched(units[at], signs[at], np.zeros(len(at)), 0)
                found = match(features.symmetry, centre, values, signed=self._plan.signed, start=start)
                changed = (found.units != start.units) | (found.signs != start.signs)
                state["moved"] = state["moved"] + changed.any(axis=1).sum()
                state["score"] = state["score"] + found.objective.sum()
                units[at], signs[at] = found.units, found.signs
                if self._plan.to_barycentre:
                    state["sum"] += len(at) * centre_of(features, values, np.ones(len(at)), found)
            state["units"][chains, draws], state["signs"][chains, draws] = units.reshape(shape), signs.reshape(shape)
        count = state["finite"].sum()
        moved, mean, score = int(state.pop("moved")), state.pop("sum") / count, float(state.pop("score")) / count
        again = False
        if self._plan.to_barycentre:
            trial = state.pop("chain_centre", None)
            score, again = (
                float(mean @ mean),
                (trial is not None or moved > 0) and len(state["objective"]) < self._plan.passes,
            )
            state["centre"], state["fixed"] = mean, np.array(moved == 0)
            if trial is not None and score <= state["objective"][-1]:
                chain_wise = Matched(state["chain_units"], state["chain_signs"], np.zeros(0), 0)
                self._start_at(chain_wise, trial)
                score = float(state["objective"][-1])
        state["objective"] = np.append(state["objective"], score)
        self._next(MATCHING if again else self._after_matching)

    def _enter_frame(self) -> None:
        """Match the mean of the aligned draws to the target of the other frame, and move all draws accordingly."""
        state, plan, features = self._state, self._plan, self._features
        assert plan.frame is not None
        state.setdefault("total", np.zeros(self._draws.size))
        for chains, draws, theta in self._pass():
            usable = state["finite"][chains, draws]
            units, signs = state["units"][chains, draws][usable], state["signs"][chains, draws][usable]
            moved = self._moved(self._prepared(theta[usable]), units, signs)
            state["total"] += moved.sum(axis=0, dtype=np.float64)
        mean = state.pop("total") / state["finite"].sum()
        theirs, ours = (features.of(np.asarray(one, self._draws.dtype)[None]) for one in (plan.frame, mean))
        found = match(features.symmetry, theirs[0], ours, signed=plan.signed)
        state["target"] = plan.frame
        for name in ("units", "chain_units"):
            state[name] = compose_units(self._symmetry, state[name], found.units[0]).astype(state[name].dtype)
        for name in ("signs", "chain_signs"):
            carried = compose_units(self._symmetry, state[name], found.units[0])
            state[name] = (carried * found.signs[0]).astype(state[name].dtype)
        state["units"][~state["finite"]], state["signs"][~state["finite"]] = self._symmetry.identity, 1
        self._next(MOMENTS)

    def _take_moments(self) -> Aligned:
        state, (chains_there, draws_there, _) = self._state, self._draws.shape
        variants = Variants(self._symmetry, chains_there, draws_there, self._plan.rank)
        if self._lot:
            variants.restore(state)
        for chains, draws, theta in self._pass(variants.arrays):
            numbered = range(*draws.indices(draws_there))
            for chain, rows in zip(range(*chains.indices(chains_there)), theta, strict=True):
                numbers = [n for n in numbered if state["finite"][chain, n]]
                ours = self._prepared(rows[[n - numbered.start for n in numbers]])
                scrambled = np.array([self._scrambled(chain, n) for n in numbers], np.int16)
                scrambled = scrambled.reshape(len(numbers), 2, self._symmetry.units)
                moved = {
                    "sampled": ours,
                    "aligned": self._moved(ours, state["units"][chain, numbers], state["signs"][chain, numbers]),
                    "scrambled": self._moved(ours, scrambled[:, 0], scrambled[:, 1]),
                    "chain_wise": self._moved(ours, state["chain_units"][chain], state["chain_signs"][chain]),
                }
                variants.add(chain, numbers, moved)
        frame = Frame(
            chain_ids=self._draws.chain_ids,
            draw_ids=self._draws.draw_ids,
            finite=state["finite"],
            units=state["units"],
            signs=state["signs"],
            chain_units=state["chain_units"],
            chain_signs=state["chain_signs"],
            moments=(moments := variants.results()),
            target=state.get("target", moments["aligned_mean"]),
            factor=variants.factor.covariance_factor().astype(np.float32),
            objective=state["objective"],
            fixed=bool(state["fixed"]),
            **self._fit_in_frame(),
        )
        return Aligned(frame, variants.columns, variants.values)

    def _fit_in_frame(self) -> dict[str, np.ndarray]:
        """Means and standard deviations of the chains' fits, in the frame."""
        if self._fit is None:
            return {}
        units, signs = self._state["units"][:, 0], self._state["signs"][:, 0]
        mean, sd = self._fit
        if self._plan.balance:
            mean, *others = balanced(self._symmetry, mean, *([] if sd is None else [sd]))
            sd = others[0] if others else None
        found = {"fit_mean": self._moved(mean, units, signs)}
        return found if sd is None else {**found, "fit_sd": self._moved(sd, units)}

    def _scrambled(self, chain: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
        """Random permutations and signs [units] that depend only on the seed and the indices of chain and draw."""
        numbers = [SCRAMBLING, self._plan.seed, int(self._draws.chain_ids[chain]), int(self._draws.draw_ids[draw])]
        generator = np.random.default_rng(numbers)
        units = uniform_units(self._symmetry, generator)
        return units, generator.choice(np.array([-1, 1], np.int8), size=self._symmetry.units)

    def _moved(self, theta: np.ndarray, units: np.ndarray, signs: np.ndarray | None = None) -> np.ndarray:
        return transform(self._symmetry, theta, units, signs if self._plan.signed else None)

    def _prepared(self, theta: np.ndarray) -> np.ndarray:
        """Draws [m, P] in the form that is matched: with balanced scales if the plan requires this."""
        return balanced(self._symmetry, theta)[0].astype(theta.dtype) if self._plan.balance and len(theta) else theta

    def _in_lots(self, theta: np.ndarray) -> Iterator[np.ndarray]:
        size = max(1, READ_BYTES // (8 * self._features.symmetry.layout.size))
        for start in range(0, len(theta), size):
            yield theta[start : start + size]

    def _pass(self, more: Callable[[], dict[str, np.ndarray]] = dict) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """The remaining lots of draws in this pass; a checkpoint follows each lot if enough time has passed."""
        while self._lot < len(self._lots):
            chains, draws = self._lots[self._lot]
            yield chains, draws, self._draws.read(chains, draws)
            self._lot += 1
            self._checkpoint.save(lambda: self._arrays() | more())

    def _next(self, stage: int) -> None:
        self._stage, self._lot = stage, 0
        self._checkpoint.save(self._arrays)

    def _arrays(self) -> dict[str, np.ndarray]:
        kept = {name: np.asarray(array) for name, array in self._state.items() if ":" not in name}
        return {**kept, "progress": np.array([self._stage, self._lot])}


def _lots(draws: Draws) -> Iterator[tuple[slice, slice]]:
    """Chains and draws that are read together: whole chains, or pieces of a chain, in multiples of stored chunks."""
    room = max(1, READ_BYTES // (draws.size * draws.dtype.itemsize))
    if draws.draws <= room:
        step = room // draws.draws
        for start in range(0, draws.chains, step):
            yield slice(start, min(start + step, draws.chains)), slice(0, draws.draws)
        return
    chunk = draws.draws_per_chunk
    length = room // chunk * chunk if room >= chunk else room
    for chain in range(draws.chains):
        for start in range(0, draws.draws, length):
            yield slice(chain, chain + 1), slice(start, min(start + length, draws.draws))


def rows_of_chains(features: Features, chains: int, rows: int, config: AlignmentConfig) -> int | None:
    """Largest number of rows at which activations of all chains' means fit in memory; None if all rows fit.

    A barycentre needs the same features for chains and draws, so `Aligner` raises an error if these do not fit.
    """
    size = 8 * chains * features.symmetry.layout.size
    if size <= CHAIN_BYTES or config.reference == "barycentre" or config.criterion in ("weights", "cosine"):
        return None
    return max(1, int(min(config.rows or rows, rows) * (CHAIN_BYTES / size)))


def kept_draws(found: Aligned, pairs: Pairs, symmetry: Symmetry) -> AlignedDraws:
    """The arrays that diagnostics and figures use, from an alignment and from pairs of the same draws."""
    names, moved = symmetry.layout.names(), touched(symmetry)
    variances = [
        [np.square(found.frame.moment(variant, name)[moved], dtype=np.float64).mean() for name in ("sd", "within_sd")]
        for variant in VARIANTS
    ]
    return AlignedDraws(
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
    )
