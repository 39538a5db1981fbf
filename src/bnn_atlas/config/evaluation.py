"""On which sets a run's predictions are made, and what they are compared with."""

from typing import Self

from pydantic import model_validator

from bnn_atlas.config.base import Model
from bnn_atlas.config.datasets import DatasetName
from bnn_atlas.config.shift import ShiftSetting

TEST = "test"
OUTSIDE = "ood-"
"""What the name of an out-of-distribution set begins with."""


class EvaluationConfig(Model):
    """What a run is scored on and against, besides its test rows."""

    shifts: tuple[ShiftSetting, ...] = ()
    """Test images turned or corrupted, such as `rotated30` or `gaussian_noise3`."""
    out_of_distribution: tuple[DatasetName, ...] = ()
    """Data sets of the same shape, which the predictions should tell from the test rows by being less certain."""
    references: tuple[str, ...] = ()
    """Predictions for the same test rows: published ones, by their name in config/datasets.yaml, or those of another
    run of the study, by its name."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for key in ("shifts", "out_of_distribution", "references"):
            names = [getattr(value, "name", value) for value in getattr(self, key)]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{key} names {', '.join(twice)} twice")
        return self

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets besides the test rows."""
        return (*(shift.name for shift in self.shifts), *(OUTSIDE + name for name in self.out_of_distribution))
