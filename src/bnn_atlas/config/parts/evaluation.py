"""Sets of rows that a run predicts, references for its predictions, and measurements of its networks.

Also alignments, which bring the hidden units of a run's draws into a common order.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from bnn_atlas.config.data.shift import ShiftSetting
from bnn_atlas.config.language.base import Count, DatasetName, Model, Number, Seed
from bnn_atlas.config.parts.posterior import ModelConfig


class BarrierConfig(Model):
    """Loss and error along straight lines between networks of two chains, before and after alignment.

    Also the number of transpositions (NoT) in the permutation that aligns the two networks, and their squared distance.
    """

    pairs: Literal["neighbours", "first", "all"] = "neighbours"
    """`neighbours`: chains 0 and 1, 2 and 3, and so on; `first`: chain 0 with every other; `all`: every pair of
    chains."""
    draws: Count | None = 1
    """Number of draws of each chain at which pairs are compared: 1 takes the last draw, larger numbers take draws
    evenly spaced from the first to the last, and null takes all."""
    points: Annotated[int, Field(ge=3, le=1001)] = 11
    """Number of points on the line between the two networks; odd, so that the midpoint is among them."""
    criterion: Literal["weights", "cosine", "activations", "centred", "correlation"] = "activations"
    """How units are matched. `weights`: by the inner product of all parameters that belong to a unit; `cosine`: by the
    cosine of the incoming weights, for a single hidden layer; `activations`: by the inner product of activations over
    rows, as published; `centred`: by the covariance of activations; `correlation`: by the correlation of
    activations."""
    matching_rows: Count | None = 5000
    """Number of training rows, evenly spread, whose activations are compared; null takes all."""
    training_rows: Count | None = None
    """Loss and error are computed on this many training rows from the start; null takes all."""
    repair: bool = False
    """Whether the lines are also scored with REPAIR (Jordan et al. 2023): every hidden unit of a network on a line is
    rescaled and shifted so that its input has the interpolated mean and standard deviation over the rows of
    `matching_rows`. For networks whose hidden layers each have one weight and one bias."""
    surface: bool = False
    """Whether every network on a line is also matched to the network at the start of the line."""

    def _contradictions(self) -> Iterator[str]:
        if self.points % 2 == 0:
            yield f"points ({self.points}) must be odd, so that the midpoint of a line is one of them"

    def misfits(self, chains: int, hidden: bool) -> Iterator[str]:
        """Error messages if the number of chains does not fit `pairs`, or if the model has no hidden units."""
        if chains < 2 or (self.pairs == "neighbours" and chains % 2):
            needed = "an even number" if self.pairs == "neighbours" else "at least two"
            needs = f"needs {needed} of chains, and chains is {chains}: change one"
            yield f"evaluate.barriers.pairs = '{self.pairs}' {needs}"
        if not hidden:
            yield "evaluate.barriers aligns hidden units, and the model has none: give model.hidden, or leave this out"

    def pairs_of(self, chains: int) -> list[tuple[int, int]]:
        """Indices of the two chains in each pair."""
        if self.pairs == "neighbours":
            return [(first, first + 1) for first in range(0, chains, 2)]
        firsts = range(1) if self.pairs == "first" else range(chains)
        return [(first, second) for first in firsts for second in range(first + 1, chains)]


Percent = Annotated[float, Field(gt=0, le=100)]


class PruningConfig(Model):
    """Pruning of means and single draws of aligned runs, in the order given by several rankings of the parameters.

    All alignments share one frame, so that the standard deviations of one run can rank the parameters of another run's
    networks.
    """

    networks: Annotated[dict[str, str], Field(min_length=1)]
    """Name in tables and figures -> an alignment of this study; all alignments are in the frame of the first one."""
    kept: tuple[Percent, ...] = (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 1)
    """Percentages of parameters to keep."""
    repeats: Count = 3
    """Number of random orders to average over, and of orders by the standard deviations of draws from the prior."""
    test_rows: Count | None = None
    """Use only this many test rows from the start; null takes all."""

    def _contradictions(self) -> Iterator[str]:
        if list(self.kept) != sorted(set(self.kept), reverse=True):
            yield f"kept ({', '.join(f'{k:g}' for k in self.kept)}) must be in descending order"


PublishedBy = Literal["izmailov", "sommer", "uppal"]
"""First author of a paper whose code computes some metrics differently (`bnn_atlas.metrics.formulas.variants`)."""
Interval = tuple[Number, Number]
TEST = "test"
OUTSIDE = "ood-"
"""Prefix of the name of an out-of-distribution set."""
INTERVAL = "interval-"
"""Prefix of the name of a grid of inputs on an interval."""


class EvaluationConfig(Model):
    """Further sets and references for scoring a run, in addition to its test rows."""

    shifts: tuple[ShiftSetting, ...] = ()
    """Rotated or corrupted test images, such as `rotated30` or `gaussian_noise3`."""
    out_of_distribution: tuple[DatasetName, ...] = ()
    """Data sets of the same shape, on which predictions should be less certain than on the test rows."""
    references: tuple[str, ...] = ()
    """Predictions for the same test rows: published predictions, by their name in config/datasets.yaml, or another run
    of the study, by its name. Classes are compared by agreement and total variation, and two runs also by `elpd_diff`,
    the difference in LPPD, paired by row."""
    barriers: Annotated[BarrierConfig | None, Field(exclude_if=lambda value: value is None)] = None
    """Measurements between networks of two chains; null for none."""
    pruning: Annotated[PruningConfig | None, Field(exclude_if=lambda value: value is None)] = None
    """Networks of aligned runs to prune; null for none."""
    intervals: dict[DatasetName, Interval] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Regressions with one input: name -> the two ends of an interval of the input, in the input's own units, such as
    the gap between clusters of rows. The metric `function_sd` measures how much the functions of the draws differ
    there."""

    def _contradictions(self) -> Iterator[str]:
        for key in ("shifts", "out_of_distribution", "references"):
            names = [getattr(value, "name", value) for value in getattr(self, key)]
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                yield f"{key} names {', '.join(repeated)} twice"
        for name, (low, high) in self.intervals.items():
            if low >= high:
                yield f"intervals.{name}: {low:g} must be below {high:g}"

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets besides the test rows."""
        return (
            *(shift.name for shift in self.shifts),
            *(OUTSIDE + name for name in self.out_of_distribution),
            *(INTERVAL + name for name in self.intervals),
        )


OWN_REFERENCES = ("first", "last", "mean", "barycentre")
"""Values of `reference` other than the name of another alignment."""


class AlignmentConfig(Model):
    """A common frame for the draws of a run, found by permutations of hidden units; nothing is sampled again.

    Two controls are always included: the same draws with the units of each draw scrambled at random, and an alignment
    with one permutation for each chain, to the same reference.
    """

    run: str
    """A run of this study, or an entry with a grid (all its runs)."""
    criterion: Literal["weights", "cosine", "activations", "centred", "correlation"] = "weights"
    """Criterion for matching units. `weights`: all parameters that belong to a unit, by coordinate descent over the
    groups of units (git-re-basin); `cosine`: the cosine of incoming weights, for a single hidden layer; `activations`:
    unchanged activations (Xiao et al. 2023 use `cosine` and `activations`); `centred`: activations minus their means;
    `correlation`:
    the correlation of activations."""
    rows: Count | None = 1000
    """Activations are computed at this many rows at most, evenly spread over the rows that the posterior is conditioned
    on; null takes all."""
    reference: str = "barycentre"
    """Target to which draws are matched. `first`, `last`: the first or last draw; `mean`: the mean of the draws before
    alignment; `barycentre`: the mean of the aligned draws, iterated to a fixed point, never worse than one permutation
    per chain; otherwise the name of another alignment of this study, whose target is used."""
    frame: str | None = None
    """Another alignment of this study. Once the draws are aligned with each other, they are brought into the frame of
    that alignment: the mean of the aligned draws is matched to the target of that frame, and the resulting permutation
    is applied to all draws. This is how Xiao et al. 2023 bring an ensemble into the frame of HMC."""
    passes: Count = 200
    """Largest number of passes over the draws in the search for a barycentre. The first ten passes bring nearly all of
    the gain; draws that have little in common can take hundreds."""
    gain: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The passes also end when one adds no more than this share to the squared norm of the barycentre, such as 1e-4; 0:
    when no unit moves."""
    orders: Count = 1
    """Number of orders in which the groups of units are matched to the reference: the network's own, then random ones,
    of which each draw keeps the best; with `barycentre`, also the number of chains from which the search starts. More
    than one costs as much more time, and helps networks with several hidden layers that are matched by weights."""
    unit: Literal["draw", "chain"] = "draw"
    """Whether each draw or each chain gets its own permutation. If each chain is a fit with a mean, `chain` matches
    these means, and the mean and standard deviation of each fit are brought into the frame as well."""
    dead_inputs: Literal["kept", "masked"] = "kept"
    """Whether the weights of inputs that never vary in these rows are used for matching (`kept`) or ignored (`masked`,
    only for networks whose first layer is dense)."""
    unit_scales: bool = False
    """Whether the scales of units are removed first, without a change of the network's function: units of relu get
    incoming and outgoing weights of equal norms, and filters before a filter response norm get norm 1. The name is not
    `scales`, which says in a study's file how large a run is."""
    signs: bool = False
    """Whether the signs of units are matched as well: of tanh units, cells of an LSTM, and filters before a filter
    response norm."""
    rank: Count = 20
    """Rank of the factor in which the covariance of the aligned draws is kept; exact if it is at least the number of
    draws minus one."""
    chains: Count | None = None
    """Use only this many chains from the start; null takes all."""
    draws: Count | None = None
    """Use at most this many draws of each chain, evenly spread; null takes all."""
    pairs: Count = 50
    """Number of pairs of draws within chains, and number of pairs across chains, that are also matched to each other
    directly."""
    seed: Seed = 0
    """Seed of the scrambled control and of the pairs."""

    @model_validator(mode="before")
    @classmethod
    def _scales_of_units(cls, data: Any) -> Any:
        if isinstance(data, dict) and "balanced" in data:
            raise ValueError("'balanced' is called 'unit_scales', beside 'signs': rename it")
        if isinstance(data, dict) and isinstance(data.get("scales"), bool):
            raise ValueError(
                "'scales' has the changes at scales laptop and demo; for scales of units give 'unit_scales'"
            )
        return data

    @property
    def own_reference(self) -> bool:
        """Whether draws are matched to one of the draws or to their mean, not to another alignment."""
        return self.reference in OWN_REFERENCES

    @property
    def other(self) -> str | None:
        """The other alignment named by `reference` or `frame`, if any."""
        return self.frame if self.own_reference else self.reference


class AlignmentEntry(AlignmentConfig):
    """An alignment as written in a study's file, with the changes at smaller scales."""

    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Scale -> fields that this scale replaces, each as a whole. Empty braces: the alignment is made unchanged; null:
    it is not made; left out: the study's `scales` decide."""


def unsuited(config: AlignmentConfig, model: ModelConfig, chains: int, draws: int) -> tuple[str, str] | None:
    """Field of an alignment that does not suit a network, or `chains` chains of `draws` draws, and why; else None."""
    hidden = getattr(model, "hidden", None)
    if hidden == ():
        return "run", "its network has no hidden units to permute"
    if config.chains is not None and config.chains > chains:
        return "chains", f"the run has {chains}"
    if (count := (config.chains or chains) * draws) < 2:
        return "run", f"it has {count} draw in all, and an alignment needs at least two: raise its chains or draws"
    if config.frame is not None and not config.own_reference:
        return "frame", f"'{config.reference}' already gives the frame: leave one of the two out"
    if config.dead_inputs == "masked" and config.criterion not in ("weights", "cosine"):
        return "dead_inputs", "activations do not depend on inputs that never vary: use 'kept', or match by weights"
    if config.criterion == "cosine" and (hidden is None or len(hidden) != 1):
        return "criterion", f"it is for one hidden layer, and this network is '{model.label}': use 'weights'"
    if config.dead_inputs == "masked" and hidden is None:
        return "dead_inputs", f"the first layer of '{model.label}' does not take inputs one by one: use 'kept'"
    others = f"filters before a norm and embeddings have, and this network is '{model.label}': leave this out"
    if config.signs and not _free(model, "tanh"):
        return "signs", f"only tanh units have signs; besides them, cells of an LSTM, {others}"
    if config.unit_scales and not _free(model, "relu"):
        return "unit_scales", f"only relu units have scales; besides them, {others}"
    return None


def _free(model: ModelConfig, activation: str) -> bool:
    """Whether a network has units whose sign (tanh) or scale (relu) is free, by their activation or in any case."""
    if model.kind in ("cnn_lstm", "resnet_frn", "wide_resnet_frn"):
        return True
    return getattr(model, "activation", "relu") in (activation, "identity")
