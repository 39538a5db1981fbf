"""Scores against the variance of the prior."""

from collections.abc import Sequence

from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.scores import VARIANCE, Field

KIND = {"files": ["table"]}

FIELD = Field(VARIANCE, "prior variance")


def prior_scale(shown: Sequence[Shown]) -> Drawing:
    """Scores against the variance of the prior that all parameters share, a line per label.

    Izmailov et al. 2021, section 8.1. Numbers are those of `sweeps.scores.sweep_table`.
    """
    return draw_sweep(shown, FIELD, published="prior_scale")
