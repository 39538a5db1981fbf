"""The sets for which a run predicts, what its predictions are compared with, and what is measured of its networks.

Also alignments: the draws of a run with their units in one order.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from bnn_atlas.config.data.shift import ShiftSetting
from bnn_atlas.config.language.base import Count, DatasetName, Model, Number, Seed
from bnn_atlas.config.parts.posterior import ModelConfig


class BarrierConfig(Model):
    """Loss and error along straight lines between networks of two chains, as they are and after alignment.

    Also the number of transpositions (NoT) of the permutation that aligns them, and their squared distance.
    """

    pairs: Literal["neighbours", "first", "all"] = "neighbours"
    """`neighbours`: chains 0 and 1, 2 and 3, and so on; `first`: chain 0 with every other; `all`: every pair of
    chains."""
    draws: Count | None = 1
    """Draws of each chain at which pairs are compared: 1 is the last one; more are evenly spaced from the first to the
    last; null takes all."""
    points: Annotated[int, Field(ge=3, le=1001)] = 11
    """Points on a line from one network to the other; an odd number, so that its middle is one of them."""
    criterion: Literal["weights", "cosine", "activations", "centred", "correlation"] = "activations"
    """How units are matched. `weights`: by the inner product of all parameters that belong to a unit; `cosine`: by the
    cosine of the incoming weights, for a single hidden layer; `activations`: by the inner product of activations over
    rows, as published; `centred`: by their covariance; `correlation`: by their correlation."""
    matching_rows: Count | None = 5000
    """Number of training rows, evenly spread, whose activations are compared; null takes all."""
    training_rows: Count | None = None
    """Number of training rows, the first ones, on which loss and error are computed; null takes all."""
    surface: bool = False
    """Whether every network on a line is matched to the network at its start, too."""

    def _contradictions(self) -> Iterator[str]:
        if self.points % 2 == 0:
            yield f"points ({self.points}) must be odd, so that the middle of a line is one of them"

    def misfits(self, chains: int, hidden: bool) -> Iterator[str]:
        """What a run without two chains or hidden units lacks."""
        if chains < 2 or (self.pairs == "neighbours" and chains % 2):
            needed = "an even number" if self.pairs == "neighbours" else "at least two"
            needs = f"needs {needed} of chains, and chains is {chains}: change one"
            yield f"evaluate.barriers.pairs = '{self.pairs}' {needs}"
        if not hidden:
            yield "evaluate.barriers aligns hidden units, and the model has none: give model.hidden, or leave them out"

    def pairs_of(self, chains: int) -> list[tuple[int, int]]:
        """Positions of the two chains of each pair."""
        if self.pairs == "neighbours":
            return [(first, first + 1) for first in range(0, chains, 2)]
        firsts = range(1) if self.pairs == "first" else range(chains)
        return [(first, second) for first in firsts for second in range(first + 1, chains)]


Percent = Annotated[float, Field(gt=0, le=100)]


class PruningConfig(Model):
    """Means and single draws of aligned runs, pruned in the orders of several rankings of the parameters.

    All alignments are in one frame, so that the standard deviations of one run can rank the parameters of another run's
    networks.
    """

    networks: Annotated[dict[str, str], Field(min_length=1)]
    """Name in tables and figures -> an alignment of this study; the others are in the frame of the first."""
    kept: tuple[Percent, ...] = (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 1)
    """Percentages of parameters to keep."""
    repeats: Count = 3
    """Number of random orders, and of orders by the standard deviations of draws from the prior, that are averaged
    over."""
    test_rows: Count | None = None
    """Number of test rows, the first ones; null takes all."""

    def _contradictions(self) -> Iterator[str]:
        if list(self.kept) != sorted(set(self.kept), reverse=True):
            yield f"kept ({', '.join(f'{k:g}' for k in self.kept)}) must fall from one to the next"


PublishedBy = Literal["izmailov", "sommer", "uppal"]
"""First author of a paper whose code computes some metrics differently (`bnn_atlas.metrics.formulas.variants`)."""
Interval = tuple[Number, Number]
TEST = "test"
OUTSIDE = "ood-"
"""Prefix of the name of an out-of-distribution set."""
INTERVAL = "interval-"
"""Prefix of the name of a grid of inputs on an interval."""


class EvaluationConfig(Model):
    """What a run is scored on and compared with, besides its test rows."""

    shifts: tuple[ShiftSetting, ...] = ()
    """Rotated or corrupted test images, such as `rotated30` or `gaussian_noise3`."""
    out_of_distribution: tuple[DatasetName, ...] = ()
    """Data sets of the same shape, on which predictions should be less certain than on the test rows."""
    references: tuple[str, ...] = ()
    """Predictions for the same test rows: published ones, by their name in config/datasets.yaml, or those of another
    run of the study, by its name. Classes are compared by agreement and total variation, and two runs also by
    `elpd_diff`, the difference of their LPPD, paired by row."""
    barriers: Annotated[BarrierConfig | None, Field(exclude_if=lambda value: value is None)] = None
    """What is measured between networks of two chains; null for nothing."""
    pruning: Annotated[PruningConfig | None, Field(exclude_if=lambda value: value is None)] = None
    """Networks of aligned runs that are pruned; null for none."""
    intervals: dict[DatasetName, Interval] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Regressions with one input: name -> the two ends of an interval of the input, in its own units, such as the gap
    between clusters of rows. `function_sd` says how much the functions of the draws differ there."""

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
"""References that are not the name of another alignment."""


class AlignmentConfig(Model):
    """A common frame for the draws of a run, found by permutations of hidden units; nothing is sampled again.

    There are always two controls, too: the same draws with the units of each scrambled at random, and an alignment with
    one permutation for each chain.
    """

    run: str
    """A run of this study, or an entry with a grid (all its runs)."""
    criterion: Literal["weights", "cosine", "activations", "centred", "correlation"] = "weights"
    """What units are matched by. `weights`: all parameters that belong to a unit, by coordinate descent over the groups
    of units (git-re-basin); `cosine`: the cosine of incoming weights, for a single hidden layer; `activations`:
    activations as they are (Xiao et al. 2023 use these two); `centred`: activations minus their means; `correlation`:
    the correlation of activations."""
    rows: Count | None = 1000
    """Activations are computed at no more than this many of the rows that the posterior is conditioned on, evenly
    spread; null takes all."""
    reference: str = "barycentre"
    """What draws are matched to. `first`, `last`: that draw; `mean`: the mean of the draws as they are; `barycentre`:
    the mean of the aligned draws, iterated to a fixed point, never worse than one permutation per chain; else the name
    of another alignment of this study, to whose target each draw is matched."""
    frame: str | None = None
    """Another alignment of this study, whose frame the draws enter once they are aligned with each other: the mean of
    the aligned draws is matched to that frame's target, and the permutation found is applied to all draws. This is how
    Xiao et al. 2023 bring an ensemble into the frame of HMC."""
    passes: Count = 200
    """At most this many passes over the draws on the way to a barycentre. The first ten make nearly all of the gain;
    draws that have few features in common can take hundreds."""
    unit: Literal["draw", "chain"] = "draw"
    """What gets a permutation of its own. If each chain is a fit with a mean, `chain` matches these means, and the mean
    and standard deviation of each fit are brought into the frame, too."""
    dead_inputs: Literal["kept", "masked"] = "kept"
    """Whether weights of inputs that never vary in these rows count; only for networks whose first layer is dense."""
    balanced: bool = False
    """Whether units of relu are first scaled so that incoming and outgoing weights have equal norms, which leaves the
    function as it is."""
    signs: bool = False
    """Whether signs of tanh units are matched as well."""
    rank: Count = 20
    """Rank of the factor in which the covariance of the aligned draws is kept; exact if it is at least the number of
    draws minus one."""
    chains: Count | None = None
    """Use only this many chains, the first ones; null takes all."""
    draws: Count | None = None
    """At most this many draws of each chain, evenly spread; null takes all."""
    pairs: Count = 50
    """Number of pairs of draws within chains, and of pairs across chains, that are also matched to each other
    directly."""
    seed: Seed = 0
    """Seed of the scrambled control and of the pairs."""

    @property
    def own_reference(self) -> bool:
        """Whether draws are matched to one of themselves or to their mean."""
        return self.reference in OWN_REFERENCES

    @property
    def other(self) -> str | None:
        """The other alignment whose frame is taken over or entered."""
        return self.frame if self.own_reference else self.reference


class AlignmentEntry(AlignmentConfig):
    """An alignment as written in a study's file, with what the smaller scales change."""

    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Scale -> fields that it replaces, each as a whole. Empty braces: made unchanged; null: not made; left out: the
    study's `scales` decide."""


def unsuited(config: AlignmentConfig, model: ModelConfig, chains: int, draws: int) -> tuple[str, str] | None:
    """Field of an alignment that a network, or `chains` chains of `draws` draws, cannot have, and why; else None."""
    hidden = getattr(model, "hidden", None)
    if hidden == ():
        return "run", "its network has no hidden units to permute"
    if config.chains is not None and config.chains > chains:
        return "chains", f"the run has {chains}"
    if (count := (config.chains or chains) * draws) < 2:
        return "run", f"it has {count} draw in all, and an alignment needs two: raise its chains or draws"
    if config.frame is not None and not config.own_reference:
        return "frame", f"'{config.reference}' already gives the frame: leave one of the two out"
    if config.dead_inputs == "masked" and config.criterion not in ("weights", "cosine"):
        return "dead_inputs", "activations do not see inputs that never vary: use 'kept', or match by weights"
    if config.criterion == "cosine" and (hidden is None or len(hidden) != 1):
        return "criterion", f"it matches one hidden layer, and the network is '{model.label}': use 'weights'"
    if config.dead_inputs == "masked" and hidden is None:
        return "dead_inputs", f"the first layer of '{model.label}' does not take inputs one by one: use 'kept'"
    if config.signs and not _free(model, "tanh"):
        return "signs", f"units of tanh have signs, and the network is '{model.label}': leave this out"
    if config.balanced and not _free(model, "relu"):
        return "balanced", f"units of relu have scales, and the network is '{model.label}': leave this out"
    return None


def _free(model: ModelConfig, activation: str) -> bool:
    """Whether the units of a network of this activation have a freedom that others lack."""
    if model.kind == "cnn_lstm":  # the entries of its embedding have both
        return True
    if model.kind in ("resnet_frn", "wide_resnet_frn"):
        return False
    return getattr(model, "activation", "relu") in (activation, "identity")
