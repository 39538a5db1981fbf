"""Alignment of draws of any network: exchangeable units in one order, for means, variances and comparisons."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from bnn_atlas.config.language.base import plural
from bnn_atlas.data import DataError
from bnn_atlas.library.given import Form, OneByOne, source_of
from bnn_atlas.library.posteriors import NetworkPosterior
from bnn_atlas.library.symmetries import Entry, Symmetry
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.symmetry.groups import (
    FreeGroup,
    Group,
    InnerGroup,
    Part,
    Place,
    SymmetryError,
    scales_of,
    signs_of,
)
from bnn_atlas.symmetry.groups import Symmetry as Groups
from bnn_atlas.symmetry.layers import free_symmetry
from bnn_atlas.traces.draws import Draws, Index, positions

if TYPE_CHECKING:
    import pandas
    from numpy.typing import ArrayLike

    from bnn_atlas.symmetry.alignment import Aligned, Plan
    from bnn_atlas.symmetry.features import Features
    from bnn_atlas.symmetry.frame import Frame
    from bnn_atlas.symmetry.matching import Pairs

By = Literal["weights", "activations", "centred", "correlation"]


class _InFrame(Draws):
    """Draws after their permutations, signs and scales; nothing is copied until it is read."""

    def __init__(self, source: Draws, symmetry: Groups, frame: "Frame", plan: "Plan") -> None:
        self._source, self._symmetry, self._frame, self._plan = source, symmetry, frame, plan
        for name in ("path", "layout", "size", "chain_ids", "draw_ids", "dtype", "statistics", "attributes"):
            setattr(self, name, getattr(source, name))
        self.chains_per_chunk, self.draws_per_chunk = source.chains_per_chunk, source.draws_per_chunk

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The scalars, in order."""
        return self._source.parameter_names

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p] in the frame; see `Draws.read`. Draws that are not finite stay as they are."""
        from bnn_atlas.symmetry.permutation import balanced, transform

        chain_idx, draw_idx = self._places(chains, draws)
        columns = positions(parameters, self.size, "parameter")
        at = np.ix_(chain_idx, draw_idx)
        frame, units = self._frame, self._symmetry.units
        theta = self._source.read(chain_idx, draw_idx).reshape(-1, self.size)
        usable = frame.finite[at].ravel()
        kept = theta[usable]
        if self._plan.scales and len(kept):
            kept = balanced(self._symmetry, kept)[0].astype(theta.dtype)
        signs = frame.signs[at].reshape(-1, units)[usable] if self._plan.signs else None
        theta[usable] = transform(self._symmetry, kept, frame.units[at].reshape(-1, units)[usable], signs)
        return theta[:, columns].reshape(len(chain_idx), len(draw_idx), len(columns))

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        return self._source.statistic(name, chains, draws)


NOISE = 3
"""Keeps the random numbers of the control `aligned_noise` separate from those of scrambling and of pairs."""


def _over_orders(symmetry: Groups, frame: "Frame", signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations [P] of the draws, averaged over all orders of their units (and over signs).

    The moments of a few scrambled draws differ from unit to unit. Noise with such moments has units that can be told
    apart, so that aligning it gains too little.
    """
    from bnn_atlas.symmetry.permutation import averaged

    mean = frame.moment("scrambled", "mean").astype(np.float64)
    share = 1 - 1 / max(1, int(frame.finite.sum()))
    square = frame.moment("scrambled", "sd").astype(np.float64) ** 2 * share + mean**2
    mean, square = (averaged(symmetry, moment, signed=signed) for moment, signed in ((mean, signed), (square, False)))
    return mean, np.sqrt(np.maximum(square - mean**2, 0))


class _Noise(OneByOne):
    """Independent normal numbers with these means and standard deviations [P], in the shape of other draws.

    A draw depends only on the seed and on the numbers of its chain and draw.
    """

    def __init__(self, like: Draws, mean: np.ndarray, sd: np.ndarray, seed: int) -> None:
        self._mean, self._sd, self._seed = mean, sd, seed
        for name in ("path", "layout", "size", "chain_ids", "draw_ids", "dtype"):
            setattr(self, name, getattr(like, name))
        self.statistics, self.attributes = {}, {}

    def _vector(self, chain: int, draw: int) -> np.ndarray:
        numbers = np.random.default_rng([NOISE, self._seed, chain, draw]).standard_normal(self.size)
        return self._mean + self._sd * numbers


@dataclass(frozen=True, repr=False)
class AlignmentReport:
    """What an alignment has done, compared with its controls; `print` shows it."""

    table: "pandas.DataFrame"
    """Columns `metric`, `at` (`sampled`, `aligned`, `scrambled`, `chain_wise`, `aligned_noise`, or empty), `value`,
    `standard_error`, `note`; docs/metrics.md explains the metrics."""
    text: str

    def __repr__(self) -> str:
        """The report in words and numbers."""
        return self.text


class Alignment:
    """Draws in a common frame; see `align`."""

    def __init__(
        self,
        source: Draws,
        symmetry: Groups,
        features: "Features",
        plan: "Plan",
        pairs: int,
        form: "Form",
        by: str,
    ) -> None:
        """Align the draws."""
        from bnn_atlas.symmetry.features import balanced_features
        from bnn_atlas.symmetry.matching import match_pairs

        self._source, self._symmetry, self._features, self._plan = source, symmetry, features, plan
        self._form, self._by = form, by
        self._aligned = self._run(source)
        paired = balanced_features(features, symmetry) if plan.scales else features
        self._pairs: Pairs = match_pairs(
            source, paired, self._aligned.frame.finite, pairs, plan.seed, signed=plan.signs
        )

    def _run(self, draws: Draws) -> "Aligned":
        from bnn_atlas.symmetry.alignment import Aligner, Checkpoint

        nowhere = Checkpoint(Path("no checkpoint"), "", math.inf)
        return Aligner(draws, self._symmetry, self._features, self._plan, nowhere).run()

    @property
    def frame(self) -> "Frame":
        """Permutations, moments and target as arrays over the flat vector (`bnn_atlas.symmetry.frame`)."""
        return self._aligned.frame

    @property
    def draws(self) -> Any:
        """The aligned draws in the form in which they were passed.

        Draws on disk stay there and are moved when they are read; an array is made whole, and pytrees one by one.
        """
        return self._form.draws(_InFrame(self._source, self._symmetry, self.frame, self._plan))

    @property
    def permutations(self) -> dict[str, np.ndarray]:
        """Group -> permutations [chain, draw, n] ([draw, n] for a list of pytrees): unit `p[i]` was put at place i."""
        return self._by_group(self.frame.units)

    @property
    def signs(self) -> dict[str, np.ndarray]:
        """Group -> -1 or 1 for each unit after its permutation; empty unless `signs` was chosen."""
        free = {group.name for group in self._symmetry.groups if signs_of(group)}
        found = self._by_group(self.frame.signs) if self._plan.signs else {}
        return {name: signs for name, signs in found.items() if name in free}

    @property
    def scales(self) -> dict[str, np.ndarray]:
        """Group -> factor of the incoming parameters of each unit after its permutation; empty unless `scales`.

        A group with several sets of parameters that can be rescaled, such as the layers of a residual stream, has one
        entry for each set: `name[0]`, `name[1]`, ... Computed when it is asked for, which reads all draws.
        """
        if not self._plan.scales:
            return {}
        found, orders = {}, {}
        for group, part in zip(self._symmetry.groups, self._symmetry.split(self.frame.units), strict=True):
            for name in _scale_names(group):
                found[name], orders[name] = np.ones(part.shape), part
        for chains, draws, theta in self._source.batches(LOT_BYTES):
            usable = self.frame.finite[chains, draws]
            for name, factors in _unit_scales(self._symmetry, theta[usable]).items():
                order = orders[name][chains, draws][usable].astype(np.intp)
                found[name][chains, draws][usable] = np.take_along_axis(factors, order, axis=1)
        return {name: self._form.shaped(factors) for name, factors in found.items()}

    @property
    def transpositions(self) -> dict[str, np.ndarray]:
        """Group -> number of transpositions [chain, draw] of each permutation to the frame."""
        from bnn_atlas.symmetry.permutation import transpositions

        return {name: transpositions(part) for name, part in self.permutations.items()}

    @property
    def mean(self) -> Any:
        """Mean of the aligned draws, as a pytree."""
        return self._form.tree(self.frame.mean)

    @property
    def sd(self) -> Any:
        """Standard deviations of the aligned draws, as a pytree."""
        return self._form.tree(self.frame.moment("aligned", "sd"))

    def __repr__(self) -> str:
        """Sizes, criterion and reference."""
        sizes = zip(self._source.shape, ("chain", "draw", "parameter"), strict=True)
        state = "" if self.frame.fixed else ", not settled"
        return f"Alignment({' x '.join(plural(*size) for size in sizes)}, by {self._by}{state})"

    def report(self) -> AlignmentReport:
        """Variances and R-hat of the aligned draws, compared with controls, and numbers of transpositions.

        Alignment lowers variances and R-hat even where there is nothing to find, so these are compared with:

        - `scrambled`: the units of every draw in a random order, which hides that chains differ and brings R-hat to 1;
        - `chain_wise`: one permutation for each chain;
        - `aligned_noise`: independent normal numbers with the means and variances of the draws over all orders of
          their units, aligned in the same way. What this gains in variance is due to choosing the best of many orders.

        The control of noise is another alignment, and takes as long as the first; its result is kept.
        """
        return self._report

    @cached_property
    def _report(self) -> AlignmentReport:
        import pandas as pd

        from bnn_atlas.metrics.tables.measurement import RunIdentity
        from bnn_atlas.symmetry.aligned_draws import alignment_rows
        from bnn_atlas.symmetry.alignment import kept_draws

        frame = self.frame
        mean, sd = _over_orders(self._symmetry, frame, self._plan.signs)
        noise = self._run(_Noise(self._source, mean, sd, self._plan.seed))
        identity = RunIdentity("", "", "", 0, "", "", "")
        ours, theirs = (
            pd.DataFrame(alignment_rows(identity, "-", kept_draws(found, self._pairs, self._symmetry)))
            for found in (self._aligned, noise)
        )
        control = theirs[theirs["at"] == "-/aligned"].assign(at="-/aligned_noise")
        table = pd.concat([ours, control], ignore_index=True)
        table["at"] = table["at"].str.removeprefix("-").str.removeprefix("/")
        table = table[["metric", "at", "value", "standard_error", "note"]]
        return AlignmentReport(table, _in_words(table, self))

    def _by_group(self, values: np.ndarray) -> dict[str, np.ndarray]:
        parts = self._symmetry.split(self._form.shaped(values))
        return {group.name: part for group, part in zip(self._symmetry.groups, parts, strict=True)}


VARIANTS = {
    "sampled": "as sampled",
    "aligned": "aligned",
    "chain_wise": "one order per chain",
    "scrambled": "units in random order",
    "aligned_noise": "noise, aligned",
}
COLUMNS = {
    "aligned_variance": "variance",
    "aligned_variance_within": "within chains",
    "aligned_rhat_median": "R-hat, median",
    "aligned_rhat_q95": "R-hat, 95 %",
}


def _in_words(table: "pandas.DataFrame", found: Alignment) -> str:
    """The report as text."""
    places = zip(table["metric"].tolist(), table["at"].tolist(), strict=True)
    value: dict[tuple[str, str], float] = dict(zip(places, table["value"].tolist(), strict=True))
    lines = [
        repr(found),
        f"{'mean over parameters that can move':<36}" + "".join(f"{name:>16}" for name in COLUMNS.values()),
    ]
    for variant, title in VARIANTS.items():
        numbers = [value.get((metric, variant)) for metric in COLUMNS]
        lines.append(f"  {title:<34}" + "".join(f"{'-' if n is None else f'{n:.4g}':>16}" for n in numbers))
    ceiling, to_frame = (value["transpositions_ceiling", ""], value["transpositions_to_frame", ""])
    lines.append(f"transpositions to the frame: {to_frame:.1f} of {ceiling:.1f} in random orders")
    pairs = [(where, value.get((f"transpositions_{where}", ""))) for where in ("within", "across")]
    if told := [f"{number:.1f} {where} chains" for where, number in pairs if number is not None]:
        lines.append(f"transpositions between pairs of draws: {', '.join(told)}")
    before, after = value["aligned_variance", "sampled"], value["aligned_variance", "aligned"]
    random, noise = value["aligned_variance", "scrambled"], value["aligned_variance", "aligned_noise"]
    if random > 0:
        lines.append(
            f"against a random order, the variance is {1 - after / random:.0%} lower; for noise alone, "
            f"{1 - noise / random:.0%}"
        )
    if after > before:
        lines.append("the variance is higher than as sampled: this reference does not help these draws")
    if lost := value["draws_not_finite", ""]:
        lines.append(f"{plural(int(lost), 'draw')} not finite and left out")
    return "\n".join(lines)


LOT_BYTES = 32 << 20
"""Bytes of draws that are read together."""


def _scale_names(group: Group) -> list[str]:
    """Names of the scales of a group, one for each set of its parameters that can be rescaled."""
    count = len(scales_of(group))
    return [group.name] if count == 1 else [f"{group.name}[{number}]" for number in range(count)]


def _unit_scales(symmetry: Groups, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Name of a scale -> factors [m, n] by which `balanced` multiplies the incoming parameters of the units.

    Every set of places gets one more array [n], with incoming parameters of 0, which changes no norm: the factors are
    what such an array of ones becomes. theta is [m, P].
    """
    from bnn_atlas.symmetry.permutation import balanced

    sizes = {group.name: group.size for group in symmetry.groups}
    extra: dict[str, Parameter] = {}
    groups: list[Group] = []
    for group in symmetry.groups:
        added: list[Place] = []
        for name in _scale_names(group):
            array = f"scales of {name}"
            extra[name] = Parameter(array, (group.size,), "gain", None, 1, 1)
            if isinstance(group, InnerGroup):
                added.append(Part(array, 0, True, slots=sizes[group.inside]))
            else:
                added.append(Place(array, 0, True))
        if isinstance(group, FreeGroup):
            pairs = zip(group.scales, added, strict=True)
            groups.append(replace(group, scales=tuple((*places, more) for places, more in pairs)))
        else:
            groups.append(replace(group, places=(*group.places, *added)))
    layout = Layout((*symmetry.layout.parameters, *extra.values()))
    zeros = np.zeros((len(theta), layout.size - symmetry.layout.size), theta.dtype)
    _, factors = balanced(
        Groups(layout, tuple(groups)),
        np.concatenate([theta, zeros], axis=1),
        np.ones((len(theta), layout.size)),
    )
    found = layout.unflatten(cast(Any, factors))
    return {name: np.asarray(found[parameter.name]) for name, parameter in extra.items()}


def align(
    draws: Any,
    symmetry: Symmetry | Mapping[str, Sequence[Entry]] | None = None,
    *,
    posterior: NetworkPosterior | None = None,
    by: By = "weights",
    x: "ArrayLike | None" = None,
    reference: Literal["barycentre", "first", "last", "mean"] = "barycentre",
    unit: Literal["draw", "chain"] = "draw",
    signs: bool = False,
    scales: bool = False,
    passes: int = 200,
    gain: float = 0.0,
    orders: int = 1,
    pairs: int = 50,
    seed: int = 0,
) -> Alignment:
    """Bring draws of any sampler into a common frame, by exchanging units that can be exchanged.

    Finds permutations P_k for draws w_k that maximise <r, P_k w_k> for a reference r, or the length of the mean of
    P_k w_k for the barycentre, which is never worse than one permutation per chain. Draws are read in pieces, so that
    only their permutations stay in memory (2 to 3 bytes for each unit).

    Args:
        draws: draws of `sample` or `open_pool`; an array [chain, draw, P] or [draw, P] in the order of the posterior or
            the symmetry; or a list of networks, each a pytree of parameters such as a mapping by name (or a list of
            such lists, one for each chain). NaN and infinity are refused, except where the statistic `divergent` of
            the draws marks this or an earlier step of the chain: such draws are left out and counted.
        symmetry: which units can be exchanged, or its notation; None to find it from the posterior or from what the
            draws record.
        posterior: the posterior of the draws, for its symmetry and rows.
        by: `weights`, all parameters of a unit; `activations` at rows x, unchanged, `centred`, or scaled to a
            `correlation`.
        x: rows [n, ...] for activations; None for the rows of the posterior.
        reference: what the draws are matched to.
        unit: a permutation for each draw, or one for each chain.
        signs: also match the signs of units that are free.
        scales: first rescale units that are free so that the norm of the parameters is least.
        passes: largest number of passes over the draws to a barycentre.
        gain: stop when a pass raises the objective by no more than this share, such as 1e-4; 0: when no unit moves.
        orders: number of orders in which the groups are matched, first their own and then random ones; each draw keeps
            the best. For networks with several hidden layers.
        pairs: number of random pairs of draws, within and across chains, whose transpositions are counted.
        seed: seed of pairs and controls.

    Raises:
        DataError: an argument is not valid, or draws and symmetry do not fit; the message says where.
        SymmetryError: there are no units to exchange, signs or scales are not free, or fewer than two draws are finite.
    """
    from bnn_atlas import arrays
    from bnn_atlas.library.posteriors import check_posterior
    from bnn_atlas.symmetry.alignment import Plan
    from bnn_atlas.symmetry.features import weight_features

    posterior = getattr(draws, "posterior", None) if posterior is None else posterior
    if posterior is not None:
        check_posterior(posterior)
    for name, value, allowed in (("by", by, BY), ("reference", reference, REFERENCES), ("unit", unit, UNITS)):
        if not isinstance(value, str) or value not in allowed:
            raise DataError(f"{name} is {value!r:.40}: choose {', '.join(allowed)}")
    if isinstance(symmetry, Mapping):
        symmetry = Symmetry(symmetry)
    if symmetry is None:
        symmetry = _symmetry_for(draws, posterior)
    elif not isinstance(symmetry, Symmetry):
        raise DataError(f"symmetry is a {type(symmetry).__name__}: pass a Symmetry, or its notation")
    source, form = source_of(draws, symmetry, posterior)
    bound = symmetry.bound(source.layout)
    _check_finite(source, form)
    if by == "weights":
        if x is not None:
            raise DataError(
                "x is of no use when units are matched by weights: leave it out, or choose by='activations'"
            )
        features = weight_features(bound)
    else:
        features = _activations(symmetry, bound, posterior, x, by)
    if source.chains * source.draws == 1:
        raise SymmetryError("draws has one draw, and an alignment needs two: pass more")
    for name, wanted, free in (("signs", signs, signs_of), ("scales", scales, scales_of)):
        if arrays.switch(wanted, name) and not any(free(group) for group in bound.groups):
            raise SymmetryError(
                f"no {name} were found: leave {name} out, or write by hand where they are free, "
                f"Symmetry(axes, {name}=...)"
            )
    if isinstance(gain, bool) or not isinstance(gain, int | float) or not 0 <= gain < 1:
        raise DataError(f"gain is {gain!r:.40}: pass a number from 0 to below 1, such as 1e-4")
    plan = Plan(
        reference=reference,
        unit=unit,
        passes=arrays.count(passes, "passes", 1, 10**6),
        orders=arrays.count(orders, "orders", 1, 10**4),
        gain=float(gain),
        signs=bool(arrays.switch(signs, "signs")),
        scales=bool(arrays.switch(scales, "scales")),
        seed=arrays.seed(seed),
    )
    return Alignment(source, bound, features, plan, arrays.count(pairs, "pairs", 0, 10**6), form, by)


def _check_finite(draws: Draws, form: Form) -> None:
    """Raise DataError for draws with NaN or infinity that `divergent` does not mark."""
    from bnn_atlas.symmetry.alignment import finite_draws

    lost = np.zeros(draws.shape[:2], bool)
    for chains, places, theta in draws.batches(LOT_BYTES):
        lost[chains, places] = ~finite_draws(theta)
    if "divergent" in draws.statistics and lost.any():
        lost &= np.cumsum(draws.statistic("divergent") > 0, axis=1) == 0
    if not lost.any():
        return
    chain, draw = (int(place) for place in np.argwhere(lost)[0])
    first = int(np.flatnonzero(~np.isfinite(draws.read([chain], [draw])[0, 0]))[0])
    more = f", as {lost.sum():,} of {plural(lost.size, 'draw')} have" if lost.sum() > 1 else ""
    raise DataError(
        f"{form.named(chain, draw)} has NaN or infinity in '{draws.arrays[first].name}'{more}: leave such draws or "
        "their chains out (the statistic `divergent` of draws from `sample` excuses steps that it marks)"
    )


BY = ("weights", "activations", "centred", "correlation")
REFERENCES = ("barycentre", "first", "last", "mean")
UNITS = ("draw", "chain")


def _symmetry_for(draws: Any, posterior: NetworkPosterior | None) -> Symmetry:
    """The symmetry of the posterior, or of the network that draws record."""
    from bnn_atlas.config.language.base import ConfigError, validated
    from bnn_atlas.config.parts.posterior import PosteriorConfig

    if posterior is not None:
        return Symmetry.of(posterior)
    recorded = None
    if isinstance(draws, Draws):
        recorded = draws.attributes.get("provenance", {}).get("settings", {}).get("posterior")
    if recorded is not None:
        try:
            config = validated(PosteriorConfig, recorded, "posterior")
        except ConfigError:
            config = None
        if config is not None:
            return Symmetry._made(free_symmetry(config.model, cast(Draws, draws).layout))
    raise DataError("symmetry is missing: pass one, `Symmetry.of(network, x)` or Symmetry({...}), or the posterior")


def _activations(symmetry: Symmetry, bound: Groups, posterior: NetworkPosterior | None, x: Any, by: By) -> "Features":
    from bnn_atlas import arrays
    from bnn_atlas.library.posteriors import rows_like

    if symmetry._features is None:
        raise DataError(
            f"by='{by}' needs the network, which this symmetry does not have: pass Symmetry.of(network, x), or the "
            "posterior without a symmetry"
        )
    if x is None and posterior is None:
        raise DataError(f"x is missing: by='{by}' needs rows")
    if posterior is not None:
        rows = np.asarray(posterior.rows[0]) if x is None else rows_like(posterior, x)
    else:
        array = np.asarray(x)
        rows = arrays.rows(x, np.float32, vocabulary=2**31 - 1 if array.dtype.kind in "iu" else 0)
    if rows.dtype.kind == "f":
        rows = rows.astype(np.float32 if posterior is None else posterior.dtype)
    return symmetry._features(bound, rows, cast(Any, by))
