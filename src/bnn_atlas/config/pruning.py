"""Settings of pruning: how well networks predict of which some parameters are set to 0."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from bnn_atlas.config.base import Model
from bnn_atlas.config.fields import Count

Percent = Annotated[float, Field(gt=0, le=100)]


class PruningConfig(Model):
    """Means and single draws of aligned runs, pruned in the order of several ranks.

    All alignments are in one frame, so that the standard deviations of one run can rank the parameters of another's
    networks.
    """

    networks: Annotated[dict[str, str], Field(min_length=1)]
    """Name in tables and figures -> an alignment of this study; the others are in the frame of the first."""
    kept: tuple[Percent, ...] = (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 1)
    """Percentages of the parameters that are kept."""
    repeats: Count = 3
    """Random orders, and orders by the standard deviations of draws from the prior, that are averaged."""
    test_rows: Count | None = None
    """Test rows, the first ones; null takes all."""

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if list(self.kept) != sorted(set(self.kept), reverse=True):
            raise ValueError(f"kept ({', '.join(f'{k:g}' for k in self.kept)}) must fall from one to the next")
        return self
