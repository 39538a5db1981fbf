"""The field of the settings that a sweep varies, and its value in a run."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from bnn_atlas.figures.shown import Shown

PERIODS, VARIANCE = "method.quarter_periods", "prior.variance"
"""Fields that other settings of a run give where the run does not name them."""


class Field(NamedTuple):
    """What the x axis of a sweep is."""

    name: str
    """Dotted, as in a grid, such as `method.step_size`."""
    label: str
    """Text at the axis."""
    is_log: bool = True
    marks: tuple[float, ...] = ()
    """Values with a vertical line."""
    categories: Mapping[str, str] | None = None
    """Of a field that is a word: value -> text at the axis, in their order; None for a number."""


def value_of(one: Shown, field: Field) -> float | str:
    """The value of a field in a run: that of its grid, else of its settings, else what follows from these.

    The prior's variance is sd^2, and a trajectory length in quarter periods is length / (pi / 2 sd sqrt(T)), with sd
    that of a normal prior and T the temperature. Raises ValueError where the run has no such value, or one of another
    type.
    """
    value = one.point.get(field.name)
    if value is None:
        value = _setting(one.settings, field.name)
    if value is None:
        value = _derived(one, field.name)
    if value is None:
        raise ValueError(f"run {one.run}: its settings have no value of '{field.name}'; leave it out of this figure")
    if field.categories is None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"run {one.run}: '{field.name}' is {value!r}, and this figure's axis is of numbers")
    if field.categories is not None and value not in field.categories:
        raise ValueError(f"run {one.run}: '{field.name}' is {value!r}; this figure has {', '.join(field.categories)}")
    return value if field.categories else float(value)


def _setting(settings: Mapping[str, Any], dotted: str) -> Any:
    found: Any = settings
    for part in dotted.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _derived(one: Shown, name: str) -> float | None:
    if name == VARIANCE and one.prior_sd is not None:
        return one.prior_sd**2
    length = _setting(one.settings, "method.trajectory_length")
    if name == PERIODS and one.prior_sd is not None and length is not None:
        temperature = float(_setting(one.settings, "temperature") or 1.0)
        return round(float(length) / (math.pi / 2 * one.prior_sd * math.sqrt(temperature)), 6)
    return None
