"""The sets for which a run predicts, and what its predictions are compared with."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bnn_atlas.config.barriers import BarrierConfig
from bnn_atlas.config.base import Model
from bnn_atlas.config.fields import DatasetName, Number
from bnn_atlas.config.pruning import PruningConfig
from bnn_atlas.config.shift import ShiftSetting

PublishedBy = Literal["izmailov", "sommer", "uppal"]
"""First author of a paper whose code computes some metrics differently (`bnn_atlas.metrics.formulas.published`)."""
Interval = tuple[Number, Number]
TEST = "test"
OUTSIDE = "ood-"
"""Prefix of the name of an out-of-distribution set."""
INTERVAL = "interval-"
"""Prefix of the name of a grid of inputs on an interval."""


class EvaluationConfig(Model):
    """What a run is scored on and against, besides its test rows."""

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
    """Regressions of one input: name -> the two ends of an interval of it, in its own units, such as the gap between
    clusters of rows. `function_sd` says how much the functions of the draws differ there."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for key in ("shifts", "out_of_distribution", "references"):
            names = [getattr(value, "name", value) for value in getattr(self, key)]
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise ValueError(f"{key} names {', '.join(repeated)} twice")
        for name, (low, high) in self.intervals.items():
            if low >= high:
                raise ValueError(f"intervals.{name}: {low:g} must be below {high:g}")
        return self

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets besides the test rows."""
        return (
            *(shift.name for shift in self.shifts),
            *(OUTSIDE + name for name in self.out_of_distribution),
            *(INTERVAL + name for name in self.intervals),
        )
