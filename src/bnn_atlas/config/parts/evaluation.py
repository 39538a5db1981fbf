"""The sets for which a run predicts, what its predictions are compared with, and what is measured of its networks."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bnn_atlas.config.data.shift import ShiftSetting
from bnn_atlas.config.language.base import Count, DatasetName, Model, Number


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
