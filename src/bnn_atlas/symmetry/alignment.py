"""Bring all draws of a run into one frame, in passes over the trace whose memory does not grow with the draws.

0. Average the features of each chain, where 1. needs the averages. The averages matched to the reference are the
   chain-wise alignment; for a barycentre, it is the barycentre of the averages.
1. Match each draw to the reference. If the groups of units depend on each other, start with the permutation of the
   draw's chain; if they do not, the start does not matter, and the inner products of the units of a chain's draws add
   up to those of its average, which is never made. For a barycentre, the first pass matches to the first draw. Then
   each pass matches to the mean of the previous pass, until no unit moves. These passes start with the resulting mean
   or the chain-wise mean, whichever has the larger norm (and so less spread around it). A barycentre is therefore never
   worse than the chain-wise alignment.
2. To enter another frame, match the mean of the aligned draws to that frame's target, and also apply the permutation
   found to all draws.
3. Take moments of the draws as sampled, aligned, scrambled and aligned chain by chain; keep some parameters of each
   variant.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, load_chosen, save_arrays
from bnn_atlas.symmetry.aligned_draws import AlignedDraws
from bnn_atlas.symmetry.features import Features, require_room
from bnn_atlas.symmetry.frame import VARIANTS, Frame
from bnn_atlas.symmetry.groups import Symmetry, SymmetryError
from bnn_atlas.symmetry.matching import (
    Matched,
    Pairs,
    assign,
    barycentre,
    centre_of,
    decoupled,
    match,
    match_networks,
    products,
    settled,
)
from bnn_atlas.symmetry.moments import ChainWise, Variants, touched
from bnn_atlas.symmetry.permutation import balanced, compose_units, require, transform, uniform_units
from bnn_atlas.traces.draws import Draws

log = logging.getLogger(__name__)


class Plan(NamedTuple):
    """Settings of an alignment (explained in `config.parts.evaluation`)."""

    reference: Literal["first", "last", "mean", "barycentre"] | np.ndarray
    """An array is the target [P] of a different frame."""
    unit: Literal["draw", "chain"] = "draw"
    passes: int = 200
    frame: np.ndarray | None = None
    """Target [P] of a frame into which the aligned draws are moved, by one more permutation for all draws."""
    signs: bool = False
    scales: bool = False
    rank: int = 20
    seed: int = 0
    orders: int = 1
    gain: float = 0.0

    @property
    def to_barycentre(self) -> bool:
        """Whether the reference is the mean of the aligned draws themselves."""
        return self.reference_is("barycentre")

    def reference_is(self, name: str) -> bool:
        """Whether this is the name of the reference."""
        return isinstance(self.reference, str) and self.reference == name


class Fit(NamedTuple):
    """Means and standard deviations [c, P] fitted by the chains of an approximation."""

    mean: np.ndarray
    sd: np.ndarray | None


SECONDS = 30.0
"""Seconds between two checkpoints; results do not depend on this time."""


class Checkpoint:
    """Arrays on disk with a fingerprint; a file that is damaged or has a different fingerprint is not used.

    `Aligner` also compares what the arrays were made from: its settings, and every draw (`Aligner.run`).
    """

    def __init__(self, path: Path, fingerprint: str = "", seconds: float = SECONDS) -> None:
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
"""Largest size, in bytes, that the features of all chains' means may have, where these means are needed."""
MEANS, MATCHING, ENTERING, MOMENTS = 0, 1, 2, 3
"""Stages, numbered as above."""
VARIANCE_ROUNDING = 1e-5
"""Relative rise of a mean variance that may be due to rounding."""
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
    ) -> None:
        """With a `fit`, the means of the chains come from the fit.

        Raises SymmetryError if the plan uses scales or signs and the network has no such symmetry, or if features that
        have to be held whole need too much memory: those of all chains' means, and those of a barycentre.
        """
        self._draws, self._symmetry, self._features = draws, symmetry, features
        self._plan, self._checkpoint, self._fit = plan, checkpoint, fit
        self._lots = list(_lots(draws))
        self._at_once = decoupled(features.symmetry) and not plan.to_barycentre
        if plan.signs:
            require(symmetry, "signs")
        if plan.scales:
            require(symmetry, "scales")
        if plan.to_barycentre and features.products is not None:
            require_room(features.symmetry)
        size = 8 * draws.chains * features.symmetry.layout.size
        if size > CHAIN_BYTES and not self._at_once:
            way = "align fewer chains (the setting chains), or match by activations to the first draw"
            if features.products is not None:
                way = "lower the number of rows, or match to the first draw"
            raise SymmetryError(
                f"the features of {draws.chains:,} chains need {size / 2**20:,.0f} MiB, more than "
                f"{CHAIN_BYTES / 2**20:.0f}: {way}"
            )

    def run(self) -> Aligned:
        """Compute the frame; SymmetryError for fewer than two finite draws.

        A checkpoint is used if it was made with the same settings and features from the same draws, of which it has a
        digest per lot that is read.
        """
        self._state: dict[str, Any] = self._resumed() or {"identity": np.array(self._identity)}
        self._stage, self._lot = (int(n) for n in self._state.pop("progress", (MEANS, 0)))
        if self._stage == MEANS:
            self._take_means()
            self._begin_matching()
        while self._stage == MATCHING:
            self._match_draws()
        if self._stage == ENTERING:
            self._enter_frame()
        return self._take_moments()

    @cached_property
    def _identity(self) -> str:
        """Digest of everything but the draws on which the state depends."""
        plan = self._plan
        arrays = {"frame": plan.frame, "fit_mean": self._fit and self._fit.mean, "fit_sd": self._fit and self._fit.sd}
        if not isinstance(plan.reference, str):
            arrays["reference"] = plan.reference
        settings = plan._replace(frame=None, reference=plan.reference if isinstance(plan.reference, str) else "first")
        features = self._features.basis
        if not features:
            first = self._draws.read([0], [0])[0]
            features = _digest(self._features.of(first)).hex()
        parts = [
            repr(settings),
            repr(self._symmetry),
            features,
            repr((self._draws.shape, self._draws.dtype, self._lots)),
            *(_digest(numbers).hex() for numbers in (self._draws.chain_ids, self._draws.draw_ids)),
            *(f"{name} {_digest(array).hex()}" for name, array in arrays.items() if array is not None),
        ]
        return sha256("\n".join(parts).encode()).hexdigest()

    def _resumed(self) -> dict[str, Any] | None:
        """The state of the checkpoint, if it is of these settings and of these draws."""
        state = self._checkpoint.load()
        if state is None or str(state.get("identity")) != self._identity:
            return None
        stage, lot = (int(n) for n in state["progress"])
        read = self._lots[:lot] if stage == MEANS else self._lots
        if any(state["digests"][n].tobytes() != _digest(self._draws.read(*lot)) for n, lot in enumerate(read)):
            log.info("%s: the checkpoint is of other draws, and the alignment starts anew", self._draws.path)
            return None
        return state

    def _take_means(self) -> None:
        state, chains_there = self._state, self._draws.chains
        if "finite" not in state:
            state["finite"] = np.zeros(self._draws.shape[:2], dtype=bool)
            state["digests"] = np.zeros((len(self._lots), 32), np.uint8)
            if not self._at_once:
                state["sums"] = np.zeros((chains_there, self._features.symmetry.layout.size))
            if self._plan.reference_is("mean"):
                state["total"] = np.zeros(self._draws.size)
        for chains, draws, theta in self._pass():
            state["digests"][self._lot] = np.frombuffer(_digest(theta), np.uint8)
            usable = finite_draws(theta)
            state["finite"][chains, draws] = usable
            for chain, rows, kept in zip(range(*chains.indices(chains_there)), theta, usable, strict=True):
                if self._at_once and "total" not in state:
                    continue
                ours = self._prepared(rows if kept.all() else rows[kept])
                if "total" in state:
                    state["total"] += _sum(ours)
                for part in self._in_lots(ours) if "sums" in state else ():
                    values = self._features.of(part)
                    self._require_finite(chain, values)
                    state["sums"][chain] += _sum(values)
        if (count := int(state["finite"].sum())) < 2:
            raise SymmetryError(
                f"{self._draws.path} has {count} finite draws of {state['finite'].size}; an alignment needs two"
            )

    def _require_finite(self, chain: int, values: np.ndarray) -> None:
        if not np.isfinite(values).all():
            number = int(self._draws.chain_ids[chain])
            raise SymmetryError(
                f"{self._draws.path}: draws of chain {number} are finite, but the features that they are "
                "matched by are not (the chain has diverged): leave it out, or match by weights"
            )

    def _begin_matching(self) -> None:
        """Align the chains, where the draws do not have to be matched for it, and choose the reference."""
        state, plan, features = self._state, self._plan, self._features
        weights = state["finite"].sum(axis=1).astype(np.float64)
        fits = np.zeros(len(weights), bool) if self._fit is None else np.isfinite(self._fit.mean).all(axis=1)
        if self._fit is not None:
            weights[~fits] = 0
        with_draws = weights > 0
        if not with_draws.any():
            raise SymmetryError(f"{self._draws.path}: no chain has a finite fit and finite draws")
        reference = None if plan.to_barycentre else self._reference()
        if reference is not None:
            state["target"] = reference
        state.pop("total", None)
        every = Matched.unmoved(features.symmetry, len(weights))
        objective: tuple[float, ...] = ()
        fixed, draw_wise = True, plan.unit == "draw" and self._draws.draws > 1
        if self._at_once and self._fit is None:
            self._start_at(every)
            self._stage_of_chains(every, objective, fixed)
            self._next(MATCHING)
            return
        if self._at_once:
            assert self._fit is not None
            fitted = self._prepared(self._fit.mean[with_draws]).astype(self._draws.dtype)
            found = match_networks(features, state["target"], fitted, signed=plan.signs)
            objective = (float(np.average(found.objective, weights=weights[with_draws])),)
        else:
            rows = (state.pop("sums") / np.maximum(weights, 1)[:, None]).astype(self._draws.dtype)
            if self._fit is not None:
                rows[fits] = features.of(self._prepared(self._fit.mean[fits])).astype(self._draws.dtype)
            search = partial(match, features.symmetry, signed=plan.signs, orders=plan.orders, seed=plan.seed)
            if reference is None:
                chains = barycentre(
                    features, rows[with_draws], weights[with_draws],
                    signed=plan.signs, orders=plan.orders, seed=plan.seed, gain=plan.gain,
                )  # fmt: skip
                found, objective, fixed = chains.matched, chains.objective[-1:], chains.fixed
                state["centre"] = chains.centre
            else:
                state["centre"] = np.asarray(features.of(reference[None])[0], np.float64)
                wanted = state["centre"].astype(rows.dtype)
                found = search(wanted, rows[with_draws])
                objective = (float(np.average(found.objective, weights=weights[with_draws])),)
        every.units[with_draws], every.signs[with_draws] = found.units, found.signs
        start = every
        if plan.to_barycentre and draw_wise:
            state["chain_centre"] = state["centre"]
            state["centre"] = np.asarray(features.of(self._reference()[None])[0], np.float64)
            start = Matched.unmoved(features.symmetry, len(weights))
            begun = search(state["centre"].astype(rows.dtype), rows[with_draws])
            start.units[with_draws], start.signs[with_draws] = begun.units, begun.signs
        self._start_at(start)
        self._stage_of_chains(every, objective, fixed)
        self._next(MATCHING if draw_wise else self._after_matching)

    def _stage_of_chains(self, chains: Matched, objective: tuple[float, ...], fixed: bool) -> None:
        state = self._state
        state["chain_units"], state["chain_signs"] = chains.units, chains.signs
        state |= {"objective": np.array(objective), "fixed": np.array(fixed)}

    def _start_at(self, chains: Matched) -> None:
        """Give every draw the permutation of its chain."""
        for name, neutral in (("units", self._symmetry.identity), ("signs", 1)):
            self._state[name] = np.repeat(getattr(chains, name)[:, None], self._draws.draws, axis=1)
            self._state[name][~self._state["finite"]] = neutral

    @property
    def _after_matching(self) -> int:
        return MOMENTS if self._plan.frame is None else ENTERING

    def _reference(self) -> np.ndarray:
        """Parameters [P] of the reference, or of the first draw if the reference is a barycentre."""
        theta = self._plan.reference
        if isinstance(theta, str) and theta == "mean":
            theta = self._state["total"] / self._state["finite"].sum()
        elif isinstance(theta, str):
            usable = np.argwhere(self._state["finite"])
            chain, draw = (int(place) for place in usable[-1 if theta == "last" else 0])
            theta = self._prepared(self._draws.read([chain], [draw])[0])[0]
        return theta.astype(self._draws.dtype)

    def _match_draws(self) -> None:
        """One pass: match every draw to the target or to the centre."""
        if self._at_once:
            self._match_at_once()
        else:
            self._match_to_centre()

    def _match_at_once(self) -> None:
        """Match every draw to the target, and every chain by the sums of its draws' inner products."""
        state, plan = self._state, self._plan
        if "score" not in state:
            state |= {"score": np.array(0.0), "chain_score": np.array(0.0), "product_chain": np.array(-1)}
        by_chain, by_draw = self._fit is None, plan.unit == "draw"
        for chains, draws, theta in self._pass():
            for chain, rows in zip(range(*chains.indices(self._draws.chains)), theta, strict=True):
                if by_chain and chain != int(state["product_chain"]):
                    self._finish_chain()
                    self._begin_chain(chain)
                places = np.flatnonzero(state["finite"][chain, draws])
                ours = self._prepared(rows if len(places) == len(rows) else rows[places])
                for at, part in zip(self._in_lots(places), self._in_lots(ours), strict=True):
                    found = products(self._features, state["target"], part)
                    for similarity in found.similarity.values():
                        self._require_finite(chain, similarity.sum())
                    numbers = np.asarray(range(*draws.indices(self._draws.draws)))[at]
                    if by_draw:
                        matched = assign(self._features.symmetry, found.similarity, found.rounding, signed=plan.signs)
                        state["units"][chain, numbers], state["signs"][chain, numbers] = matched.units, matched.signs
                        state["score"] = state["score"] + (matched.objective + found.rest).sum()
                    if by_chain:
                        for group, similarity in found.similarity.items():
                            state[f"similarity_{group}"] += similarity.sum(axis=0, dtype=np.float64)
                        state["product_rounding"] = state["product_rounding"] + found.rounding.sum()
                        state["product_rest"] = state["product_rest"] + found.rest.sum()
        count = state["finite"].sum()
        if by_chain:
            self._finish_chain()
            state["objective"] = np.array([float(state["chain_score"]) / count])
        if by_draw:
            state["objective"] = np.append(state["objective"], float(state["score"]) / count)
        else:
            self._start_at(Matched(state["chain_units"], state["chain_signs"], np.zeros(0), 0))
        for name in ("score", "chain_score", "product_chain"):
            del state[name]
        self._next(self._after_matching)

    def _begin_chain(self, chain: int) -> None:
        self._state |= {f"similarity_{group.name}": np.zeros((group.size,) * 2) for group in self._symmetry.groups}
        self._state |= {
            "product_chain": np.array(chain),
            "product_rounding": np.array(0.0),
            "product_rest": np.array(0.0),
        }

    def _finish_chain(self) -> None:
        """The permutation of a chain, of which all draws have been read."""
        state = self._state
        if (chain := int(state["product_chain"])) < 0:
            return
        similarity = {group.name: state.pop(f"similarity_{group.name}")[None] for group in self._symmetry.groups}
        rounding, rest = state.pop("product_rounding"), state.pop("product_rest")
        found = assign(self._features.symmetry, similarity, rounding[None], signed=self._plan.signs)
        state["chain_units"][chain], state["chain_signs"][chain] = found.units[0], found.signs[0]
        state["chain_score"] = state["chain_score"] + found.objective[0] + rest

    def _match_to_centre(self) -> None:
        """Match every draw to the centre, starting from its present permutation."""
        state, features, plan = self._state, self._features, self._plan
        centre = state["centre"].astype(self._draws.dtype)
        first = "tried" not in state
        orders = plan.orders if first or "trying" in state else 1
        if "sum" not in state:
            state |= {"sum": np.zeros(len(centre)), "moved": np.array(0), "score": np.array(0.0)}
        if first:
            state |= {"tried": np.zeros(plan.orders), "trying": np.array(True)}
        for chains, draws, theta in self._pass():
            places = np.flatnonzero(state["finite"][chains, draws])
            shape = state["units"][chains, draws].shape
            units, signs = (state[name][chains, draws].reshape(-1, shape[-1]) for name in ("units", "signs"))
            ours = self._prepared(theta.reshape(-1, theta.shape[-1])[places])
            for at, part in zip(self._in_lots(places), self._in_lots(ours), strict=True):
                values = features.of(part)
                start = Matched(units[at], signs[at], np.zeros(len(at)), 0)
                found = match(
                    features.symmetry, centre, values, signed=plan.signs, start=start, orders=orders, seed=plan.seed
                )  # fmt: skip
                changed = (found.units != start.units) | (found.signs != start.signs)
                state["moved"] = state["moved"] + changed.any(axis=1).sum()
                state["score"] = state["score"] + found.objective.sum()
                if "trying" in state and found.tried is not None:
                    state["tried"] = state["tried"] + found.tried.sum(axis=0)
                units[at], signs[at] = found.units, found.signs
                if plan.to_barycentre:
                    state["sum"] += len(at) * centre_of(features, values, np.ones(len(at)), found)
            state["units"][chains, draws], state["signs"][chains, draws] = units.reshape(shape), signs.reshape(shape)
        count = state["finite"].sum()
        if state.pop("trying", None) is not None:
            state["tried"] = state["tried"] / count
        moved, mean, score = int(state.pop("moved")), state.pop("sum") / count, float(state.pop("score")) / count
        again = False
        if plan.to_barycentre:
            trial = state.pop("chain_centre", None)
            score = float(mean @ mean)
            state["centre"], state["fixed"] = mean, np.array(moved == 0)
            if trial is not None and score <= state["objective"][-1]:
                self._start_at(Matched(state["chain_units"], state["chain_signs"], np.zeros(0), 0))
                state["centre"] = trial
                score = float(state["objective"][-1])
            ended = moved == 0 or settled([state["objective"][-1], score], plan.gain)
            again = (trial is not None or not ended) and len(state["objective"]) < plan.passes
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
        theirs, ours = (np.asarray(one, self._draws.dtype) for one in (plan.frame, mean))
        found = match_networks(
            features, theirs, ours[None], signed=plan.signs, orders=plan.orders, seed=plan.seed
        )  # fmt: skip
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
        variants = Variants(self._symmetry, chains_there, draws_there, self._plan.rank, self._chain_wise)
        if self._lot:
            variants.restore(state)
        for chains, draws, theta in self._pass(variants.arrays):
            numbered = range(*draws.indices(draws_there))
            for chain, rows in zip(range(*chains.indices(chains_there)), theta, strict=True):
                numbers = [n for n in numbered if state["finite"][chain, n]]
                ours = self._prepared(
                    rows if len(numbers) == len(rows) else rows[[n - numbered.start for n in numbers]]
                )
                scrambled = np.array([self._scrambled(chain, n) for n in numbers], np.int16)
                scrambled = scrambled.reshape(len(numbers), 2, self._symmetry.units)
                moved = {
                    "sampled": ours,
                    "aligned": self._moved(ours, state["units"][chain, numbers], state["signs"][chain, numbers]),
                    "scrambled": self._moved(ours, scrambled[:, 0], scrambled[:, 1]),
                }
                variants.add(chain, numbers, moved)
        self._warn(moments := variants.results())
        frame = Frame(
            chain_ids=self._draws.chain_ids,
            draw_ids=self._draws.draw_ids,
            finite=state["finite"],
            units=state["units"],
            signs=state["signs"],
            chain_units=state["chain_units"],
            chain_signs=state["chain_signs"],
            moments=moments,
            target=state.get("target", moments["aligned_mean"]),
            factor=variants.factor.covariance_factor().astype(np.float32, copy=False),
            objective=state["objective"],
            fixed=bool(state["fixed"]),
            tried=state.get("tried"),
            **self._fit_in_frame(),
        )
        return Aligned(frame, variants.columns, variants.values)

    def _chain_wise(self, chain: int) -> ChainWise:
        state = self._state
        return state["chain_units"][chain], state["chain_signs"][chain] if self._plan.signs else None

    def _warn(self, moments: dict[str, np.ndarray]) -> None:
        """Warn if the draws differ more in the frame than as sampled."""
        moved = touched(self._symmetry)
        before, after = (
            float(np.square(moments[f"{variant}_sd"][moved], dtype=np.float64).mean())
            for variant in ("sampled", "aligned")
        )
        if after > before * (1 + VARIANCE_ROUNDING):
            why = "draws of unlike chains got an order each; use the reference barycentre"
            if self._plan.to_barycentre:
                why = "they were not matched by all their weights"
            log.warning(
                "%s: the draws differ more in this frame than as sampled (mean variance of permuted parameters %.3g "
                "against %.3g): %s",
                self._draws.path, after, before, why,
            )  # fmt: skip

    def _fit_in_frame(self) -> dict[str, np.ndarray]:
        """Means and standard deviations of the chains' fits, in the frame."""
        if self._fit is None:
            return {}
        units, signs = self._state["units"][:, 0], self._state["signs"][:, 0]
        mean, sd = self._fit
        if self._plan.scales:
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
        return transform(self._symmetry, theta, units, signs if self._plan.signs else None)

    def _prepared(self, theta: np.ndarray) -> np.ndarray:
        """Draws [m, P] in the form that is matched: with balanced scales if the plan requires this."""
        return balanced(self._symmetry, theta)[0].astype(theta.dtype) if self._plan.scales and len(theta) else theta

    def _in_lots(self, theta: np.ndarray) -> Iterator[np.ndarray]:
        largest = self._features.symmetry.layout.size
        if self._at_once and self._features.products is not None:
            largest = sum(group.size**2 for group in self._symmetry.groups)
        size = max(1, READ_BYTES // (8 * largest))
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


def _digest(theta: np.ndarray) -> bytes:
    return sha256(np.ascontiguousarray(theta).data).digest()


def finite_draws(theta: np.ndarray) -> np.ndarray:
    """Which draws [...] of theta [..., P] are finite; if a sum is not, all numbers are looked at."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.isfinite(theta.sum(axis=-1))
    if not found.all():
        found = np.isfinite(theta).all(axis=-1)
    return np.asarray(found)


def _sum(rows: np.ndarray) -> np.ndarray:
    """Sum [P] of rows [m, P] in float64."""
    return np.asarray(rows.sum(axis=0, dtype=np.float64))


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
        gain=found.frame.gain,
    )
