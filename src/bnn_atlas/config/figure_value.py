"""A number of a figure, by which claims name it."""

from typing import Literal

from pydantic import Field

from bnn_atlas.config.base import Model


class FigureValue(Model):
    """A number in the CSV file of the claim's figure, for what no metric measures."""

    column: str
    where: dict[str, str | float] = Field(default_factory=dict)
    """Column -> value: the rows that count; all where it is empty."""
    take: Literal["only", "mean", "median", "min", "max", "share_given"] = "only"
    """What is taken of these rows: `only` needs one of them, `share_given` is the share that has a value at all."""

    @property
    def text(self) -> str:
        """The same in words."""
        chosen = ", ".join(f"{column} = {value}" for column, value in self.where.items())
        taken = "" if self.take == "only" else f"{self.take.replace('_', ' ')} of "
        return f"{taken}{self.column}{f' where {chosen}' if chosen else ''}"
